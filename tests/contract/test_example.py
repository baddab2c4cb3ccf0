"""The examples run as their READMEs say; the plugin's tests do so beside this repository's own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def test_the_examples_tests_run_without_this_repositorys_pytest_plugins() -> None:
    words = ["-m", "pytest", "-q", "-p", "no:timeout", "-p", "no:cacheprovider", "examples/proofstream_hello"]
    done = subprocess.run(
        [sys.executable, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


PROVERS = sorted((REPOSITORY / "examples" / "python").glob("*.py"))


@pytest.mark.parametrize("prover", PROVERS, ids=lambda path: path.stem)
def test_an_example_of_a_prover_runs_and_all_its_proofs_are_complete(prover: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(prover)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "3 proofs: 3 complete\n" in done.stderr
    assert "refused     no lines\n" in done.stderr
    assert "lost        no events\n" in done.stderr
    assert len(done.stdout.splitlines()) >= 3


def test_the_readme_of_the_provers_names_each() -> None:
    readme = (REPOSITORY / "examples" / "python" / "README.md").read_text("utf-8")
    assert [name for name in (f"examples/python/{path.name}" for path in PROVERS) if name not in readme] == []
