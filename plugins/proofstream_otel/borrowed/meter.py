"""Hands measurements to a meter provider of the application, passed in or global.

We never shut the provider down, flush it or make it global. Exemplars and views are its own business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Counter, Histogram, MeterProvider, Observation

from proofstream_otel.metrics.label_values import Key
from proofstream_otel.metrics.meter import Meter, Number, Reading, bounded, fitting, usable_reading
from proofstream_otel.sdk_context import context_of_ref
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, METRICS, SCOPE, Instrument, Metric
from proofstream_otel.values.spans import SpanRef


class BorrowedMeter(Meter):
    """Hands measurements to the provider's instruments; the provider reads gauges when it wants them.

    A provider cannot end series, so the values that an attribute had first stay, and all others are `other`.
    """

    def __init__(self, provider: MeterProvider, identity: Mapping[str, str], log: logging.Logger | None = None) -> None:
        super().__init__(log=log)
        self._meter = provider.get_meter(SCOPE, identity.get("proofstream.version", ""))
        self._counters: dict[Metric, Counter] = {}
        self._totals: dict[Metric, dict[Key, Number]] = {}
        self._recorded: dict[Metric, dict[Key, None]] = {}
        self._histograms: dict[Metric, Histogram] = {}
        self._readings: dict[Metric, dict[Key, Reading]] = {}
        for metric in METRICS:
            self._create(metric)

    def end_all_series(self) -> None:
        """End the series of all gauges."""
        for series in self._readings.values():
            series.clear()

    def _create(self, metric: Metric) -> None:
        name, unit, summary = metric.name, metric.unit, metric.summary
        if metric.instrument is Instrument.HISTOGRAM:
            self._histograms[metric] = self._meter.create_histogram(
                name, unit, summary, explicit_bucket_boundaries_advisory=DURATION_BUCKETS_S
            )
        elif metric.instrument is Instrument.COUNTER and not metric.is_counted_elsewhere:
            self._counters[metric] = self._meter.create_counter(name, unit, summary)
        else:
            self._create_observed(metric)

    def _create_observed(self, metric: Metric) -> None:
        series = self._readings[metric] = {}
        create: Callable[..., object]
        match metric.instrument:
            case Instrument.GAUGE:
                create = self._meter.create_observable_gauge
            case Instrument.UP_DOWN_COUNTER:
                create = self._meter.create_observable_up_down_counter
            case _:
                create = self._meter.create_observable_counter
        create(metric.name, [_observing(series)], metric.unit, metric.summary)

    def _add(self, metric: Metric, amount: Number, key: Key) -> None:
        totals = self._totals.setdefault(metric, {})
        key = bounded(totals, key)
        totals[key] = fitting(totals.get(key, 0) + amount)
        # The provider sums on its own; switch to float before that sum overflows int64.
        self._counters[metric].add(type(totals[key])(amount), dict(key), Context())

    def _record(self, metric: Metric, value: float, key: Key, ref: SpanRef | None) -> None:
        recorded = self._recorded.setdefault(metric, {})
        key = bounded(recorded, key)
        recorded[key] = None
        self._histograms[metric].record(value, dict(key), Context() if ref is None else context_of_ref(ref))

    def _watch(self, metric: Metric, key: Key, reading: Reading) -> None:
        series = self._readings[metric]
        series[bounded(series, key)] = reading

    def _end(self, metric: Metric, key: Key) -> None:
        self._readings[metric].pop(key, None)


def _observing(series: dict[Key, Reading]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_options: CallbackOptions) -> Iterable[Observation]:
        # A thread of the provider calls this while the lane adds and ends series, so iterate over a copy.
        for key, reading in list(series.items()):
            if (value := usable_reading(reading)) is not None:
                yield Observation(value, dict(key))

    return observe
