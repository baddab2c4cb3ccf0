"""The timeline: a pure state machine that turns envelopes into intervals.

The rules are those of the producers that exist, not of an ideal one: layers without an end, ends without a start, a proof
that dies and another that follows in the same flow, activations that come before the proof they belong to. Whatever comes,
every interval closes exactly once, ends no earlier than it began, and lies inside its proof. Nothing here raises.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

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
    SessionClosed,
    SessionOpened,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.intervals import Change, Closed, Interval, IntervalKind, Noted, Opened, Proof

MAX_PENDING = 8192
"""How many activations wait for their proof at most; later ones are noted outside of any proof."""

LONGEST_BELIEVABLE_MS = 400 * 24 * 3600 * 1000
"""A reported duration above 400 days says nothing about when something began."""

_LAGGED = re.compile(r"lagged (\d{1,18}) events")


class Session:
    """What is known of one session.

    Attributes:
        session_id: Its id.
        opened: The envelope of SessionOpened, or None if it was not seen.
        lost_events: Events known to be missing, from the producer's own "lagged" lines and from EventsLost.
        proofs: How many proofs began.
        aborted: How many of them ended without success.
    """

    __slots__ = ("_intervals", "_proofs", "aborted", "lost_events", "opened", "proofs", "session_id", "timelines")

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.opened: Envelope | None = None
        self.lost_events = 0
        self.proofs = 0
        self.aborted = 0
        self.timelines: dict[str | None, Timeline] = {}
        self._intervals: Iterator[int] = itertools.count()

    @property
    def time_source(self) -> str:
        """How its event times came to be; `envelope` if nothing was said."""
        event = self.opened.event if self.opened is not None else None
        return event.time_source if isinstance(event, SessionOpened) else "envelope"

    def timeline(self, job_id: str | None) -> Timeline:
        """The timeline of one of its jobs."""
        found = self.timelines.get(job_id)
        if found is None:
            found = self.timelines[job_id] = Timeline(self, job_id)
        return found

    def next_ordinal(self) -> int:
        """The next interval's ordinal."""
        return next(self._intervals)


class Timelines:
    """The timelines of all sessions; feed it every envelope, in order."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def session(self, session_id: str) -> Session:
        """The session of that id, made if it is new."""
        found = self._sessions.get(session_id)
        if found is None:
            found = self._sessions[session_id] = Session(session_id)
        return found

    @property
    def sessions(self) -> list[Session]:
        """The sessions that are open."""
        return list(self._sessions.values())

    @property
    def open_proofs(self) -> list[Proof]:
        """The proofs that are open, of all sessions."""
        timelines = (t for s in self._sessions.values() for t in s.timelines.values())
        return [t.proof for t in timelines if t.proof is not None]

    def feed(self, envelope: Envelope) -> list[Change]:
        """Take the next envelope and say what it meant."""
        session = self.session(envelope.session_id)
        event = envelope.event
        if isinstance(event, SessionOpened):
            session.opened = envelope
            return [Noted(None, envelope)]
        if isinstance(event, SessionClosed):
            changes = self._close(session, envelope, _closing_reason(event))
            del self._sessions[envelope.session_id]
            return changes
        return session.timeline(envelope.job_id).feed(envelope)

    def _close(self, session: Session, envelope: Envelope, reason: str) -> list[Change]:
        changes = [change for t in session.timelines.values() for change in t.close(envelope, reason)]
        changes.append(Noted(None, envelope))
        return changes


def _closing_reason(event: SessionClosed) -> str:
    return f"the session {event.outcome}" + (f": {event.reason}" if event.reason else "")


class Timeline:
    """The intervals of one job of one session. Use it through `Timelines`."""

    def __init__(self, session: Session, job_id: str | None) -> None:
        self.proof: Proof | None = None
        self._session = session
        self._job_id = job_id
        self._pending: list[Envelope] = []
        self._alone: list[Interval] = []

    def feed(self, envelope: Envelope) -> list[Change]:
        """Take the next envelope of this job."""
        changes: list[Change] = []
        rule = _RULES.get(type(envelope.event))
        if rule is None:
            changes.append(Noted(self.proof, envelope))
        else:
            rule(self, envelope, changes)
        return changes

    def close(self, envelope: Envelope, reason: str) -> list[Change]:
        """End everything that is open, as the session has ended."""
        changes: list[Change] = []
        self._abort(envelope, reason, changes)
        self._release_pending(None, changes)
        for interval in list(self._alone):
            interval.aborted_reason = reason
            self._close_interval(interval, envelope, changes, end_unix_nano=envelope.time_unix_nano)
        return changes

    # Proofs

    def _proof_start(self, envelope: Envelope, changes: list[Change]) -> None:
        self._abort(envelope, "another proof started", changes)
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
        self.proof = proof
        changes.append(Opened(proof, envelope))
        return proof

    def _current_proof(self, envelope: Envelope, changes: list[Change], *, reported_ms: int = 0) -> Proof:
        """The open proof; one whose start was not seen, if there is none."""
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
        if self.proof is None:
            changes.append(Noted(None, envelope))
        else:
            self._abort(envelope, event.reason, changes)

    def _abort(self, envelope: Envelope, reason: str, changes: list[Change]) -> None:
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
        layer = self._open_interval(
            IntervalKind.LAYER, event.layer_idx, proof, envelope, changes, start=now, seen=True
        )
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
            changes.append(Noted(layer, envelope))

    # Weight openings, weight bindings and STARK proofs pair last-in-first-out by key

    def _part_start(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, _ = _part_of(envelope.event)
        if self.proof is not None:
            self._release_pending(self.proof, changes)
        self._open_interval(kind, key, self.proof, envelope, changes, start=envelope.time_unix_nano, seen=True)

    def _part_end(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, reported_ms = _part_of(envelope.event)
        inside = self.proof.open_children if self.proof is not None else []
        part = _last(inside, kind, key) or _last(self._alone, kind, key)
        if part is None:
            start = _before(envelope, reported_ms)
            part = self._open_interval(kind, key, self.proof, envelope, changes, start=start, seen=False)
        part.closed = envelope
        self._close_interval(part, envelope, changes, end_unix_nano=envelope.time_unix_nano)

    # What belongs to the proof that follows, unless a layer says that the open one goes on

    def _hold(self, envelope: Envelope, changes: list[Change]) -> None:
        if len(self._pending) < MAX_PENDING:
            self._pending.append(envelope)
        else:
            changes.append(Noted(self.proof, envelope))

    def _release_pending(self, proof: Proof | None, changes: list[Change]) -> None:
        for envelope in self._pending:
            if proof is not None and isinstance(envelope.event, CircuitCompiled):
                proof.circuit = envelope.event
            changes.append(Noted(proof, envelope))
        self._pending.clear()

    # Text and losses

    def _log(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, Log)
        lagged = _LAGGED.fullmatch(event.message)
        if lagged is not None:
            self._lose(int(lagged[1]))
        active = self.proof.active_layers if self.proof is not None else []
        changes.append(Noted(active[-1] if active else self.proof, envelope))

    def _events_lost(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, EventsLost)
        self._lose(sum(event.counts.values()))
        changes.append(Noted(self.proof, envelope))

    def _lose(self, count: int) -> None:
        self._session.lost_events += count
        if self.proof is not None:
            self.proof.lost_events += count

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
            self._alone.append(interval)
        elif kind is IntervalKind.LAYER and key is not None:
            proof.open_layers[key] = interval
            proof.layers_opened += 1
            proof.last_layer = interval
        else:
            proof.open_children.append(interval)
        changes.append(Opened(interval, envelope))
        return interval

    def _close_interval(
        self, interval: Interval, envelope: Envelope, changes: list[Change], *, end_unix_nano: int
    ) -> None:
        interval.end_unix_nano = max(interval.start_unix_nano, end_unix_nano)
        proof = interval.proof
        if proof is None:
            self._alone.remove(interval)
        else:
            proof.latest_end_unix_nano = max(proof.latest_end_unix_nano, interval.end_unix_nano)
            if interval.kind is IntervalKind.LAYER and interval.key is not None:
                del proof.open_layers[interval.key]
                proof.layers_closed += 1
            else:
                proof.open_children.remove(interval)
        changes.append(Closed(interval, envelope))


def _before(envelope: Envelope, reported_ms: int) -> int:
    """When something began that ended now and took `reported_ms`, as far as that can be believed."""
    believed = reported_ms if reported_ms <= LONGEST_BELIEVABLE_MS else 0
    return max(0, envelope.time_unix_nano - believed * 1_000_000)


def _part_of(event: ProofEvent) -> tuple[IntervalKind, int | None, int]:
    """Which interval a start or end event is about: its kind, its key, and the reported duration of an end."""
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


def _last(intervals: list[Interval], kind: IntervalKind, key: int | None) -> Interval | None:
    for interval in reversed(intervals):
        if interval.kind is kind and interval.key == key:
            return interval
    return None


_RULES: dict[type[ProofEvent], Callable[[Timeline, Envelope, list[Change]], None]] = {
    ProofStart: Timeline._proof_start,
    ProofComplete: Timeline._proof_complete,
    ProofAborted: Timeline._proof_aborted,
    LayerStart: Timeline._layer_start,
    LayerEnd: Timeline._layer_end,
    SumcheckRound: Timeline._round,
    WeightOpeningStart: Timeline._part_start,
    WeightOpeningEnd: Timeline._part_end,
    AggregatedBindingStart: Timeline._part_start,
    AggregatedBindingEnd: Timeline._part_end,
    StarkProofStart: Timeline._part_start,
    StarkProofEnd: Timeline._part_end,
    LayerActivation: Timeline._hold,
    AttentionHeatmap: Timeline._hold,
    CircuitCompiled: Timeline._hold,
    Log: Timeline._log,
    EventsLost: Timeline._events_lost,
}
