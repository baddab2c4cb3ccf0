"""scripts/renderer finds the driver, or says how to get one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "renderer"


def run(*words: str, programs: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the script; `programs` is a folder of stand-ins that come before the real programs."""
    path = os.environ["PATH"] if programs is None else f"{programs}:{os.environ['PATH']}"
    return subprocess.run(
        [SCRIPT, *words], env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """Stand-ins for a machine without Vulkan's loader, on which the user is not root."""
    for name, says in (("ldconfig", ""), ("id", "1000")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho {says}\n")
        program.chmod(0o755)
    return tmp_path


def test_an_installed_driver_is_named(driver: Path) -> None:
    for words in ((), ("--where",)):
        done = run(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{driver}\n", "")


def test_a_missing_driver_is_one_clear_line(bare: Path) -> None:
    done = run("--where", programs=bare)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "renderer: there is no Vulkan driver (run scripts/renderer)\n"


def test_a_user_who_is_not_root_is_told_what_to_install(bare: Path) -> None:
    done = run(programs=bare)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("renderer: there is no Vulkan driver, and only root can install one")
    assert done.stderr.count("\n") == 1


def test_unknown_arguments_are_refused() -> None:
    done = run("--force")

    assert (done.returncode, done.stderr) == (1, "renderer: unknown argument: --force\n")
