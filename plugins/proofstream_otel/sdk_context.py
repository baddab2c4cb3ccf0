"""Makes OpenTelemetry contexts: of parents, which are plain values, and for work that must not be traced."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from proofstream_otel.values.spans import Parent, SpanRef

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

_API = "opentelemetry.context"
_HIDING = "suppress_instrumentation"
_HIDING_TOO = ("_SUPPRESS_INSTRUMENTATION_KEY", "_SUPPRESS_HTTP_INSTRUMENTATION_KEY")
"""The API makes these two at random, and has no public name for them yet. The first one stands for them."""


def context_of(parent: Parent | None) -> Context:
    """Return the OpenTelemetry context in which the parent is current; an empty one without a parent."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    if parent is None:
        # Never None: the SDK would take the current context of this thread instead.
        return Context()
    if isinstance(parent.context, Context):
        return parent.context
    return set_span_in_context(NonRecordingSpan(span_context_of(parent)), Context())


def span_context_of(parent: Parent) -> SpanContext:
    """Return a parent as OpenTelemetry's own value."""
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

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


@contextmanager
def untraced() -> Generator[None]:
    """Hide the requests of this thread from the application's instrumentation of HTTP clients and of gRPC."""
    if _API not in sys.modules:  # then there is no instrumentation, and the API need not be loaded
        yield
        return
    from opentelemetry import context as api

    hidden = api.get_current()
    for key in (_HIDING, *(str(getattr(api, name)) for name in _HIDING_TOO if hasattr(api, name))):
        hidden = api.set_value(key, True, hidden)
    token = api.attach(hidden)
    try:
        yield
    finally:
        api.detach(token)
