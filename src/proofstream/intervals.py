"""Intervals: stretches of time with a start and an end, derived from events by the timeline."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from proofstream.envelopes import Envelope
from proofstream.events import CircuitCompiled, LayerStart, ProofEvent, ProofStart

MOST_DISORDER_NS = 100_000_000
"""Times may step back by so much between two events without any clock being set: threads take the time of an event
before they queue it."""


class IntervalKind(enum.Enum):
    """What an interval measures; the value is its name in traces."""

    PROOF = "proof"
    LAYER = "layer"
    WEIGHT_OPENING = "weight_opening"
    WEIGHT_BINDING = "weight_binding"
    STARK_PROOF = "stark_proof"


class Interval:
    """One layer, weight opening, weight binding or STARK proof; `Proof` is the interval that holds the others.

    Only the timeline changes an interval, and never after it has closed.

    Attributes:
        kind: What it measures.
        session_id: The session it belongs to.
        job_id: The producer's name for the job, or None.
        ordinal: How many intervals the session had opened before this one; the same on every replay.
        key: The layer's index, or the weight's node id; None for the other kinds.
        proof: The proof it belongs to; None where it stands on its own.
        opened: The envelope of its start event; None if that was never seen.
        closed: The envelope of its end event; None while it is open and if that was never seen.
        start_unix_nano: When it began, in nanoseconds since the epoch.
        end_unix_nano: When it ended, no earlier than `start_unix_nano` and than any event in it; None while it is open.
        time_went_back: Whether the producer's times went back in it by more than 0.1 s, as when a clock is set. Its
            duration then covers its events, but measures nothing.
        rounds: Sumcheck rounds counted in it.
        superseded_unix_nano: For an open layer: when the next layer began on the same device, or its own last round if
            that came later. The layer ends there unless an end event still arrives.
        aborted_reason: Why it ended without success, or None.
    """

    __slots__ = (
        "aborted_reason",
        "closed",
        "end_unix_nano",
        "job_id",
        "key",
        "kind",
        "latest_unix_nano",
        "opened",
        "ordinal",
        "proof",
        "rounds",
        "session_id",
        "start_unix_nano",
        "superseded_unix_nano",
        "time_went_back",
    )

    def __init__(
        self,
        *,
        kind: IntervalKind,
        session_id: str,
        job_id: str | None,
        ordinal: int,
        key: int | None,
        proof: Proof | None,
        opened: Envelope | None,
        start_unix_nano: int,
    ) -> None:
        self.kind: IntervalKind = kind
        self.session_id: str = session_id
        self.job_id: str | None = job_id
        self.ordinal: int = ordinal
        self.key: int | None = key
        self.proof: Proof | None = proof
        self.opened: Envelope | None = opened
        self.start_unix_nano: int = start_unix_nano
        self.closed: Envelope | None = None
        self.end_unix_nano: int | None = None
        self.latest_unix_nano: int = start_unix_nano
        self.time_went_back: bool = False
        self.rounds: int = 0
        self.superseded_unix_nano: int | None = None
        self.aborted_reason: str | None = None

    def reach(self, time_unix_nano: int) -> None:
        """Stretch an open interval to an event in it, and note if time went back."""
        if time_unix_nano > self.latest_unix_nano:
            self.latest_unix_nano = time_unix_nano
        elif self.latest_unix_nano - time_unix_nano > MOST_DISORDER_NS:
            self.time_went_back = True

    @property
    def start_seen(self) -> bool:
        """Whether its start event was seen. If not, its start is a guess, no earlier than its proof's."""
        return self.opened is not None

    @property
    def end_seen(self) -> bool:
        """Whether its end event was seen."""
        return self.closed is not None

    @property
    def is_open(self) -> bool:
        """Whether it has not ended yet."""
        return self.end_unix_nano is None

    @property
    def duration_ns(self) -> int | None:
        """Its duration in nanoseconds, measured from envelope times; None while it is open."""
        return None if self.end_unix_nano is None else self.end_unix_nano - self.start_unix_nano

    @property
    def start_event(self) -> ProofEvent | None:
        """Its start event; None if that was never seen."""
        return None if self.opened is None else self.opened.event

    @property
    def end_event(self) -> ProofEvent | None:
        """Its end event; None while it is open and if that was never seen."""
        return None if self.closed is None else self.closed.event

    @property
    def layer_kind(self) -> str:
        """A layer's kind by name; `Unknown` if its start was not seen."""
        event = self.start_event
        return event.kind.value if isinstance(event, LayerStart) else "Unknown"


class OpenParts:
    """The open weight openings, weight bindings and STARK proofs. An end pairs with the latest start of its key."""

    __slots__ = ("_stacks",)

    def __init__(self) -> None:
        self._stacks: dict[tuple[IntervalKind, int | None], list[Interval]] = {}

    def __iter__(self) -> Iterator[Interval]:
        """Iterate over all of them, newest first."""
        parts = [part for stack in self._stacks.values() for part in stack]
        return iter(sorted(parts, key=lambda part: part.ordinal, reverse=True))

    def __bool__(self) -> bool:
        return bool(self._stacks)

    def add(self, part: Interval) -> None:
        """Add one that began."""
        self._stacks.setdefault((part.kind, part.key), []).append(part)

    def last(self, kind: IntervalKind, key: int | None) -> Interval | None:
        """Return the latest of that kind and key, or None."""
        stack = self._stacks.get((kind, key))
        return stack[-1] if stack else None

    def remove(self, part: Interval) -> None:
        """Remove one, usually the latest of its kind and key."""
        stack = self._stacks[part.kind, part.key]
        if stack[-1] is part:
            stack.pop()
        else:
            stack.remove(part)
        if not stack:
            del self._stacks[part.kind, part.key]


class Proof(Interval):
    """A proof, from ProofStart to ProofComplete, or as much of it as was seen.

    Attributes:
        proof_ordinal: How many proofs the session had before this one.
        layers_opened: Layers that began.
        layers_closed: Layers that ended, except those ended by the proof's own abort.
        layers_superseded: Open layers whose device has moved on to another layer; most never get an end event.
        rounds: Sumcheck rounds, including those that belong to no open layer.
        rounds_unplaced: Rounds that arrived while no layer of their index was open.
        lost_events: Events known to have been lost while it was open.
        last_layer: The layer that began last, or None. An aborted proof died there.
        circuit: The circuit, if the producer sent it.
    """

    __slots__ = (
        "circuit",
        "last_layer",
        "layers_closed",
        "layers_opened",
        "layers_superseded",
        "lost_events",
        "open_children",
        "open_layers",
        "proof_ordinal",
        "rounds_unplaced",
        "walking",
    )

    def __init__(
        self,
        *,
        session_id: str,
        job_id: str | None,
        ordinal: int,
        proof_ordinal: int,
        opened: Envelope | None,
        start_unix_nano: int,
    ) -> None:
        super().__init__(
            kind=IntervalKind.PROOF,
            session_id=session_id,
            job_id=job_id,
            ordinal=ordinal,
            key=None,
            proof=None,
            opened=opened,
            start_unix_nano=start_unix_nano,
        )
        self.proof_ordinal: int = proof_ordinal
        self.layers_opened: int = 0
        self.layers_closed: int = 0
        self.layers_superseded: int = 0
        self.rounds_unplaced: int = 0
        self.lost_events: int = 0
        self.last_layer: Interval | None = None
        self.circuit: CircuitCompiled | None = None
        self.open_layers: dict[int, Interval] = {}
        self.open_children: OpenParts = OpenParts()
        self.walking: dict[int | None, Interval] = {}

    @property
    def num_layers(self) -> int | None:
        """The number of layers that the producer announced; None if it announced none."""
        event = self.start_event
        if isinstance(event, ProofStart):
            return event.num_layers
        return None if self.circuit is None else self.circuit.total_layers

    @property
    def model_name(self) -> str | None:
        """The name of the proved model; None if the producer did not give it."""
        event = self.start_event
        return event.model_name if isinstance(event, ProofStart) else None

    @property
    def backend(self) -> str | None:
        """The producer's backend, such as `cpu-gkr`; None if the start was not seen."""
        event = self.start_event
        return event.backend if isinstance(event, ProofStart) else None

    @property
    def layers_left_behind(self) -> int:
        """The number of layers that the walk has left: those that ended, and those whose device has moved on."""
        return self.layers_closed + self.layers_superseded

    @property
    def progress(self) -> float | None:
        """`layers_left_behind` over `num_layers`, from 0 to 1; None if the producer announced no layers."""
        total = self.num_layers
        return None if not total else min(1.0, self.layers_left_behind / total)

    @property
    def active_layers(self) -> list[Interval]:
        """The layers in progress: begun, not ended, and no other layer begun since on the same device."""
        return [layer for layer in self.walking.values() if layer.is_open]


class Opened(msgspec.Struct, frozen=True):
    """An interval began; `envelope` showed it."""

    interval: Interval
    envelope: Envelope


class Closed(msgspec.Struct, frozen=True):
    """An interval ended; `envelope` showed it, and is not always the interval's own end event."""

    interval: Interval
    envelope: Envelope


class Noted(msgspec.Struct, frozen=True):
    """Something happened inside `interval`, or outside any proof of the session if that is None."""

    interval: Interval | None
    envelope: Envelope


Change: TypeAlias = Opened | Closed | Noted
"""The effect of one envelope on the intervals. Children close before their proof."""
