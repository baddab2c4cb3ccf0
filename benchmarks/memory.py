"""How much memory observing takes, and whether it grows: many events, many proofs, many sessions, through all plugins.

The resident memory (RSS) is read while the command works. The first third of a run is its warm-up: what the median of
the last third is above that of the second, is growth. `scripts/bench --long memory` takes five million
events, 10,000 proofs and 2,000 sessions; the usual form takes fewer.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import harness
from harness import Result, Scale
from receiver import receiving

EVENTS, MOST_EVENTS = 125_000, 5_000_000
PROOFS, MOST_PROOFS = 1_000, 10_000
SESSIONS, MOST_SESSIONS = 400, 2_000
POINTS = 60
"""Points of a curve in the plot."""


class Watch:
    """Reads the memory of a process over time."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.curve: list[tuple[float, float]] = []

    def __call__(self, pid: int) -> None:
        """Read it once."""
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
        kilobytes = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")]
        if kilobytes:  # a process that has ended has none
            self.curve.append((time.monotonic() - self.began, kilobytes[0] / 1024))

    def results(self, what: str, note: str) -> list[Result]:
        """Return the peak, the growth after the warm-up, and the curve."""
        values = [value for _, value in self.curve]
        third = len(values) // 3
        growth = max(0.0, median(values[2 * third :]) - median(values[third : 2 * third + 1]))
        step = max(1, len(self.curve) // POINTS)
        end_s = self.curve[-1][0]
        return [
            Result(f"{what}: highest", max(values), "MB", goal=250.0, note=note),
            Result(f"{what}: growth after warm-up", growth, "MB", goal=10.0, note=note),
            *(Result(what, value, "MB", series=what, x=at_s / end_s * 100) for at_s, value in self.curve[::step]),
        ]


def measure(scale: Scale) -> list[Result]:
    """Measure the three."""
    proof, short_proof = harness.proof(), harness.proof(3, 4)
    events = min(scale.of(EVENTS), MOST_EVENTS)
    proofs, sessions = min(scale.of(PROOFS), MOST_PROOFS), min(scale.of(SESSIONS), MOST_SESSIONS)
    times = -(-events // len(proof))
    without_rerun = through_all("events, without rerun", [proof], times, rerun=False)
    return [
        *through_all("events", [proof], times),
        *(result for result in without_rerun if not result.series and result.name.endswith("highest")),
        *through_all("proofs", [short_proof], proofs),
        *through_all("sessions", [of_session(short_proof, number) for number in range(sessions)], 1),
    ]


def of_session(lines: Sequence[bytes], number: int) -> list[bytes]:
    """Return the lines as those of a session of their own, each a millisecond after the other."""
    began = (1_700_000_000_000 + number * 1_000) * 1_000_000
    return [
        b'{"v":1,"seq":%d,"time_unix_nano":%d,"session_id":"s%d","event":%b}' % (seq, began + seq * 10**6, number, line)
        for seq, line in enumerate(lines)
    ]


def through_all(what: str, streams: Sequence[Sequence[bytes]], times: int, *, rerun: bool = True) -> list[Result]:
    """Let all plugins, or all but one, work on the streams, one after the other."""
    with tempfile.TemporaryDirectory() as name, receiving() as receiver:
        folder, watch = Path(name), Watch()
        count = harness.write(folder / "lines.jsonl", [line for lines in streams for line in lines], times)
        words = ["--otlp", receiver.url, "--record", "out.jsonl", "--console"]
        if has_rerun := rerun and importlib.util.find_spec("rerun") is not None:
            words += ["--rerun", "file:out.rrd"]

        def look(pid: int) -> None:
            watch(pid)
            receiver.forget()

        command = harness.proofstream("run", "lines.jsonl", *words)
        child = harness.process(command, cwd=folder, meanwhile=look)
    number = times if len(streams) == 1 and what == "proofs" else len(streams)
    many = f"{count:,} events" if what.startswith("events") else f"{number:,} {what}, {count:,} events"
    note = f"{many}, {child.cpu_s / count * 1e6:.0f} µs of processor time each{'' if has_rerun else '; without rerun'}"
    return watch.results(f"memory, many {what}", note)


if __name__ == "__main__":
    harness.main(measure)
