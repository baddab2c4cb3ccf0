"""Metrics of one run: who is told of what, and when it is collected."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from proofstream import Envelope, GpuStatus, GpuTelemetry, Interval, StateBytesMoved, StateProgramCost
from proofstream_otel.metrics.gpus import GpuMetrics
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.metrics.own_meter import Registry
from proofstream_otel.metrics.pipeline import PipelineMetrics
from proofstream_otel.metrics.proofs import ProofMetrics
from proofstream_otel.metrics.states import StateMetrics
from proofstream_otel.otlp.exporter import Delivery
from proofstream_otel.traces.open_spans import Page
from proofstream_otel.values.metric_points import MetricSink, SpanRef

_ABOUT_GPUS = (GpuTelemetry, GpuStatus)

LEAST_PAUSE_S = 1.0
"""Between two collections, also where proofs end faster than that."""


class Measuring:
    """Turns envelopes and intervals into measurements; it listens to the mapping of spans.

    Args:
        meter: Where measurements go.
        live: Whether events happen now. Else nothing is said about the present of provers and GPUs.
    """

    def __init__(self, meter: Meter, *, live: bool) -> None:
        self._meter = meter
        self._live = live
        self._proofs = ProofMetrics(meter, live=live)
        self._pipeline = PipelineMetrics(meter)
        self._gpus = GpuMetrics(meter)
        self._states = StateMetrics(meter)

    def feed(self, envelope: Envelope) -> None:
        """Take the next envelope."""
        self._pipeline.feed(envelope)
        event = envelope.event
        if self._live and isinstance(event, _ABOUT_GPUS):
            self._gpus.take(event)
        elif isinstance(event, StateProgramCost | StateBytesMoved):
            self._states.take(event)

    def opened(self, interval: Interval) -> None:
        """Take an interval that began."""
        self._proofs.opened(interval)

    def noted(self, interval: Interval | None, envelope: Envelope, page: Page) -> None:
        """Take an event that happened in an interval."""
        self._proofs.noted(interval, envelope, page)

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Take an interval that ended."""
        self._proofs.closed(interval, ref)
        if not self._proofs.is_any_running:
            self._gpus.forget_reported()

    def flush(self) -> bool:
        """Hand on what was counted; returns whether a proof has ended since the last time."""
        self._pipeline.flush()
        self._gpus.flush()
        return self._proofs.flush()

    def note_deliveries(self, deliveries: Mapping[str, Delivery]) -> None:
        """Take what became of exports so far."""
        self._pipeline.note_deliveries(deliveries)

    @property
    def refused(self) -> int:
        """Measurements left out because they were no finite numbers."""
        return self._meter.refused


class MetricsPipeline:
    """Our own pipeline: collects now and then, and hands the collection to the sinks.

    Args:
        registry: Where measurements are kept.
        sinks: Where collections go.
        interval_s: Seconds from one collection to the next; when a proof has ended the next one is due at once.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        registry: Registry,
        sinks: Sequence[MetricSink],
        *,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._sinks = sinks
        self._interval_s = interval_s
        self._clock = clock
        self._collected_at = clock()
        self._hurried = False

    def is_due(self, *, hurry: bool) -> bool:
        """Whether it is time to collect; `hurry` says that a proof has ended."""
        self._hurried |= hurry
        pause_s = min(LEAST_PAUSE_S, self._interval_s) if self._hurried else self._interval_s
        return self._clock() - self._collected_at >= pause_s

    def collect(self) -> None:
        """Collect now."""
        self._hurried = False
        self._collected_at = self._clock()
        collected = self._registry.collect()
        for sink in self._sinks:
            sink.write(collected)
