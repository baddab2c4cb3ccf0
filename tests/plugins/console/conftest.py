"""Streams with times laid out from the producer's own durations, for test modules that sum up a run."""

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

WIRE = Path(__file__).parents[2] / "data" / "wire"

Streams: TypeAlias = Callable[..., tuple[Envelope, ...]]


def read_wire(name: str) -> tuple[list[Decoded], int]:
    """The events of a stream, and how many of its lines cannot be read."""
    decoder = LineDecoder(Catalog())
    decoded: list[Decoded] = []
    refused = 0
    for line in (WIRE / f"{name}.jsonl").read_bytes().splitlines():
        try:
            if line.strip():
                decoded.append(decoder.decode(line.strip()))
        except WireError:
            refused += 1
    return decoded, refused


def stream(name: str, *, time_source: str = "reconstructed", close: bool = True) -> tuple[Envelope, ...]:
    """A stream's envelopes; time passes at ends only, as long as each says that its layer or its proof took."""
    decoded, refused = read_wire(name)
    now = started = START_UNIX_NANO
    laid_out: list[Envelope] = []
    for envelope in envelopes(decoded, close=close):
        event = envelope.event
        if isinstance(event, LayerEnd):
            now += event.duration_ms * 1_000_000
        elif isinstance(event, ProofStart):
            started = now
        elif isinstance(event, ProofComplete):
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
