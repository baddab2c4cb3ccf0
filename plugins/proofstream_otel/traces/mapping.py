"""From intervals to spans: the one mapping, with no SDK in it. What it makes goes to whichever writer there is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from proofstream import (
    PRODUCER,
    Change,
    CircuitCompiled,
    Closed,
    Envelope,
    GpuTelemetry,
    Interval,
    IntervalKind,
    Noted,
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
from proofstream_otel.settings import NoteLimits
from proofstream_otel.traces import describe, new_spans
from proofstream_otel.traces.gpu_samples import GpuSamples
from proofstream_otel.traces.held_spans import Answers, Ending, Endings
from proofstream_otel.traces.open_spans import Page
from proofstream_otel.traces.parents import Parents
from proofstream_otel.values.metric_points import SpanRef
from proofstream_otel.values.semconv import Attr
from proofstream_otel.values.spans import Parent, SpanValues, Started, Writer

MAX_ENDED = 1024
"""How many ended sessions are remembered, in case that they go on: their spans must not share an id."""

_ABOUT_US = (PluginHealth, TraceStarted)
_ABOUT_STATES = (StateProgramCost, StateProgramRun, StateBytesMoved)
_WITH_GPUS = (IntervalKind.PROOF, IntervalKind.LAYER)


class Listener(Protocol):
    """Hears of intervals along with their spans."""

    def opened(self, interval: Interval) -> None:
        """An interval began."""
        ...

    def noted(self, interval: Interval | None, envelope: Envelope, page: Page) -> None:
        """Something happened in an interval, or in the session outside of one; `page` is that of the span."""
        ...

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """An interval ended."""
        ...


class _OpenSession:
    """A session whose span has begun."""

    def __init__(self, page: Page, parent: Parent | None, now_unix_nano: int) -> None:
        self.page = page
        self.parent = parent
        self.latest_unix_nano = now_unix_nano


class SpanMapper:
    """Feed it every envelope in order; it begins and ends spans at its writer.

    Spans of proofs and sessions wait a moment for what is derived from them, where somebody does that: see `settle`.

    Args:
        writer: Where spans go.
        parents: Finds their parents.
        limits: How many events a span may have.
        listeners: Who hears of intervals, too.
        answers: Knows whether anything is derived from proofs.
    """

    def __init__(
        self,
        writer: Writer,
        parents: Parents,
        limits: NoteLimits,
        listeners: Sequence[Listener] = (),
        *,
        answers: Answers | None = None,
    ) -> None:
        self._writer = writer
        self._listeners = listeners
        self._gpus = GpuSamples()
        self._parents = parents
        self._limits = limits
        self._timelines = Timelines()
        self._sessions: dict[str, _OpenSession] = {}
        self._ended: dict[str, int] = {}
        self._pages: dict[Interval, Page] = {}
        self._answers = answers or Answers(live=True)
        self._endings = Endings(writer.end)
        self._costs_too_late = 0

    def feed(self, envelope: Envelope) -> list[TraceStarted]:
        """Take the next envelope; returns the trace of each proof that it begins."""
        event = envelope.event
        self._answers.hear(event)
        if isinstance(event, _ABOUT_US):
            return []
        if isinstance(event, GpuTelemetry):
            self._gpus.take(envelope.time_unix_nano, event)
            return []
        changes = self._timelines.feed(envelope)
        session = self._sessions.get(envelope.session_id) or self._begin(envelope, changes)
        if session is not None:
            session.latest_unix_nano = max(session.latest_unix_nano, envelope.time_unix_nano)
        if isinstance(event, StateProgramCost):
            self._price(envelope, event)
        if session is None or isinstance(event, _ABOUT_STATES):
            return []
        started = [trace for change in changes if (trace := self._follow(change, session)) is not None]
        if isinstance(event, SessionClosed):
            self._end(envelope.session_id, event, session)
        return started

    def close(self, reason: str) -> None:
        """End everything that is open, as no more envelopes will come."""
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
            self.feed(last)
        self._endings.release(math.inf)

    def settle(self, now: float) -> None:
        """Write the spans of proofs and sessions that wait no longer than until `now`, a time of the clock.

        Infinity is right when nothing came for a while, as then nothing is under way.
        """
        self._endings.release(now)

    def counters(self) -> dict[str, int]:
        """State-program costs that came when neither the proof nor the session had a span to write them on."""
        return {"state_costs_too_late": self._costs_too_late} if self._costs_too_late else {}

    # Sessions

    def _begin(self, envelope: Envelope, changes: list[Change]) -> _OpenSession | None:
        """Begin the session that the envelope shows to exist; a remark on one that has ended shows nothing."""
        session_id = envelope.session_id
        opened = isinstance(envelope.event, SessionOpened)
        goes_on = any(change.interval is not None for change in changes)
        if not (opened or goes_on or (envelope.origin == PRODUCER and session_id not in self._ended)):
            return None
        parent = self._parents.of_session(envelope) if opened else None
        span = new_spans.session_span(envelope, self._ended.get(session_id, 0), parent)
        started = self._start(span, parent)
        session = _OpenSession(Page(span, _ref_of(started), self._limits), parent, envelope.time_unix_nano)
        self._sessions[session_id] = session
        return session

    def _end(self, session_id: str, event: SessionClosed, session: _OpenSession) -> None:
        del self._sessions[session_id]
        self._ended[session_id] = self._ended.pop(session_id, 0) + 1
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        known = self._timelines.session(session_id)
        said = {
            **describe.session_closed(event),
            Attr.LOST_EVENTS: known.lost_events,
            Attr.SESSION_PROOFS: known.proofs,
            Attr.SESSION_ABORTED: known.aborted,
        }
        self._endings.hold(
            session.page,
            Ending(
                session_id=session_id,
                proof=None,
                end_unix_nano=session.latest_unix_nano,
                said=said,
                due_s=self._answers.due(),
            ),
        )

    # State programs

    def _price(self, envelope: Envelope, event: StateProgramCost) -> None:
        """Write a cost on its proof, or on the session if the proof's span is not known or no more."""
        session_id = envelope.session_id
        proof = self._proof_page(session_id, event.proof)
        if proof is not None and proof.price(event):
            proof.due_s = self._answers.due()  # the others come right behind it
            return
        session = self._sessions.get(session_id)
        page = proof or (self._endings.find(session_id, None) if session is None else session.page)
        if page is None:
            self._costs_too_late += 1
        else:
            page.note(envelope)

    def _proof_page(self, session_id: str, ordinal: int) -> Page | None:
        for proof in self._timelines.session(session_id).open_proofs:
            if proof.proof_ordinal == ordinal:
                return self._pages.get(proof)
        return self._endings.find(session_id, ordinal)

    # Intervals

    def _follow(self, change: Change, session: _OpenSession) -> TraceStarted | None:
        interval, envelope = change.interval, change.envelope
        if isinstance(change, Noted):
            if not isinstance(envelope.event, SessionOpened | SessionClosed):
                page = session.page if interval is None else self._pages.get(interval, session.page)
                page.note(envelope)
                if isinstance(envelope.event, CircuitCompiled):
                    page.due_s = self._answers.due()
                for listener in self._listeners:
                    listener.noted(interval, envelope, page)
            return None
        if isinstance(change, Closed):
            self._close(change.interval)
            return None
        return self._open(change.interval, envelope, session)

    def _open(self, interval: Interval, envelope: Envelope, session: _OpenSession) -> TraceStarted | None:
        for listener in self._listeners:
            listener.opened(interval)
        if interval.proof is not None:
            above = self._pages[interval.proof]
            span = new_spans.child_span(interval, above.span)
            self._pages[interval] = Page(span, _ref_below(above, span), self._limits)
            return None
        parent = self._parents.of_proof(envelope, session.parent)
        time_source = self._timelines.session(interval.session_id).time_source
        span = new_spans.root_span(interval, parent, session=session.page.span, time_source=time_source)
        started = self._start(span, parent)
        page = self._pages[interval] = Page(span, _ref_of(started), self._limits)
        if not isinstance(interval, Proof):
            return None
        page.due_s = self._answers.due()
        return TraceStarted(
            proof=interval.proof_ordinal, trace_id=started.trace_id, span_id=started.span_id, sampled=started.sampled
        )

    def _close(self, interval: Interval) -> None:
        page = self._pages.pop(interval)
        for listener in self._listeners:
            listener.closed(interval, page.ref)
        event = interval.closed.event if interval.closed is not None else None
        said = {
            Attr.START_SEEN: None if interval.start_seen else False,
            Attr.END_SEEN: None if interval.end_seen else False,
            **describe.end_of(event, interval),
            **describe.abort_of(interval),
            **_counted(interval),
        }
        end = interval.start_unix_nano if interval.end_unix_nano is None else interval.end_unix_nano
        if interval.kind in _WITH_GPUS:
            said |= self._gpus.during(interval.start_unix_nano, end)
        error = describe.error_of(interval)
        if isinstance(interval, Proof):
            self._endings.hold(
                page,
                Ending(
                    session_id=interval.session_id,
                    proof=interval.proof_ordinal,
                    end_unix_nano=end,
                    said=said,
                    error=error,
                    due_s=page.due_s,
                ),
            )
        else:
            self._writer.end(page.close(end_unix_nano=end, said=said, error=error))

    def _start(self, span: SpanValues, parent: Parent | None) -> Started:
        started = self._writer.start(span, parent)
        if not started.sampled and parent is not None and not parent.sampled:
            self._parents.unsampled(parent)
        return started


def _ref_of(started: Started) -> SpanRef:
    return SpanRef(started.trace_id, started.span_id, started.sampled)


def _ref_below(above: Page, span: SpanValues) -> SpanRef:
    """The span itself if ids are ours; else the one above, as a provider makes the span at its end."""
    is_ours = above.ref.span_id == above.span.span_id
    return SpanRef(span.trace_id, span.span_id, above.ref.sampled) if is_ours else above.ref


def _counted(interval: Interval) -> dict[str, Any]:
    if isinstance(interval, Proof):
        return describe.counts_of(interval)
    return {Attr.ROUNDS_TOTAL: interval.rounds} if interval.kind is IntervalKind.LAYER else {}
