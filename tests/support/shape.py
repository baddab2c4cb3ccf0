"""Gives streams without times the shape of genuine ones: most of a proof is silence after its last layer.

The streams in tests/data/wire are made to behave as a prover does, event by event, but bare lines carry no times. Here
they are put into envelopes. Layers take as long as they report, and rounds share their layer's time. The layers are one
tenth of their proof, as on a CPU: see tests/data/genuine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from proofstream import LayerEnd, LayerStart, ProofComplete, ProofStart, SumcheckRound
from proofstream.testing import START_UNIX_NANO, read_stream
from proofstream.wire import Decoded

MS = 1_000_000
LAYERS_SHARE = 10
"""The layers are one part in so many of their proof."""


class Timed(NamedTuple):
    """An event with a time, in ns since the epoch."""

    time_unix_nano: int
    decoded: Decoded


def shaped(stream: Path) -> list[Timed]:
    """Return a stream's events with times in the shape of a genuine proof."""
    events = list(read_stream(stream))
    took = _durations(events)
    now = proof_began = START_UNIX_NANO
    timed: list[Timed] = []
    for index, decoded in enumerate(events):
        match decoded.event:
            case ProofStart():
                proof_began = now
            case SumcheckRound() | LayerEnd():
                now += took[index]
            case ProofComplete():
                now = proof_began + LAYERS_SHARE * (now - proof_began)
            case _:
                pass
        timed.append(Timed(now, decoded))
    return timed


def envelope_lines(timed: list[Timed], session_id: str = "shaped") -> Iterator[bytes]:
    """Return events as lines of envelopes."""
    for seq, (time, decoded) in enumerate(timed):
        job = b"" if decoded.job_id is None else b'"job_id":"%b",' % decoded.job_id.encode()
        yield b'{"v":1,"seq":%d,"time_unix_nano":%d,"session_id":"%b",%b"event":%b}\n' % (
            seq,
            time,
            session_id.encode(),
            job,
            decoded.raw,
        )


def _durations(events: list[Decoded]) -> dict[int, int]:
    """Return the time that passes before each round and each end of a layer, by place in the stream."""
    took: dict[int, int] = {}
    steps: list[int] = []
    for index, decoded in enumerate(events):
        match decoded.event:
            case LayerStart():
                steps = []
            case SumcheckRound():
                steps.append(index)
            case LayerEnd(duration_ms=duration_ms):
                steps.append(index)
                took |= dict.fromkeys(steps, duration_ms * MS // len(steps))
                took[index] += duration_ms * MS % len(steps)
            case _:
                pass
    return {index: took.get(index, 0) for index in range(len(events))}
