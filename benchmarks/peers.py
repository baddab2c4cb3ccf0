"""The same prover observed by proofstream and by others, side by side; the sides are in peer_sides.py.

A prover in Python emits 4,000 events a second. Two figures for each side: what an event costs the prover's thread, and
what it costs the whole process, from the first event until all is delivered. In both, the walk through the layers
without an observer is left out. Sides in the same group have the same outcome, as far as their notes do not say
otherwise.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from pathlib import Path

import harness
from harness import Result, Scale
from receiver import Receiver, receiving

PROOFS = 3
FOLDER = Path(__file__).parent

SIDES = {
    "proofstream-otel": (
        "proofstream, plugin otel",
        "spans of proofs and layers with an event for each round, and metrics, to an OTLP/HTTP receiver",
    ),
    "sdk": (
        "OpenTelemetry SDK, by hand",
        "the same spans and events, no metrics; a span holds 128 events, and a full queue drops spans",
    ),
    "logfire": (
        "logfire",
        "spans, and a log of its own for each round, to the same receiver, not to its service; no metrics",
    ),
    "proofstream-record": (
        "proofstream, plugin record",
        "a file of JSON lines that can be replayed; events are checked; bounded",
    ),
    "logging": (
        "logging with a QueueHandler",
        "a file of JSON lines; no check, no bound: its queue grows while the disk is slow",
    ),
    "proofstream-rerun": (
        "proofstream, plugin rerun",
        "a file of Rerun with timelines, states of layers, progress and a layout",
    ),
    "rerun": (
        "a call of Rerun for each event",
        "a file of Rerun with the original's picture: no timelines, no states; the prover waits for each call",
    ),
}
NEEDED = {"logfire": "logfire", "rerun": "rerun", "proofstream-rerun": "rerun"}
"""Packages that may be absent; then their side is."""


def measure(scale: Scale) -> list[Result]:
    """Measure each side that can be had."""
    proofs = scale.of(PROOFS)
    sides = [side for side in SIDES if side not in NEEDED or importlib.util.find_spec(NEEDED[side])]
    for side in SIDES.keys() - set(sides):
        print(f"peers: without {SIDES[side][0]}, because the package {NEEDED[side]} is not installed", file=sys.stderr)
    with receiving() as receiver:
        thread: dict[str, list[float]] = {}

        def run(side: str) -> float:
            whole, alone = observe(side, proofs, receiver)
            thread.setdefault(side, []).append(alone)
            return whole

        process = harness.alternate({side: lambda s=side: run(s) for side in ["nothing", *sides]}, scale.rounds)
    results: list[Result] = []
    for side in sides:
        what, note = SIDES[side]
        for figures, where in ((thread, "on the prover's thread"), (process, "in the process")):
            over = [one - two for one, two in zip(figures[side], figures["nothing"], strict=True)]
            value, noise = harness.middle(over)
            results.append(Result(f"{what}: {where}", value, "us", noise, note=note))
    return results


def observe(side: str, proofs: int, receiver: Receiver) -> tuple[float, float]:
    """Run a side; return the processor time of an event in the process and on the prover's thread, in us."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, FOLDER / "peer_sides.py", side, str(proofs), receiver.url, folder]
        child = harness.process(words, cwd=Path(folder))
    arrived = receiver.take()
    said = json.loads(child.stdout)
    check(side, said["events"], arrived.spans, arrived.events)
    return said["process_s"] / said["events"] * 1e6, said["thread_s"] / said["events"] * 1e6


def check(side: str, events: int, spans: int, span_events: int) -> None:
    """Fail if a side that sends spans lost some: it would be cheaper than it is."""
    if side in ("proofstream-otel", "sdk", "logfire") and spans * 2 + span_events < events:
        raise SystemExit(f"peers: of {events} events, {side} delivered {spans} spans and {span_events} events of spans")


if __name__ == "__main__":
    harness.main(measure)
