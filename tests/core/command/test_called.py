"""How the command says what to type next: as it was called, and with its folder where the shell needs that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proofstream.command.process import called_as, called_from


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command, installed in a folder below the current one."""
    program = tmp_path / "env" / "bin" / "proofstream"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program)])
    return program


def test_a_command_that_the_shell_does_not_find_is_called_with_its_folder(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert called_as() == str(Path("env", "bin", "proofstream"))
    assert Path(called_from() + "rerun") == program.parent.relative_to(Path.cwd()) / "rerun"


def test_a_command_that_the_shell_finds_needs_no_folder(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert (called_as(), called_from()) == ("proofstream", "")


def test_a_module_is_called_by_its_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path("proofstream", "__main__.py"))])
    assert called_as() == f"{Path(sys.executable).name} -m proofstream"
    assert called_from() == ""
