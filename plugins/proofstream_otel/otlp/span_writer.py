"""The span writer of our own pipeline: our ids, the SDK's sampler, and any number of sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision

from proofstream_otel.sdk_context import context_of
from proofstream_otel.values import safe
from proofstream_otel.values.spans import Parent, SpanRef, SpanValues


class SpanSink(Protocol):
    """Takes finished spans."""

    def write_span(self, span: SpanValues) -> None:
        """Take a finished span that is sampled."""
        ...


class SampledWriter:
    """Decides on sampling once per root span, and passes finished spans to every sink."""

    keeps_ids = True

    def __init__(self, sinks: Sequence[SpanSink]) -> None:
        self._sinks = sinks
        # A provider is the public way to the sampler that OTEL_TRACES_SAMPLER names. It makes no spans here.
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler
        self._unsampled = 0

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        """Begin a span; ask the sampler about a root, on behalf of all spans below it too."""
        if span.is_root:
            self._sample(span, parent)
        return _ref_of(span)

    def _sample(self, span: SpanValues, parent: Parent | None) -> None:
        result = self._sampler.should_sample(
            context_of(parent), int(span.trace_id, 16), span.name, attributes=dict(span.attributes)
        )
        span.sampled = result.decision is Decision.RECORD_AND_SAMPLE
        if span.sampled:
            added = cast("Any", result).attributes  # the SDK leaves its type open
            span.attributes.update(safe.attributes(added))
            span.trace_state = "" if result.trace_state is None else result.trace_state.to_header()

    def end_span(self, span: SpanValues) -> SpanRef:
        """Pass a finished span on if it is sampled."""
        if span.sampled:
            for sink in self._sinks:
                sink.write_span(span)
        else:
            self._unsampled += 1
        return _ref_of(span)

    def counters(self) -> dict[str, int]:
        """Count the spans that the sampler left out."""
        return {"spans_unsampled": self._unsampled}


def _ref_of(span: SpanValues) -> SpanRef:
    return SpanRef(span.trace_id, span.span_id, span.sampled)
