"""A prover that writes into our pipe outlives our own failures: it is read to its end, and never gets SIGPIPE."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

READING_ON = "proofstream: reading on, so that the prover is not killed; Ctrl-C ends\n"
PROVER = """
import os, signal, sys, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
line = b'{"Log":{"level":"Info","message":"' + b"x" * 8000 + b'"}}\\n'
descriptor = os.open(sys.argv[1], os.O_WRONLY) if len(sys.argv) > 1 else 1
while not os.path.exists("enough"):
    os.write(descriptor, line)
    time.sleep(0.01)
"""
"""Writes until the file `enough` exists. SIGPIPE kills it, as it does a program in C."""

BREAKING = """
from proofstream import hookimpl
from proofstream.sources.lines import LineReader

read_bytes = LineReader.read_bytes
calls = []

def read(self, data):
    calls.append(data)
    if len(calls) > 20:
        raise RuntimeError("cannot go on")
    return read_bytes(self, data)

LineReader.read_bytes = read

class Plugin:
    @hookimpl
    def proofstream_consume(self, batch): ...
"""


class Prover:
    """A prover in the test's folder."""

    def __init__(self, folder: Path, *words: str) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROVER, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        self.pipe = self._process.stdout

    def end(self) -> int:
        (self._folder / "enough").touch()
        return self._process.wait(20)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)
        self.pipe.close()


@pytest.fixture
def prover(tmp_path: Path) -> Iterator[Prover]:
    """A prover that writes into a pipe."""
    prover = Prover(tmp_path)
    yield prover
    prover.kill()


def observe(command: Any, prover: Prover, *words: str | Path) -> subprocess.Popen[str]:
    process: subprocess.Popen[str] = command.start(*words, stdin=prover.pipe.fileno())
    prover.pipe.close()
    return process


def said_until_reading_on(process: subprocess.Popen[str]) -> str:
    """Return what was said; return once the pipe is read on."""
    assert process.stderr is not None
    said = ""
    while not said.endswith(READING_ON):
        line = process.stderr.readline()
        assert line, said
        said += line
    return said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "-", "--recrod", "x"], "No such option '--recrod'"),
        (["run", "-", "--otlp-file", "file/below"], "cannot make file: Not a directory"),
        (["run", "-", "--record", "/dev/null"], "cannot write /dev/null: it exists and is not a regular file"),
        (["run", "-", "--plugin", "nope"], "no plugin is named 'nope'"),
        (["run", "-", "--set", "record.colour=1", "--record", "r.jsonl"], "record.colour"),
        (["run", "-", "--config", "none.toml"], "none.toml"),
        (["rnu", "-"], "No such command 'rnu'"),
    ],
)
def test_our_own_mistake_does_not_kill_the_prover(
    proofstream_command: Any, prover: Prover, tmp_path: Path, words: list[str], says: str
) -> None:
    (tmp_path / "file").touch()
    process = observe(proofstream_command, prover, *words)
    assert says in said_until_reading_on(process)
    assert prover.end() == 0
    process.communicate(timeout=20)
    assert process.returncode == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["enough", "file"]


def test_a_source_that_fails_on_the_way_does_not_kill_the_prover(
    proofstream_command: Any, prover: Prover, tmp_path: Path
) -> None:
    (tmp_path / "breaking.py").write_text(BREAKING)
    process = observe(proofstream_command, prover, "run", "-", "--no-console", "--plugin-file", "breaking.py")
    assert "the source failed: RuntimeError: cannot go on" in said_until_reading_on(process)
    assert prover.end() == 0
    process.communicate(timeout=20)
    assert process.returncode == 1


@pytest.mark.parametrize("words", [["pipe", "--recrod", "x"], ["--no-console", "pipe", "--record", "/dev/null"]])
def test_a_named_pipe_is_read_on_if_a_prover_has_opened_it(
    proofstream_command: Any, tmp_path: Path, words: list[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    alone = proofstream_command("run", *words)
    assert (alone.status, READING_ON in alone.err) == (2, False)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    prover = Prover(tmp_path, "pipe")
    deadline = time.monotonic() + 20
    while not _has_come(reader):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process = proofstream_command.start("run", *words)
    said_until_reading_on(process)
    os.close(reader)
    assert prover.end() == 0
    process.communicate(timeout=20)
    assert process.returncode == 2
    prover.kill()


def _has_come(reader: int) -> bool:
    try:
        return bool(os.read(reader, 1))
    except BlockingIOError:
        return False


def test_a_pipe_that_is_the_value_of_a_flag_is_left_alone(proofstream_command: Any) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        pipe = f"/proc/{os.getpid()}/fd/{endless.stdout.fileno()}"
        result = proofstream_command("run", "none.jsonl", "--config", pipe)
        endless.kill()
    assert (result.status, READING_ON in result.err) == (2, False)


def test_a_pipe_that_ends_at_once_needs_no_line(proofstream_command: Any) -> None:
    result = proofstream_command("run", "-", "--recrod", "x", stdin="{}\n")
    assert (result.status, READING_ON in result.err) == (2, False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_reading(proofstream_command: Any, number: int) -> None:
    process = proofstream_command.start("run", "-", "--record", "/dev/null", stdin=subprocess.PIPE)
    said_until_reading_on(process)
    process.send_signal(number)
    assert process.wait(20) == -number
    process.communicate()
