"""The command's voice: lines keep their order, and a reader that is stuck holds up nothing."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from proofstream.command.voice import PATIENCE_S, Voice


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
    assert terminal.lines == [f"{number}\n" for number in range(1001)]
