"""The recordings that real provers made, in tests/data/genuine, with the truth beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent.parent / "data" / "genuine" / "stwo-ml"

NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
"""The names of the recordings of stwo-ml."""

EXPECT: dict[str, Any] = json.loads((FOLDER / "expect.json").read_text())
"""Counts and true durations of each recording, by name."""


class TimedLine(NamedTuple):
    """One event of a recording, with the wall clock at which the prover emitted it, in ns since the epoch."""

    time_unix_nano: int
    line: bytes


def bare_lines(name: str) -> list[bytes]:
    """Return the lines that the prover's sink wrote, which carry no times."""
    return (FOLDER / f"{name}.jsonl").read_bytes().splitlines()


def timed_lines(name: str) -> list[TimedLine]:
    """Return the same with their true times."""
    truth = [row.split(" ", 2) for row in (FOLDER / f"{name}.truth.tsv").read_text().splitlines()]
    times = [int(time) for time, _, what in truth if not what.startswith("[")]
    return [TimedLine(time, line) for time, line in zip(times, bare_lines(name), strict=True)]


def returned_at(name: str) -> int:
    """Return when the last call of the prover returned, in ns since the epoch."""
    rows = [row.split(" ", 2) for row in (FOLDER / f"{name}.truth.tsv").read_text().splitlines()]
    return int([time for time, _, what in rows if what.startswith("[return")][-1])


def envelope_lines(name: str, session_id: str = "genuine") -> Iterator[bytes]:
    """Return the recording as envelopes with the true times."""
    for seq, (time, line) in enumerate(timed_lines(name)):
        yield b'{"v":1,"seq":%d,"time_unix_nano":%d,"session_id":"%b","event":%b}' % (
            seq,
            time,
            session_id.encode(),
            line,
        )
