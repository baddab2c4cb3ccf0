"""What a command says of its results: in one line each where there is room, else in two."""

from __future__ import annotations

import os
import pty
import struct
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from proofstream.command.results import columns_of_standard_error, lines_about

RESULTS = [(Path("out/otlp"), "for a Collector"), (Path("out/proof.jsonl"), "replay it: {command} run {path}")]


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(Path("env", "bin", "prove"))])


def test_results_stand_in_one_line_each_where_there_is_room() -> None:
    lines = [
        "  out/otlp         for a Collector",
        "  out/proof.jsonl  replay it: env/bin/prove run out/proof.jsonl",
    ]
    assert lines_about(RESULTS, columns=len(lines[1])) == lines


def test_a_narrow_terminal_has_two_lines_for_each() -> None:
    assert lines_about(RESULTS, columns=60) == [
        "  out/otlp",
        "    for a Collector",
        "  out/proof.jsonl",
        "    replay it: env/bin/prove run out/proof.jsonl",
    ]


def test_no_results_are_no_lines() -> None:
    assert lines_about([], columns=0) == []


def test_columns_are_those_of_standard_error() -> None:
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    controller, terminal = pty.openpty()
    try:
        os.dup2(terminal, 2)
        found = columns_of_standard_error()
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        sized = columns_of_standard_error()
        os.dup2(nothing, 2)
        piped = columns_of_standard_error()
    finally:
        os.dup2(kept, 2)
        for descriptor in (kept, nothing, controller, terminal):
            os.close(descriptor)
    assert (found, sized, piped) == (sys.maxsize, 80, sys.maxsize)
