"""Turns parents, which are plain values, into OpenTelemetry contexts, as samplers and providers want them."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

from proofstream_otel.values.spans import Parent, SpanRef


def context_of(parent: Parent | None) -> Context:
    """Return the OpenTelemetry context in which the parent is current; an empty one without a parent."""
    if parent is None:
        # Never None: the SDK would take the current context of this thread instead.
        return Context()
    if isinstance(parent.context, Context):
        return parent.context
    return set_span_in_context(NonRecordingSpan(span_context_of(parent)), Context())


def span_context_of(parent: Parent) -> SpanContext:
    """Return a parent as OpenTelemetry's own value."""
    return SpanContext(
        trace_id=int(parent.trace_id, 16),
        span_id=int(parent.span_id, 16),
        is_remote=parent.remote,
        trace_flags=TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT),
        trace_state=TraceState.from_header([parent.trace_state]) if parent.trace_state else None,
    )


def parent_of_ref(ref: SpanRef) -> Parent:
    """Return one of our own spans as a parent."""
    return Parent(trace_id=ref.trace_id, span_id=ref.span_id, sampled=ref.sampled, remote=False)


def context_of_ref(ref: SpanRef) -> Context:
    """Return the OpenTelemetry context in which one of our own spans is current."""
    return context_of(parent_of_ref(ref))
