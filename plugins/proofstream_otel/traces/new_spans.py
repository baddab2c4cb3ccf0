"""Makes spans as they begin: with a name, ids and a place in the trace."""

from __future__ import annotations

from typing import Any

from proofstream import Envelope, Interval, IntervalKind, Phase, Proof, SessionOpened, session_trace_id
from proofstream_otel.traces import describe, ids, phases
from proofstream_otel.traces.places import Place
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr, SpanName
from proofstream_otel.values.spans import Parent, SpanValues

_MAX_RESOURCE = 128
"""The most attributes that a session adds to the resource."""
_MAX_KEY_CHARS = 128


def session_span(first: Envelope, part: int, parent: Parent | None) -> SpanValues:
    """Make the span of a session; `first` is its opening, or else the first event that belongs to it."""
    event = first.event
    opened = event if isinstance(event, SessionOpened) else None
    said = {Attr.START_SEEN: False} if opened is None else describe.session_opened(opened)
    return _root(
        name=SpanName.SESSION,
        trace_id=session_trace_id(first.session_id),
        span_id=ids.session_span_id(first.session_id, part),
        parent=parent,
        start_unix_nano=first.time_unix_nano,
        attributes={Attr.SESSION_ID: first.session_id, **said},
        resource=() if opened is None else _resource_of(opened),
    )


def _resource_of(opened: SessionOpened) -> tuple[tuple[str, str], ...]:
    """Return the session's own attributes of the resource, safe and bounded, since each request repeats them."""
    kept = sorted(opened.resource.items())[:_MAX_RESOURCE]
    return tuple((safe.text(key, _MAX_KEY_CHARS), safe.text(value)) for key, value in kept)


def root_span(interval: Interval, parent: Parent | None, *, session: Place, time_source: str) -> SpanValues:
    """Make the span of a proof, or of an interval outside of any proof, with a link to its session's span."""
    ordinal = interval.proof_ordinal if isinstance(interval, Proof) else None
    session_id = interval.session_id
    span = _root(
        name=_name(interval),
        trace_id=ids.alone_trace_id(interval) if ordinal is None else ids.proof_trace_id(session_id, ordinal),
        span_id=ids.span_id(interval),
        parent=parent,
        start_unix_nano=interval.start_unix_nano,
        attributes={**_identity(interval, time_source), **beginning_of(interval)},
        resource=session.resource,
    )
    span.links.append(session.known_ref)
    return span


def child_span(interval: Interval, above: Place, *, time_source: str, is_described_later: bool = False) -> SpanValues:
    """Make the span of an interval below another one, or below its session.

    One that is described later gets what `beginning_of` returns when it ends.
    """
    attributes = {} if is_described_later else beginning_of(interval)
    if isinstance(interval, Proof) or interval.proof is None:
        attributes = {**_identity(interval, time_source), **attributes}
    return span_below(
        above,
        name=_name(interval),
        span_id=ids.span_id(interval),
        start_unix_nano=interval.start_unix_nano,
        attributes=attributes,
    )


def span_below(
    above: Place, *, name: str, span_id: str, start_unix_nano: int, attributes: dict[str, Any]
) -> SpanValues:
    """Make a span below another one of ours."""
    start = safe.timestamp(start_unix_nano)
    ref = above.known_ref
    return SpanValues(
        name=name,
        trace_id=ref.trace_id,
        span_id=span_id,
        parent_span_id=ref.span_id,
        root_span_id=above.root_span_id,
        sampled=ref.sampled,
        remote_parent=False,
        trace_state=above.trace_state,
        start_unix_nano=start,
        end_unix_nano=start,
        attributes=safe.attributes(attributes),
        events=[],
        dropped_events=0,
        links=[],
        error=None,
        resource=above.resource,
    )


def _identity(interval: Interval, time_source: str) -> dict[str, Any]:
    return {
        Attr.SESSION_ID: interval.session_id,
        Attr.JOB_ID: interval.job_id,
        Attr.TIME_SOURCE: time_source,
        Attr.PROOF_ORDINAL: interval.proof_ordinal if isinstance(interval, Proof) else None,
    }


def _name(interval: Interval) -> str:
    if interval.kind is IntervalKind.LAYER:
        return f"{SpanName.LAYER} {interval.layer_kind}"
    if isinstance(interval, Phase):
        return f"{SpanName.PHASE} {phases.name_of(interval)}"
    return str(interval.kind.value)


def beginning_of(interval: Interval) -> dict[str, Any]:
    """Return the attributes that an interval has from its beginning."""
    return phases.start_of(interval) if isinstance(interval, Phase) else describe.start_of(interval)


def _root(
    *,
    name: str,
    trace_id: str,
    span_id: str,
    parent: Parent | None,
    start_unix_nano: int,
    attributes: dict[str, Any],
    resource: tuple[tuple[str, str], ...],
) -> SpanValues:
    start = safe.timestamp(start_unix_nano)
    return SpanValues(
        name=name,
        trace_id=trace_id if parent is None else parent.trace_id,
        span_id=span_id,
        parent_span_id="" if parent is None else parent.span_id,
        root_span_id=span_id,
        sampled=True,  # until the writer has decided
        remote_parent=parent is not None and parent.remote,
        trace_state="" if parent is None else parent.trace_state,
        start_unix_nano=start,
        end_unix_nano=start,
        attributes=safe.attributes(attributes),
        events=[],
        dropped_events=0,
        links=[],
        error=None,
        resource=resource,
    )
