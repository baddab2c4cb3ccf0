"""The envelope: an event with its place in the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from proofstream.events import ProofEvent, kind_of

PRODUCER = "producer"
"""Origin of events that a prover emitted."""

HOST = "host"
"""Origin of events that proofstream's own core made."""

NO_CAPTURES: Mapping[str, object] = {}


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event, and where, when and from whom it came.

    Attributes:
        seq: Place in the host's order of events, from 0; unique within a host.
        time_unix_nano: When it happened, in nanoseconds since the epoch. In order of `seq` it may step back a little.
        session_id: The session it belongs to.
        origin: `producer`, `host`, or the name of the plugin that made it.
        event: The event itself.
        raw: The event's JSON as the producer wrote it, `{"Kind":{...}}`.
        job_id: The producer's own name of the job, where a server multiplexes several; else None.
        traceparent: W3C trace context sent along with the event, or None.
        captured: What plugins captured on the producer's thread for this event, by plugin name.
        lineage: The plugins whose output this descends from.
    """

    seq: int
    time_unix_nano: int
    session_id: str
    origin: str
    event: ProofEvent
    raw: bytes
    job_id: str | None = None
    traceparent: str | None = None
    captured: Mapping[str, object] = NO_CAPTURES
    lineage: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The event's kind: its key on the wire."""
        return kind_of(self.event)


Batch: TypeAlias = tuple[Envelope, ...]
"""Envelopes handed to a plugin at once, in increasing `seq` and of one session. A tick is an empty batch."""
