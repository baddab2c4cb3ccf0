"""Completion: what is offered at each place, and a real Bash in a real terminal that offers it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proofstream.command import cli

DEADLINE_S = 30.0


@pytest.fixture(name="offered")
def fixture_offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """What a shell is told that may follow these words, the last of which is not complete yet."""

    def ask(words: str, shell: str = "bash") -> list[str]:
        monkeypatch.setenv("_PROOFSTREAM_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", f"proofstream {words}")
        split = words.split(" ")
        monkeypatch.setenv("COMP_CWORD", split[-1] if shell == "fish" else str(len(split)))
        capsys.readouterr()
        assert cli.main([]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out.splitlines()

    return ask


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        ("ev", ["plain,events"]),
        ("run --no-pl", ["plain,--no-plugin"]),
        ("run --no-plugin r", ["plain,record", "plain,rerun"]),
        ("plugins --plugin st", ["plain,state-cost"]),
        ("run demo:", ["plain,demo:digits", "plain,demo:transformer"]),
        ("run tc", ["file,tc", "plain,tcp://"]),
        ("run unix:p", ["file,unix:p"]),
        ("demo t", ["plain,transformer"]),
        ("events LayerE", ["plain,LayerEnd"]),
        ("plugins reco", ["plain,record"]),
        ("run x --config pr", ["file,pr"]),
        ("run x --plugin-file pr", ["file,pr"]),
        ("run x --record pr", ["file,pr"]),
        ("run x --otlp h", ["plain,http://", "plain,https://"]),
        ("run x --set ot", ["plain,otel."]),
        ("run x --set otel.en", ["plain,otel.endpoint="]),
        ("run x --set otel.endpoint=", [""]),
        ("run x --set ho", ["plain,host."]),
        ("run x --set host.close", ["plain,host.close_timeout_s="]),
        ("config ho", ["plain,host"]),
        ("config otel st", ["plain,state-cost"]),
        ("state-cost con", ["file,con"]),
        ("completion ", ["plain,bash", "plain,zsh", "plain,fish"]),
        ("trust x", ["file,x"]),
    ],
)
def test_what_may_follow(offered: Any, words: str, offers: list[str]) -> None:
    assert offered(words) == offers


def test_each_shell_is_answered_in_its_own_form(offered: Any) -> None:
    assert offered("demo t", "zsh") == ["plain", "transformer", "_"]
    assert offered("demo t", "fish") == ["plain,transformer"]
    assert offered("plug", "fish") == ["plain,plugins\tList plugins and their status, or describe..."]


def test_the_file_of_a_plugin_is_not_run_for_a_completion(offered: Any, tmp_path: Path) -> None:
    file = tmp_path / "p.py"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    offered(f"run --plugin-file {file} x --no-pl")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("instruction", ["tcsh_complete", "bash_source", ""])
def test_a_question_that_no_script_asks(monkeypatch: pytest.MonkeyPatch, instruction: str) -> None:
    monkeypatch.setenv("_PROOFSTREAM_COMPLETE", instruction)
    assert cli.main([]) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_printed_without_its_shell(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert cli.main(["completion", shell]) == 0
    assert f"_PROOFSTREAM_COMPLETE={shell}_complete" in capsys.readouterr().out


class Terminal:
    """A Bash in a terminal, in a folder with a few files."""

    def __init__(self, folder: Path) -> None:
        called = folder / "bin" / "proofstream"
        called.parent.mkdir()
        called.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m proofstream "$@"\n')
        called.chmod(0o755)
        (folder / "work" / "notes").mkdir(parents=True)
        (folder / "work" / "a file.jsonl").touch()
        environ = {**os.environ, "PATH": f"{called.parent}:{os.environ['PATH']}", "TERM": "vt100", "PS1": "$ "}
        self._master, slave = pty.openpty()
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder / "work",
            env={**environ, "HOME": str(folder), "COLUMNS": "200"},
            start_new_session=True,
        )
        os.close(slave)
        self.type("eval \"$(proofstream completion bash)\"; echo it is se''t\r", "it is set")

    def type(self, keys: str, awaited: str) -> None:
        """Type keys, and wait until this is on the screen."""
        os.write(self._master, keys.encode())
        shown = ""
        deadline = time.monotonic() + DEADLINE_S
        while awaited not in shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{awaited!r} is not in {shown!r}"
            if select.select([self._master], [], [], left)[0]:
                shown += os.read(self._master, 65536).decode("utf-8", "replace").replace("\a", "")
        os.write(self._master, b"\x15")  # empties the line

    def close(self) -> None:
        """End the shell."""
        os.close(self._master)
        self._shell.kill()
        self._shell.wait()


@pytest.fixture(scope="module", name="terminal")
def fixture_terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A terminal in which the command is completed."""
    terminal = Terminal(tmp_path_factory.mktemp("shell"))
    yield terminal
    terminal.close()


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("proofstream ev", "proofstream events "),
        ("proofstream run --plugin-f", "--plugin-file "),
        ("proofstream run dem", "demo:"),
        ("proofstream run demo:tr", "demo:transformer "),
        ("echo x | proofstream run un", "run unix:"),
        ("proofstream run a", "a\\ file.jsonl "),
        ("proofstream run not", "notes/"),
        ("proofstream run x --set otel.en", "otel.endpoint="),
        ("proofstream run x --config=not", "--config=notes/"),
        ("proofstream plugins reco", "plugins record "),
    ],
)
def test_a_tab_in_a_terminal(terminal: Terminal, line: str, completed: str) -> None:
    terminal.type(f"{line}\t", completed)
