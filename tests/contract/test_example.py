"""The example's tests run as its README says, beside this repository's own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_examples_tests_run_without_this_repositorys_pytest_plugins() -> None:
    words = ["-m", "pytest", "-q", "-p", "no:timeout", "-p", "no:cacheprovider", "examples/proofstream_hello"]
    done = subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
