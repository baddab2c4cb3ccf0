"""The meter of our own pipeline: sums, histograms and gauges, collected on demand.

The SDK's meter does not serve here: its histograms cannot begin at zero, its series never end, and its readers export
on threads and at times of their own.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TypeVar

from proofstream_otel.metrics.label_values import Key, LabelValue, with_other
from proofstream_otel.metrics.meter import Meter, Number, Reading, bounded, fitting, usable_reading
from proofstream_otel.values.metric_points import (
    MAX_POINTS,
    Exemplar,
    Exemplars,
    HistogramPoint,
    MetricPoints,
    NumberPoint,
    Point,
    Temporality,
)
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, METRICS, Instrument, Metric
from proofstream_otel.values.spans import SpanRef

_STEP_NS = 1_000_000
"""How long series end before those begin that take their place, so that at no time more are live than are allowed."""


class _SumSeries:
    __slots__ = ("_sent", "start_unix_nano", "value")

    def __init__(self) -> None:
        self.value: Number = 0
        self._sent: Number = 0
        self.start_unix_nano = 0

    @property
    def has_unsent(self) -> bool:
        return self.value != self._sent

    def add_unsent(self, other: _SumSeries) -> None:
        """Add the part of another series that no collection has shown."""
        self.value = fitting(self.value + other.value - other._sent)

    def point(self, key: Key, now: int) -> Point:
        self._sent = self.value
        return NumberPoint(dict(key), self.start_unix_nano, now, self.value)

    def zero(self, key: Key) -> Point:
        return NumberPoint(dict(key), self.start_unix_nano, self.start_unix_nano, type(self.value)())


class _HistogramSeries:
    __slots__ = ("_buckets", "_exemplars", "_max", "_min", "_sent_buckets", "_sent_sum", "_sum", "start_unix_nano")

    def __init__(self) -> None:
        self._buckets = [0] * (len(DURATION_BUCKETS_S) + 1)
        self._sum = 0.0
        self._sent_buckets = self._buckets.copy()
        self._sent_sum = 0.0
        self._min = float("inf")
        self._max = float("-inf")
        self._exemplars: dict[int, Exemplar] = {}
        self.start_unix_nano = 0

    def record(self, value: float, exemplar: Exemplar | None) -> None:
        bucket = bisect_left(DURATION_BUCKETS_S, value)
        self._buckets[bucket] += 1
        self._sum += value
        self._min = min(self._min, value)
        self._max = max(self._max, value)
        if exemplar is not None:
            self._exemplars[bucket] = exemplar

    @property
    def has_unsent(self) -> bool:
        return self._buckets != self._sent_buckets

    def add_unsent(self, other: _HistogramSeries) -> None:
        """Add the part of another series that no collection has shown."""
        for bucket, (count, sent) in enumerate(zip(other._buckets, other._sent_buckets, strict=True)):
            self._buckets[bucket] += count - sent
        self._sum += other._sum - other._sent_sum
        self._min = min(self._min, other._min)
        self._max = max(self._max, other._max)
        self._exemplars |= other._exemplars

    def point(self, key: Key, now: int) -> Point:
        self._sent_buckets, self._sent_sum = self._buckets.copy(), self._sum
        exemplars, self._exemplars = list(self._exemplars.values()), {}  # send each once
        return HistogramPoint(
            attributes=dict(key),
            start_unix_nano=self.start_unix_nano,
            time_unix_nano=now,
            count=sum(self._buckets),
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


_Series = TypeVar("_Series", _SumSeries, _HistogramSeries)


class OwnMeter(Meter):
    """Keeps all series and their values.

    Args:
        exemplars: Which measurements histograms keep that point to their spans.
        temporality: Which metrics are collected as differences.
        clock: Returns the time in nanoseconds since the epoch.
        log: Is told of attributes with too many values.
    """

    def __init__(
        self,
        *,
        exemplars: Exemplars = Exemplars.SAMPLED,
        temporality: Temporality = Temporality.CUMULATIVE,
        clock: Callable[[], int] = time.time_ns,
        log: logging.Logger | None = None,
    ) -> None:
        super().__init__(evict=self._end_all_with, log=log)
        self._exemplars = exemplars
        self._temporality = temporality
        self._read_before: dict[Metric, dict[Key, Number]] = {}
        self._clock = clock
        self._began_unix_nano = clock()
        self._collected_unix_nano = self._began_unix_nano
        self._sums: dict[Metric, dict[Key, _SumSeries]] = {}
        self._histograms: dict[Metric, dict[Key, _HistogramSeries]] = {}
        self._readings: dict[Metric, dict[Key, Reading]] = {}
        self._shown: dict[Metric, dict[Key, None]] = {}

    def collect(self) -> list[MetricPoints]:
        """Return all series as they are now, in the order of the documentation.

        A new series of a counter or histogram begins with a zero at the time of the previous collection, when it still
        had no value. Without that point no query could see its first increment. A series that has ended since the
        previous collection gets a last point without a value. A difference needs neither: it says itself from when to
        when it counts.
        """
        # Times of one series must rise, even if the wall clock is set back.
        now = max(self._clock(), self._collected_unix_nano + 3)
        collected: list[MetricPoints] = []
        for metric in METRICS:
            is_delta = self._is_delta(metric)
            points = self._differences(metric, now) if is_delta else self._points(metric, now)
            collected.extend(_grouped(metric, points, is_delta=is_delta))
        self._collected_unix_nano = now
        return collected

    def _points(self, metric: Metric, now: int) -> Iterator[Point]:
        """Yield the values of a metric's series, and an end for each series that has lost its value."""
        shown, counted = self._shown.get(metric, {}), self._counted(metric)
        readings = self._readings.get(metric, {})
        values = {key: value for key, reading in readings.items() if (value := usable_reading(reading)) is not None}
        self._shown[metric] = dict.fromkeys((*counted, *values))
        start = self._began_unix_nano if metric.instrument is Instrument.UP_DOWN_COUNTER else 0
        step = min(_STEP_NS, (now - self._collected_unix_nano) // 3)
        ended = [key for key in shown if key not in self._shown[metric]]
        for key, state in counted.items():
            if not state.start_unix_nano:
                # At the time of the previous collection, others were in its place, or it had another value itself.
                is_late = ended or key in shown
                state.start_unix_nano = now - step if is_late else self._collected_unix_nano
                yield state.zero(key)
            yield state.point(key, now)
        for key, value in values.items():
            yield NumberPoint(dict(key), start, now, value)
        for key in ended:
            yield NumberPoint(dict(key), start, now - 2 * step, None)

    def _is_delta(self, metric: Metric) -> bool:
        if metric.instrument not in (Instrument.COUNTER, Instrument.HISTOGRAM):
            return False
        if self._temporality is Temporality.LOW_MEMORY:
            return not metric.is_counted_elsewhere
        return self._temporality is Temporality.DELTA

    def _differences(self, metric: Metric, now: int) -> Iterator[Point]:
        """Yield what was counted since the previous collection, and begin anew."""
        counted = self._counted(metric)
        for key, state in counted.items():
            state.start_unix_nano = self._collected_unix_nano
            yield state.point(key, now)
        counted.clear()
        yield from self._read_differences(metric, now)

    def _read_differences(self, metric: Metric, now: int) -> Iterator[Point]:
        before, self._read_before[metric] = self._read_before.get(metric, {}), {}
        for key, reading in self._readings.get(metric, {}).items():
            value = usable_reading(reading)
            if value is None:
                continue
            self._read_before[metric][key] = value
            # What a third party counted before we read it first is no difference of ours.
            last = before.get(key, value if metric.is_counted_elsewhere else 0)
            risen = value - last if value >= last else value  # it began anew
            yield NumberPoint(dict(key), self._collected_unix_nano, now, fitting(risen))

    def _counted(self, metric: Metric) -> dict[Key, _SumSeries] | dict[Key, _HistogramSeries]:
        if metric.instrument is Instrument.HISTOGRAM:
            return self._histograms.get(metric, {})
        return self._sums.get(metric, {})

    def _end_all_with(self, label: tuple[str, LabelValue]) -> None:
        """End all series with a value of an attribute. What no collection has shown of their counts is not lost."""
        for metric in METRICS:
            if label[0] in metric.attributes:
                _fold(self._sums.get(metric, {}), label, _SumSeries)
                _fold(self._histograms.get(metric, {}), label, _HistogramSeries)
                readings = self._readings.get(metric, {})
                for key in [key for key in readings if label in key]:
                    del readings[key]

    def _add(self, metric: Metric, amount: Number, key: Key) -> None:
        series = self._sums.setdefault(metric, {})
        state = series.get(key) or series.setdefault(bounded(series, key), _SumSeries())
        state.value = fitting(state.value + amount)

    def _record(self, metric: Metric, value: float, key: Key, ref: SpanRef | None) -> None:
        series = self._histograms.setdefault(metric, {})
        state = series.get(key) or series.setdefault(bounded(series, key), _HistogramSeries())
        exemplar = None
        if self._exemplars is Exemplars.ALL or (
            self._exemplars is Exemplars.SAMPLED and ref is not None and ref.sampled
        ):
            ids = ("", "") if ref is None else (ref.trace_id, ref.span_id)
            exemplar = Exemplar(value, self._clock(), *ids)
        state.record(value, exemplar)

    def _watch(self, metric: Metric, key: Key, reading: Reading) -> None:
        series = self._readings.setdefault(metric, {})
        series[bounded(series, key)] = reading

    def _end(self, metric: Metric, key: Key) -> None:
        self._readings.get(metric, {}).pop(key, None)


def _fold(series: dict[Key, _Series], label: tuple[str, LabelValue], make: type[_Series]) -> None:
    """End the series with a value, and add their unsent parts to the series of `other` values."""
    for key in [key for key in series if label in key]:
        ended = series.pop(key)
        if ended.has_unsent:
            rest = bounded(series, with_other(key, label))
            series.setdefault(rest, make()).add_unsent(ended)


def _grouped(metric: Metric, points: Iterator[Point], *, is_delta: bool) -> Iterator[MetricPoints]:
    found = list(points)
    for start in range(0, len(found), MAX_POINTS):
        yield MetricPoints(metric, found[start : start + MAX_POINTS], is_delta)
