"""The envelope: an event with its place, time and origin in the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from proofstream.events import ProofEvent, SessionClosed, is_sheddable, kind_of
from proofstream.trace_ids import TraceNote

PRODUCER = "producer"
"""Origin of events that a prover emitted."""

HOST = "host"
"""Origin of events that proofstream's core made."""

ARRIVAL = "arrival"
"""The source of a time at which an event was received."""

RECONSTRUCTED = "reconstructed"
"""The source of a time that no clock gave: the event was laid out by reported durations."""

TIME_SOURCES = ("envelope", ARRIVAL, RECONSTRUCTED)
"""Where the time of an event may come from. With `envelope`, the producer or a recording gave it."""

NO_CAPTURES: Mapping[str, object] = {}

_FIXED_BYTES = 300
_BYTES_PER_RAW_BYTE = 4


def memory_of(raw_bytes: int, events: int = 1) -> int:
    """Return an estimate of the memory that events take with their JSON of so many bytes in all.

    Measured over all kinds: the decoded event takes about three times the bytes of its JSON, and the objects around it
    take 300 bytes.
    """
    return _FIXED_BYTES * events + _BYTES_PER_RAW_BYTE * raw_bytes


class Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event with its place in the stream.

    Attributes:
        seq: Position in the host's order of events, from 0. Unique within a host.
        time_unix_nano: When the event happened, in nanoseconds since the epoch. It may step back a little between one
            `seq` and the next.
        session_id: The session that the event belongs to.
        origin: `producer`, `host`, or the name of the plugin that made the event.
        event: The event itself.
        raw: The event's JSON exactly as the producer wrote it, `{"Kind":{...}}`.
        job_id: The job that the event belongs to, if the producer names one: a server that runs several at once does,
            and `session.proof` names each of its proofs.
        parent_job_id: The job inside which this one was started, or None. ProofStart carries it.
        time_source: Where the event's own time comes from, if that is not where its session's times come from; see
            `SessionOpened.time_source`.
        traceparent: The W3C trace context that was sent with the event, or None.
        model_name: What the user calls the model, on a ProofStart whose prover gave it no name; None otherwise.
        captured: Values that plugins captured on the producer's thread for this event, by plugin name.
        trace_note: Where a plugin that makes traces tells the producer which one this is; None if no producer asks.
        lineage: The plugins whose output this event descends from.
        crowded: Whether it starts or ends one of more phases than a proof shows one by one.
    """

    seq: int
    time_unix_nano: int
    session_id: str
    origin: str
    event: ProofEvent
    raw: bytes
    job_id: str | None = None
    parent_job_id: str | None = None
    time_source: str | None = None
    traceparent: str | None = None
    model_name: str | None = None
    captured: Mapping[str, object] = NO_CAPTURES
    trace_note: TraceNote | None = None
    lineage: tuple[str, ...] = ()
    crowded: bool = False

    @property
    def is_sheddable(self) -> bool:
        """Whether a full lane may drop it: bulk, undeclared kinds, and phases beyond the bound."""
        return self.crowded or is_sheddable(self.event)

    @property
    def kind(self) -> str:
        """The event's kind: its key on the wire."""
        return kind_of(self.event)

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that the envelope takes, with its event, in bytes."""
        return memory_of(len(self.raw))


class EnvelopeRun(NamedTuple):
    """Envelopes that follow one another, of one session and one lineage. A session's end is the last of its run.

    Attributes:
        envelopes: The envelopes, at least one.
        raw_bytes: The size of their JSON together.
    """

    envelopes: list[Envelope]
    raw_bytes: int

    @property
    def session_id(self) -> str:
        """Their session."""
        return self.envelopes[0].session_id

    @property
    def lineage(self) -> tuple[str, ...]:
        """The plugins whose output they descend from."""
        return self.envelopes[0].lineage

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that they take, with their events, in bytes."""
        return memory_of(self.raw_bytes, len(self.envelopes))

    def only(self, kinds: frozenset[str]) -> EnvelopeRun:
        """Return those of these declared kinds, which may be none."""
        wanted = [envelope for envelope in self.envelopes if type(envelope.event).__name__ in kinds]
        if len(wanted) == len(self.envelopes):
            return self
        return EnvelopeRun(wanted, sum([len(envelope.raw) for envelope in wanted]))

    @property
    def ends_session(self) -> bool:
        """Whether the last of them is their session's end. A recorded session may go on, in the next run."""
        return isinstance(self.envelopes[-1].event, SessionClosed)

    def goes_with(self, session_id: str, lineage: tuple[str, ...]) -> bool:
        """Return whether they are of this session and this lineage."""
        return self.session_id == session_id and self.lineage == lineage


Batch: TypeAlias = tuple[Envelope, ...]
"""Envelopes that a plugin receives at once, all of one session, in increasing `seq`. A tick is an empty batch."""
