"""Receivers that behave well and badly, and ways to read back what was exported."""

from __future__ import annotations

import gzip
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from proofstream import (
    Decoded,
    Envelope,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    ProofComplete,
    ProofEvent,
    ProofStart,
    RoundPoly,
    SecureField,
    SumcheckRound,
    encode_event,
)
from proofstream.testing import envelopes, read_stream

WIRE = Path(__file__).parents[2] / "data" / "wire"


class SeenEvent(msgspec.Struct, frozen=True):
    """A span event as a reader sees it."""

    name: str
    time_unix_nano: int
    attributes: dict[str, Any]


class SeenSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span as a reader sees it, whatever way it went."""

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: dict[str, Any]
    events: list[SeenEvent]
    dropped_events: int
    links: list[tuple[str, str]]
    status: tuple[int, str]
    resource: dict[str, Any]

    def rounds(self) -> list[SeenEvent]:
        """Its events that are sumcheck rounds."""
        return [event for event in self.events if event.name == "proofstream.sumcheck.round"]


def _json_value(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    match kind:
        case "intValue":
            return int(content)
        case "arrayValue":
            return [_json_value(item) for item in content["values"]]
        case _:
            return content


def _json_attributes(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: _json_value(pair["value"]) for pair in pairs}


def _from_json(span: dict[str, Any], resource: dict[str, Any]) -> SeenSpan:
    status = span["status"]
    return SeenSpan(
        name=span["name"],
        trace_id=span["traceId"],
        span_id=span["spanId"],
        parent_span_id=span.get("parentSpanId", ""),
        start_unix_nano=int(span["startTimeUnixNano"]),
        end_unix_nano=int(span["endTimeUnixNano"]),
        attributes=_json_attributes(span["attributes"]),
        events=[
            SeenEvent(event["name"], int(event["timeUnixNano"]), _json_attributes(event["attributes"]))
            for event in span["events"]
        ],
        dropped_events=span["droppedEventsCount"],
        links=[(link["traceId"], link["spanId"]) for link in span["links"]],
        status=(status.get("code", 0), status.get("message", "")),
        resource=resource,
    )


def read_file(path: Path) -> list[SeenSpan]:
    """The spans of a file of OTLP JSON lines, in its order."""
    found: list[SeenSpan] = []
    for line in path.read_bytes().splitlines():
        for group in json.loads(line)["resourceSpans"]:
            resource = _json_attributes(group["resource"]["attributes"])
            for scope in group["scopeSpans"]:
                assert scope["scope"]["name"] == "proofstream"
                found.extend(_from_json(span, resource) for span in scope["spans"])
    return found


def _proto_value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_proto_value(item) for item in value.array_value.values]
    return getattr(value, str(kind))


def _proto_attributes(pairs: Any) -> dict[str, Any]:
    found: list[KeyValue] = list(pairs)
    return {pair.key: _proto_value(pair.value) for pair in found}


def _from_proto(span: ProtoSpan, resource: dict[str, Any]) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        start_unix_nano=span.start_time_unix_nano,
        end_unix_nano=span.end_time_unix_nano,
        attributes=_proto_attributes(span.attributes),
        events=[
            SeenEvent(event.name, event.time_unix_nano, _proto_attributes(event.attributes)) for event in span.events
        ],
        dropped_events=span.dropped_events_count,
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        status=(int(span.status.code), span.status.message),
        resource=resource,
    )


def read_request(body: bytes) -> list[SeenSpan]:
    """The spans of one OTLP request."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        _from_proto(span, _proto_attributes(group.resource.attributes))
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


class SeenPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A data point as a reader sees it, whatever way it went; a histogram's value is its sum."""

    name: str
    unit: str
    kind: str
    monotonic: bool
    start_unix_nano: int
    time_unix_nano: int
    attributes: dict[str, Any]
    value: float
    has_ended: bool = False
    count: int = 0
    bucket_counts: tuple[int, ...] = ()
    bounds: tuple[float, ...] = ()
    exemplars: tuple[tuple[float, str, str], ...] = ()


class SeenLog(msgspec.Struct, frozen=True, kw_only=True):
    """A log record as a reader sees it, whatever way it went."""

    event_name: str
    time_unix_nano: int
    severity: tuple[int, str]
    body: str | None
    attributes: dict[str, Any]
    trace_id: str
    span_id: str
    flags: int


def _point_from_json(metric: dict[str, Any], kind: str, point: dict[str, Any]) -> SeenPoint:
    number = int(point["asInt"]) if "asInt" in point else point.get("asDouble", point.get("sum", 0.0))
    return SeenPoint(
        name=metric["name"],
        unit=metric["unit"],
        kind=kind,
        monotonic=metric[kind].get("isMonotonic", False),
        start_unix_nano=int(point.get("startTimeUnixNano", "0")),
        time_unix_nano=int(point["timeUnixNano"]),
        attributes=_json_attributes(point["attributes"]),
        value=number,
        has_ended=point.get("flags", 0) == 1,
        count=int(point.get("count", "0")),
        bucket_counts=tuple(map(int, point.get("bucketCounts", []))),
        bounds=tuple(point.get("explicitBounds", [])),
        exemplars=tuple((e["asDouble"], e["traceId"], e["spanId"]) for e in point.get("exemplars", [])),
    )


def read_metric_file(path: Path) -> list[SeenPoint]:
    """The data points of a file of OTLP JSON lines, in its order."""
    found: list[SeenPoint] = []
    for line in path.read_bytes().splitlines():
        for group in json.loads(line)["resourceMetrics"]:
            for metric in group["scopeMetrics"][0]["metrics"]:
                (kind,) = metric.keys() & {"gauge", "sum", "histogram"}
                found.extend(_point_from_json(metric, kind, point) for point in metric[kind]["dataPoints"])
    return found


def read_log_file(path: Path) -> list[SeenLog]:
    """The log records of a file of OTLP JSON lines, in its order."""
    return [
        SeenLog(
            event_name=record["eventName"],
            time_unix_nano=int(record["timeUnixNano"]),
            severity=(record["severityNumber"], record["severityText"]),
            body=record.get("body", {}).get("stringValue"),
            attributes=_json_attributes(record["attributes"]),
            trace_id=record["traceId"],
            span_id=record["spanId"],
            flags=record["flags"],
        )
        for line in path.read_bytes().splitlines()
        for group in json.loads(line)["resourceLogs"]
        for record in group["scopeLogs"][0]["logRecords"]
    ]


def _point_from_proto(metric: Any, kind: str, point: Any) -> SeenPoint:
    if kind == "histogram":
        value: float = point.sum
    else:
        value = getattr(point, str(point.WhichOneof("value") or "as_double"))
    return SeenPoint(
        name=metric.name,
        unit=metric.unit,
        kind=kind,
        monotonic=kind == "sum" and metric.sum.is_monotonic,
        start_unix_nano=point.start_time_unix_nano,
        time_unix_nano=point.time_unix_nano,
        attributes=_proto_attributes(point.attributes),
        value=value,
        has_ended=point.flags == 1,
        count=point.count if kind == "histogram" else 0,
        bucket_counts=tuple(point.bucket_counts) if kind == "histogram" else (),
        bounds=tuple(point.explicit_bounds) if kind == "histogram" else (),
        exemplars=tuple((e.as_double, e.trace_id.hex(), e.span_id.hex()) for e in point.exemplars)
        if kind == "histogram"
        else (),
    )


def read_metric_request(body: bytes) -> list[SeenPoint]:
    """The data points of one OTLP request."""
    found: list[SeenPoint] = []
    for group in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in group.scope_metrics:
            for metric in scope.metrics:
                kind = str(metric.WhichOneof("data"))
                points: Any = getattr(metric, kind).data_points
                found.extend(_point_from_proto(metric, kind, point) for point in points)
    return found


def read_log_request(body: bytes) -> list[SeenLog]:
    """The log records of one OTLP request."""
    return [
        SeenLog(
            event_name=record.event_name,
            time_unix_nano=record.time_unix_nano,
            severity=(int(record.severity_number), record.severity_text),
            body=record.body.string_value if record.HasField("body") else None,
            attributes=_proto_attributes(record.attributes),
            trace_id=record.trace_id.hex(),
            span_id=record.span_id.hex(),
            flags=record.flags,
        )
        for group in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in group.scope_logs
        for record in scope.log_records
    ]


def read_services(body: bytes, path: str) -> set[str]:
    """The names of the services in one OTLP request with metrics or log records."""
    if path.endswith("/v1/metrics"):
        groups: Any = ExportMetricsServiceRequest.FromString(body).resource_metrics
    else:
        groups = ExportLogsServiceRequest.FromString(body).resource_logs
    return {_proto_attributes(group.resource.attributes)["service.name"] for group in groups}


def values_of(points: list[SeenPoint], name: str) -> dict[tuple[Any, ...], float]:
    """The last value of each series of a metric, by the values of its attributes in order of their keys."""
    return {
        tuple(point.attributes[key] for key in sorted(point.attributes)): point.value
        for point in points
        if point.name == name and not point.has_ended
    }


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a receiver answers, and after how long."""

    status: int = 200
    rejected: int = 0
    message: str = ""
    delay_s: float = 0.0
    headers: dict[str, str] = {}

    def body(self) -> bytes:
        """The answer's body."""
        partial = ExportTracePartialSuccess(rejected_spans=self.rejected, error_message=self.message)
        return bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())


class Receiver:
    """An OTLP/HTTP receiver on a free port; it gives the answers it was told to, the last one from then on.

    What it notes and answers concerns traces; the other signals are kept apart and answered as `others` says.
    """

    def __init__(self) -> None:
        self.others = Answer()
        self.points: list[SeenPoint] = []
        self.logs: list[SeenLog] = []
        self.services: set[str] = set()
        """The services that sent metrics or log records."""
        self.other_paths: list[str] = []
        self.answers: list[Answer] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.sizes: list[int] = []
        self.spans: list[SeenSpan] = []
        """The spans of requests that were answered with 200."""
        self.stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def port(self) -> int:
        """Its port."""
        return int(self._server.server_address[1])

    def serve_tls(self, context: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.take(self.path, dict(self.headers.items()), body)
                receiver.stopping.wait(answer.delay_s)
                content = answer.body()
                try:
                    self.send_response(answer.status)
                    for key, value in {**answer.headers, "Content-Length": str(len(content))}.items():
                        self.send_header(key, value)
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    return  # the client did not wait

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        return Handler

    def take(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        """Note a request and choose its answer."""
        content = gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body
        if path.endswith(("/v1/metrics", "/v1/logs")):
            return self._take_other(path, content)
        answer = self.answers[min(len(self.paths), len(self.answers) - 1)] if self.answers else Answer()
        self.paths.append(path)
        self.headers.append(headers)
        self.sizes.append(len(content))
        if answer.status == 200:
            self.spans.extend(read_request(content))
        return answer

    def _take_other(self, path: str, content: bytes) -> Answer:
        self.other_paths.append(path)
        self.services |= read_services(content, path)
        if self.others.status == 200 and path.endswith("/v1/metrics"):
            self.points.extend(read_metric_request(content))
        elif self.others.status == 200:
            self.logs.extend(read_log_request(content))
        return self.others

    def close(self) -> None:
        """Stop it."""
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver with configured answers."""
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def silent() -> Iterator[str]:
    """The base URL of a receiver that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """A base URL without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove OpenTelemetry's variables from the environment."""
    for name in list(os.environ):
        if name.startswith("OTEL_") or name in ("TRACEPARENT", "TRACESTATE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def wait_until(happened: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Wait until another thread has made a condition true."""
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def stream(name: str, **arguments: Any) -> list[Envelope]:
    """The envelopes of one of the recorded streams."""
    return envelopes(read_stream(WIRE / f"{name}.jsonl"), **arguments)


def element(value: int) -> SecureField:
    """A field element."""
    return SecureField(a=value, b=value + 1, c=value + 2, d=value + 3)


def proof_start(*, num_layers: int = 1, model_name: str | None = "mlp", backend: str = "cpu-gkr") -> ProofStart:
    """The start of a proof."""
    return ProofStart(
        model_name=model_name, backend=backend, num_layers=num_layers, input_shape=(1, 4), output_shape=(1, 2)
    )


def layer_start(
    layer_idx: int = 0, *, trace_cost: int = 8, claim: float | None = 0.5, input_shape: tuple[int, int] = (1, 4)
) -> LayerStart:
    """The start of a layer."""
    return LayerStart(
        layer_idx=layer_idx,
        kind=LayerKind.MatMul,
        input_shape=input_shape,
        output_shape=(1, 2),
        trace_cost=trace_cost,
        claim_value_approx=claim,
        gpu_device=None,
    )


def sumcheck_round(index: int = 0, *, layer_idx: int = 0, total: int = 2) -> SumcheckRound:
    """A round of degree 2."""
    poly = RoundPoly(c0=element(1), c1=element(10), c2=element(100))
    return SumcheckRound(
        layer_idx=layer_idx, round=index, total_rounds=total, poly_deg2=poly, poly_deg3=None, claim_value_approx=0.25
    )


def layer_end(layer_idx: int = 0, *, rounds_completed: int = 0) -> LayerEnd:
    """The end of a layer."""
    return LayerEnd(
        layer_idx=layer_idx,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=0.125,
        duration_ms=3,
        rounds_completed=rounds_completed,
    )


def proof_complete(*, duration_ms: int = 0, mode: str = "sequential") -> ProofComplete:
    """The end of a proof."""
    return ProofComplete(duration_ms=duration_ms, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode=mode)


def small_proof(rounds: int = 2) -> list[ProofEvent]:
    """A proof of one layer."""
    made = [sumcheck_round(i, total=rounds) for i in range(rounds)]
    return [proof_start(), layer_start(), *made, layer_end(), proof_complete()]


def of_job(job_id: str, *events: ProofEvent, inside: str | None = None) -> list[Decoded]:
    """Events of a job; `inside` is the job that its proof was started in."""
    return [
        Decoded(
            event=event,
            raw=encode_event(event),
            job_id=job_id,
            parent_job_id=inside if isinstance(event, ProofStart) else None,
        )
        for event in events
    ]


@pytest.fixture(scope="session")
def kit() -> Any:
    """Everything above, for tests, which cannot import from this folder: it is not a package."""
    return sys.modules[__name__]
