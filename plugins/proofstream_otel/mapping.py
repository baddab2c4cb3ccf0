"""From intervals to spans: the one mapping, with no SDK in it. What it makes goes to whichever writer there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofstream import (
    CircuitCompiled,
    Closed,
    Envelope,
    GpuStatus,
    Interval,
    IntervalKind,
    Noted,
    Opened,
    PluginHealth,
    Proof,
    SessionClosed,
    SessionOpened,
    Timelines,
    TraceStarted,
)
from proofstream_otel import describe, ids, safe
from proofstream_otel.notes import Notebook
from proofstream_otel.parents import Parents
from proofstream_otel.semconv import Attr, SpanName
from proofstream_otel.settings import NoteLimits
from proofstream_otel.spans import Parent, SpanLink, SpanValues, Started, Writer

MAX_DEVICES = 16
"""Names of devices kept for a proof."""

_NOT_PART_OF_A_SESSION = (PluginHealth, TraceStarted)


class _Work:
    """What is known of an open session beyond its timeline."""

    def __init__(self, first: Envelope, parent: Parent | None, limits: NoteLimits) -> None:
        self.first = first
        self.latest_unix_nano = first.time_unix_nano
        self.parent = parent
        self.notes = Notebook(limits)
        event = first.event
        self.resource = tuple(sorted(event.resource.items())) if isinstance(event, SessionOpened) else ()


class _Page:
    """What is known of an open interval beyond what the timeline knows."""

    def __init__(self, span: SpanValues, notes: Notebook) -> None:
        self.span = span
        self.notes = notes
        self.extra: dict[str, Any] = {}
        self.gpu_statuses = 0
        self.devices: list[str] = []


class SpanMapper:
    """Feed it every envelope in order; it begins and ends spans at its writer."""

    def __init__(self, writer: Writer, parents: Parents, limits: NoteLimits) -> None:
        self._writer = writer
        self._parents = parents
        self._limits = limits
        self._timelines = Timelines()
        self._sessions: dict[str, _Work] = {}
        self._pages: dict[Interval, _Page] = {}

    def feed(self, envelope: Envelope) -> Iterator[TraceStarted]:
        """Take the next envelope; yields the trace of each proof that it begins."""
        if isinstance(envelope.event, _NOT_PART_OF_A_SESSION):
            return
        work = self._work(envelope)
        work.latest_unix_nano = max(work.latest_unix_nano, envelope.time_unix_nano)
        session = self._timelines.session(envelope.session_id)
        for change in self._timelines.feed(envelope):
            match change:
                case Opened(interval, _):
                    yield from self._open(interval, envelope, work)
                case Closed(interval, _):
                    self._close(interval)
                case Noted(interval, noted):
                    self._note(interval, noted, work)
        if isinstance(envelope.event, SessionClosed):
            self._close_session(
                envelope, work, lost=session.lost_events, proofs=session.proofs, aborted=session.aborted
            )

    def close(self, reason: str) -> None:
        """End everything that is open, as no more envelopes will come."""
        for session_id, work in list(self._sessions.items()):
            event = SessionClosed(outcome="interrupted", reason=reason, refused=0)
            last = Envelope(
                seq=0, time_unix_nano=work.latest_unix_nano, session_id=session_id, origin="otel", event=event, raw=b""
            )
            for _ in self.feed(last):
                raise AssertionError("nothing begins when a session ends")

    # Sessions

    def _work(self, envelope: Envelope) -> _Work:
        work = self._sessions.get(envelope.session_id)
        if work is None:
            opened = isinstance(envelope.event, SessionOpened)
            parent = self._parents.of_session(envelope) if opened else None
            work = self._sessions[envelope.session_id] = _Work(envelope, parent, self._limits)
            self._start(self._session_span(work), parent)
        return work

    def _session_span(self, work: _Work) -> SpanValues:
        first = work.first
        event = first.event
        said = describe.session_opened(event) if isinstance(event, SessionOpened) else {Attr.START_SEEN: False}
        own_id = ids.session_span_id(first.session_id)
        return _span(
            name=SpanName.SESSION,
            trace_id=ids.session_trace_id(first.session_id),
            span_id=own_id,
            parent=work.parent,
            start=first.time_unix_nano,
            attributes={Attr.SESSION_ID: first.session_id, **said},
            resource=work.resource,
        )

    def _close_session(self, envelope: Envelope, work: _Work, *, lost: int, proofs: int, aborted: int) -> None:
        del self._sessions[envelope.session_id]
        event = envelope.event
        assert isinstance(event, SessionClosed)
        counts = {Attr.LOST_EVENTS: lost, Attr.SESSION_PROOFS: proofs, Attr.SESSION_ABORTED: aborted}
        span = self._session_span(work)
        _finish(span, work.notes, end=work.latest_unix_nano, said={**describe.session_closed(event), **counts})
        self._writer.end(span)

    # Intervals

    def _open(self, interval: Interval, envelope: Envelope, work: _Work) -> Iterator[TraceStarted]:
        root = interval.proof or interval
        above = None if interval.proof is None else self._pages.get(interval.proof)
        if above is not None:
            span = self._child_span(interval, above.span, work)
            self._pages[interval] = _Page(span, Notebook(self._limits))
            return
        parent = self._parents.of_proof(envelope, work.parent)
        span = self._root_span(root, parent, work)
        self._pages[interval] = _Page(span, Notebook(self._limits))
        started = self._start(span, parent)
        if isinstance(interval, Proof):
            yield TraceStarted(
                proof=interval.proof_ordinal,
                trace_id=started.trace_id,
                span_id=started.span_id,
                sampled=started.sampled,
            )

    def _root_span(self, interval: Interval, parent: Parent | None, work: _Work) -> SpanValues:
        session_id = interval.session_id
        event = interval.opened.event if interval.opened is not None else None
        ordinal = interval.proof_ordinal if isinstance(interval, Proof) else None
        own = ids.alone_trace_id(interval) if ordinal is None else ids.proof_trace_id(session_id, ordinal)
        about = {
            Attr.SESSION_ID: session_id,
            Attr.JOB_ID: interval.job_id,
            Attr.TIME_SOURCE: self._timelines.session(session_id).time_source,
            Attr.PROOF_ORDINAL: ordinal,
            **describe.key_of(interval),
            **describe.start_of(event),
        }
        span = _span(
            name=interval.kind.value,
            trace_id=own,
            span_id=ids.span_id(interval),
            parent=parent,
            start=interval.start_unix_nano,
            attributes=about,
            resource=work.resource,
        )
        span.links.append(self._session_link(work))
        return span

    def _session_link(self, work: _Work) -> SpanLink:
        session_id = work.first.session_id
        trace_id = ids.session_trace_id(session_id) if work.parent is None else work.parent.trace_id
        return SpanLink(trace_id, ids.session_span_id(session_id))

    def _child_span(self, interval: Interval, above: SpanValues, work: _Work) -> SpanValues:
        name = interval.kind.value
        if interval.kind is IntervalKind.LAYER:
            name = f"{SpanName.LAYER} {interval.layer_kind}"
        event = interval.opened.event if interval.opened is not None else None
        return SpanValues(
            name=name,
            trace_id=above.trace_id,
            span_id=ids.span_id(interval),
            parent_span_id=above.span_id,
            root_span_id=above.root_span_id,
            remote_parent=False,
            trace_state=above.trace_state,
            start_unix_nano=safe.timestamp(interval.start_unix_nano),
            end_unix_nano=safe.timestamp(interval.start_unix_nano),
            attributes=safe.attributes({**describe.key_of(interval), **describe.start_of(event)}),
            events=[],
            dropped_events=0,
            links=[],
            error=None,
            resource=work.resource,
        )

    def _close(self, interval: Interval) -> None:
        page = self._pages.pop(interval)
        event = interval.closed.event if interval.closed is not None else None
        said = {
            Attr.START_SEEN: None if interval.start_seen else False,
            Attr.END_SEEN: None if interval.end_seen else False,
            **describe.end_of(event, interval),
            **describe.abort_of(interval),
            **_counted(interval, page),
            **page.extra,
        }
        page.span.error = None if interval.aborted_reason is None else safe.text(describe.error_of(interval) or "")
        end = interval.end_unix_nano if interval.end_unix_nano is not None else interval.start_unix_nano
        _finish(page.span, page.notes, end=end, said=said)
        self._writer.end(page.span)

    def _note(self, interval: Interval | None, envelope: Envelope, work: _Work) -> None:
        event = envelope.event
        if isinstance(event, SessionOpened | SessionClosed):
            return
        page = None if interval is None else self._pages.get(interval)
        if page is None:
            work.notes.add(envelope)
        elif isinstance(event, GpuStatus):
            page.gpu_statuses += 1
            _remember(page.devices, describe.device_names(event))
        else:
            if isinstance(event, CircuitCompiled):
                page.extra.update(describe.circuit_of(event))
            page.notes.add(envelope)

    def _start(self, span: SpanValues, parent: Parent | None) -> Started:
        started = self._writer.start(span, parent)
        if not started.sampled and parent is not None and not parent.sampled:
            self._parents.unsampled(parent)
        return started


def _counted(interval: Interval, page: _Page) -> dict[str, Any]:
    if isinstance(interval, Proof):
        statuses = page.gpu_statuses
        reported = {Attr.GPU_STATUS_COUNT: statuses, Attr.GPU_STATUS_DEVICES: page.devices} if statuses else {}
        return {**describe.counts_of(interval), **reported}
    return {Attr.ROUNDS_TOTAL: interval.rounds} if interval.kind is IntervalKind.LAYER else {}


def _remember(known: list[str], names: list[str]) -> None:
    for name in names:
        if name not in known and len(known) < MAX_DEVICES:
            known.append(name)


def _span(
    *,
    name: str,
    trace_id: str,
    span_id: str,
    parent: Parent | None,
    start: int,
    attributes: dict[str, Any],
    resource: tuple[tuple[str, str], ...],
) -> SpanValues:
    return SpanValues(
        name=name,
        trace_id=trace_id if parent is None else parent.trace_id,
        span_id=span_id,
        parent_span_id="" if parent is None else parent.span_id,
        root_span_id=span_id,
        remote_parent=parent is not None and parent.remote,
        trace_state="" if parent is None else parent.trace_state,
        start_unix_nano=safe.timestamp(start),
        end_unix_nano=safe.timestamp(start),
        attributes=safe.attributes(attributes),
        events=[],
        dropped_events=0,
        links=[],
        error=None,
        resource=resource,
    )


def _finish(span: SpanValues, notes: Notebook, *, end: int, said: dict[str, Any]) -> None:
    events, dropped, counts = notes.close()
    span.end_unix_nano = max(span.start_unix_nano, safe.timestamp(end))
    span.attributes.update(safe.attributes({**said, **counts}))
    span.events = events
    span.dropped_events = dropped
