"""The timeline: a pure state machine that turns envelopes into intervals.

The rules follow the producers that exist, not an ideal one: layers without an end, ends without a start, a proof that
dies and another that follows in the same stream, activations that arrive before their proof. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from proofstream.intervals import REPORTED, UNSEEN, Change, Interval, IntervalKind, Noted, NotedRounds, Proof
from proofstream.open_intervals import OfSession, OpenIntervals

MAX_PENDING = 8192
"""The most activations of a job that wait for their proof; later ones are noted outside any proof."""

LONGEST_BELIEVABLE_MS = 400 * 24 * 3600 * 1000
"""A reported duration above 400 days is not used to work out when something began."""

_NS_PER_MS = 1_000_000


class Waiting(Protocol):
    """The memory that the waiting events of all sessions take, in bytes."""

    memory_bytes: int


class TimelineSession(OfSession, Protocol):
    """The session that a timeline is part of; `ObservedSession` is one."""

    overlaps: int
    circuit: CircuitCompiled | None

    @property
    def pending(self) -> Waiting:
        """The memory of events that wait."""
        ...

    @property
    def open_proofs(self) -> list[Proof]:
        """Its open proofs."""
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
    """The intervals of one job of one session. Use it through `Timelines`."""

    def __init__(self, session: TimelineSession, job_id: str | None, completed: Proof | None = None) -> None:
        self._open = OpenIntervals(session, job_id, completed)
        self._session = session
        self._job_id = job_id
        self._pending: list[Envelope] = []
        self._circuit: CircuitCompiled | None = session.circuit
        self._runs_at_once = False
        self._interrupted = 0
        self._given_up_layers: set[int] = set()

    @classmethod
    def knows(cls, event_type: type[ProofEvent]) -> bool:
        """Return whether events of that type say something about intervals."""
        return event_type in cls._rules

    @property
    def has_open(self) -> bool:
        """Whether an interval is open."""
        return bool(self._open)

    @property
    def proof(self) -> Proof | None:
        """The open proof that the job's events belong to, or None."""
        return self._open.proof

    @property
    def proofs(self) -> list[Proof]:
        """Its open proofs, in the order in which they began."""
        return self._open.proofs

    @property
    def completed(self) -> Proof | None:
        """The proof of the job that completed last, or None."""
        return self._open.completed

    @property
    def is_empty(self) -> bool:
        """Whether it holds neither an open interval nor an event that waits for its proof."""
        return not self.has_open and not self._pending

    def feed(self, envelope: Envelope) -> list[Change]:
        """Return the effect of the next envelope of this job."""
        changes: list[Change] = []
        rule = self._rules.get(type(envelope.event))
        if rule is None:
            _note(self._open.proof, envelope, changes)
        else:
            rule(self, envelope, changes)
        return changes

    def close(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval without success, at the envelope's time."""
        changes: list[Change] = []
        self._open.close_all(envelope, reason, changes, envelope.time_unix_nano)
        self.release_pending(None, changes)
        return changes

    def give_up(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval where the job was last heard, because it has fallen silent.

        The envelope is another job's: its time says nothing about this one.
        """
        changes: list[Change] = []
        self._open.give_up(envelope, reason, changes)
        self.release_pending(None, changes)
        return changes

    # Proofs

    def _proof_start(self, envelope: Envelope, changes: list[Change]) -> None:
        before = self.proof
        if before is not None:
            self._session.overlaps += 1
            if before.walk_is_over:
                given_up = self._open.set_aside(before, envelope, changes)
                if given_up is not None:
                    self._interrupted += 1
                    self._given_up_layers.add(given_up.layers_closed)
            else:
                self._interrupted += 1
                self._open.abort(before, envelope, "another proof started", changes, end_seen=False)
        proof = self._open_proof(envelope, changes, self._at(envelope), seen=True)
        self._session.take_unnamed(self, proof, changes)
        self.release_pending(proof, changes)

    def _open_proof(self, envelope: Envelope, changes: list[Change], start: tuple[int, str], *, seen: bool) -> Proof:
        proof = self._open.open_proof(envelope, changes, start, seen=seen)
        if self._circuit is not None and proof.num_layers in (None, self._circuit.total_layers):
            proof.circuit = self._circuit  # a circuit is compiled once and proved many times
        return proof

    def _at(self, envelope: Envelope) -> tuple[int, str]:
        """Return an envelope's time and where it comes from."""
        return envelope.time_unix_nano, self._session.time_source_of(envelope)

    def _current_proof(self, envelope: Envelope, changes: list[Change], *, reported_ms: int = 0) -> Proof:
        """Return the open proof; if none is open, open one whose start was not seen."""
        proof = self._open.proof
        if proof is None:
            start, source = _before(envelope, reported_ms * _NS_PER_MS)
            # A layer's reported duration tells when the layer began, not its proof.
            source = source if isinstance(envelope.event, ProofComplete) else UNSEEN
            proof = self._open_proof(envelope, changes, (start, source), seen=False)
        if self._pending:
            self.release_pending(proof, changes)
        return proof

    def _proof_complete(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofComplete)
        if self._open.some_wait:
            proof = self._choose_completed(event.num_layer_proofs)
        elif self.proof is None and self._interrupted:
            # The end of a proof that was given up when the next one began: to open one for it would count it twice.
            self._interrupted -= 1
            if not self._interrupted:
                self._given_up_layers.clear()
            changes.append(Noted(None, envelope))
            return
        else:
            proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        proof.end_ambiguous |= event.num_layer_proofs in self._given_up_layers
        proof.closed = envelope
        proof.reach(envelope.time_unix_nano)
        self._open.close_proof(proof, envelope, changes, envelope.time_unix_nano)

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
            self._open.abort(self.proofs[-1], envelope, event.reason, changes)
        else:
            changes.append(Noted(None, envelope))

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
            self._open.close(again, envelope, changes, now if end is None else end)
        before = proof.walking.get(event.gpu_device)
        if before is not None and before.end_unix_nano is None:
            before.superseded_unix_nano = max(before.start_unix_nano, now)
            proof.layers_superseded += 1
        layer = self._open.open_interval(
            IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=self._at(envelope)
        )
        proof.walking[event.gpu_device] = layer

    def _layer_end(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, LayerEnd)
        proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        layer = proof.open_layers.get(event.layer_idx)
        if layer is None:
            start = _before(envelope, event.duration_ms * _NS_PER_MS)
            layer = self._open.open_interval(IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=start)
        layer.closed = envelope
        layer.reach(envelope.time_unix_nano)
        self._open.close(layer, envelope, changes, envelope.time_unix_nano)

    def _round(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, SumcheckRound)
        proof = self._open.proof
        if proof is None or self._pending:  # asked here, because most events are rounds
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

    def feed_rounds(self, batch: Sequence[Envelope], at: int) -> NotedRounds | None:
        """Take the rounds at a place of a batch at once: `_round` of each gives the same."""
        proof = self._open.proof
        event = batch[at].event
        if proof is None or self._pending or not isinstance(event, SumcheckRound):
            return None
        layer = proof.open_layers.get(event.layer_idx)
        if layer is None:
            return None
        rounds = _run_of(batch, at, event.layer_idx)
        proof.rounds += len(rounds)
        layer.rounds += len(rounds)
        layer.reach_all(rounds)
        return NotedRounds(layer, rounds)

    # Weight openings, weight bindings and STARK proofs: ends pair with starts last-in-first-out, by key

    def _part_start(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, _ = _part_of(envelope.event)
        self._continue_proof(envelope, changes)
        start = self._at(envelope)
        self._open.open_interval(kind, key, self.proof, envelope, changes, start=start)

    def _continue_proof(self, envelope: Envelope, changes: list[Change]) -> None:
        """Note that the open proof goes on, if there is one."""
        if self.proof is not None:
            self.release_pending(self.proof, changes)
            self.proof.reach(envelope.time_unix_nano)

    def _part_end(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, reported_ms = _part_of(envelope.event)
        part = self._open.last_part((kind, key))
        if part is None:
            start = _before(envelope, reported_ms * _NS_PER_MS)
            part = self._open.open_interval(kind, key, self.proof, envelope, changes, start=start)
        part.closed = envelope
        part.reach(envelope.time_unix_nano)
        self._open.close(part, envelope, changes, envelope.time_unix_nano)

    # Phases

    def _phase_start(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, PhaseStart)
        self._continue_proof(envelope, changes)
        start = self._at(envelope)
        around = self._open.around_phase(event.parent, event.layer_idx)
        self._open.open_phase(event.name, event.phase, around, envelope, changes, start=start)

    def _phase_end(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, PhaseEnd)
        phase = self._open.phase_of(event.phase, event.name)
        if phase is None:
            self._continue_proof(envelope, changes)
            start = _before(envelope, event.duration_ns or 0)
            around = self._open.around_phase(None, None)
            phase = self._open.open_phase(event.name, event.phase, around, envelope, changes, start=start)
        phase.closed = envelope
        phase.aborted_reason = event.failed
        phase.reach(envelope.time_unix_nano)
        self._open.close(phase, envelope, changes, envelope.time_unix_nano)

    def _phase_progress(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, PhaseProgress)
        if event.phase is None and event.name is None:
            phase = self._open.innermost_phase
        else:
            phase = self._open.phase_of(event.phase, event.name)
        if phase is not None:
            phase.done, phase.total = event.done, event.total
        _note(phase or self.proof, envelope, changes)

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

    parts_of_proofs: ClassVar[frozenset[type[ProofEvent]]] = frozenset(
        {LayerStart, LayerEnd, SumcheckRound, ProofComplete}
    )
    """The kinds that open a proof whose start was not seen, if none is open."""

    facts: ClassVar[frozenset[type[ProofEvent]]] = frozenset(
        kind for kind in _rules if not is_bulk(kind) and kind is not EventsLost
    )
    """The kinds that show that a job goes on. Every plugin sees them: lanes drop bulk and add their own EventsLost."""


def _note(interval: Interval | None, envelope: Envelope, changes: list[Change]) -> None:
    """Note an event in an interval. It stretches the interval if it is the producer's: others are of other clocks."""
    if interval is not None and envelope.origin == PRODUCER:
        interval.reach(envelope.time_unix_nano)
    changes.append(Noted(interval, envelope))


def _run_of(batch: Sequence[Envelope], at: int, layer_idx: int) -> tuple[Envelope, ...]:
    """Return the rounds of a layer that come one after another from a place on, all of one session and job."""
    session_id, job_id = batch[at].session_id, batch[at].job_id
    end = at + 1
    while end < len(batch):
        envelope = batch[end]
        event = envelope.event
        if type(event) is not SumcheckRound or event.layer_idx != layer_idx:
            break
        if envelope.job_id != job_id or envelope.session_id != session_id:
            break
        end += 1
    return tuple(batch[at:end])


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
