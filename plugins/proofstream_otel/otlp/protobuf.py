"""Encodes spans and log records as OTLP protobuf.

Each is encoded once and on its own, so that the size of a request is known before it is made. The official encoders
(`opentelemetry.exporter.otlp.proto.common`) cannot do that: they take the SDK's own spans and metrics, which we do not
make, and return whole requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.safe import Attributes, Value
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import SpanEvent, SpanValues, fit

MAX_SPAN_BYTES = 2**20
"""The largest encoded span. OTLP receivers accept requests of up to 4 MiB by default."""

_RESOURCE = _SCOPE = 1
_RESOURCE_SPANS = 1
_SCOPE_SPANS = _SPANS = 2


def encode_span(span: SpanValues) -> bytes:
    """Encode a span as an OTLP message; one that is too large loses events from the middle."""
    return fit(span, _encode_span, MAX_SPAN_BYTES)


def encode_log(log: LogValues) -> bytes:
    """Encode a log record as an OTLP message."""
    message = LogRecord(
        time_unix_nano=log.time_unix_nano,
        observed_time_unix_nano=log.observed_unix_nano,
        severity_number=SeverityNumber.ValueType(log.severity_number),
        severity_text=log.severity_text,
        trace_id=bytes.fromhex(log.trace_id),
        span_id=bytes.fromhex(log.span_id),
        flags=log.flags,
        event_name=log.event_name,
        dropped_attributes_count=log.dropped_attributes,
    )
    if log.body is not None:
        message.body.string_value = log.body
    fill_attributes(message.attributes, log.attributes)
    return bytes(message.SerializeToString())


def encode_resource(attributes: Attributes) -> bytes:
    """Encode a resource as an OTLP message."""
    resource = Resource()
    fill_attributes(resource.attributes, attributes)
    return bytes(resource.SerializeToString())


def encode_scope(version: str) -> bytes:
    """Encode our instrumentation scope as an OTLP message."""
    return bytes(InstrumentationScope(name=SCOPE, version=version).SerializeToString())


def encode_request(scope: bytes, groups: Iterable[tuple[bytes, list[bytes]]]) -> bytes:
    """Join encoded messages into a request: for each resource its spans, log records or metrics.

    The field numbers are the same for all three signals, so this serves all of them.
    """
    return b"".join(_field(_RESOURCE_SPANS, _encode_group(scope, resource, spans)) for resource, spans in groups)


def _encode_group(scope: bytes, resource: bytes, spans: list[bytes]) -> bytes:
    scope_spans = _field(_SCOPE, scope) + b"".join(_field(_SPANS, span) for span in spans)
    return _field(_RESOURCE, resource) + _field(_SCOPE_SPANS, scope_spans)


def decode_rejection(response: bytes) -> tuple[int, str]:
    """Return the number of items that a receiver rejected although it accepted the request, and its message.

    Return 0 and an empty text if it is not an OTLP response: the status says that the request was accepted, even if a
    proxy replaced the body.
    """
    try:
        partial = ExportTraceServiceResponse.FromString(response).partial_success
    except Exception:  # noqa: BLE001 - protobuf's own error has no types, and any other means the same
        return 0, ""
    return max(0, partial.rejected_spans), partial.error_message  # the other signals use the same field number


def _field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field of protobuf's wire format."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _encode_span(span: SpanValues) -> bytes:
    message = Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id),
        trace_state=span.trace_state,
        flags=span.flags,
        name=span.name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start_unix_nano,
        end_time_unix_nano=span.end_unix_nano,
        dropped_attributes_count=span.dropped_attributes,
        dropped_events_count=span.dropped_events,
        dropped_links_count=span.dropped_links,
    )
    fill_attributes(message.attributes, span.attributes)
    for event in span.events:
        _add_event(message, event)
    for link in span.links:
        message.links.add(trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id))
    if span.error is not None:
        message.status.code = Status.STATUS_CODE_ERROR
        message.status.message = span.error
    return bytes(message.SerializeToString())


def _add_event(message: Span, event: SpanEvent) -> None:
    added = message.events.add(
        name=event.name, time_unix_nano=event.time_unix_nano, dropped_attributes_count=event.dropped_attributes
    )
    fill_attributes(added.attributes, event.attributes)


def fill_attributes(pairs: Any, attributes: Attributes) -> None:
    """Add attributes to a message."""
    for key, value in attributes.items():
        _set(pairs.add(key=key).value, value)


def _set(target: Any, value: Value) -> None:
    match value:
        case str():
            target.string_value = value
        case bool():
            target.bool_value = value
        case int():
            target.int_value = value
        case float():
            target.double_value = value
        case _:
            for item in value:
                _set(target.array_value.values.add(), item)
