"""The timeline: a pure state machine that turns envelopes into intervals.

The rules follow the producers that exist, not an ideal one: layers without an end, ends without a start, a proof that
dies and another that follows in the same stream, activations that arrive before their proof. Whatever arrives, every
interval closes exactly once, ends no earlier than it began, and lies inside its proof. Nothing here raises.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar

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
    is_bulk,
)
from proofstream.intervals import Change, Closed, Interval, IntervalKind, Noted, Opened, OpenParts, Proof
from proofstream.silence import OpenJobs

MAX_PENDING = 8192
"""The most activations of a job that wait for their proof; later ones are noted outside any proof."""

MAX_PENDING_BYTES = 256 * 2**20
"""The most memory that waiting events of all sessions take. Of a session, the job that waits for longest makes room."""

MAX_WAITING_JOBS = 256
"""The most jobs of a session of which nothing but waiting activations has been seen."""

MAX_OPEN_INTERVALS = 65_536
"""The most intervals that are open in a session, besides proofs. The older half of a job's makes room."""

MAX_LOST_EVENTS = 2**63 - 1
"""Losses are counted up to here, which is what exporters can carry: a producer may claim any number."""

LONGEST_BELIEVABLE_MS = 400 * 24 * 3600 * 1000
"""A reported duration above 400 days is not used to work out when something began."""


class Pending:
    """The memory that the waiting events of all sessions take, in bytes."""

    def __init__(self) -> None:
        self.memory_bytes: int = 0


class ObservedSession:
    """A session as its events show it.

    Attributes:
        session_id: The session's id.
        opened: The envelope of SessionOpened, or None if it was not seen.
        lost_events: Events known to be missing, from the producer's own "lagged" lines and from EventsLost.
        proofs: The number of proofs that began.
        aborted: The number of proofs that ended without success.
        silent_jobs: How many times a job was given up because it had fallen silent: its end was not seen. What it says
            later belongs to a new proof.
        times_ended: How many times the session has ended; it may begin again.
        timelines: The timelines of its jobs; of named jobs, only those with something open.
    """

    __slots__ = (
        "_intervals",
        "_open_jobs",
        "_waiting",
        "aborted",
        "lost_events",
        "open_intervals",
        "opened",
        "pending",
        "proofs",
        "session_id",
        "silent_jobs",
        "timelines",
        "times_ended",
    )

    def __init__(self, session_id: str, pending: Pending | None = None) -> None:
        self.session_id: str = session_id
        self.opened: Envelope | None = None
        self.lost_events: int = 0
        self.proofs: int = 0
        self.aborted: int = 0
        self.silent_jobs: int = 0
        self.times_ended: int = 0
        self.timelines: dict[str | None, Timeline] = {}
        self.open_intervals: int = 0
        self.pending: Pending = pending or Pending()
        self._intervals = 0
        self._open_jobs = OpenJobs()
        self._waiting: OrderedDict[str, Timeline] = OrderedDict()

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
        job_id = envelope.job_id
        timeline = self.timeline(job_id)
        changes = timeline.feed(envelope)
        if job_id is not None:
            is_fact = type(envelope.event) in Timeline.facts
            if is_fact or job_id not in self._open_jobs.heard:  # only facts end something, and most events are bulk
                self._follow_job(job_id, timeline, envelope, changes, is_fact=is_fact)
        return changes

    def _follow_job(
        self, job_id: str, timeline: Timeline, envelope: Envelope, changes: list[Change], *, is_fact: bool
    ) -> None:
        """Keep track of which jobs are open, and end those that have fallen silent."""
        if is_fact:
            self._open_jobs.pass_time(envelope.time_unix_nano)
        if not timeline.has_open:
            self._keep_waiting(job_id, timeline, changes)
        else:
            self._waiting.pop(job_id, None)
            self._open_jobs.hear_job(job_id)
            for silent, reason in self._open_jobs.take_silent():
                self.silent_jobs += 1
                changes += self.timelines.pop(silent).give_up(envelope, reason)

    def _keep_waiting(self, job_id: str, timeline: Timeline, changes: list[Change]) -> None:
        """Keep a job with nothing open only while events of it wait for a proof."""
        self._open_jobs.drop_job(job_id)
        if timeline.is_empty:
            self._waiting.pop(job_id, None)
            self.timelines.pop(job_id, None)
            return
        self._waiting[job_id] = timeline
        self._waiting.move_to_end(job_id)
        if len(self._waiting) > MAX_WAITING_JOBS:
            self._release_oldest(changes)

    def _release_oldest(self, changes: list[Change]) -> None:
        job_id, timeline = self._waiting.popitem(last=False)
        del self.timelines[job_id]
        timeline.release_pending(None, changes)

    def abort_proof(self, proof: Proof, envelope: Envelope, reason: str, changes: list[Change]) -> None:
        """End one of its proofs without success, of whichever job."""
        timeline = self.timeline(proof.job_id)
        timeline.abort(envelope, reason, changes)
        if proof.job_id is not None and not timeline.has_open:
            self._keep_waiting(proof.job_id, timeline, changes)

    def make_room(self, size: int, changes: list[Change], *, of_job: str | None) -> bool:
        """Return whether events of `size` more bytes may wait, after the jobs that wait for longest have made room."""
        while self.pending.memory_bytes + size > MAX_PENDING_BYTES:
            if not self._waiting or next(iter(self._waiting)) == of_job:
                return False
            self._release_oldest(changes)
        return True

    def lose(self, count: int, proofs: list[Proof]) -> None:
        """Count lost events, for the session and for each proof that may have lost them."""
        self.lost_events = min(MAX_LOST_EVENTS, self.lost_events + count)
        for proof in proofs:
            proof.lost_events = min(MAX_LOST_EVENTS, proof.lost_events + count)

    def close(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval."""
        changes = [change for t in self.timelines.values() for change in t.close(envelope, reason)]
        self.timelines.clear()
        self._open_jobs.drop_all()
        self._waiting.clear()
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
    def has_open(self) -> bool:
        """Whether an interval is open."""
        return self.proof is not None or bool(self._alone)

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
        proof = self.proof
        inside = [] if proof is None else [proof, *proof.open_layers.values(), *proof.open_children]
        heard = max(interval.latest_unix_nano for interval in (*inside, *self._alone))
        return self.close(envelope, reason, end_unix_nano=heard)

    # Proofs

    def _proof_start(self, envelope: Envelope, changes: list[Change]) -> None:
        self.abort(envelope, "another proof started", changes)
        proof = self._open_proof(envelope, changes, envelope.time_unix_nano, seen=True)
        self.release_pending(proof, changes)

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
            self.release_pending(proof, changes)
        return proof

    def _proof_complete(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofComplete)
        proof = self._current_proof(envelope, changes, reported_ms=event.duration_ms)
        proof.closed = envelope
        proof.reach(envelope.time_unix_nano)
        self._close_proof(proof, envelope, changes, envelope.time_unix_nano)

    def _proof_aborted(self, envelope: Envelope, changes: list[Change]) -> None:
        event = envelope.event
        assert isinstance(event, ProofAborted)
        proof = self.proof or self._only_proof()
        if proof is None:
            changes.append(Noted(None, envelope))
        else:
            proof.reach(envelope.time_unix_nano)
            self._session.abort_proof(proof, envelope, event.reason, changes)

    def _only_proof(self) -> Proof | None:
        """Return the session's only open proof, for an event that names no job."""
        proofs = self._session.open_proofs if self._job_id is None else []
        return proofs[0] if len(proofs) == 1 else None

    def abort(
        self, envelope: Envelope, reason: str, changes: list[Change], *, end_unix_nano: int | None = None
    ) -> None:
        """End the open proof and everything open inside it, without success."""
        proof = self.proof
        if proof is None:
            return
        proof.aborted_reason = reason
        self._session.aborted += 1
        for interval in (*proof.open_layers.values(), *proof.open_children):
            if interval.superseded_unix_nano is None:
                interval.aborted_reason = reason
        end = envelope.time_unix_nano if end_unix_nano is None else end_unix_nano
        self._close_proof(proof, envelope, changes, end)

    def _close_proof(self, proof: Proof, envelope: Envelope, changes: list[Change], end_unix_nano: int) -> None:
        for interval in (*proof.open_layers.values(), *proof.open_children):
            superseded = interval.superseded_unix_nano
            end = end_unix_nano if superseded is None else superseded
            self._close_interval(interval, envelope, changes, end_unix_nano=end)
        proof.end_unix_nano = max(proof.latest_unix_nano, end_unix_nano)
        self.proof = None
        changes.append(Closed(proof, envelope))

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
        if self.proof is not None:
            self.release_pending(self.proof, changes)
            self.proof.reach(envelope.time_unix_nano)
        self._open_interval(kind, key, self.proof, envelope, changes, start=envelope.time_unix_nano, seen=True)

    def _part_end(self, envelope: Envelope, changes: list[Change]) -> None:
        kind, key, reported_ms = _part_of(envelope.event)
        inside = self.proof.open_children.last(kind, key) if self.proof is not None else None
        part = inside or self._alone.last(kind, key)
        if part is None:
            start = _before(envelope, reported_ms)
            part = self._open_interval(kind, key, self.proof, envelope, changes, start=start, seen=False)
        part.closed = envelope
        part.reach(envelope.time_unix_nano)
        self._close_interval(part, envelope, changes, end_unix_nano=envelope.time_unix_nano)

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
        if seen:
            interval.reach(start)  # a start before the proof's shows that time went back
        if self._session.open_intervals >= MAX_OPEN_INTERVALS:
            self._end_older_half(envelope, changes)
        self._session.open_intervals += 1
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
        self._session.open_intervals -= 1
        proof = interval.proof
        if proof is None:
            self._alone.remove(interval)
        else:
            proof.latest_unix_nano = max(proof.latest_unix_nano, interval.end_unix_nano)
            proof.time_went_back |= interval.time_went_back
            if interval.kind is IntervalKind.LAYER and interval.key is not None:
                del proof.open_layers[interval.key]
                device = interval.start_event.gpu_device if isinstance(interval.start_event, LayerStart) else None
                if proof.walking.get(device) is interval:
                    del proof.walking[device]
                proof.layers_closed += interval.aborted_reason is None
                proof.layers_superseded -= interval.superseded_unix_nano is not None
            else:
                proof.open_children.remove(interval)
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

    facts: ClassVar[frozenset[type[ProofEvent]]] = frozenset(
        kind for kind in _rules if not is_bulk(kind) and kind is not EventsLost
    )
    """The kinds that show that a job goes on. Every plugin sees them: lanes drop bulk and add their own EventsLost."""


def _note(interval: Interval | None, envelope: Envelope, changes: list[Change]) -> None:
    """Note an event in an interval. It stretches the interval if it is the producer's: others are of other clocks."""
    if interval is not None and envelope.origin == PRODUCER:
        interval.reach(envelope.time_unix_nano)
    changes.append(Noted(interval, envelope))


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
