"""The span writer of our own pipeline: our ids, what the SDK's samplers decide, and any number of sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from proofstream_otel.environment import Sampling
from proofstream_otel.values import safe
from proofstream_otel.values.limits import Limits
from proofstream_otel.values.spans import Parent, SpanRef, SpanValues

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler


class SpanSink(Protocol):
    """Takes finished spans."""

    def write_span(self, span: SpanValues) -> None:
        """Take a finished span that is sampled."""
        ...


class SampledWriter:
    """Decides on sampling once per root span, and passes finished spans to every sink, within the limits."""

    keeps_ids = True

    def __init__(self, sinks: Sequence[SpanSink], sampling: Sampling, limits: Limits) -> None:
        self._sinks = sinks
        self._sampling = sampling
        # The SDK is loaded for this one alone, and now: while the process exits, it cannot be loaded any more.
        self._by_ratio = _by_ratio(sampling) if sampling.name == "traceidratio" else None
        self._limits = limits if limits.is_set else None
        self._unsampled = 0

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        """Begin a span; ask the sampler about a root, on behalf of all spans below it too."""
        if span.is_root:
            self._sample(span, parent)
        return _ref_of(span)

    def _sample(self, span: SpanValues, parent: Parent | None) -> None:
        if self._by_ratio is None:
            asked = parent if self._sampling.asks_parent else None
            span.sampled = self._sampling.name == "always_on" if asked is None else asked.sampled
            if span.sampled:
                span.trace_state = "" if parent is None else _well_formed(parent.trace_state)
            return
        from opentelemetry.sdk.trace.sampling import Decision

        from proofstream_otel.sdk_context import context_of

        result = self._by_ratio.should_sample(
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
            if self._limits is not None:
                self._limits.limit_span(span)
            for sink in self._sinks:
                sink.write_span(span)
        else:
            self._unsampled += 1
        return _ref_of(span)

    def counters(self) -> dict[str, int]:
        """Count the spans that the sampler left out."""
        return {"spans_unsampled": self._unsampled}


def _well_formed(trace_state: str) -> str:
    """Return a trace state without what the API takes for malformed."""
    if not trace_state:
        return ""
    from opentelemetry.trace import TraceState

    return TraceState.from_header([trace_state]).to_header()


def _by_ratio(sampling: Sampling) -> Sampler:
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    root = TraceIdRatioBased(sampling.ratio)
    return ParentBased(root) if sampling.asks_parent else root


def _ref_of(span: SpanValues) -> SpanRef:
    return SpanRef(span.trace_id, span.span_id, span.sampled)
