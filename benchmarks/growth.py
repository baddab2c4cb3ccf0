"""How the cost of an event grows with a proof's layers, with a layer's rounds, and with connections: it should not.

Each run has about as many events in all; processor time is that of the whole process, with the plugins otel and record,
less that of a run of hardly any events. All rounds are exported, not the 512 of each layer that are so by default.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import harness
from harness import Result, Scale
from receiver import Receiver, receiving

EVENTS = 20_000
EVENTS_BY_LAYERS = 50_000
"""As many as a proof of 5,000 layers has."""

LAYERS = (10, 281, 5_000)
ROUNDS = (10, 200, 5_000)
CONNECTIONS = (1, 8, 64)
DEADLINE_S = 300.0
ROOM = (
    "host.intake_capacity=1000000",
    "host.lane_capacity=1000000",
    "host.memory_bytes=8000000000",
    "otel.max_round_events=100000",
)


class Place(NamedTuple):
    """Where a run reads, records and sends to."""

    folder: Path
    receiver: Receiver

    def run(self, source: Path | str, meanwhile: Callable[[int], None] | None = None) -> float:
        """Observe the source, and return the processor time; it is to drop nothing, however fast events come."""
        self.record.unlink(missing_ok=True)
        room = [word for key in ROOM for word in ("--set", key)]
        words = ("--no-console", "--otlp", self.receiver.url, "--record", self.record, *room)
        command = harness.proofstream("run", source, *words)
        used = harness.process(command, cwd=self.folder, meanwhile=meanwhile, statuses=(0, 128 + signal.SIGINT))
        self.receiver.forget()
        if lost := [line for line in self.record.read_bytes().splitlines() if b'{"EventsLost"' in line]:
            raise SystemExit(f"growth: events were dropped, and the figures would be too low: {lost[0].decode()}")
        return used.cpu_s

    @property
    def record(self) -> Path:
        """The file that is recorded into."""
        return self.folder / "recorded.jsonl"


def measure(scale: Scale) -> list[Result]:
    """Measure each, with the sizes taking turns."""
    events = scale.of(EVENTS)
    with tempfile.TemporaryDirectory() as name, receiving() as receiver:
        place = Place(Path(name), receiver)
        idle_s = min(from_file(place, harness.proof(1, 1), 1) for _ in range(scale.rounds))

        def us(run: Callable[[], float], count: int) -> Callable[[], float]:
            return lambda: (run() - idle_s) / count * 1e6

        sides: dict[str, dict[int, Callable[[], float]]] = {"layers": {}, "rounds": {}, "connections": {}}
        many = scale.of(EVENTS_BY_LAYERS)
        for layers in fitting(LAYERS, many // 10):
            lines = harness.proof(layers)
            times = max(1, round(many / len(lines)))
            sides["layers"][layers] = us(partial(from_file, place, lines, times), len(lines) * times)
        for rounds in fitting(ROUNDS, events // 4):
            lines = harness.proof(events // rounds, rounds, activations=False)
            sides["rounds"][rounds] = us(partial(from_file, place, lines, 1), len(lines))
        for connections in fitting(CONNECTIONS, events // 200):
            lines = harness.proof(max(1, round(events / connections / 10)), 7)
            run = partial(from_connections, place, lines, connections)
            sides["connections"][connections] = us(run, len(lines) * connections)
        turns = {f"{what} {size}": run for what, sizes in sides.items() for size, run in sizes.items()}
        found = harness.alternate(turns, scale.rounds)
    return [result for what, sizes in sides.items() for result in growth(what, list(sizes), found)]


def fitting(sizes: Sequence[int], most: int) -> list[int]:
    """Return the sizes, bounded for the short form."""
    return sorted({min(size, most) for size in sizes})


def growth(what: str, sizes: Sequence[int], found: dict[str, list[float]]) -> list[Result]:
    """Return the cost of an event at each size, and what it costs at the largest against the smallest."""
    label = {"layers": "layers in a proof", "rounds": "rounds in a layer", "connections": "connections"}[what]
    points: list[Result] = []
    for size in sizes:
        value, noise = harness.middle(found[f"{what} {size}"])
        points.append(Result(f"an event with {size:,} {label}", value, "us", noise, series=label, x=size))
    value, noise = harness.ratio(found[f"{what} {sizes[-1]}"], found[f"{what} {sizes[0]}"])
    return [
        Result(f"an event with {sizes[-1]:,} {label}", value, "x", noise, f"one with {sizes[0]:,}", goal=1.25),
        *points,
    ]


def from_file(place: Place, lines: Sequence[bytes], times: int) -> float:
    """Observe a file, and return the processor time."""
    harness.write(place.folder / "lines.jsonl", lines, times)
    return place.run("lines.jsonl")


def from_connections(place: Place, lines: Sequence[bytes], connections: int) -> float:
    """Send the lines over so many connections at once; return the processor time until all of them were recorded."""
    address = place.folder / "socket"
    address.unlink(missing_ok=True)
    senders = [threading.Thread(target=send, args=(address, lines), daemon=True) for _ in range(connections)]
    for sender in senders:
        sender.start()
    is_stopped = False

    def stop_when_recorded(pid: int) -> None:
        nonlocal is_stopped
        if not is_stopped and place.record.exists():
            is_stopped = place.record.read_bytes().count(b'"SessionClosed":') == connections
            if is_stopped:
                os.kill(pid, signal.SIGINT)

    return place.run(f"unix:{address}", stop_when_recorded)


def send(address: Path, lines: Sequence[bytes]) -> None:
    """Connect as soon as somebody listens, and send the lines."""
    deadline = time.monotonic() + DEADLINE_S
    with socket.socket(socket.AF_UNIX) as connection:
        while connection.connect_ex(str(address)) and time.monotonic() < deadline:
            time.sleep(0.01)
        connection.sendall(b"\n".join(lines) + b"\n")


if __name__ == "__main__":
    harness.main(measure)
