"""Counts how often our threads wake up while there is nothing to do, and with one short proof in a minute.

A wake-up is a context switch that a thread asked for, as Linux counts them for each: it waited, and went on.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import harness
from backdrop import Backdrop, backdrop
from harness import Result, Scale

from proofstream import LayerKind, Session

IDLE_S = 20.0
MINUTE_S = 60.0
SETTLE_S = 3.0
"""What a session that has just begun, or got a proof, takes to become idle: exports and health come after it."""


def wakeups() -> int:
    """Return how often threads of this process have woken up, but for this one."""
    own = str(os.getpid())
    return sum(_of(task) for task in Path("/proc/self/task").iterdir() if task.name != own)


def _of(task: Path) -> int:
    try:
        lines = (task / "status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def wakeups_per_s(seconds: float) -> float:
    """Wait, and return the wake-ups per second meanwhile."""
    before, began = wakeups(), time.monotonic()
    time.sleep(seconds)
    return (wakeups() - before) / (time.monotonic() - began)


def prove(session: Session, layers: int = 10, rounds: int = 20) -> None:
    """Make a short proof."""
    with session.proof(num_layers=layers) as proof:
        for index in range(layers):
            with proof.layer(index, kind=LayerKind.MatMul) as layer:
                for number in range(rounds):
                    layer.round(number, total_rounds=rounds)
                    time.sleep(0.001)


def of_session(session: Session, scale: Scale, name: str) -> list[Result]:
    """Measure both for one session."""
    prove(session)
    session.flush(60.0)
    time.sleep(SETTLE_S)
    idle = wakeups_per_s(max(2.0, IDLE_S * scale.size))
    # The wake-ups because of a proof, and those of a minute's idle rest, without waiting for the minute.
    before, began = wakeups(), time.monotonic()
    prove(session)
    session.flush(60.0)
    time.sleep(SETTLE_S)
    busy, took = wakeups() - before, time.monotonic() - began
    minute = (busy + idle * (MINUTE_S - took)) / MINUTE_S
    return [
        Result(f"wake-ups, idle{name}", idle, "a second", goal=30.0),
        Result(f"wake-ups, one proof a minute{name}", minute, "a second", goal=40.0),
    ]


def measure(scale: Scale) -> list[Result]:
    """Measure a session with otel and record, and one with the live view, too."""
    with backdrop() as stage:
        return [*_measured(stage, scale, console=False), *_measured(stage, scale, console=True)]


def _measured(stage: Backdrop, scale: Scale, *, console: bool) -> list[Result]:
    with stage.observe(console=console) as session:
        return of_session(session, scale, ", with a live view" if console else "")


if __name__ == "__main__":
    harness.main(measure)
