"""Hands spans to a tracer provider of the application, passed in or global.

The provider decides on ids, limits, sampling and delivery. We never shut it down, flush it or make it global.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, Span, Status, StatusCode, TracerProvider, set_span_in_context

from proofstream_otel.sdk_context import context_of
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import Parent, SpanLink, SpanValues, StartedRoot, count_rounds, recount


class BorrowedWriter:
    """Starts roots as they begin, because their ids and sampling are needed then, and other spans at their end."""

    def __init__(self, provider: TracerProvider, identity: Mapping[str, str]) -> None:
        self._tracer = provider.get_tracer(SCOPE, identity.get("proofstream.version", ""))
        self._roots: dict[str, Span] = {}
        self._handed_over = 0
        self._unsampled = 0

    def start_root(self, span: SpanValues, parent: Parent | None) -> StartedRoot:
        """Begin a root span."""
        made = self._begin(span, context_of(parent))
        self._roots[span.span_id] = made
        found = made.get_span_context()
        return StartedRoot(
            trace_id=f"{found.trace_id:032x}", span_id=f"{found.span_id:016x}", sampled=found.trace_flags.sampled
        )

    def end_span(self, span: SpanValues) -> None:
        """Complete a root span; make any other span and complete it."""
        made = self._roots.pop(span.span_id, None) if span.is_root else self._child(span)
        if made is None:
            return
        if not made.is_recording():
            self._unsampled += 1
            return
        made.set_attributes(span.attributes)
        for event in span.events:
            made.add_event(event.name, event.attributes, event.time_unix_nano)
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        _recount(made, span)
        made.end(span.end_unix_nano)
        self._handed_over += 1

    def counters(self) -> dict[str, int]:
        """Count the spans handed to the provider, which delivers them on its own, and those that it does not sample."""
        return {"spans_handed_over": self._handed_over, "spans_unsampled": self._unsampled}

    def _child(self, span: SpanValues) -> Span:
        return self._begin(span, set_span_in_context(self._roots[span.root_span_id], Context()))

    def _begin(self, span: SpanValues, context: Context) -> Span:
        return self._tracer.start_span(
            span.name,
            context,
            attributes=span.attributes,
            links=[link for link in map(self._link, span.links) if link is not None],
            start_time=span.start_unix_nano,
        )

    def _link(self, link: SpanLink) -> Link | None:
        """Make the link with the provider's ids."""
        target = self._roots.get(link.span_id)
        return None if target is None else Link(target.get_span_context())


def _recount(made: Span, span: SpanValues) -> None:
    """Correct the counts of rounds if the provider's own limit has dropped some."""
    if isinstance(made, ReadableSpan):
        made.set_attributes(recount(span.attributes, count_rounds(span.events) - count_rounds(made.events)))
