"""Encodes metrics as OTLP protobuf."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    Metric,
)

from proofstream_otel.otlp.protobuf import fill_attributes
from proofstream_otel.values.metric_points import NO_VALUE, HistogramPoint, MetricPoints, NumberPoint, Point
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, Instrument


def encode_metric(group: MetricPoints) -> bytes:
    """Encode a metric with its points as an OTLP message."""
    metric = group.metric
    message = Metric(name=metric.name, description=metric.summary, unit=metric.unit)
    points = _points_of(message, metric.instrument, is_delta=group.is_delta)
    for point in group.points:
        _add(points, point)
    return bytes(message.SerializeToString())


def _points_of(message: Metric, instrument: Instrument, *, is_delta: bool) -> Any:
    temporality = AGGREGATION_TEMPORALITY_DELTA if is_delta else AGGREGATION_TEMPORALITY_CUMULATIVE
    match instrument:
        case Instrument.HISTOGRAM:
            message.histogram.aggregation_temporality = temporality
            return message.histogram.data_points
        case Instrument.GAUGE:
            return message.gauge.data_points
        case _:
            message.sum.aggregation_temporality = temporality
            message.sum.is_monotonic = instrument is Instrument.COUNTER
            return message.sum.data_points


def _add(points: Any, point: Point) -> None:
    added = points.add(start_time_unix_nano=point.start_unix_nano, time_unix_nano=point.time_unix_nano)
    fill_attributes(added.attributes, point.attributes)
    if isinstance(point, NumberPoint):
        if point.value is None:
            added.flags = NO_VALUE
        elif isinstance(point.value, int):
            added.as_int = point.value
        else:
            added.as_double = point.value
    else:
        _fill_histogram(added, point)


def _fill_histogram(added: Any, point: HistogramPoint) -> None:
    added.count = point.count
    added.sum = point.sum
    if point.count:
        added.min = point.min
        added.max = point.max
    added.bucket_counts.extend(point.bucket_counts)
    added.explicit_bounds.extend(DURATION_BUCKETS_S)
    for exemplar in point.exemplars:
        added.exemplars.add(
            as_double=exemplar.value,
            time_unix_nano=exemplar.time_unix_nano,
            trace_id=bytes.fromhex(exemplar.trace_id),
            span_id=bytes.fromhex(exemplar.span_id),
        )
