"""The command's voice: lines keep their order, and a reader that is stuck holds up nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from proofstream.command.voice import LONGEST_LINE, PATIENCE_S, Voice


class Terminal:
    """A standard error that can be stopped."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.writing = threading.Event()
        self.reads = threading.Event()
        self.reads.set()

    def write(self, text: str) -> None:
        self.writing.set()
        assert self.reads.wait(30.0)
        self.lines.append(text)

    def flush(self) -> None:
        return None


def test_lines_keep_their_order_and_the_last_ones_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    voice = Voice()
    voice.post("one")
    voice.say("two")
    assert terminal.lines == ["one\n", "two\n"]
    voice.post("three")
    voice.finish()
    assert terminal.lines == ["one\n", "two\n", "three\n"]


def test_posting_never_waits_and_finishing_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    voice = Voice()
    terminal.reads.clear()
    began = time.monotonic()
    voice.post("0")
    assert terminal.writing.wait(10.0)  # on a busy machine, the voice would take its first line later than some others
    for number in range(1, 5000):
        voice.post(str(number))
    assert time.monotonic() - began < PATIENCE_S
    voice.finish()
    assert voice.is_stuck
    assert time.monotonic() - began < 3 * PATIENCE_S
    terminal.reads.set()
    deadline = time.monotonic() + 10.0
    while voice.is_stuck and time.monotonic() < deadline:
        time.sleep(0.01)
    voice.finish()
    assert terminal.lines == [
        *(f"{number}\n" for number in range(1001)),
        "proofstream: 3999 more lines are left out, because standard error did not take them in time\n",
    ]


def test_each_line_is_made_safe_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    voice = Voice()
    voice.say("proofstream: \x1b]52;c;cHdu\x07\x9b31m\u202e\u2028\r\nforged")
    voice.say("x" * 100_000)
    first, second = terminal.lines
    assert first[:-1].isprintable()
    assert first.count("\n") == second.count("\n") == 1
    assert len(second) == LONGEST_LINE + 1


class Broken(Terminal):
    """A third-party standard error that fails once."""

    def write(self, text: str) -> None:
        if not self.writing.is_set():
            self.writing.set()
            raise RuntimeError("not now")
        super().write(text)


def test_a_stream_that_raises_does_not_silence_the_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Broken()
    monkeypatch.setattr(sys, "stderr", terminal)
    voice = Voice()
    voice.say("one")
    voice.say("two")
    assert terminal.lines == ["two\n"]
    assert not voice.is_stuck


def test_a_stuck_line_does_not_hold_the_lock_of_standard_error() -> None:
    """The interpreter takes that lock when it ends, and every other thread that prints does."""
    reader, writer = os.pipe()
    code = (
        "import sys, threading, time\n"
        "from proofstream.command.voice import voice\n"
        "while not voice.is_stuck: voice.say('x' * 900)\n"
        "locked = threading.Thread(target=lambda: (sys.stderr.flush(), print('free', flush=True)), daemon=True)\n"
        "locked.start(); locked.join(10)\n"
        "import os; os._exit(0)\n"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=writer, timeout=60, check=True
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.stdout == b"free\n"
