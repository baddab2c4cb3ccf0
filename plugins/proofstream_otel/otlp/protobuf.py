"""Encodes log records, resources and whole requests as OTLP protobuf, and reads the answers.

Each item is encoded once and on its own, so that the size of a request is known before it is made. The official
encoders (`opentelemetry.exporter.otlp.proto.common`) cannot do that: they take the SDK's own spans and metrics, which
we do not make, and return whole requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from proofstream_otel.otlp.wire import field
from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.safe import Attributes, Value
from proofstream_otel.values.semconv import SCOPE

_RESOURCE = _SCOPE = 1
_RESOURCE_SPANS = 1
_SCOPE_SPANS = _SPANS = 2


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
    return b"".join(field(_RESOURCE_SPANS, _encode_group(scope, resource, spans)) for resource, spans in groups)


def _encode_group(scope: bytes, resource: bytes, spans: list[bytes]) -> bytes:
    scope_spans = field(_SCOPE, scope) + b"".join(field(_SPANS, span) for span in spans)
    return field(_RESOURCE, resource) + field(_SCOPE_SPANS, scope_spans)


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
