"""Hands spans to a tracer provider of the application, passed in or global.

The provider decides on ids, limits, sampling and delivery. We never shut it down, flush it or make it global. It need
not be the SDK's: only the API is called, and what another implementation leaves out is missing and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, Span, Status, StatusCode, TraceFlags, TracerProvider

from proofstream_otel.sdk_context import context_of, parent_of_ref, span_context_of
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import Parent, SpanRef, SpanValues, count_rounds, recount


class BorrowedWriter:
    """Starts a span as it begins only if its ids are needed then; makes the others at their end."""

    keeps_ids = False

    def __init__(
        self, provider: TracerProvider, identity: Mapping[str, str], log: logging.Logger | None = None
    ) -> None:
        self._tracer = provider.get_tracer(SCOPE, identity.get("proofstream.version", ""))
        self._log = log
        self._started: dict[str, Span] = {}
        self._handed_over = 0
        self._unsampled = 0

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        """Begin a span."""
        made = self._started[span.span_id] = self._begin(span, parent if span.is_root else _above(span))
        span.trace_state = _trace_state_of(made)
        return self._ref_of(made)

    def end_span(self, span: SpanValues) -> SpanRef:
        """Complete a span that was started; make any other one and complete it."""
        made = self._started.pop(span.span_id, None) or self._begin(span, _above(span))
        ref = self._ref_of(made)
        if not made.is_recording():
            self._unsampled += 1
            return ref
        made.set_attributes(span.attributes)
        for event in span.events:
            made.add_event(event.name, event.attributes, event.time_unix_nano)
        if span.error is not None:
            made.set_status(Status(StatusCode.ERROR, span.error))
        _recount(made, span)
        made.end(span.end_unix_nano)
        self._handed_over += 1
        return ref

    def counters(self) -> dict[str, int]:
        """Count the spans handed to the provider, which delivers them on its own, and those that it does not sample."""
        return {"spans_handed_over": self._handed_over, "spans_unsampled": self._unsampled}

    def _begin(self, span: SpanValues, parent: Parent | None) -> Span:
        return self._tracer.start_span(
            span.name,
            context_of(parent),
            attributes=span.attributes,
            links=[Link(span_context_of(parent_of_ref(link))) for link in span.links],
            start_time=span.start_unix_nano,
        )

    def _ref_of(self, made: Span) -> SpanRef:
        found = made.get_span_context()
        if not found.is_valid and made.is_recording() and self._log is not None:
            self._log.warning("the application's tracer provider gives its spans no ids: none hangs from another")
            self._log = None
        sampled = bool(int(found.trace_flags) & TraceFlags.SAMPLED)
        return SpanRef(f"{found.trace_id:032x}", f"{found.span_id:016x}", sampled)


def _trace_state_of(made: Span) -> str:
    """Return the trace state, which other implementations than the SDK may leave out."""
    found: Any = made.get_span_context().trace_state
    return "" if found is None else str(found.to_header())


def _above(span: SpanValues) -> Parent:
    """Return the span of ours above one, which the provider has made already."""
    return Parent(
        trace_id=span.trace_id,
        span_id=span.parent_span_id,
        sampled=span.sampled,
        remote=False,
        trace_state=span.trace_state,
    )


def _recount(made: Span, span: SpanValues) -> None:
    """Correct the counts of rounds if the provider's own limit has dropped some."""
    if isinstance(made, ReadableSpan):
        made.set_attributes(recount(span.attributes, count_rounds(span.events) - count_rounds(made.events)))
