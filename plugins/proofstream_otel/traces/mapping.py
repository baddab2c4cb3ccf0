"""Maps intervals to spans. This is the only mapping: no SDK is in it, and any writer takes its spans."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

from proofstream import (
    PRODUCER,
    Batch,
    Change,
    CircuitCompiled,
    Closed,
    EnergyLedger,
    Envelope,
    GpuStatus,
    GpuTelemetry,
    Interval,
    IntervalKind,
    Noted,
    ObservedSession,
    Phase,
    PhaseProgress,
    PluginHealth,
    Proof,
    SessionClosed,
    SessionOpened,
    StateBytesMoved,
    StateProgramCost,
    StateProgramRun,
    Timelines,
    TraceStarted,
)
from proofstream_otel.traces import deaths, describe, new_spans, phases, stages
from proofstream_otel.traces.gpu_samples import GpuSamples
from proofstream_otel.traces.held_spans import TELLING, ExpectedCosts, HeldSpans, SpanEnd
from proofstream_otel.traces.open_spans import OpenSpan
from proofstream_otel.traces.parents import Parents
from proofstream_otel.traces.places import Place
from proofstream_otel.traces.span_events import EventBudget
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr
from proofstream_otel.values.span_limits import SpanLimits
from proofstream_otel.values.spans import Parent, SpanRef, SpanValues, SpanWriter

_ABOUT_US = frozenset({PluginHealth, TraceStarted})
_ABOUT_STATES = frozenset({StateProgramCost, StateProgramRun, StateBytesMoved})
_ABOUT_SESSIONS = frozenset({SessionOpened, SessionClosed})
_SPECIAL = TELLING | _ABOUT_US | _ABOUT_STATES | {GpuTelemetry, SessionClosed}
"""The kinds that do more than to change intervals, or less."""

MAX_COMPLETED = 1024
"""The most completed proofs whose place is known to phases that begin after them."""


class Listener(Protocol):
    """Follows intervals together with their spans."""

    def opened(self, interval: Interval) -> None:
        """Follow an interval that began."""
        ...

    def noted(self, interval: Interval | None, envelope: Envelope, span: SpanValues, ref: SpanRef) -> None:
        """Follow an event in an interval, or in the session outside of any; `span` holds it, `ref` points there."""
        ...

    def noted_rounds(self, interval: Interval, envelopes: Sequence[Envelope], span: SpanValues, ref: SpanRef) -> None:
        """Follow sumcheck rounds in an interval, as `noted` does for other events."""
        ...

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Follow an interval that ended."""
        ...


class _SpannedSession:
    """A session whose span is open."""

    def __init__(self, observed: ObservedSession, span: OpenSpan, parent: Parent | None, now_unix_nano: int) -> None:
        self.observed = observed
        self.span = span
        self.parent = parent
        self.latest_unix_nano = now_unix_nano


class SpanMapper:
    """Turns envelopes into spans, which it begins and ends at a writer. It needs every envelope, in order.

    Spans of proofs and sessions wait a moment for events derived from them, if a plugin derives any: see `settle`.

    Args:
        writer: Takes the spans.
        parents: Finds their parents.
        limits: The limits on a span's events.
        listeners: Follow the intervals.
        expected: Decides whether to wait for costs.
        budget: The memory for events of open spans.
        trace_url: Where a trace can be seen, with `{trace_id}` for its id; None if that is not known.
    """

    def __init__(
        self,
        writer: SpanWriter,
        parents: Parents,
        limits: SpanLimits,
        listeners: Sequence[Listener] = (),
        *,
        expected: ExpectedCosts | None = None,
        budget: EventBudget | None = None,
        trace_url: str | None = None,
    ) -> None:
        self._writer = writer
        self._listeners = listeners
        self._gpus = GpuSamples()
        self._energy = EnergyLedger()
        self._parents = parents
        self._limits = limits
        self._budget = budget or EventBudget()
        self._timelines = Timelines()
        self._sessions: dict[str, _SpannedSession] = {}
        self._spans: dict[Interval, OpenSpan] = {}
        self._expected = expected or ExpectedCosts(live=True)
        self._held = HeldSpans(writer.end_span)
        self._completed: OrderedDict[tuple[str, int], Place] = OrderedDict()
        self._costs_too_late = 0
        self._trace_url = trace_url

    def map_rounds(self, batch: Batch, at: int) -> int:
        """Map the sumcheck rounds at a place of a batch that go into one span; return how many, or 0 for `map_event`.

        All that they change is their layer's span, so this passes by what may happen at other events.
        """
        noted = self._timelines.feed_rounds(batch, at)
        if noted is None:
            return 0
        rounds = noted.envelopes
        session = self._sessions[batch[at].session_id]
        session.latest_unix_nano = max(session.latest_unix_nano, *[each.time_unix_nano for each in rounds])
        span = self._spans.get(noted.interval, session.span)
        span.add_rounds(rounds)
        ref = span.place.known_ref
        for listener in self._listeners:
            listener.noted_rounds(noted.interval, rounds, span.span, ref)
        return len(rounds)

    def map_event(self, envelope: Envelope) -> list[TraceStarted]:
        """Map the next envelope; return the trace of each proof that it begins."""
        if type(envelope.event) in _SPECIAL:
            return self._map_special(envelope)
        changes = self._timelines.feed(envelope)
        session = self._session_of(envelope)
        return [] if session is None else self._follow_all(changes, session)

    def _map_special(self, envelope: Envelope) -> list[TraceStarted]:
        event = envelope.event
        kind = type(event)
        if kind in TELLING:
            self._expected.learn_from(event)
        if kind in _ABOUT_US:
            return []
        if isinstance(event, GpuTelemetry):
            self._gpus.add_sample(envelope.time_unix_nano, event)
            self._energy.add_sample(envelope.time_unix_nano, event)
            return []
        changes = self._timelines.feed(envelope)
        session = self._session_of(envelope)
        if isinstance(event, StateProgramCost):
            self._add_cost(envelope, event)
        if session is None or kind in _ABOUT_STATES:
            return []
        started = self._follow_all(changes, session)
        if isinstance(event, SessionClosed):
            self._end_session(envelope.session_id, event, session)
        return started

    def close(self, reason: str) -> None:
        """End all open spans, because no more envelopes will come."""
        event = SessionClosed(outcome="interrupted", reason=reason, refused=0)
        for session_id, session in list(self._sessions.items()):
            last = Envelope(
                seq=0,
                time_unix_nano=session.latest_unix_nano,
                session_id=session_id,
                origin=PRODUCER,
                event=event,
                raw=b"",
            )
            self.map_event(last)
        self._held.release_until(math.inf)

    def settle(self, now: float) -> None:
        """Write the spans of proofs and sessions that are held until `now` at most, a time of the clock.

        Pass infinity after a silence: no events are on their way then.
        """
        self._held.release_until(now)

    def counters(self) -> dict[str, int]:
        """Count the state-program costs that came after the spans of both the proof and the session were written."""
        return {"state_costs_too_late": self._costs_too_late} if self._costs_too_late else {}

    # Sessions

    def _session_of(self, envelope: Envelope) -> _SpannedSession | None:
        """Return an event's session, with its span; None if it has none, because it has not begun or is over."""
        session = self._sessions.get(envelope.session_id)
        if session is None:
            return self._begin_session(envelope) if self._timelines.is_open(envelope.session_id) else None
        session.latest_unix_nano = max(session.latest_unix_nano, envelope.time_unix_nano)
        return session

    def _begin_session(self, envelope: Envelope) -> _SpannedSession:
        """Begin the span of a session that the envelope opened."""
        session_id = envelope.session_id
        parent = self._parents.of_session(envelope) if isinstance(envelope.event, SessionOpened) else None
        # A session that resumes after its end gets one more span, which must not share the first one's id.
        observed = self._timelines.session(session_id)
        span = new_spans.session_span(envelope, observed.times_ended, parent)
        place = self._start_root(span, parent)
        self._tell_trace(envelope, place.known_ref)
        opened = OpenSpan(span, place, self._limits, self._budget)
        session = _SpannedSession(observed, opened, parent, envelope.time_unix_nano)
        self._sessions[session_id] = session
        return session

    def _end_session(self, session_id: str, event: SessionClosed, session: _SpannedSession) -> None:
        del self._sessions[session_id]
        known = self._timelines.session(session_id)
        said = {
            **describe.session_closed(event),
            Attr.LOST_EVENTS: known.lost_events,
            Attr.SESSION_PROOFS: known.proofs,
            Attr.SESSION_ABORTED: known.aborted,
            Attr.SESSION_OVERLAPS: known.overlaps or None,
            **phases.summed_in(known.summed),
        }
        self._held.hold_span(
            session.span,
            SpanEnd(
                session_id=session_id,
                proof=None,
                end_unix_nano=session.latest_unix_nano,
                said=safe.attributes(said),
                due_s=self._expected.due_s(),
            ),
        )

    # State programs

    def _add_cost(self, envelope: Envelope, event: StateProgramCost) -> None:
        """Add a cost to its proof's span, or to the session's if the proof's is unknown or already written."""
        session_id = envelope.session_id
        proof = self._proof_span(session_id, event.proof)
        if proof is not None and proof.add_cost(event):
            proof.due_s = self._expected.due_s()  # the costs of other programs come right behind
            return
        session = self._sessions.get(session_id)
        span = proof or (self._held.find_span(session_id, None) if session is None else session.span)
        if span is None:
            self._costs_too_late += 1
        else:
            span.add_event(envelope)

    def _proof_span(self, session_id: str, ordinal: int) -> OpenSpan | None:
        for proof in self._timelines.session(session_id).open_proofs:
            if proof.proof_ordinal == ordinal:
                return self._spans.get(proof)
        return self._held.find_span(session_id, ordinal)

    # Intervals

    def _follow_all(self, changes: Sequence[Change], session: _SpannedSession) -> list[TraceStarted]:
        started: list[TraceStarted] = []
        for change in changes:
            if isinstance(change, Noted):
                if type(change.envelope.event) is GpuStatus:
                    self._energy.follow(change, session.observed)
                self._note(change.interval, change.envelope, session)
            elif isinstance(change, Closed):
                self._end_interval(change.interval, session)
            else:
                self._energy.follow(change, session.observed)
                trace = self._begin_interval(change.interval, change.envelope, session)
                if trace is not None:
                    started.append(trace)
        return started

    def _note(self, interval: Interval | None, envelope: Envelope, session: _SpannedSession) -> None:
        event = envelope.event
        if type(event) in _ABOUT_SESSIONS:
            return
        span = session.span if interval is None else self._spans.get(interval, session.span)
        if not isinstance(event, PhaseProgress):
            span.add_event(envelope)
        elif isinstance(interval, Phase):
            span.add_progress(envelope, event)
        else:
            span.count_unplaced_progress()
        if isinstance(event, CircuitCompiled):
            span.due_s = self._expected.due_s()
        ref = span.place.known_ref
        for listener in self._listeners:
            listener.noted(interval, envelope, span.span, ref)

    def _begin_interval(self, interval: Interval, envelope: Envelope, session: _SpannedSession) -> TraceStarted | None:
        for listener in self._listeners:
            listener.opened(interval)
        time_source = session.observed.time_source
        above = self._place_above(interval, envelope, session)
        if above is None:
            parent = self._parents.of_proof(envelope, session.parent)
            span = new_spans.root_span(interval, parent, session=session.span.place, time_source=time_source)
            place = self._start_root(span, parent)
        else:
            is_later = self._is_described_later(interval)
            span = new_spans.child_span(interval, above, time_source=time_source, is_described_later=is_later)
            place = Place(span, above, _own_ref(span) if self._writer.keeps_ids else None)
        begun = self._spans[interval] = OpenSpan(span, place, self._limits, self._budget, interval)
        if not isinstance(interval, Proof):
            return None
        begun.due_s = self._expected.due_s()
        ref = place.start(self._writer)
        self._tell_trace(envelope, ref)
        return TraceStarted(
            proof=interval.proof_ordinal, trace_id=ref.trace_id, span_id=ref.span_id, sampled=ref.sampled
        )

    def _is_described_later(self, interval: Interval) -> bool:
        """Return whether an interval is described once, when it ends, because no span of it is started before.

        Layers are, which are many. Their texts are words of ours, so nothing long is kept for them until then.
        """
        return interval.kind is IntervalKind.LAYER and self._writer.keeps_ids

    def _tell_trace(self, begun_by: Envelope, ref: SpanRef) -> None:
        """Tell the producer of a session or proof in which trace it is."""
        if begun_by.trace_note is not None:
            url = self._trace_url if ref.sampled else None
            begun_by.trace_note.tell(ref.trace_id, url and url.replace("{trace_id}", ref.trace_id))

    def _place_above(self, interval: Interval, envelope: Envelope, session: _SpannedSession) -> Place | None:
        """Return the place of the span above an interval's; None if that is a root or below a third-party span."""
        around = interval.parent
        if isinstance(interval, Proof) and envelope.traceparent:
            return None
        if around is not None and around in self._spans:
            return self._spans[around].place
        if not isinstance(interval, Phase):
            return None
        completed = around if isinstance(around, Proof) else interval.proof
        place = completed and self._completed.get((completed.session_id, completed.proof_ordinal))
        return place or session.span.place

    def _end_interval(self, interval: Interval, session: _SpannedSession) -> None:
        span = self._spans.pop(interval)
        if isinstance(interval, Phase) and interval.is_summed:
            span.leave_out()
        for listener in self._listeners:
            listener.closed(interval, span.place.known_ref)
        if span.place.is_left_out:
            return
        time_source = session.observed.time_source
        said = new_spans.beginning_of(interval) if self._is_described_later(interval) else {}
        said |= describe.edges_of(interval, time_source)
        said |= describe.end_of(interval)
        if interval.aborted_reason is not None:
            said |= deaths.abort_of(interval)
        said |= _counted(interval)
        if interval.summed:
            said |= phases.summed_in(interval.summed)
        end = interval.start_unix_nano if interval.end_unix_nano is None else interval.end_unix_nano
        if isinstance(interval, Proof) or (interval.kind is IntervalKind.LAYER and self._gpus.has_samples):
            said |= self._gpus.attributes_of(interval.start_unix_nano, end)
            said |= describe.energy_of(self._energy.close(interval))
        error = deaths.error_of(interval)
        if isinstance(interval, Proof):
            self._end_proof(interval, span, said, error)
        else:
            span.place.end(span.finish(end_unix_nano=end, said=said, error=error), self._writer)

    def _end_proof(self, proof: Proof, span: OpenSpan, said: dict[str, Any], error: str | None) -> None:
        for derived in stages.stage_spans(proof, span.place):
            Place(derived, span.place, None).end(derived, self._writer)
        self._held.hold_span(
            span,
            SpanEnd(
                session_id=proof.session_id,
                proof=proof.proof_ordinal,
                end_unix_nano=proof.start_unix_nano if proof.end_unix_nano is None else proof.end_unix_nano,
                said=safe.attributes(said),
                error=None if error is None else safe.text(error),
                due_s=span.due_s,
            ),
        )
        if proof.end_seen:
            span.place.span = None
            self._completed[proof.session_id, proof.proof_ordinal] = span.place
            if len(self._completed) > MAX_COMPLETED:
                self._completed.popitem(last=False)

    def _start_root(self, span: SpanValues, parent: Parent | None) -> Place:
        started = self._writer.start_span(span, parent)
        if not started.sampled and parent is not None and not parent.sampled:
            self._parents.warn_unsampled(parent)
        return Place(span, None, started)


def _own_ref(span: SpanValues) -> SpanRef:
    return SpanRef(span.trace_id, span.span_id, span.sampled)


def _counted(interval: Interval) -> dict[str, Any]:
    if interval.kind is IntervalKind.LAYER:
        return {Attr.ROUNDS_TOTAL: interval.rounds}
    match interval:
        case Proof():
            return {**describe.counts_of(interval), **describe.self_time_of(interval)}
        case Phase():
            return {**phases.end_of(interval), **describe.self_time_of(interval)}
        case _:
            return {}
