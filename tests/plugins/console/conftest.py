"""Streams with laid-out times and genuine recordings with their true times, for test modules that sum up a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from proofstream import (
    Catalog,
    Decoded,
    Envelope,
    LayerEnd,
    LineDecoder,
    ProofComplete,
    ProofStart,
    SessionClosed,
    SessionOpened,
    WireError,
)
from proofstream.testing import START_UNIX_NANO, envelopes

DATA = Path(__file__).parents[2] / "data"
FOLDERS = (DATA / "wire", DATA / "genuine" / "stwo-ml")

Streams: TypeAlias = Callable[..., tuple[Envelope, ...]]


def read_lines(name: str) -> tuple[list[Decoded], int]:
    """The events of a stream, and how many of its lines cannot be read."""
    decoder = LineDecoder(Catalog())
    decoded: list[Decoded] = []
    refused = 0
    (path,) = (path for folder in FOLDERS if (path := folder / f"{name}.jsonl").exists())
    for line in path.read_bytes().splitlines():
        try:
            if line.strip():
                decoded.append(decoder.decode(line.strip()))
        except WireError:
            refused += 1
    return decoded, refused


def stream(
    name: str, *, time_source: str = "reconstructed", close: bool = True, proof_ms: int | None = None
) -> tuple[Envelope, ...]:
    """A stream's envelopes; time passes at ends only, as long as each says that its layer or its proof took.

    With `proof_ms`, every ProofComplete reports that duration.
    """
    decoded, refused = read_lines(name)
    now = started = START_UNIX_NANO
    laid_out: list[Envelope] = []
    for envelope in envelopes(decoded, close=close):
        event = envelope.event
        if isinstance(event, LayerEnd):
            now += event.duration_ms * 1_000_000
        elif isinstance(event, ProofStart):
            started = now
        elif isinstance(event, ProofComplete):
            event = event if proof_ms is None else msgspec.structs.replace(event, duration_ms=proof_ms)
            now = max(now, started + event.duration_ms * 1_000_000)
        elif isinstance(event, SessionOpened):
            event = msgspec.structs.replace(event, source=f"{name}.jsonl", time_source=time_source)
        elif isinstance(event, SessionClosed):
            event = msgspec.structs.replace(event, refused=refused)
        laid_out.append(msgspec.structs.replace(envelope, event=event, time_unix_nano=now))
    return tuple(laid_out)


@pytest.fixture(name="streams")
def streams_fixture() -> Streams:
    """`stream` above, for test modules that cannot import it."""
    return stream


def genuine(
    name: str, *, seconds: float = float("inf"), arrivals_from: int = 0, close: bool = True
) -> tuple[Envelope, ...]:
    """A genuine recording's envelopes at their true times, stamped on arrival.

    Args:
        name: The recording.
        seconds: When the prover is killed, from its first ProofStart; the end of its session is noticed at once.
        arrivals_from: So many lines waited in a pipe before reading began: they are laid out just before the next one.
        close: Whether the session ends.
    """
    decoded, _ = read_lines(name)
    truth = [row.split() for row in (FOLDERS[1] / f"{name}.truth.tsv").read_text().splitlines()]
    times = [int(row[0]) for row in truth if not row[2].startswith("[")]
    opened, *events = envelopes(decoded, session_id=name, close=False)
    assert len(times) == len(events)
    began = next(time for time, line in zip(times, decoded, strict=True) if isinstance(line.event, ProofStart))
    ends = began + round(seconds * 1e9) if seconds < float("inf") else times[-1]
    source = msgspec.structs.replace(opened.event, source=f"{name}.jsonl", time_source="arrival")
    found = [msgspec.structs.replace(opened, event=source, time_unix_nano=times[0])]
    for number, (envelope, time) in enumerate(zip(events, times, strict=True)):
        if time > ends:
            break
        laid_out = number < arrivals_from
        at = times[arrivals_from] if laid_out else time
        found.append(
            msgspec.structs.replace(envelope, time_unix_nano=at, time_source="reconstructed" if laid_out else None)
        )
    if close:
        outcome = "lost" if seconds < float("inf") else "ended"
        closed = envelopes([], session_id=name)[-1]
        event = SessionClosed(outcome=outcome, reason=None, refused=0)
        found.append(msgspec.structs.replace(closed, event=event, time_unix_nano=ends))
    return tuple(found)


@pytest.fixture(name="genuine")
def genuine_fixture() -> Streams:
    """`genuine` above, for test modules that cannot import it."""
    return genuine
