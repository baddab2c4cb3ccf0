"""Intervals: stretches of time with a start and an end, derived from events by the timeline."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, cast

import msgspec

from proofstream.envelopes import ARRIVAL, RECONSTRUCTED, Envelope
from proofstream.events import (
    AggregatedBindingEnd,
    CircuitCompiled,
    LayerEnd,
    LayerStart,
    PhaseEnd,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StarkProofEnd,
    WeightOpeningEnd,
)

REPORTED = "reported"
"""The source of a start that was not seen, and lies as far before the end as the producer reports."""

UNSEEN = "unseen"
"""The source of a start that was not seen, and of which nothing is reported: the interval begins where it showed."""

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
    PHASE = "phase"


class PhaseSum:
    """Phases of one name that are too short, or too many, to be shown one by one.

    Attributes:
        count: How many.
        total_ns: Their durations together, in nanoseconds.
        max_ns: The longest duration among them, in nanoseconds.
    """

    __slots__ = ("count", "max_ns", "total_ns")

    def __init__(self, count: int = 0, total_ns: int = 0, max_ns: int = 0) -> None:
        self.count: int = count
        self.total_ns: int = total_ns
        self.max_ns: int = max_ns

    def add(self, other: PhaseSum) -> None:
        """Add others."""
        self.count += other.count
        self.total_ns += other.total_ns
        self.max_ns = max(self.max_ns, other.max_ns)


_NOTHING: Mapping[str, PhaseSum] = {}


def add_sum(summed: Mapping[str, PhaseSum], name: str, found: PhaseSum) -> Mapping[str, PhaseSum]:
    """Return the sums with one more; most intervals have none, and share an empty mapping."""
    sums = dict(summed) if summed is _NOTHING else cast("dict[str, PhaseSum]", summed)
    sums.setdefault(name, PhaseSum()).add(found)
    return sums


class Interval:
    """One layer, weight opening, weight binding or STARK proof; `Phase` and `Proof` are intervals, too.

    Only the timeline changes an interval, and never after it has closed.

    Attributes:
        kind: What it measures.
        session_id: The session it belongs to.
        job_id: The producer's name for the job, or None.
        ordinal: How many intervals the session had opened before this one; the same on every replay.
        key: The layer's index, the weight's node id, or the phase's number; None for the other kinds.
        proof: The proof it belongs to; None where it stands on its own.
        parent: The interval directly around it: a phase, a layer or its proof. For a proof, the proof inside which it
            was started. None where it stands on its own.
        opened: The envelope of its start event; None if that was never seen.
        closed: The envelope of its end event; None while it is open and if that was never seen.
        start_unix_nano: When it began, in nanoseconds since the epoch.
        end_unix_nano: When it ended, no earlier than `start_unix_nano` and than any event in it; None while it is open.
        start_source: Where its start comes from: a time source of events (`envelope`, `arrival`, `reconstructed`), or
            `reported` or `unseen` if its start event was not seen.
        end_source: Where its end comes from: the time source of the event that ended it, or `unseen` if that event only
            shows that it had ended by then; None while it is open.
        time_went_back: Whether the producer's times went back in it by more than 0.1 s, as when a clock is set. Its
            duration then covers its events, but measures nothing.
        rounds: Sumcheck rounds counted in it.
        superseded_unix_nano: For an open layer: when the next layer began on the same device, or its own last round if
            that came later. The layer ends there unless an end event still arrives.
        aborted_reason: Why it ended without success, or None.
        given_up: Whether its job was given up, and it ends where it was last heard: it went on or died later.
        summed: The phases directly inside it that are not shown one by one, by name.
    """

    __slots__ = (
        "_covered_ns",
        "_covered_until",
        "_inside",
        "aborted_reason",
        "closed",
        "end_source",
        "end_unix_nano",
        "given_up",
        "job_id",
        "key",
        "kind",
        "latest_unix_nano",
        "opened",
        "ordinal",
        "parent",
        "proof",
        "rounds",
        "session_id",
        "start_source",
        "start_unix_nano",
        "summed",
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
        start_source: str = UNSEEN,
        parent: Interval | None = None,
    ) -> None:
        self.kind: IntervalKind = kind
        self.session_id: str = session_id
        self.job_id: str | None = job_id
        self.ordinal: int = ordinal
        self.key: int | None = key
        self.proof: Proof | None = proof
        self.opened: Envelope | None = opened
        self.parent: Interval | None = parent
        self.start_unix_nano: int = start_unix_nano
        self.start_source: str = start_source
        self.closed: Envelope | None = None
        self.end_unix_nano: int | None = None
        self.end_source: str | None = None
        self.latest_unix_nano: int = start_unix_nano
        self.time_went_back: bool = False
        self.rounds: int = 0
        self.superseded_unix_nano: int | None = None
        self.aborted_reason: str | None = None
        self.given_up: bool = False
        self.summed: Mapping[str, PhaseSum] = _NOTHING
        self._inside = 0
        self._covered_until = start_unix_nano
        self._covered_ns = 0

    def reach(self, time_unix_nano: int) -> None:
        """Stretch an open interval to an event in it, and note if time went back."""
        if time_unix_nano > self.latest_unix_nano:
            self.latest_unix_nano = time_unix_nano
        elif self.latest_unix_nano - time_unix_nano > MOST_DISORDER_NS:
            self.time_went_back = True

    def reach_all(self, envelopes: Iterable[Envelope]) -> None:
        """Stretch an open layer to rounds in it: the same as `reach` for each, but in one call."""
        latest = self.latest_unix_nano
        superseded = self.superseded_unix_nano
        for envelope in envelopes:
            time_unix_nano = envelope.time_unix_nano
            if time_unix_nano > latest:
                latest = time_unix_nano
            elif latest - time_unix_nano > MOST_DISORDER_NS:
                self.time_went_back = True
            if superseded is not None and time_unix_nano > superseded:
                superseded = time_unix_nano
        self.latest_unix_nano = latest
        self.superseded_unix_nano = superseded

    def enter(self, child: Interval) -> None:
        """Note that an interval directly inside this one began."""
        if not self._inside and child.start_unix_nano > self._covered_until:
            self._covered_until = child.start_unix_nano
        self._inside += 1

    def leave(self, child: Interval) -> None:
        """Note that an interval directly inside this one ended."""
        self._inside -= 1
        end = child.end_unix_nano
        if not self._inside and end is not None and end > self._covered_until:
            self._covered_ns += end - self._covered_until
            self._covered_until = end

    def sum_up(self, name: str, found: PhaseSum) -> None:
        """Count phases directly inside it that are not shown one by one."""
        self.summed = add_sum(self.summed, name, found)

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
        """The time from its start to its end in nanoseconds; None while it is open. `duration_source` is its worth."""
        return None if self.end_unix_nano is None else self.end_unix_nano - self.start_unix_nano

    @property
    def duration_source(self) -> str | None:
        """The worth of its duration; None while it is open.

        - `measured`: between two events that a clock timed.
        - `reported`: by the producer, which an end event says.
        - `derived`: its end event was not seen, but the next layer on its device, or the next proof, shows when it had
          ended; or its end event has no time of its own.
        - `at_least`: it began before it was observed, the recording breaks off in it, or it was given up and ends
          where it was last heard; by an unknown time.
        - `unknown`: the times were laid out, and nothing is reported; or they went back; or more than one end may be
          its own; or it had no end of its own, and only the end of what is around it shows that it had ended.
        """
        if self.end_unix_nano is None:
            return None
        if self.time_went_back:
            return "unknown"
        if self.start_source == REPORTED:
            return REPORTED
        if self.end_source == RECONSTRUCTED:
            if self.start_source != RECONSTRUCTED:
                return "derived" if self.end_seen else self._worth_of_lost_end
            return REPORTED if self._reports_duration else "unknown"
        if self.given_up or self.start_source in (RECONSTRUCTED, UNSEEN):
            return "at_least"
        if self.end_source == UNSEEN:
            return "derived"
        return "measured" if self.closed is not None or self.aborted_reason is not None else self._worth_of_lost_end

    @property
    def _worth_of_lost_end(self) -> str:
        if self.superseded_unix_nano is not None:
            return "derived"
        return "unknown" if self.aborted_reason is None else "at_least"

    @property
    def _reports_duration(self) -> bool:
        match self.end_event:
            case ProofComplete(duration_ms=ms):
                return ms > 0  # producers fill in 0; nothing proves in less than a millisecond
            case PhaseEnd(duration_ns=ns):
                return ns is not None
            case LayerEnd() | WeightOpeningEnd() | AggregatedBindingEnd() | StarkProofEnd():
                return True
            case _:
                return False

    @property
    def self_ns(self) -> int | None:
        """The part of its duration in which no interval directly inside it was open, in ns; None while it is open."""
        if self.end_unix_nano is None:
            return None
        still_inside = max(0, self.end_unix_nano - self._covered_until) if self._inside else 0
        return max(0, self.end_unix_nano - self.start_unix_nano - self._covered_ns - still_inside)

    @property
    def start_event(self) -> ProofEvent | None:
        """Its start event; None if that was never seen."""
        return None if self.opened is None else self.opened.event

    @property
    def end_event(self) -> ProofEvent | None:
        """Its end event; None while it is open and if that was never seen."""
        return None if self.closed is None else self.closed.event

    @property
    def pairing_key(self) -> PartKey:
        """What its end event has in common with it."""
        return self.kind, self.key

    @property
    def layer_kind(self) -> str:
        """A layer's kind by name; `Unknown` if its start was not seen."""
        event = None if self.opened is None else self.opened.event
        # `_value_` is `value`, which takes five times as long to read.
        return event.kind._value_ if isinstance(event, LayerStart) else "Unknown"


PartKey: TypeAlias = tuple[IntervalKind, int | str | None]
"""What an end event has in common with its start: the kind, and a node id, a phase's number or name, or None."""


class OpenParts:
    """The open phases, weight openings, weight bindings and STARK proofs. An end pairs with the latest of its key."""

    __slots__ = ("_named", "_phases", "_stacks")

    def __init__(self) -> None:
        self._named: dict[str, dict[int, Phase]] = {}
        self._phases: dict[int, Phase] = {}
        self._stacks: dict[PartKey, list[Interval]] = {}

    def __iter__(self) -> Iterator[Interval]:
        """Iterate over all of them, newest first."""
        parts = [part for stack in self._stacks.values() for part in stack]
        return iter(sorted(parts, key=lambda part: part.ordinal, reverse=True))

    def __bool__(self) -> bool:
        return bool(self._stacks)

    def add(self, part: Interval) -> None:
        """Add one that began."""
        self._stacks.setdefault(part.pairing_key, []).append(part)
        if isinstance(part, Phase):
            self._phases[part.ordinal] = part
            self._named.setdefault(part.own_name, {})[part.ordinal] = part

    @property
    def phases(self) -> list[Phase]:
        """The phases among them, in the order in which they began."""
        return list(self._phases.values())

    @property
    def innermost_phase(self) -> Phase | None:
        """The phase that began last, or None."""
        phases = self._phases
        return next(reversed(phases.values())) if phases else None

    def last(self, key: PartKey) -> Interval | None:
        """Return the latest of that key, or None."""
        stack = self._stacks.get(key)
        return stack[-1] if stack else None

    def last_named(self, name: str) -> Phase | None:
        """Return the latest phase of a name, whether it has a number or not, or None."""
        return next(reversed(self._named.get(name, {}).values()), None)

    def remove(self, part: Interval) -> None:
        """Remove one, usually the latest of its kind and key."""
        if isinstance(part, Phase):
            self._remove_phase(part)
        stack = self._stacks[part.pairing_key]
        if stack[-1] is part:
            stack.pop()
        else:
            stack.remove(part)
        if not stack:
            del self._stacks[part.pairing_key]

    def _remove_phase(self, phase: Phase) -> None:
        del self._phases[phase.ordinal]
        same = self._named[phase.own_name]
        del same[phase.ordinal]
        if not same:
            del self._named[phase.own_name]


class Phase(Interval):
    """A phase: a stretch of work that the producer names, inside a proof or outside of any.

    Attributes:
        name: Its name. `other` where the session has used too many names.
        depth: How many phases are around it.
        layer: The layer that it is part of, or None.
        done: What of it is done, in a unit of its own, as its latest PhaseProgress says; None if there was none.
        total: What there is to be done; None if that is not known.
        after_complete: Whether it went on, or began, after its proof had completed. The proof's end stays where it is.
        is_summed: Whether it is one of those that are not shown one by one, but summed up in the interval around it:
            shorter than a millisecond, or beyond the bound of a proof. Known when it ends.
        phases_shown: Of an outermost phase outside of any open proof: how many phases in it are shown one by one.
        holds_shown: Whether it has to be shown because something directly inside it is, as all layers are.
    """

    __slots__ = (
        "after_complete",
        "depth",
        "done",
        "holds_shown",
        "is_summed",
        "layer",
        "name",
        "own_name",
        "phases_shown",
        "root",
        "total",
    )

    def __init__(
        self,
        *,
        name: str,
        own_name: str,
        session_id: str,
        job_id: str | None,
        ordinal: int,
        key: int | None,
        proof: Proof | None,
        parent: Interval | None,
        opened: Envelope | None,
        start_unix_nano: int,
        start_source: str,
    ) -> None:
        super().__init__(
            kind=IntervalKind.PHASE,
            session_id=session_id,
            job_id=job_id,
            ordinal=ordinal,
            key=key,
            proof=proof,
            parent=parent,
            opened=opened,
            start_unix_nano=start_unix_nano,
            start_source=start_source,
        )
        around = parent if isinstance(parent, Phase) else None
        self.name: str = name
        self.own_name: str = own_name
        self.depth: int = 0 if around is None else around.depth + 1
        self.layer: Interval | None = (
            parent if parent is not None and parent.kind is IntervalKind.LAYER else around and around.layer
        )
        self.root: Proof | Phase = proof if proof is not None and proof.is_open else (around.root if around else self)
        self.done: int | None = None
        self.total: int | None = None
        self.after_complete: bool = proof is not None and not proof.is_open
        self.is_summed: bool = False
        self.holds_shown: bool = False
        self.phases_shown: int = 0

    @property
    def pairing_key(self) -> PartKey:
        """Its number or, without one, the name as its producer wrote it."""
        return self.kind, self.own_name if self.key is None else self.key

    @property
    def path(self) -> list[Phase]:
        """The phases around it, outermost first, and itself."""
        path: list[Phase] = []
        phase: Interval | None = self
        while isinstance(phase, Phase):
            path.append(phase)
            phase = phase.parent
        return path[::-1]


class Stage(msgspec.Struct, frozen=True):
    """A part of a proof that its events delimit, whether or not the producer names phases.

    Attributes:
        name: `before_layers` (from ProofStart to the first layer), `layers` (until the last layer's end), or
            `after_layers` (until the proof's end).
        start_unix_nano: When it began.
        end_unix_nano: When it ended; None while the proof is in it.
        duration_source: The worth of its duration, as for an interval; None while the proof is in it.
    """

    name: str
    start_unix_nano: int
    end_unix_nano: int | None
    duration_source: str | None

    @property
    def duration_ns(self) -> int | None:
        """Its duration in nanoseconds; None while the proof is in it."""
        return None if self.end_unix_nano is None else self.end_unix_nano - self.start_unix_nano


_Moment: TypeAlias = tuple[int, str]
"""A time, and where it comes from."""

_GIVEN_UP = "given_up"
"""The source of an end at which a proof was last heard, before it was given up."""

_SHORTEST_LAID_OUT_NS = 1_000_000
"""Producers report whole milliseconds. What they say took less was not laid out by anything that they said."""

_SHORTEST_ARRIVED_NS = 1000
"""Lines that arrive in one read are a nanosecond apart, which tells their order and not how long anything took."""


def _stage(name: str, start: _Moment, end: _Moment | None, *, known: bool = True, whole: bool = True) -> Stage:
    if end is None:
        return Stage(name, start[0], None, None)
    laid_out = RECONSTRUCTED in (start[1], end[1])
    shortest = _SHORTEST_LAID_OUT_NS if laid_out else _SHORTEST_ARRIVED_NS if ARRIVAL in (start[1], end[1]) else 0
    is_nothing = end[0] - start[0] < shortest
    if not known or is_nothing or (laid_out and name == "before_layers"):
        source = "unknown"
    elif (laid_out and not whole) or end[1] == _GIVEN_UP:
        source = "at_least"
    elif laid_out or REPORTED in (start[1], end[1]) or end[1] == UNSEEN:
        source = "derived"
    else:
        source = "at_least" if start[1] == UNSEEN else "measured"
    return Stage(name, start[0], max(start[0], end[0]), source)


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
        last_layer: The layer that began last, or None.
        aborted_layer: The layer in which an aborted proof died: the latest that was in progress then. None if it died
            before, between or after its layers; `stage` tells.
        silent_ns: For an aborted proof, how long it had said nothing when it ended, in nanoseconds; None if times are
            not known.
        end_ambiguous: Whether its end may be that of another proof, which ran at once in the same session without a
            job's name.
        phases_shown: How many phases in it are shown one by one.
        circuit: The circuit, if the producer sent it.
    """

    __slots__ = (
        "_walk_began",
        "_walk_end_known",
        "_walk_ended",
        "_walk_timed",
        "aborted_layer",
        "circuit",
        "end_ambiguous",
        "last_layer",
        "layers_closed",
        "layers_opened",
        "layers_superseded",
        "lost_events",
        "open_children",
        "open_layers",
        "phases_shown",
        "proof_ordinal",
        "rounds_unplaced",
        "silent_ns",
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
        start_source: str,
        parent: Proof | None = None,
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
            start_source=start_source,
            parent=parent,
        )
        self.proof_ordinal: int = proof_ordinal
        self.layers_opened: int = 0
        self.layers_closed: int = 0
        self.layers_superseded: int = 0
        self.rounds_unplaced: int = 0
        self.lost_events: int = 0
        self.last_layer: Interval | None = None
        self.aborted_layer: Interval | None = None
        self.silent_ns: int | None = None
        self.end_ambiguous: bool = False
        self.phases_shown: int = 0
        self._walk_began: tuple[int, str] | None = None
        self._walk_ended: tuple[int, str] | None = None
        self._walk_end_known = True
        self._walk_timed = True
        self.circuit: CircuitCompiled | None = None
        self.open_layers: dict[int, Interval] = {}
        self.open_children: OpenParts = OpenParts()
        self.walking: dict[int | None, Interval] = {}

    def walk(self, layer: Interval) -> None:
        """Note that the walk began, if this is the first layer, or reached the end of one more."""
        if self._walk_began is None:
            self._walk_began = layer.start_unix_nano, layer.start_source
        end = layer.end_unix_nano
        if end is None or layer.end_source is None:
            return
        # A layer whose time is not known takes none where times are laid out: the walk took longer than its sum.
        self._walk_timed &= layer.duration_source != "unknown"
        if self._walk_ended is None or end > self._walk_ended[0]:
            self._walk_ended = end, layer.end_source
            # A last layer without an end of its own ends with its proof, which says nothing about the layer.
            is_known = (
                layer.closed is not None or layer.superseded_unix_nano is not None or layer.aborted_reason is not None
            )
            self._walk_end_known = is_known

    @property
    def duration_source(self) -> str | None:
        """See `Interval`."""
        return "unknown" if self.end_ambiguous and not self.is_open else super().duration_source

    @property
    def walk_is_over(self) -> bool:
        """Whether all layers that the producer announced have been left, or it completed."""
        if self.end_seen:
            return self._walk_began is not None
        total = self.num_layers
        return total is not None and 0 < total <= self.layers_left_behind and not self.active_layers

    @property
    def stage(self) -> str | None:
        """Where it is, or where it ended: `before_layers`, `layers` or `after_layers`; None if it told of no layers."""
        if self.walk_is_over:
            return "after_layers"
        if self._walk_began is not None:
            return "layers"
        return "before_layers" if self.num_layers and not self.end_seen else None

    @property
    def stages(self) -> list[Stage]:
        """The parts of it that began, in order, as its events delimit them."""
        here = self.stage
        if here is None:
            return []
        began = (self.start_unix_nano, self.start_source)
        end_source = _GIVEN_UP if self.given_up else self.end_source or UNSEEN
        ended = None if self.end_unix_nano is None else (self.end_unix_nano, end_source)
        is_whole = self.end_seen or self.end_source != RECONSTRUCTED
        if self._walk_began is None:
            return [_stage("before_layers", began, ended)]
        before = _stage("before_layers", began, self._walk_began)
        if here == "layers" or self._walk_ended is None:
            return [before, _stage("layers", self._walk_began, ended, whole=is_whole and self._walk_timed)]
        known = self._walk_end_known
        layers = _stage("layers", self._walk_began, self._walk_ended, known=known, whole=self._walk_timed)
        known &= self.duration_source != "unknown"
        after = _stage("after_layers", self._walk_ended, ended, known=known, whole=is_whole)
        return [before, layers, after]

    @property
    def heard_unix_nano(self) -> int:
        """The time of the latest event in it."""
        inside: list[Interval] = [self, *self.open_layers.values(), *self.open_children]
        return max(interval.latest_unix_nano for interval in inside)

    @property
    def running_phases(self) -> list[Phase]:
        """Its open phases, in the order in which they began."""
        return self.open_children.phases

    @property
    def num_layers(self) -> int | None:
        """The number of layers that the producer announced; None if it announced none."""
        event = self.start_event
        if isinstance(event, ProofStart):
            return event.num_layers
        return None if self.circuit is None else self.circuit.total_layers

    @property
    def model_name(self) -> str | None:
        """The name of the proved model; None if neither the producer nor the user gave it."""
        if self.opened is None or not isinstance(self.opened.event, ProofStart):
            return None
        return self.opened.event.model_name or self.opened.model_name

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
    def walked(self) -> str:
        """The layers left behind, of those announced, in words: `4 of 12`, or `4` if none were announced.

        `12, 7 announced` where events of proofs that ran at once, without a job's name, may have been counted in one.
        """
        done, total = self.layers_left_behind, self.num_layers
        if total is None:
            return str(done)
        return f"{done} of {total}" if done <= total else f"{done}, {total} announced"

    @property
    def progress(self) -> float | None:
        """`layers_left_behind` over `num_layers`, from 0 to 1; None if the producer announced no layers."""
        total = self.num_layers
        return None if not total else min(1.0, self.layers_left_behind / total)

    @property
    def active_layers(self) -> list[Interval]:
        """The layers in progress: begun, not ended, and no other layer begun since on the same device."""
        return [layer for layer in self.walking.values() if layer.is_open]


class Opened(msgspec.Struct, frozen=True, gc=False):
    """An interval began; `envelope` showed it."""

    interval: Interval
    envelope: Envelope


class Closed(msgspec.Struct, frozen=True, gc=False):
    """An interval ended; `envelope` showed it, and is not always the interval's own end event."""

    interval: Interval
    envelope: Envelope


class Noted(msgspec.Struct, frozen=True, gc=False):
    """Something happened inside `interval`, or outside any proof of the session if that is None."""

    interval: Interval | None
    envelope: Envelope


class NotedRounds(msgspec.Struct, frozen=True, gc=False):
    """Sumcheck rounds came one after another in an open layer: says as much as a `Noted` of each."""

    interval: Interval
    envelopes: tuple[Envelope, ...]


Change: TypeAlias = Opened | Closed | Noted
"""The effect of one envelope on the intervals. Children close before their proof."""
