"""The demo's script, started as a newcomer would: from another folder, on a checkout with no environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).parents[2]


def run(
    script: Path, folder: Path, *words: str, settings: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_", "VIRTUAL_ENV"))}
    return subprocess.run(
        [script, *words],
        cwd=folder,
        env={**kept, "PYTHON": sys.executable, **settings},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_demo_from_nothing_and_again(tmp_path: Path) -> None:
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    elsewhere.mkdir()
    checkout.mkdir()
    for name in ("scripts", "src", "plugins"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, checkout)
    first = run(checkout / "scripts" / "demo", elsewhere)
    assert first.returncode == 0, first.stderr
    assert "installing proofstream" in first.stderr
    assert "digits on cpu-numpy: complete" in first.stderr
    assert (elsewhere / "proofstream-demo" / "proof.jsonl").stat().st_size > 0
    assert (elsewhere / "proofstream-demo" / "otlp" / "traces.jsonl").stat().st_size > 0
    again = run(checkout / "scripts" / "demo", elsewhere, "transformer", "--no-console")
    assert again.returncode == 0, again.stderr
    assert "installing" not in again.stderr
    replay = run(checkout / ".venv" / "bin" / "proofstream", elsewhere, "run", "proofstream-demo/proof.jsonl", "-q")
    assert (replay.returncode, replay.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"PIP_INDEX_URL": "https://127.0.0.1:9/simple"}, "no package index can be reached; connect this machine, or"),
        ({"PIP_NO_INDEX": "1"}, "the package index has no hatchling>=1.27; name one that does"),
    ],
    ids=["none can be reached", "it has too little"],
)
def test_a_demo_that_cannot_be_installed_says_why_on_one_line(
    tmp_path: Path, settings: dict[str, str], why: str
) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    for name in ("pyproject.toml", "constraints.txt", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    done = run(tmp_path / "scripts" / "demo", tmp_path, settings=settings)
    assert done.returncode == 1
    assert done.stdout == ""
    made, installing, failed = done.stderr.splitlines()
    assert made.startswith("demo: making .venv")
    assert installing.startswith("demo: installing proofstream")
    assert failed.startswith(f"demo: cannot install proofstream: {why}")
    assert "PIP_INDEX_URL=URL scripts/demo" in failed
    assert (tmp_path / ".venv" / "pip.log").read_text() != ""


def test_a_python_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    done = subprocess.run(
        [tmp_path / "scripts" / "demo"],
        env={**os.environ, "PYTHON": "no-such-python"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == "demo: PYTHON=no-such-python: there is no such command"
