"""Metrics at one moment, as plain values: a collection makes them, and every writer of metrics takes them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import Metric

MAX_POINTS = 128
"""The most points of one metric that are encoded together, so that they fit into one line or request."""


class Exemplars(enum.Enum):
    """Which measurements may point to their spans."""

    NONE = "always_off"
    SAMPLED = "trace_based"
    ALL = "always_on"


class Temporality(enum.Enum):
    """Which metrics are sent as differences to the collection before."""

    CUMULATIVE = "cumulative"
    """None."""
    DELTA = "delta"
    """All counters and histograms."""
    LOW_MEMORY = "lowmemory"
    """The same, except for counters that are only read: those must be kept to tell a difference."""


class Exemplar(msgspec.Struct, frozen=True, gc=False):
    """A measurement and the span that it was taken in."""

    value: float
    time_unix_nano: int
    trace_id: str
    span_id: str


class NumberPoint(msgspec.Struct, frozen=True):
    """A value of a counter, an up-down counter or a gauge; or the end of a series of any metric.

    Attributes:
        attributes: The series.
        start_unix_nano: When counting began; 0 if that is unknown or has no meaning.
        time_unix_nano: When the value was read.
        value: The value, or None to say that the series has ended.
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
"""OTLP's flag for a point that ends its series. Without such a point, backends continue with the last value."""

Point: TypeAlias = NumberPoint | HistogramPoint


class MetricPoints(msgspec.Struct, frozen=True):
    """A metric and at most `MAX_POINTS` of its points; `is_delta` says that those are differences to earlier ones."""

    metric: Metric
    points: list[Point]
    is_delta: bool = False


class MetricSink(Protocol):
    """Takes collections."""

    def write_metrics(self, collected: Sequence[MetricPoints]) -> None:
        """Take a collection. Never wait."""
        ...
