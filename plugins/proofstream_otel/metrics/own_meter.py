"""The meter of our own pipeline: cumulative sums, histograms and gauges, collected on demand.

The SDK's meter does not serve here: its histograms cannot begin at zero, its series never end, and its readers export
on threads and at times of their own.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator

from proofstream_otel.metrics.meter import Key, Meter, Number, Reading, bounded, fitting, usable_reading
from proofstream_otel.values.metric_points import (
    MAX_POINTS,
    Exemplar,
    HistogramPoint,
    MetricPoints,
    NumberPoint,
    Point,
)
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, METRICS, Instrument, Metric
from proofstream_otel.values.spans import SpanRef


class _SumSeries:
    __slots__ = ("start_unix_nano", "value")

    def __init__(self) -> None:
        self.value: Number = 0
        self.start_unix_nano = 0

    def point(self, key: Key, now: int) -> Point:
        return NumberPoint(dict(key), self.start_unix_nano, now, self.value)

    def zero(self, key: Key) -> Point:
        return NumberPoint(dict(key), self.start_unix_nano, self.start_unix_nano, type(self.value)())


class _HistogramSeries:
    __slots__ = ("_buckets", "_count", "_exemplars", "_max", "_min", "_sum", "start_unix_nano")

    def __init__(self) -> None:
        self._buckets = [0] * (len(DURATION_BUCKETS_S) + 1)
        self._count = 0
        self._sum = 0.0
        self._min = float("inf")
        self._max = float("-inf")
        self._exemplars: dict[int, Exemplar] = {}
        self.start_unix_nano = 0

    def record(self, value: float, exemplar: Exemplar | None) -> None:
        bucket = bisect_left(DURATION_BUCKETS_S, value)
        self._buckets[bucket] += 1
        self._count += 1
        self._sum += value
        self._min = min(self._min, value)
        self._max = max(self._max, value)
        if exemplar is not None:
            self._exemplars[bucket] = exemplar

    def point(self, key: Key, now: int) -> Point:
        exemplars, self._exemplars = list(self._exemplars.values()), {}  # send each once
        return HistogramPoint(
            attributes=dict(key),
            start_unix_nano=self.start_unix_nano,
            time_unix_nano=now,
            count=self._count,
            sum=self._sum,
            min=self._min,
            max=self._max,
            bucket_counts=list(self._buckets),
            exemplars=exemplars,
        )

    def zero(self, key: Key) -> Point:
        return HistogramPoint(
            attributes=dict(key),
            start_unix_nano=self.start_unix_nano,
            time_unix_nano=self.start_unix_nano,
            count=0,
            sum=0.0,
            min=0.0,
            max=0.0,
            bucket_counts=[0] * len(self._buckets),
            exemplars=[],
        )


class OwnMeter(Meter):
    """Keeps all series and their values.

    Args:
        exemplars: Whether histograms keep measurements that point to their spans.
        clock: Returns the time in nanoseconds since the epoch.
    """

    def __init__(self, *, exemplars: bool = True, clock: Callable[[], int] = time.time_ns) -> None:
        super().__init__()
        self._exemplars = exemplars
        self._clock = clock
        self._began_unix_nano = clock()
        self._collected_unix_nano = self._began_unix_nano
        self._sums: dict[Metric, dict[Key, _SumSeries]] = {}
        self._histograms: dict[Metric, dict[Key, _HistogramSeries]] = {}
        self._readings: dict[Metric, dict[Key, Reading]] = {}
        self._shown: dict[Metric, list[Key]] = {}

    def collect(self) -> list[MetricPoints]:
        """Return all series as they are now, in the order of the documentation.

        A new series of a counter or histogram begins with a zero at the time of the previous collection, when it still
        had no value. Without that point no query could see its first increment.
        """
        # Times of one series must rise, even if the wall clock is set back.
        now = max(self._clock(), self._collected_unix_nano + 1)
        collected = [group for metric in METRICS for group in _grouped(metric, self._points(metric, now))]
        self._collected_unix_nano = now
        return collected

    def _points(self, metric: Metric, now: int) -> Iterator[Point]:
        series: dict[Key, _SumSeries] | dict[Key, _HistogramSeries] = (
            self._histograms.get(metric, {})
            if metric.instrument is Instrument.HISTOGRAM
            else self._sums.get(metric, {})
        )
        for key, state in series.items():
            if not state.start_unix_nano:
                state.start_unix_nano = self._collected_unix_nano
                yield state.zero(key)
            yield state.point(key, now)
        yield from self._read(metric, now)

    def _read(self, metric: Metric, now: int) -> Iterator[Point]:
        """Yield the values of gauges and the like, and an end for each series that has lost its value."""
        series = self._readings.get(metric)
        if series is None:
            return
        start = self._began_unix_nano if metric.instrument is Instrument.UP_DOWN_COUNTER else 0
        values = {key: value for key, reading in series.items() if (value := usable_reading(reading)) is not None}
        for key, value in values.items():
            yield NumberPoint(dict(key), start, now, value)
        for key in self._shown.get(metric, ()):
            if key not in values:
                yield NumberPoint(dict(key), start, now, None)
        self._shown[metric] = list(values)

    def _add(self, metric: Metric, amount: Number, key: Key) -> None:
        series = self._sums.setdefault(metric, {})
        key = bounded(series, key)
        state = series.get(key)
        if state is None:
            state = series[key] = _SumSeries()
        state.value = fitting(state.value + amount)

    def _record(self, metric: Metric, value: float, key: Key, ref: SpanRef | None) -> None:
        series = self._histograms.setdefault(metric, {})
        key = bounded(series, key)
        state = series.get(key)
        if state is None:
            state = series[key] = _HistogramSeries()
        exemplar = None
        if self._exemplars and ref is not None and ref.sampled:
            exemplar = Exemplar(value, self._clock(), ref.trace_id, ref.span_id)
        state.record(value, exemplar)

    def _watch(self, metric: Metric, key: Key, reading: Reading) -> None:
        series = self._readings.setdefault(metric, {})
        series[bounded(series, key)] = reading

    def _end(self, metric: Metric, key: Key) -> None:
        self._readings.get(metric, {}).pop(key, None)


def _grouped(metric: Metric, points: Iterator[Point]) -> Iterator[MetricPoints]:
    found = list(points)
    for start in range(0, len(found), MAX_POINTS):
        yield MetricPoints(metric, found[start : start + MAX_POINTS])
