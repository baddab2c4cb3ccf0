"""The timeline: a pure state machine that turns envelopes into intervals.

The rules follow the producers that exist, not an ideal one: layers without an end, ends without a start, a proof that
dies and another that follows in the same stream, activations that arrive before their proof. Whatever arrives, every
interval closes exactly once, ends no earlier than it began, and lies inside its proof. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from proofstream.envelopes import Envelope
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
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SessionOpened,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.intervals import Change, Closed, Interval, IntervalKind, Noted, Opened, OpenParts, Proof

MAX_PENDING = 8192
"""The most activations that wait for their proof; later ones are noted outside any proof."""

LONGEST_BELIEVABLE_MS = 400 * 24 * 3600 * 1000
"""A reported duration above 400 days is not used to work out when something began."""


class ObservedSession:
    """A session as its events show it.

    Attributes:
        session_id: The session's id.
        opened: The envelope of SessionOpened, or None if it was not seen.
        lost_events: Events known to be missing, from the producer's own "lagged" lines and from EventsLost.
        proofs: The number of proofs that began.
        aborted: The number of proofs that ended without success.
        times_ended: How many times the session has ended; it may begin again.
        timelines: The timelines of its jobs; of named jobs, only those with something open.
    """

    __slots__ = ("_intervals", "aborted", "lost_events", "opened", "proofs", "session_id", "timelines", "times_ended")

    def __init__(self, session_id: str) -> None:
        self.session_id: str = session_id
        self.opened: Envelope | None = None
        self.lost_events: int = 0
        self.proofs: int = 0
        self.aborted: int = 0
        self.times_ended: int = 0
        self.timelines: dict[str | None, Timeline] = {}
        self._intervals = 0

    @property
    def time_source(self) -> str:
        """The origin of its event times, as its SessionOpened says; `envelope` if there was no SessionOpened."""
        event = self.opened.event if self.opened is not None else None
        return event.time_source if isinstance(event, SessionOpened) else "envelope"

    def timeline(self, job_id: str | None) -> Timeline:
        """Return the timeline of one of its jobs."""
        found = self.timelines.get(job_id)
        if found is None:
            found = self.timelines[job_id] = Timeline(self, job_id)
        return found

    def next_ordinal(self) -> int:
        """Count one more interval and return its ordinal."""
        ordinal = self._intervals
        self._intervals += 1
        return ordinal

    @property
    def open_proofs(self) -> list[Proof]:
        """Its open proofs."""
        return [t.proof for t in self.timelines.values() if t.proof is not None]

    def feed(self, envelope: Envelope) -> list[Change]:
        """Return the effect of the next envelope of one of its jobs."""
        timeline = self.timeline(envelope.job_id)
        changes = timeline.feed(envelope)
        if timeline.proof is None and envelope.job_id is not None and timeline.is_empty:
            del self.timelines[envelope.job_id]
        return changes

    def lose(self, count: int, proofs: list[Proof]) -> None:
        """Count lost events, for the session and for each proof that may have lost them."""
        self.lost_events += count
        for proof in proofs:
            proof.lost_events += count

    def close(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval."""
        changes = [change for t in self.timelines.values() for change in t.close(envelope, reason)]
        self.timelines.clear()
        changes.append(Noted(None, envelope))
        return changes


class Timeline:
    """The intervals of one job of one session. Use it through `Timelines`."""

    def __init__(self, session: ObservedSession, job_id: str | None) -> None:
        self.proof: Proof | None = None
        self._session = session
        self._job_id = job_id
        self._pending: list[Envelope] = []
        self._circuit: CircuitCompiled | None = None
        self._alone = OpenParts()

    @classmethod
    def knows(cls, event_type: type[ProofEvent]) -> bool:
        """Return whether events of that type say something about intervals."""
        return event_type in cls._rules

    @property
    def is_empty(self) -> bool:
        """Whether it holds neither an open interval nor an event that waits for its proof."""
        return self.proof is None and not self._pending and not self._alone

    def feed(self, envelope: Envelope) -> list[Change]:
        """Return the effect of the next envelope of this job."""
        changes: list[Change] = []
        rule = self._rules.get(type(envelope.event))
        if rule is None:
            changes.append(Noted(self.proof, envelope))
        else:
            rule(self, envelope, changes)
        return changes

    def close(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval, because the session has ended."""
        changes: list[Change] = []
        self.abort(envelope, reason, changes)
        self._release_pending(None, changes)
        for interval in self._alone:
            interval.aborted_reason = reason
            self._close_interval(interval, envelope, changes, end_unix_nano=envelope.time_unix_nano)
        return changes

    # Proofs

    def _proof_start(self, envelope: Envelope, changes: list[Change]) -> None:
        self.abort(envelope, "another proof started", changes)
        proof = self._open_proof(envelope, changes, envelope.time_unix_nano, seen=True)
        self._release_pending(proof, changes)

    def _open_proof(self, envelope: Envelope, changes: list[Change], start: int, *, seen: bool) -> Proof:
        session = self._session
        proof = Proof(
            session_id=session.session_id,
            job_id=self._job_id,
            ordinal=session.next_ordinal(),
            proof_ordinal=session.proofs,
            opened=envelope if seen else None,
            start_unix_nano=max(0, start),
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
            proof = self._open_proof(envelope, changes, _before(envelope, reported_ms), seen=False)
        if self._pending:
            self._release_pending(proof, changes)
        return proof

    def _proof_complete(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofComplete)
        proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        proof.closed = envelope
        self._close_proof(proof, envelope, changes)

    def _proof_aborted(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofAborted)
        proof = self.proof or self._only_proof()
        if proof is None:
            changes.append(Noted(None, envelope))
        else:
            self._session.timeline(proof.job_id).abort(envelope, event.reason, changes)

    def _only_proof(self) -> Proof | None:
        """Return the session's only open proof, for an event that names no job."""
        proofs = self._session.open_proofs if self._job_id is None else []
        return proofs[0] if len(proofs) == 1 else None

    def abort(self, envelope: Envelope, reason: str, changes: list[Change]) -> None:
        """End the open proof and everything open inside it, without success."""
        proof = self.proof
        if proof is None:
            return
        proof.aborted_reason = reason
        self._session.aborted += 1
        for interval in (*proof.open_layers.values(), *proof.open_children):
            if interval.superseded_unix_nano is None:
                interval.aborted_reason = reason
        self._close_proof(proof, envelope, changes)

    def _close_proof(self, proof: Proof, envelope: Envelope, changes: list[Change]) -> None:
        now = envelope.time_unix_nano
        for interval in (*proof.open_layers.values(), *proof.open_children):
            superseded = interval.superseded_unix_nano
            self._close_interval(interval, envelope, changes, end_unix_nano=now if superseded is None else superseded)
        proof.end_unix_nano = max(proof.start_unix_nano, proof.latest_end_unix_nano, now)
        self.proof = None
        changes.append(Closed(proof, envelope))

    # Layers

    def _layer_start(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, LayerStart)
        proof = self._current_proof(envelope, changes)
        now = envelope.time_unix_nano
        again = proof.open_layers.get(event.layer_idx)
        if again is not None:
            end = again.superseded_unix_nano
            self._close_interval(again, envelope, changes, end_unix_nano=now if end is None else end)
        before = proof.walking.get(event.gpu_device)
        if before is not None and before.is_open:
            before.superseded_unix_nano = max(before.start_unix_nano, now)
            proof.layers_superseded += 1
        layer = self._open_interval(IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=now, seen=True)
        proof.walking[event.gpu_device] = layer

    def _layer_end(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, LayerEnd)
        proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        layer = proof.open_layers.get(event.layer_idx)
        if layer is None:
            start = _before(envelope, event.duration_ms)
            layer = self._open_interval(
                IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=start, seen=False
            )
        layer.closed = envelope
        self._close_interval(layer, envelope, changes, end_unix_nano=envelope.time_unix_nano)

    def _round(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, SumcheckRound)
        proof = self._current_proof(envelope, changes)
        proof.rounds += 1
        layer = proof.open_layers.get(event.layer_idx)
        if layer is None:
            proof.rounds_unplaced += 1
            changes.append(Noted(proof, envelope))
        else:
            layer.rounds += 1
            if layer.superseded_unix_nano is not None:
                layer.superseded_unix_nano = max(layer.superseded_unix_nano, envelope.time_unix_nano)
            changes.append(Noted(layer, envelope))

    # Weight openings, weight bindings and STARK proofs: ends pair with starts last-in-first-out, by key

    def _part_start(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, _ = _part_of(envelope.event)
        if self.proof is not None:
            self._release_pending(self.proof, changes)
        self._open_interval(kind, key, self.proof, envelope, changes, start=envelope.time_unix_nano, seen=True)

    def _part_end(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, reported_ms = _part_of(envelope.event)
        inside = self.proof.open_children.last(kind, key) if self.proof is not None else None
        part = inside or self._alone.last(kind, key)
        if part is None:
            start = _before(envelope, reported_ms)
            part = self._open_interval(kind, key, self.proof, envelope, changes, start=start, seen=False)
        part.closed = envelope
        self._close_interval(part, envelope, changes, end_unix_nano=envelope.time_unix_nano)

    # Events held for the next proof, unless a layer event shows that the current proof continues

    def _hold(self, envelope: Envelope, changes: list[Change]) -> None:
        if len(self._pending) < MAX_PENDING:
            self._pending.append(envelope)
        else:
            changes.append(Noted(None, envelope))

    def _release_pending(self, proof: Proof | None, changes: list[Change]) -> None:
        for envelope in self._pending:
            if isinstance(envelope.event, CircuitCompiled):
                self._circuit = envelope.event
                if proof is not None:
                    proof.circuit = envelope.event
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
        changes.append(Noted(active[0] if len(active) == 1 else self.proof, envelope))

    def _events_lost(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, EventsLost)
        own = [] if self.proof is None else [self.proof]
        self._session.lose(sum(event.counts.values()), self._session.open_proofs if self._job_id is None else own)
        changes.append(Noted(self.proof or self._only_proof(), envelope))

    # Opening and closing

    def _open_interval(
        self,
        kind: IntervalKind,
        key: int | None,
        proof: Proof | None,
        envelope: Envelope,
        changes: list[Change],
        *,
        start: int,
        seen: bool,
    ) -> Interval:
        interval = Interval(
            kind=kind,
            session_id=self._session.session_id,
            job_id=self._job_id,
            ordinal=self._session.next_ordinal(),
            key=key,
            proof=proof,
            opened=envelope if seen else None,
            start_unix_nano=max(0 if proof is None else proof.start_unix_nano, start),
        )
        if proof is None:
            self._alone.add(interval)
        elif kind is IntervalKind.LAYER and key is not None:
            proof.open_layers[key] = interval
            proof.layers_opened += 1
            if seen or proof.last_layer is None or not proof.last_layer.is_open:
                proof.last_layer = interval
        else:
            proof.open_children.add(interval)
        changes.append(Opened(interval, envelope))
        return interval

    def _close_interval(
        self, interval: Interval, envelope: Envelope, changes: list[Change], *, end_unix_nano: int
    ) -> None:
        interval.end_unix_nano = max(interval.start_unix_nano, end_unix_nano)
        proof = interval.proof
        if proof is None:
            self._alone.remove_last(interval.kind, interval.key)
        else:
            proof.latest_end_unix_nano = max(proof.latest_end_unix_nano, interval.end_unix_nano)
            if interval.kind is IntervalKind.LAYER and interval.key is not None:
                del proof.open_layers[interval.key]
                proof.layers_closed += interval.aborted_reason is None
                proof.layers_superseded -= interval.superseded_unix_nano is not None
            else:
                proof.open_children.remove_last(interval.kind, interval.key)
        changes.append(Closed(interval, envelope))

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
        LayerActivation: _hold,
        AttentionHeatmap: _hold,
        CircuitCompiled: _hold,
        Log: _log,
        EventsLost: _events_lost,
    }


def _before(envelope: Envelope, reported_ms: int) -> int:
    """Return when an interval began that ends with this envelope and took `reported_ms`, if that is believable."""
    believed = reported_ms if reported_ms <= LONGEST_BELIEVABLE_MS else 0
    return max(0, envelope.time_unix_nano - believed * 1_000_000)


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
