"""The pipeline that is ours alone: our ids, the SDK's sampler, and the sinks that were asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol, cast

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, set_span_in_context

from proofstream_otel.values import safe
from proofstream_otel.values.spans import Parent, SpanValues, Started


class Sink(Protocol):
    """Takes finished spans; see `Writer` for the rest."""

    def write(self, span: SpanValues) -> None:
        """Take a finished span that is sampled."""
        ...

    def counters(self) -> dict[str, int]:
        """What was delivered and what could not be."""
        ...

    def hurry(self) -> None:
        """Stop waiting in `write`, as `close` is about to come."""
        ...

    def begin_closing(self, timeout_s: float) -> None:
        """Begin to deliver what is left within `timeout_s` from now; `close` waits for it."""
        ...

    def close(self, timeout_s: float) -> None:
        """Deliver what can be delivered within `timeout_s`."""
        ...


class OwnedWriter:
    """Decides on sampling once per root span, and hands finished spans to every sink."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks
        # A provider is the public way to the sampler that OTEL_TRACES_SAMPLER names; no span is made with it.
        self._sampler = TracerProvider(shutdown_on_exit=False).sampler
        self._left_out: set[str] = set()
        self._unsampled = 0

    def start(self, span: SpanValues, parent: Parent | None) -> Started:
        """Ask the sampler about a root span and all below it."""
        context = Context() if parent is None else context_of(parent)
        result = self._sampler.should_sample(
            context, int(span.trace_id, 16), span.name, attributes=dict(span.attributes)
        )
        sampled = result.decision is Decision.RECORD_AND_SAMPLE
        if sampled:
            added = cast("Any", result).attributes  # its type is not fully known
            span.attributes.update(safe.attributes(added))
            span.trace_state = "" if result.trace_state is None else result.trace_state.to_header()
        else:
            self._left_out.add(span.root_span_id)
        return Started(trace_id=span.trace_id, span_id=span.span_id, sampled=sampled)

    def end(self, span: SpanValues) -> None:
        """Hand a finished span on, unless it is not sampled."""
        if span.root_span_id in self._left_out:
            self._unsampled += 1
            if span.is_root:
                self._left_out.discard(span.span_id)
            return
        for sink in self._sinks:
            sink.write(span)

    def counters(self) -> dict[str, int]:
        """The sinks' counters added up, and spans that the sampler left out."""
        total = {"spans_unsampled": self._unsampled}
        for sink in self._sinks:
            for key, count in sink.counters().items():
                total[key] = total.get(key, 0) + count
        return total

    def hurry(self) -> None:
        """Let no sink wait any more."""
        for sink in self._sinks:
            sink.hurry()

    def begin_closing(self, timeout_s: float) -> None:
        """Let all sinks deliver what is left at the same time."""
        for sink in self._sinks:
            sink.begin_closing(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Close the sinks, within `timeout_s` in all."""
        deadline = time.monotonic() + timeout_s
        for sink in self._sinks:
            sink.close(max(0.0, deadline - time.monotonic()))


def context_of(parent: Parent) -> Context:
    """The OpenTelemetry context that the parent is current in."""
    if isinstance(parent.context, Context):
        return parent.context
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    span_context = SpanContext(
        trace_id=int(parent.trace_id, 16),
        span_id=int(parent.span_id, 16),
        is_remote=parent.remote,
        trace_flags=flags,
        trace_state=TraceState.from_header([parent.trace_state]) if parent.trace_state else None,
    )
    return set_span_in_context(NonRecordingSpan(span_context), Context())
