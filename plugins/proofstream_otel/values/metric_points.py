"""Metrics at one moment, as plain values: what a collection makes, and what every writer of metrics takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import Metric

MAX_POINTS = 128
"""Points of one metric that are encoded together, so that a line or request can hold them."""


class SpanRef(msgspec.Struct, frozen=True, gc=False):
    """The span that something happened in.

    Attributes:
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits.
        sampled: Whether it is exported.
    """

    trace_id: str
    span_id: str
    sampled: bool


class Exemplar(msgspec.Struct, frozen=True, gc=False):
    """A measurement, and the span that it was made of."""

    value: float
    time_unix_nano: int
    trace_id: str
    span_id: str


class NumberPoint(msgspec.Struct, frozen=True):
    """A value of a counter, an up-down counter or a gauge.

    Attributes:
        attributes: The series.
        start_unix_nano: Since when it counts; 0 if that is not known or means nothing.
        time_unix_nano: When it was so.
        value: The value; None says that the series has ended.
    """

    attributes: Attributes
    start_unix_nano: int
    time_unix_nano: int
    value: int | float | None


class HistogramPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram over `semconv.DURATION_BUCKETS_S`."""

    attributes: Attributes
    start_unix_nano: int
    time_unix_nano: int
    count: int
    sum: float
    min: float
    max: float
    bucket_counts: list[int]
    exemplars: list[Exemplar]


NO_VALUE = 1
"""OTLP's flag of a point that says that its series has ended; without it backends go on with the last value."""

Point: TypeAlias = NumberPoint | HistogramPoint


class MetricPoints(msgspec.Struct, frozen=True):
    """A metric and at most `MAX_POINTS` points of it."""

    metric: Metric
    points: list[Point]


class MetricSink(Protocol):
    """Takes what was collected."""

    def write(self, collected: Sequence[MetricPoints]) -> None:
        """Take a collection. Never waits."""
        ...

    def counters(self) -> dict[str, int]:
        """What was delivered and what could not be."""
        ...

    def hurry(self) -> None:
        """Do not wait any more."""
        ...

    def begin_closing(self, timeout_s: float) -> None:
        """Begin to deliver what is left within `timeout_s` from now."""
        ...

    def close(self, timeout_s: float) -> None:
        """Deliver what can be delivered within `timeout_s`."""
        ...
