"""OTLP over gRPC, against a real server on loopback."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]  # it ships no types
import pytest

from proofstream import Log, LogLevel, PluginError
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.otlp import exporter


class GrpcReceiver:
    """Services that keep their requests; the one for traces gives the configured answers."""

    def __init__(self, kit: Any) -> None:
        self.kit = kit
        self.points: list[Any] = []
        self.logs: list[Any] = []
        self.spans: list[Any] = []
        self.metadata: list[dict[str, str]] = []
        self.failures: list[Any] = []
        self.answer = kit.Answer()
        api: Any = grpc  # its stubs leave types open
        self.server: Any = api.server(ThreadPoolExecutor(3))
        for service, export_of in (
            ("trace.v1.TraceService", self._export),
            ("metrics.v1.MetricsService", self._export_metrics),
            ("logs.v1.LogsService", self._export_logs),
        ):
            handlers = {"Export": api.unary_unary_rpc_method_handler(export_of)}
            name = f"opentelemetry.proto.collector.{service}"
            self.server.add_generic_rpc_handlers((api.method_handlers_generic_handler(name, handlers),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def _export(self, body: bytes, context: Any) -> bytes:
        self.metadata.append(dict(context.invocation_metadata()))
        if self.failures:
            context.abort(self.failures.pop(0), "not now")
        self.spans.extend(self.kit.read_request(body))
        return bytes(self.answer.body())

    def _export_metrics(self, body: bytes, _context: Any) -> bytes:
        self.points.extend(self.kit.read_metric_request(body))
        return b""

    def _export_logs(self, body: bytes, context: Any) -> bytes:
        self.logs.extend(self.kit.read_log_request(body))
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "no logs here")
        return b""


@pytest.fixture
def grpc_receiver(kit: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrpcReceiver]:
    """A receiver over gRPC."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.05)
    made = GrpcReceiver(kit)
    yield made
    made.server.stop(None).wait(5)


def run(kit: Any, endpoint: str, **config: Any) -> InlineHost:
    """Send one proof to an endpoint, and end."""
    host = InlineHost(OtelPlugin(), {"endpoint": endpoint, **config})
    host.feed(envelopes(kit.small_proof()))
    host.close(3.0)
    return host


def test_spans_arrive_with_their_headers(kit: Any, grpc_receiver: GrpcReceiver) -> None:
    host = run(kit, f"grpc://127.0.0.1:{grpc_receiver.port}", headers={"X-Tenant": "a"})
    assert sorted(span.name for span in grpc_receiver.spans) == ["layer MatMul", "proof", "session"]
    assert grpc_receiver.metadata[0]["x-tenant"] == "a"
    assert host.health()["spans_exported"] == 3


def test_metrics_arrive_and_logs_may_be_unknown(kit: Any, grpc_receiver: GrpcReceiver) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": f"grpc://127.0.0.1:{grpc_receiver.port}"})
    host.feed(envelopes([Log(level=LogLevel.Info, message="hello"), *kit.small_proof()]))
    host.close(3.0)
    health = host.health()
    assert health["metric_points_exported"] == len(grpc_receiver.points) > 0
    assert [record.body for record in grpc_receiver.logs] == ["hello"]
    assert (health["logs_exported"], health["lost_logs"], health["lost_metrics"]) == (0, 0, 0)


def test_unavailable_is_retried(kit: Any, grpc_receiver: GrpcReceiver) -> None:
    grpc_receiver.failures = [grpc.StatusCode.UNAVAILABLE]
    host = run(kit, f"grpc://127.0.0.1:{grpc_receiver.port}")
    assert len(grpc_receiver.spans) == 3
    assert host.health()["lost_spans"] == 0


def test_an_invalid_argument_is_final(kit: Any, grpc_receiver: GrpcReceiver, caplog: Any) -> None:
    grpc_receiver.failures = [grpc.StatusCode.INVALID_ARGUMENT]
    host = run(kit, f"grpc://127.0.0.1:{grpc_receiver.port}")
    assert host.health()["lost_spans"] == 3
    assert "gRPC INVALID_ARGUMENT: not now; 3 spans are lost" in caplog.records[0].getMessage()


def test_a_partial_success_counts_what_was_refused(kit: Any, grpc_receiver: GrpcReceiver) -> None:
    grpc_receiver.answer = kit.Answer(rejected=1, message="too old")
    assert run(kit, f"grpc://127.0.0.1:{grpc_receiver.port}").health()["lost_spans"] == 1


def test_a_silent_receiver_does_not_delay_the_end(kit: Any, silent: str) -> None:
    began = time.monotonic()
    host = run(kit, silent.replace("http", "grpc"))
    assert time.monotonic() - began < 3.5
    assert host.health()["lost_spans"] == 3


def test_the_protocol_of_the_environment(kit: Any, grpc_receiver: GrpcReceiver, monkeypatch: Any) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{grpc_receiver.port}")
    run(kit, "")
    assert len(grpc_receiver.spans) == 3


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: Any) -> None:
    def nothing(name: str) -> None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(PluginError) as raised:
        InlineHost(OtelPlugin(), {"endpoint": "grpc://127.0.0.1:1"})
    assert raised.value.hint == "pip install 'proofstream[otel-grpc]'"
