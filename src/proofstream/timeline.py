"""The timeline: a pure state machine that turns envelopes into intervals.

The rules follow the producers that exist, not an ideal one: layers without an end, ends without a start, a proof that
dies and another that follows in the same stream, activations that arrive before their proof. Whatever arrives, every
interval closes exactly once, ends no earlier than it began, and lies inside its proof. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from proofstream.envelopes import PRODUCER, Envelope
from proofstream.events import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    AttentionHeatmap,
    CircuitCompiled,
    EventsLost,
    LayerActivation,
    LayerEnd,
    LayerStart,
    Log,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
    is_bulk,
)
from proofstream.intervals import (
    RECONSTRUCTED,
    REPORTED,
    UNSEEN,
    Change,
    Closed,
    Interval,
    IntervalKind,
    Noted,
    Opened,
    OpenParts,
    PartKey,
    Phase,
    PhaseSum,
    Proof,
)

MAX_PENDING = 8192
"""The most activations of a job that wait for their proof; later ones are noted outside any proof."""

MAX_OPEN_INTERVALS = 65_536
"""The most intervals that are open in a session, besides proofs. The older half of a job's makes room."""

LONGEST_BELIEVABLE_MS = 400 * 24 * 3600 * 1000
"""A reported duration above 400 days is not used to work out when something began."""


MAX_SET_ASIDE = 4
"""The most proofs of a job that may wait for their end while a later one is open."""

SHORTEST_SHOWN_NS = 1_000_000
"""Phases shorter than a millisecond are summed up in the interval around them, unless they failed."""

MOST_SHOWN_PHASES = 2000
"""So many phases of a proof are shown one by one, and those around them; the others are summed up."""

NOT_SEEN = "its end was not seen"

_NS_PER_MS = 1_000_000


class Waiting(Protocol):
    """The memory that the waiting events of all sessions take, in bytes."""

    memory_bytes: int


class OfSession(Protocol):
    """The session that a timeline is part of, as the timeline sees it; `ObservedSession` is one."""

    session_id: str
    proofs: int
    aborted: int
    overlaps: int
    open_intervals: int
    circuit: CircuitCompiled | None

    @property
    def pending(self) -> Waiting:
        """The memory of events that wait."""
        ...

    @property
    def open_proofs(self) -> list[Proof]:
        """Its open proofs."""
        ...

    def proof_of(self, job_id: str | None) -> Proof | None:
        """Return the open proof of a job."""
        ...

    def next_ordinal(self) -> int:
        """Count one more interval and return its ordinal."""
        ...

    def time_source_of(self, envelope: Envelope) -> str:
        """Return where an event's time comes from."""
        ...

    def phase_name(self, name: str) -> str:
        """Return the name by which phases of that name are known."""
        ...

    def sum_up(self, name: str, found: PhaseSum) -> None:
        """Count phases outside of any proof that are not shown."""
        ...

    def take_unnamed(self, timeline: Timeline, proof: Proof, changes: list[Change]) -> None:
        """Give a proof the waiting events that came without a job's name."""
        ...

    def make_room(self, size: int, changes: list[Change], *, of_job: str | None) -> bool:
        """Return whether so many more bytes may wait."""
        ...

    def lose(self, count: int, proofs: list[Proof]) -> None:
        """Count lost events."""
        ...


class Timeline:
    """The intervals of one job of one session. Use it through `Timelines`.

    Attributes:
        proof: The open proof that the job's events belong to, or None.
        completed: The proof of the job that completed last, or None. Phases that follow belong to it.
    """

    def __init__(self, session: OfSession, job_id: str | None, completed: Proof | None = None) -> None:
        self.proof: Proof | None = None
        self.completed: Proof | None = completed
        self._session = session
        self._job_id = job_id
        self._pending: list[Envelope] = []
        self._circuit: CircuitCompiled | None = session.circuit
        self._alone = OpenParts()
        self._aside: list[Proof] = []
        self._runs_at_once = False
        self._interrupted = 0

    @classmethod
    def knows(cls, event_type: type[ProofEvent]) -> bool:
        """Return whether events of that type say something about intervals."""
        return event_type in cls._rules

    @property
    def has_open(self) -> bool:
        """Whether an interval is open."""
        return self.proof is not None or bool(self._alone) or bool(self._aside)

    @property
    def proofs(self) -> list[Proof]:
        """Its open proofs, in the order in which they began."""
        return self._aside if self.proof is None else [*self._aside, self.proof]

    @property
    def is_empty(self) -> bool:
        """Whether it holds neither an open interval nor an event that waits for its proof."""
        return not self.has_open and not self._pending

    def feed(self, envelope: Envelope) -> list[Change]:
        """Return the effect of the next envelope of this job."""
        changes: list[Change] = []
        rule = self._rules.get(type(envelope.event))
        if rule is None:
            _note(self.proof, envelope, changes)
        else:
            rule(self, envelope, changes)
        return changes

    def close(self, envelope: Envelope, reason: str, *, end_unix_nano: int | None = None) -> list[Change]:
        """End every open interval without success, at the envelope's time unless another is given."""
        changes: list[Change] = []
        end = envelope.time_unix_nano if end_unix_nano is None else end_unix_nano
        for proof in self._aside[:]:
            self._abort(proof, envelope, NOT_SEEN, changes, end_unix_nano=end)
        self.abort(envelope, reason, changes, end_unix_nano=end)
        self.release_pending(None, changes)
        for interval in self._alone:
            interval.aborted_reason = reason
            self._close_interval(interval, envelope, changes, end_unix_nano=end)
        return changes

    def give_up(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval where the job was last heard, because it has fallen silent.

        The envelope is another job's: its time says nothing about this one.
        """
        heard = max(
            *(proof.heard_unix_nano for proof in self.proofs), *(part.latest_unix_nano for part in self._alone), 0
        )
        return self.close(envelope, reason, end_unix_nano=heard)

    # Proofs

    def _proof_start(self, envelope: Envelope, changes: list[Change]) -> None:
        before = self.proof
        if before is not None:
            self._session.overlaps += 1
            if before.walk_is_over:
                self._set_aside(before, envelope, changes)
            else:
                self._interrupted += 1
                self.abort(envelope, "another proof started", changes)
        proof = self._open_proof(envelope, changes, envelope.time_unix_nano, self._source_of(envelope), seen=True)
        self._session.take_unnamed(self, proof, changes)
        self.release_pending(proof, changes)

    def _set_aside(self, proof: Proof, envelope: Envelope, changes: list[Change]) -> None:
        """Let a proof wait for its end while the next one goes on: most of its time lies after its layers."""
        self._aside.append(proof)
        self.proof = None
        if len(self._aside) > MAX_SET_ASIDE:
            oldest = self._aside[0]
            self._abort(oldest, envelope, NOT_SEEN, changes, end_unix_nano=oldest.heard_unix_nano)

    def _open_proof(
        self, envelope: Envelope, changes: list[Change], start: int, start_source: str, *, seen: bool
    ) -> Proof:
        session = self._session
        proof = Proof(
            session_id=session.session_id,
            job_id=self._job_id,
            ordinal=session.next_ordinal(),
            proof_ordinal=session.proofs,
            opened=envelope if seen else None,
            start_unix_nano=max(0, start),
            start_source=start_source,
            parent=None if envelope.parent_job_id is None else session.proof_of(envelope.parent_job_id),
        )
        session.proofs += 1
        if self._circuit is not None and proof.num_layers in (None, self._circuit.total_layers):
            proof.circuit = self._circuit  # a circuit is compiled once and proved many times
        self.proof = proof
        changes.append(Opened(proof, envelope))
        return proof

    def _current_proof(self, envelope: Envelope, changes: list[Change], *, reported_ms: int = 0) -> Proof:
        """Return the open proof; if none is open, open one whose start was not seen."""
        proof = self.proof
        if proof is None:
            start, source = _before(envelope, reported_ms * _NS_PER_MS)
            # A layer's reported duration tells when the layer began, not its proof.
            source = source if isinstance(envelope.event, ProofComplete) else UNSEEN
            proof = self._open_proof(envelope, changes, start, source, seen=False)
        if self._pending:
            self.release_pending(proof, changes)
        return proof

    def _proof_complete(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofComplete)
        if self._aside:
            proof = self._choose_completed(event.num_layer_proofs)
        elif self.proof is None and self._interrupted:
            # The end of a proof that was given up when the next one began: to open one for it would count it twice.
            self._interrupted -= 1
            changes.append(Noted(None, envelope))
            return
        else:
            proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        proof.closed = envelope
        proof.reach(envelope.time_unix_nano)
        self._close_proof(proof, envelope, changes, envelope.time_unix_nano)

    def _choose_completed(self, num_layer_proofs: int) -> Proof:
        """Return the proof that completed: one with as many layers, or else one whose layers have all ended.

        Among equals, an earlier proof may have died in silence, so that the latest is the one that completed; but once
        proofs were seen to run at once, the earliest is.
        """
        over = [proof for proof in self.proofs if proof.walk_is_over]
        equal = [proof for proof in over if proof.layers_closed == num_layer_proofs] or over
        chosen = equal[0 if self._runs_at_once else -1]
        for proof in equal if len(equal) > 1 else []:
            proof.end_ambiguous = True
        completed = self.completed
        self._runs_at_once |= completed is not None and completed.proof_ordinal > chosen.proof_ordinal
        return chosen

    def _proof_aborted(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofAborted)
        if self.proofs:
            self.abort(envelope, event.reason, changes)
        else:
            changes.append(Noted(None, envelope))

    def abort(
        self, envelope: Envelope, reason: str, changes: list[Change], *, end_unix_nano: int | None = None
    ) -> None:
        """End the latest open proof and everything open inside it, without success."""
        if self.proofs:
            self._abort(self.proofs[-1], envelope, reason, changes, end_unix_nano=end_unix_nano)

    def _abort(
        self, proof: Proof, envelope: Envelope, reason: str, changes: list[Change], *, end_unix_nano: int | None = None
    ) -> None:
        end = envelope.time_unix_nano if end_unix_nano is None else end_unix_nano
        proof.aborted_reason = reason
        self._session.aborted += 1
        in_progress = proof.active_layers
        proof.aborted_layer = max(in_progress, key=lambda layer: layer.ordinal) if in_progress else None
        if self._source_of(envelope) != RECONSTRUCTED and proof.start_source != RECONSTRUCTED:
            proof.silent_ns = max(0, end - proof.heard_unix_nano)
        proof.reach(end)
        for interval in (*proof.open_layers.values(), *proof.open_children):
            if interval.superseded_unix_nano is None:
                interval.aborted_reason = reason
        self._close_proof(proof, envelope, changes, end)

    def _close_proof(self, proof: Proof, envelope: Envelope, changes: list[Change], end_unix_nano: int) -> None:
        for interval in (*proof.open_layers.values(), *proof.open_children):
            superseded = interval.superseded_unix_nano
            end = end_unix_nano if superseded is None else superseded
            if isinstance(interval, Phase) and proof.end_seen:
                self._outlive(proof, interval)
            else:
                self._close_interval(interval, envelope, changes, end_unix_nano=end)
        proof.end_unix_nano = max(proof.latest_unix_nano, end_unix_nano)
        proof.end_source = self._source_of(envelope)
        if proof is self.proof:
            self.proof = None
        else:
            self._aside.remove(proof)
        if proof.end_seen:
            self.completed = proof
        changes.append(Closed(proof, envelope))

    def _outlive(self, proof: Proof, phase: Phase) -> None:
        """Let a phase go on that is open when its proof completes: only its own end can tell how long it took."""
        proof.open_children.remove(phase)
        if phase.parent is proof:
            proof.leave(phase)
        phase.after_complete = True
        self._alone.add(phase)

    # Layers

    def _layer_start(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, LayerStart)
        proof = self._current_proof(envelope, changes)
        now = envelope.time_unix_nano
        proof.reach(now)
        again = proof.open_layers.get(event.layer_idx)
        if again is not None:
            end = again.superseded_unix_nano
            self._close_interval(again, envelope, changes, end_unix_nano=now if end is None else end)
        before = proof.walking.get(event.gpu_device)
        if before is not None and before.is_open:
            before.superseded_unix_nano = max(before.start_unix_nano, now)
            proof.layers_superseded += 1
        layer = self._open_interval(
            IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=(now, self._source_of(envelope))
        )
        proof.walking[event.gpu_device] = layer

    def _layer_end(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, LayerEnd)
        proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        layer = proof.open_layers.get(event.layer_idx)
        if layer is None:
            start = _before(envelope, event.duration_ms * _NS_PER_MS)
            layer = self._open_interval(IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=start)
        layer.closed = envelope
        layer.reach(envelope.time_unix_nano)
        self._close_interval(layer, envelope, changes, end_unix_nano=envelope.time_unix_nano)

    def _round(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, SumcheckRound)
        proof = self._current_proof(envelope, changes)
        proof.rounds += 1
        layer = proof.open_layers.get(event.layer_idx)
        if layer is None:
            proof.rounds_unplaced += 1
            proof.reach(envelope.time_unix_nano)
            changes.append(Noted(proof, envelope))
        else:
            layer.rounds += 1
            layer.reach(envelope.time_unix_nano)
            if layer.superseded_unix_nano is not None:
                layer.superseded_unix_nano = max(layer.superseded_unix_nano, envelope.time_unix_nano)
            changes.append(Noted(layer, envelope))

    # Weight openings, weight bindings and STARK proofs: ends pair with starts last-in-first-out, by key

    def _part_start(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, _ = _part_of(envelope.event)
        self._continue_proof(envelope, changes)
        start = envelope.time_unix_nano, self._source_of(envelope)
        self._open_interval(kind, key, self.proof, envelope, changes, start=start)

    def _continue_proof(self, envelope: Envelope, changes: list[Change]) -> None:
        """Note that the open proof goes on, if there is one."""
        if self.proof is not None:
            self.release_pending(self.proof, changes)
            self.proof.reach(envelope.time_unix_nano)

    def _part_end(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, reported_ms = _part_of(envelope.event)
        part = self._open_part((kind, key))
        if part is None:
            start = _before(envelope, reported_ms * _NS_PER_MS)
            part = self._open_interval(kind, key, self.proof, envelope, changes, start=start)
        part.closed = envelope
        part.reach(envelope.time_unix_nano)
        self._close_interval(part, envelope, changes, end_unix_nano=envelope.time_unix_nano)

    def _open_part(self, key: PartKey) -> Interval | None:
        inside = self.proof.open_children.last(key) if self.proof is not None else None
        return inside or self._alone.last(key)

    # Phases

    def _phase_start(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, PhaseStart)
        self._continue_proof(envelope, changes)
        start = envelope.time_unix_nano, self._source_of(envelope)
        around = self._around_phase(event.parent, event.layer_idx)
        self._open_phase(event.name, event.phase, around, envelope, changes, start=start)

    def _phase_end(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, PhaseEnd)
        phase = self._open_phase_of(event.phase, event.name)
        if phase is None:
            self._continue_proof(envelope, changes)
            start = _before(envelope, event.duration_ns or 0)
            around = self._around_phase(None, None)
            phase = self._open_phase(event.name, event.phase, around, envelope, changes, start=start)
        phase.closed = envelope
        phase.aborted_reason = event.failed
        phase.reach(envelope.time_unix_nano)
        self._close_interval(phase, envelope, changes, end_unix_nano=envelope.time_unix_nano)

    def _phase_progress(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, PhaseProgress)
        if event.phase is None and event.name is None:
            phase = self._innermost_phase
        else:
            phase = self._open_phase_of(event.phase, event.name)
        if phase is not None:
            phase.done, phase.total = event.done, event.total
        _note(phase or self.proof, envelope, changes)

    def _open_phase_of(self, number: int | None, name: str | None) -> Phase | None:
        """Return the open phase of that number or, without one, the latest of that name."""
        found = None if number is None else self._open_part((IntervalKind.PHASE, number))
        found = found or (None if name is None else self._open_part((IntervalKind.PHASE, name)))
        return found if isinstance(found, Phase) else None

    @property
    def _innermost_phase(self) -> Phase | None:
        return (self._alone if self.proof is None else self.proof.open_children).innermost_phase

    def _around_phase(self, parent: int | None, layer_idx: int | None) -> Interval | None:
        """Return the interval around a phase: the one that its start names, or the innermost phase of its job."""
        named = None if parent is None else self._open_phase_of(parent, None)
        if named is not None:
            return named
        innermost = self._innermost_phase
        layer = self.proof.open_layers.get(layer_idx) if self.proof is not None and layer_idx is not None else None
        if layer is not None and (innermost is None or innermost.layer is not layer):
            return layer
        return innermost or self.proof or self.completed

    def _open_phase(
        self,
        own_name: str,
        number: int | None,
        parent: Interval | None,
        envelope: Envelope,
        changes: list[Change],
        *,
        start: tuple[int, str],
    ) -> Phase:
        around = parent if isinstance(parent, Proof) or parent is None else parent.proof
        phase = Phase(
            name=self._session.phase_name(own_name),
            own_name=own_name,
            session_id=self._session.session_id,
            job_id=self._job_id,
            ordinal=self._session.next_ordinal(),
            key=number,
            proof=around,
            parent=parent,
            opened=envelope if isinstance(envelope.event, PhaseStart) else None,
            start_unix_nano=max(0 if parent is None else parent.start_unix_nano, start[0]),
            start_source=start[1],
        )
        self._add_open(phase, envelope, changes)
        return phase

    def _settle_phase(self, phase: Phase) -> None:
        """Decide whether a phase that has ended is shown by itself, and if not, sum it up where it belongs."""
        duration = phase.duration_ns or 0
        is_worth_it = duration >= SHORTEST_SHOWN_NS or phase.aborted_reason is not None
        parent = phase.parent
        if phase.holds_shown or (is_worth_it and phase.root.phases_shown < MOST_SHOWN_PHASES):
            phase.root.phases_shown += 1
            if isinstance(parent, Phase):
                parent.holds_shown = True
            return
        phase.is_summed = True
        target = self._session if parent is None or not parent.is_open else parent
        target.sum_up(phase.name, PhaseSum(1, duration, duration))
        for name, found in phase.summed.items():
            target.sum_up(name, found)

    # Events held for the next proof, unless a layer event shows that the current proof continues

    def _hold(self, envelope: Envelope, changes: list[Change]) -> None:
        size = envelope.memory_bytes
        if len(self._pending) < MAX_PENDING and self._session.make_room(size, changes, of_job=self._job_id):
            self._session.pending.memory_bytes += size
            self._pending.append(envelope)
        else:
            changes.append(Noted(None, envelope))

    def release_pending(self, proof: Proof | None, changes: list[Change]) -> None:
        """Note the events that waited in the proof, or outside any proof if that is None."""
        for envelope in self._pending:
            self._session.pending.memory_bytes -= envelope.memory_bytes
            if isinstance(envelope.event, CircuitCompiled):
                self._circuit = envelope.event
                if envelope.job_id is None:
                    self._session.circuit = envelope.event
                if proof is not None:
                    proof.circuit = envelope.event
            if proof is not None:
                # Most come before their proof, so they cannot show that time went back.
                proof.latest_unix_nano = max(proof.latest_unix_nano, envelope.time_unix_nano)
            changes.append(Noted(proof, envelope))
        self._pending.clear()

    # Text and losses

    def _log(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, Log)
        if event.lagged_events:
            # The socket lost them before it knew which proof they belonged to, so every open one may lack some.
            self._session.lose(event.lagged_events, self._session.open_proofs)
        active = self.proof.active_layers if self.proof is not None else []
        _note(active[0] if len(active) == 1 else self.proof, envelope, changes)

    def _events_lost(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, EventsLost)
        own = [] if self.proof is None else [self.proof]
        self._session.lose(sum(event.counts.values()), self._session.open_proofs if self._job_id is None else own)
        changes.append(Noted(self.proof, envelope))

    # Opening and closing

    def _open_interval(
        self,
        kind: IntervalKind,
        key: int | None,
        proof: Proof | None,
        envelope: Envelope,
        changes: list[Change],
        *,
        start: tuple[int, str],
    ) -> Interval:
        start_unix_nano, source = start
        seen = source not in (REPORTED, UNSEEN)
        parent = _around(proof)
        interval = Interval(
            kind=kind,
            session_id=self._session.session_id,
            job_id=self._job_id,
            ordinal=self._session.next_ordinal(),
            key=key,
            proof=proof,
            parent=parent,
            opened=envelope if seen else None,
            start_unix_nano=max(0 if parent is None else parent.start_unix_nano, start_unix_nano),
            start_source=source,
        )
        if seen:
            interval.reach(start_unix_nano)  # a start before the proof's shows that time went back
        self._add_open(interval, envelope, changes)
        return interval

    def _add_open(self, interval: Interval, envelope: Envelope, changes: list[Change]) -> None:
        if self._session.open_intervals >= MAX_OPEN_INTERVALS:
            self._end_older_half(envelope, changes)
        self._session.open_intervals += 1
        parent = interval.parent
        if parent is not None and parent.is_open:
            parent.enter(interval)
        if isinstance(parent, Phase) and not isinstance(interval, Phase):
            parent.holds_shown = True
        proof = interval.proof
        if proof is None or not proof.is_open:
            self._alone.add(interval)
        elif interval.kind is IntervalKind.LAYER and interval.key is not None:
            proof.open_layers[interval.key] = interval
            proof.layers_opened += 1
            proof.walk(interval)
            if interval.start_seen or proof.last_layer is None or not proof.last_layer.is_open:
                proof.last_layer = interval
        else:
            proof.open_children.add(interval)
        changes.append(Opened(interval, envelope))

    def _end_older_half(self, envelope: Envelope, changes: list[Change]) -> None:
        """End the older half of what is open here, besides the proof. Half, so that it rarely has to be sorted."""
        inside = [] if self.proof is None else [*self.proof.open_layers.values(), *self.proof.open_children]
        by_age = sorted((*self._alone, *inside), key=lambda interval: interval.ordinal)
        for interval in by_age[: len(by_age) // 2]:
            superseded = interval.superseded_unix_nano
            end = envelope.time_unix_nano if superseded is None else superseded
            self._close_interval(interval, envelope, changes, end_unix_nano=end)

    def _close_interval(
        self, interval: Interval, envelope: Envelope, changes: list[Change], *, end_unix_nano: int
    ) -> None:
        interval.end_unix_nano = max(interval.latest_unix_nano, end_unix_nano)
        interval.end_source = self._source_of(envelope)
        self._session.open_intervals -= 1
        self._leave_parent(interval, interval.end_unix_nano)
        proof = interval.proof
        if proof is None or not proof.is_open:
            self._alone.remove(interval)
        else:
            proof.latest_unix_nano = max(proof.latest_unix_nano, interval.end_unix_nano)
            proof.time_went_back |= interval.time_went_back
            if interval.kind is IntervalKind.LAYER and interval.key is not None:
                self._close_layer(proof, interval, interval.key)
            else:
                proof.open_children.remove(interval)
        if isinstance(interval, Phase):
            self._settle_phase(interval)
        changes.append(Closed(interval, envelope))

    def _leave_parent(self, interval: Interval, end_unix_nano: int) -> None:
        parent = interval.parent
        if parent is not None and parent.is_open:
            parent.leave(interval)
            parent.latest_unix_nano = max(parent.latest_unix_nano, end_unix_nano)

    def _close_layer(self, proof: Proof, layer: Interval, layer_idx: int) -> None:
        del proof.open_layers[layer_idx]
        device = layer.start_event.gpu_device if isinstance(layer.start_event, LayerStart) else None
        if proof.walking.get(device) is layer:
            del proof.walking[device]
        proof.layers_closed += layer.aborted_reason is None
        proof.layers_superseded -= layer.superseded_unix_nano is not None
        proof.walk(layer)

    def _source_of(self, envelope: Envelope) -> str:
        return self._session.time_source_of(envelope)

    _rules: ClassVar[dict[type[ProofEvent], Callable[[Timeline, Envelope, list[Change]], None]]] = {
        ProofStart: _proof_start,
        ProofComplete: _proof_complete,
        ProofAborted: _proof_aborted,
        LayerStart: _layer_start,
        LayerEnd: _layer_end,
        SumcheckRound: _round,
        WeightOpeningStart: _part_start,
        WeightOpeningEnd: _part_end,
        AggregatedBindingStart: _part_start,
        AggregatedBindingEnd: _part_end,
        StarkProofStart: _part_start,
        StarkProofEnd: _part_end,
        PhaseStart: _phase_start,
        PhaseEnd: _phase_end,
        PhaseProgress: _phase_progress,
        LayerActivation: _hold,
        AttentionHeatmap: _hold,
        CircuitCompiled: _hold,
        Log: _log,
        EventsLost: _events_lost,
    }

    facts: ClassVar[frozenset[type[ProofEvent]]] = frozenset(
        kind for kind in _rules if not is_bulk(kind) and kind is not EventsLost
    )
    """The kinds that show that a job goes on. Every plugin sees them: lanes drop bulk and add their own EventsLost."""


def _note(interval: Interval | None, envelope: Envelope, changes: list[Change]) -> None:
    """Note an event in an interval. It stretches the interval if it is the producer's: others are of other clocks."""
    if interval is not None and envelope.origin == PRODUCER:
        interval.reach(envelope.time_unix_nano)
    changes.append(Noted(interval, envelope))


def _around(proof: Proof | None) -> Interval | None:
    """Return the interval directly around what begins in a proof: its innermost phase that is not part of a layer."""
    if proof is None:
        return None
    around: Interval | None = proof.open_children.innermost_phase
    while isinstance(around, Phase) and around.layer is not None:
        around = around.layer.parent
    return around or proof


def _before(envelope: Envelope, reported_ns: int) -> tuple[int, str]:
    """Return when an interval began that ends here and took as long as reported, and where that comes from."""
    if not 0 < reported_ns <= LONGEST_BELIEVABLE_MS * _NS_PER_MS:
        return envelope.time_unix_nano, UNSEEN
    return max(0, envelope.time_unix_nano - reported_ns), REPORTED


def _part_of(event: ProofEvent) -> tuple[IntervalKind, int | None, int]:
    """Return which interval a start or end event belongs to: its kind, its key, and an end's reported duration."""
    match event:
        case WeightOpeningStart(weight_node_id=node):
            return IntervalKind.WEIGHT_OPENING, node, 0
        case WeightOpeningEnd(weight_node_id=node, duration_ms=ms):
            return IntervalKind.WEIGHT_OPENING, node, ms
        case AggregatedBindingEnd(duration_ms=ms):
            return IntervalKind.WEIGHT_BINDING, None, ms
        case AggregatedBindingStart():
            return IntervalKind.WEIGHT_BINDING, None, 0
        case StarkProofEnd(duration_ms=ms):
            return IntervalKind.STARK_PROOF, None, ms
        case _:
            return IntervalKind.STARK_PROOF, None, 0
