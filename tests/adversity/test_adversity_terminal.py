"""Terminals and pipes that accept nothing: every command ends in time, the second Ctrl-C ends it at once."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from emulator import Emulator

END_S = 5.0
"""What the product promises after the first signal."""

SECOND_S = 1.0
"""What it promises after the second one."""

SLACK_S = 3.0
"""A busy machine's delays, far below any wait that never ends."""

START = {
    "ProofStart": {
        "model_name": "mlp",
        "backend": "cpu",
        "num_layers": 1,
        "input_shape": [1, 1],
        "output_shape": [1, 1],
    }
}
COMPLETE = {
    "ProofComplete": {
        "duration_ms": 5,
        "num_layer_proofs": 1,
        "num_weight_openings": 0,
        "weight_binding_mode": "x",
    }
}
WARNING = {"Log": {"level": "Warn", "message": "w" * 400}}

STREAM = Path(__file__).parents[1] / "data" / "wire" / "aborted-then-next.jsonl"

HIDE_CURSOR, SHOW_CURSOR = b"\x1b[?25l", b"\x1b[?25h"

STUCK = """
import time
from proofstream import hookimpl

class Plugin:
    @hookimpl
    def proofstream_consume(self, batch):
        return None

    @hookimpl
    def proofstream_unconfigure(self):
        time.sleep(1000)
"""

LOCKED = """
import sys, threading, time
from proofstream.command.process import on_signals

on_signals(lambda number: None)
threading.Thread(target=lambda: sys.stderr.write("x" * 1_000_000), daemon=True).start()
time.sleep(0.5)
print("locked", flush=True)
sys.stderr.write("the lock is not free, and no signal handler interrupts the wait for it")
"""


@dataclass
class Place:
    """A child's standard output and error, and what reads them: nothing, until a test does."""

    out: int
    err: int
    reader: int
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_full(self) -> bool:
        """Whether a write would block."""
        return not select.select([], [self.err], [], 0)[1]


@pytest.fixture(name="opened")
def opened_fixture() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def a_pipe(opened: ExitStack) -> tuple[int, int]:
    reader, writer = os.pipe()
    for descriptor in (reader, writer):
        opened.callback(os.close, descriptor)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    return reader, writer


def a_terminal(opened: ExitStack) -> tuple[int, int]:
    ours, theirs = pty.openpty()
    for descriptor in (ours, theirs):
        opened.callback(os.close, descriptor)
    termios.tcsetwinsize(theirs, (24, 80))
    return ours, theirs


def place(kind: str, opened: ExitStack) -> Place:
    terminal = kind.startswith("terminal")
    reader, err = a_terminal(opened) if terminal else a_pipe(opened)
    out = err
    if kind.endswith("apart"):
        out = os.open(os.devnull, os.O_WRONLY)
        opened.callback(os.close, out)
    return Place(out, err, reader, {"TERM": "xterm-256color"} if terminal else {})


def start(
    where: Place,
    *words: str,
    opened: ExitStack,
    program: tuple[str, ...] = ("-m", "proofstream"),
    apart: Mapping[str, Any] = MappingProxyType({"start_new_session": True}),
) -> Any:
    left_out = ("PROOFSTREAM_", "OTEL_", "NO_COLOR", "COLUMNS")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    child = subprocess.Popen(
        [sys.executable, *program, *words],
        stdin=subprocess.PIPE,
        stdout=where.out,
        stderr=where.err,
        env={**environ, **where.variables},
        **apart,
    )
    opened.callback(child.wait)
    opened.callback(child.kill)
    assert child.stdin is not None
    opened.callback(child.stdin.close)
    return child


def send(child: Any, *events: dict[str, Any]) -> None:
    child.stdin.write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    child.stdin.flush()


def fill(where: Place, child: Any) -> None:
    """Send warnings until the child's terminal or pipe is full, and stays so."""
    send(child, START)
    deadline = time.monotonic() + 30
    full = 0
    while full < 5 and time.monotonic() < deadline:
        send(child, *[WARNING] * 20)
        time.sleep(0.1)
        full = full + 1 if where.is_full else 0
    assert full == 5, "the stream is not full: this test shows nothing"


def seconds_until_gone(child: Any, number: int, limit_s: float) -> float:
    began = time.monotonic()
    child.send_signal(number)
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        pytest.fail(f"still there {limit_s} s after signal {number}")
    return time.monotonic() - began


def clog(where: Place) -> None:
    """Fill a terminal or pipe to the last byte, before a child is started."""
    # Opened again, because O_NONBLOCK would hold for the child, too.
    descriptor = os.open(f"/proc/self/fd/{where.err}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        for _ in range(1_000_000):
            os.write(descriptor, b".")
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
    pytest.fail("the stream does not fill")


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """What a terminal or pipe has been sent up to those bytes."""
    read = b""
    deadline = time.monotonic() + 30
    while wanted not in read and time.monotonic() < deadline:
        if select.select([descriptor], [], [], 0.1)[0]:
            read += os.read(descriptor, 65536)
    assert wanted in read
    return read


def read_now(descriptor: int) -> bytes:
    """What a terminal or pipe holds now."""
    read = b""
    while select.select([descriptor], [], [], 0.3)[0]:
        try:
            part = os.read(descriptor, 65536)
        except OSError:
            break
        if not part:
            break
        read += part
    return read


slow = pytest.mark.slow

KINDS = ["terminal", "pipe apart", pytest.param("terminal apart", marks=slow), pytest.param("pipe", marks=slow)]
"""Standard error frozen together with standard output, or alone."""


@pytest.mark.parametrize("mode", ["auto", pytest.param("plain", marks=slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_stream_does_not_outlive_one_signal(kind: str, mode: str, opened: ExitStack) -> None:
    where = place(kind, opened)
    child = start(
        where,
        *("run", "-", "--console", "--set", f"console.mode={mode}", "--set", "console.log_lines_per_s=10000"),
        opened=opened,
    )
    fill(where, child)
    assert seconds_until_gone(child, signal.SIGINT, END_S + SLACK_S) < END_S + SLACK_S
    assert child.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_signal_ends_a_frozen_run_at_once(kind: str, number: int, opened: ExitStack, tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    where = place(kind, opened)
    child = start(
        where,
        *(
            "run",
            "-",
            "--console",
            "--set",
            "console.log_lines_per_s=10000",
            "--plugin-file",
            str(tmp_path / "stuck.py"),
        ),
        opened=opened,
    )
    fill(where, child)
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert child.poll() is None
    assert seconds_until_gone(child, number, SECOND_S + SLACK_S) < SECOND_S + SLACK_S
    assert child.returncode == 128 + number


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_into_a_frozen_stream_ends_by_itself(kind: str, opened: ExitStack) -> None:
    where = place(kind, opened)
    clog(where)
    child = start(where, "run", str(STREAM), "--console", opened=opened)
    assert child.wait(30) == 0


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_a_listing_into_a_frozen_stream_ends_with_the_second_signal(kind: str, opened: ExitStack) -> None:
    where = place(kind, opened)
    clog(where)
    child = start(where, "events", "--json", opened=opened)
    time.sleep(2.0)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    if child.poll() is None:
        seconds_until_gone(child, signal.SIGINT, SECOND_S + SLACK_S)
    assert child.returncode in (130, -signal.SIGINT)


def test_the_second_signal_ends_a_process_whose_main_thread_waits_for_a_stream_s_lock(opened: ExitStack) -> None:
    reader, writer = a_pipe(opened)
    _, err = a_pipe(opened)
    child = start(Place(writer, err, reader), opened=opened, program=("-c", LOCKED))
    read_until(reader, b"locked\n")
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert child.poll() is None
    seconds_until_gone(child, signal.SIGINT, SECOND_S + SLACK_S)
    assert child.returncode == 130


def test_a_terminal_stopped_by_flow_control_is_a_frozen_one(opened: ExitStack) -> None:
    where = place("terminal", opened)
    child = start(where, "run", "-", "--console", opened=opened)
    send(child, START)
    read_until(where.reader, HIDE_CURSOR)
    termios.tcflow(where.err, termios.TCOOFF)
    send(child, *[WARNING] * 20)
    time.sleep(0.5)
    seconds_until_gone(child, signal.SIGINT, END_S + SLACK_S)
    assert child.returncode == 130


def test_a_terminal_that_is_read_gets_its_cursor_and_the_whole_report(opened: ExitStack) -> None:
    where = place("terminal", opened)
    child = start(where, "run", "-", "--console", opened=opened)
    send(child, START, COMPLETE, START)
    written = read_until(where.reader, b"1 proof complete")
    child.send_signal(signal.SIGINT)
    child.wait(END_S + SLACK_S)
    written += read_now(where.reader)
    assert HIDE_CURSOR in written
    assert written.rindex(SHOW_CURSOR) > written.rindex(HIDE_CURSOR)
    report = re.sub(r"\x1b\[[0-9;]*m", "", written[written.rindex(SHOW_CURSOR) :].decode())
    assert "✗ 2 proofs: 1 complete, 1 aborted" in report
    in_one_line = " ".join(report.split())
    assert in_one_line.endswith("by Ctrl-C (SIGINT)"), "the report's last line is there, and whole"
    assert child.returncode == 130


def what_it_shows(written: bytes) -> Emulator:
    """A terminal after all of that. No part of it is kept from scrolling."""
    terminal = Emulator(columns=80, lines=24)
    terminal.write(written.decode())
    assert terminal.shows_cursor
    assert terminal.scrolls == (0, 24)
    return terminal


def test_a_run_that_is_cut_off_gives_the_terminal_back(opened: ExitStack, tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(STUCK)
    where = place("terminal", opened)
    child = start(where, "run", "-", "--console", "--plugin-file", str(tmp_path / "stuck.py"), opened=opened)
    send(child, START)
    written = read_until(where.reader, b"mlp on cpu")
    for _ in range(2):
        child.send_signal(signal.SIGINT)
        time.sleep(0.1)
    child.wait(SECOND_S + SLACK_S)
    written += read_now(where.reader)
    assert not any(line.startswith("mlp on cpu  ") for line in what_it_shows(written).said)
    assert child.returncode == 130


def test_a_run_that_is_suspended_gives_the_terminal_back_and_draws_again_later(opened: ExitStack) -> None:
    where = place("terminal", opened)
    child = start(where, "run", "-", "--console", opened=opened, apart={"process_group": 0})
    send(child, START)
    written = read_until(where.reader, b"mlp on cpu")
    child.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    written += read_now(where.reader)
    assert not any("mlp on cpu" in line for line in what_it_shows(written).screen)
    os.write(where.err, b"the shell says this\n" * 30)
    time.sleep(0.5)
    child.send_signal(signal.SIGCONT)
    written += read_until(where.reader, b"mlp on cpu")
    child.send_signal(signal.SIGINT)
    child.wait(END_S + SLACK_S)
    said = what_it_shows(written + read_now(where.reader)).said
    assert said.count("the shell says this") == 30
    assert not any(line.startswith("mlp on cpu  ") for line in said)
