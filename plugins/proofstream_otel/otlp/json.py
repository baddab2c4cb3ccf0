"""Encodes spans, log records and metrics as OTLP JSON objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.metric_points import NO_VALUE, HistogramPoint, MetricPoints, NumberPoint
from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.safe import Attributes, Value
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, Instrument
from proofstream_otel.values.spans import SpanEvent, SpanValues

_KIND_INTERNAL = 1
_STATUS_ERROR = 2
_DELTA = 1
_CUMULATIVE = 2


def span_of(span: SpanValues) -> dict[str, Any]:
    """Return a span as an OTLP object."""
    found: dict[str, Any] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.trace_state:
        found["traceState"] = span.trace_state
    if span.parent_span_id:
        found["parentSpanId"] = span.parent_span_id
    found |= {
        "flags": span.flags,
        "name": span.name,
        "kind": _KIND_INTERNAL,
        "startTimeUnixNano": str(span.start_unix_nano),
        "endTimeUnixNano": str(span.end_unix_nano),
        "attributes": attributes_of(span.attributes),
        "events": [_event(event) for event in span.events],
        **_dropped_attributes(span),
        "droppedEventsCount": span.dropped_events,
        "links": [{"traceId": link.trace_id, "spanId": link.span_id} for link in span.links],
        **({"droppedLinksCount": span.dropped_links} if span.dropped_links else {}),
        "status": {} if span.error is None else {"message": span.error, "code": _STATUS_ERROR},
    }
    return found


def _event(event: SpanEvent | RoundEvent) -> dict[str, Any]:
    return {
        "timeUnixNano": str(event.time_unix_nano),
        "name": event.name,
        "attributes": attributes_of(event.attributes),
        **_dropped_attributes(event),
    }


def _dropped_attributes(holder: SpanValues | SpanEvent | RoundEvent | LogValues) -> dict[str, Any]:
    return {"droppedAttributesCount": holder.dropped_attributes} if holder.dropped_attributes else {}


def attributes_of(attributes: Attributes) -> list[dict[str, Any]]:
    """Return attributes as an OTLP list."""
    return [{"key": key, "value": _VALUES[type(value)](value)} for key, value in attributes.items()]


def _array(values: list[Any]) -> dict[str, Any]:
    return {"arrayValue": {"values": [_VALUES[type(value)](value) for value in values]}}


_VALUES: dict[type[Value], Callable[[Any], dict[str, Any]]] = {
    str: lambda value: {"stringValue": value},
    bool: lambda value: {"boolValue": value},
    int: lambda value: {"intValue": str(value)},
    float: lambda value: {"doubleValue": value},
    list: _array,
}


def log_of(log: LogValues) -> dict[str, Any]:
    """Return a log record as an OTLP object."""
    found: dict[str, Any] = {
        "timeUnixNano": str(log.time_unix_nano),
        "observedTimeUnixNano": str(log.observed_unix_nano),
        "severityNumber": log.severity_number,
        "severityText": log.severity_text,
        "attributes": attributes_of(log.attributes),
        "flags": log.flags,
        "traceId": log.trace_id,
        "spanId": log.span_id,
        "eventName": log.event_name,
        **_dropped_attributes(log),
    }
    return found if log.body is None else found | {"body": {"stringValue": log.body}}


def metric_of(group: MetricPoints) -> dict[str, Any]:
    """Return a metric with its points as an OTLP object."""
    metric = group.metric
    found: dict[str, Any] = {"name": metric.name, "description": metric.summary, "unit": metric.unit}
    points = [_histogram(p) if isinstance(p, HistogramPoint) else _number(p) for p in group.points]
    temporality = _DELTA if group.is_delta else _CUMULATIVE
    match metric.instrument:
        case Instrument.HISTOGRAM:
            found["histogram"] = {"dataPoints": points, "aggregationTemporality": temporality}
        case Instrument.GAUGE:
            found["gauge"] = {"dataPoints": points}
        case instrument:
            is_monotonic = instrument is Instrument.COUNTER
            found["sum"] = {
                "dataPoints": points,
                "aggregationTemporality": temporality,
                "isMonotonic": is_monotonic,
            }
    return found


def _number(point: NumberPoint) -> dict[str, Any]:
    value = point.value
    found: dict[str, Any] = {"attributes": attributes_of(point.attributes), "timeUnixNano": str(point.time_unix_nano)}
    if point.start_unix_nano:
        found["startTimeUnixNano"] = str(point.start_unix_nano)
    if value is None:
        return found | {"flags": NO_VALUE}
    return found | ({"asInt": str(value)} if isinstance(value, int) else {"asDouble": value})


def _histogram(point: HistogramPoint) -> dict[str, Any]:
    found: dict[str, Any] = {
        "attributes": attributes_of(point.attributes),
        "startTimeUnixNano": str(point.start_unix_nano),
        "timeUnixNano": str(point.time_unix_nano),
        "count": str(point.count),
        "sum": point.sum,
        "bucketCounts": [str(count) for count in point.bucket_counts],
        "explicitBounds": list(DURATION_BUCKETS_S),
        "exemplars": [
            {
                "timeUnixNano": str(exemplar.time_unix_nano),
                "asDouble": exemplar.value,
                "traceId": exemplar.trace_id,
                "spanId": exemplar.span_id,
            }
            for exemplar in point.exemplars
        ],
    }
    return found | ({"min": point.min, "max": point.max} if point.count else {})
