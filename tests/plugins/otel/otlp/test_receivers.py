"""Real receivers on loopback that accept traces, refuse them, stay silent, are slow, or accept only a part."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from proofstream import ConfigError, open_session
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin, environment
from proofstream_otel.otlp import exporter
from proofstream_otel.otlp.endpoints import open_transport
from proofstream_otel.values.signals import TRACES


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests go out at once, and are retried soon."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.05)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages logged as a warning or worse."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def run(kit: Any, endpoint: str, *, proofs: int = 1, timeout_s: float = 5.0, **config: Any) -> InlineHost:
    """Send proofs to an endpoint, and end."""
    host = InlineHost(OtelPlugin(), {"endpoint": endpoint, **config})
    host.feed(envelopes(kit.small_proof() * proofs))
    host.close(timeout_s)
    return host


def test_what_arrives_is_what_the_file_holds(
    kit: Any, receiver: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "file": str(tmp_path)})
    host.feed(kit.stream("serde-all-variants"))
    host.close()
    assert receiver.spans == kit.read_file(tmp_path / "traces.jsonl")
    assert len(receiver.spans) == 12
    assert host.health() == {
        "spans_exported": 12,
        "spans_written": 12,
        "spans_unsampled": 0,
        "lost_spans": 0,
        "export_failures": 0,
        "metric_points_exported": len(receiver.points),
        "metric_points_written": len(receiver.points),
        "lost_metrics": 0,
        "metric_export_failures": 0,
        "logs_exported": 5,
        "logs_written": 5,
        "lost_logs": 0,
        "log_export_failures": 0,
    }
    assert receiver.points == kit.read_metric_file(tmp_path / "metrics.jsonl")
    assert receiver.logs == kit.read_log_file(tmp_path / "logs.jsonl")
    assert host.progressed >= 1
    assert warnings(caplog) == []


def test_requests_are_batched_by_bytes(kit: Any, receiver: Any) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    for part in range(8):
        host.feed(kit.stream("smollm2-135m-cpu", session_id=f"session-{part}"))
    host.close()
    assert len(receiver.spans) == 8 * 214
    assert max(receiver.sizes) < 2**20 + 2**18
    assert len(receiver.sizes) < 8
    assert len({span.span_id for span in receiver.spans}) == 8 * 214


@pytest.mark.usefixtures("quick")
def test_503_is_retried_until_it_is_accepted(kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [kit.Answer(status=503), kit.Answer(status=503), kit.Answer()]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    host.feed(envelopes(kit.small_proof()))
    kit.wait_until(lambda: host.health()["spans_exported"] == 3)
    host.close()
    assert len(receiver.spans) == 3
    assert host.health()["lost_spans"] == 0
    first, second = warnings(caplog)
    trouble = "HTTP 503 Service Unavailable; 3 spans are tried again"
    assert first == f"traces are not delivered to {receiver.url}/v1/traces: {trouble}"
    assert second == f"{receiver.url}/v1/traces takes traces again"


@pytest.mark.usefixtures("quick")
def test_retry_after_is_respected(kit: Any, receiver: Any) -> None:
    receiver.answers = [kit.Answer(status=429, headers={"Retry-After": "0.4"}), kit.Answer()]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    began = time.monotonic()
    host.feed(envelopes(kit.small_proof()))
    kit.wait_until(lambda: host.health()["spans_exported"] == 3)
    assert time.monotonic() - began >= 0.4
    host.close()


@pytest.mark.usefixtures("quick")
def test_400_is_final_counted_and_named(kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [kit.Answer(status=400)]
    host = run(kit, receiver.url)
    assert host.health()["lost_spans"] == 3
    assert host.health()["export_failures"] == len(receiver.paths) == 1
    assert warnings(caplog) == [
        f"traces are not delivered to {receiver.url}/v1/traces: HTTP 400 Bad Request; 3 spans are lost",
    ]


@pytest.mark.usefixtures("quick")
def test_a_partial_success_counts_what_was_refused(kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [kit.Answer(rejected=2, message="too old")]
    host = run(kit, receiver.url)
    assert host.health()["spans_exported"] == 1
    assert host.health()["lost_spans"] == 2
    assert "too old; it refused 2 of 3 spans" in warnings(caplog)[0]


def test_a_closed_port(kit: Any, closed: str, caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    host = run(kit, closed, timeout_s=2.0)
    assert time.monotonic() - began < 2.5
    assert host.health()["lost_spans"] == 3
    assert warnings(caplog) == [
        f"traces are not delivered to {closed}/v1/traces: Connection refused; 3 spans are tried again",
        f"metrics were not delivered to {closed}/v1/metrics: Connection refused",
    ]


def test_a_silent_receiver_does_not_delay_the_end(kit: Any, silent: str, caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    host = run(kit, silent, timeout_s=1.0)
    assert time.monotonic() - began < 1.5
    assert host.health()["lost_spans"] == 3
    assert f"traces were not delivered to {silent}/v1/traces: no answer in time" in warnings(caplog)


def test_a_full_queue_holds_the_lane_for_a_while_and_the_end_not_at_all(
    kit: Any, silent: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
    monkeypatch.setattr(exporter, "PATIENCE_S", 0.3)
    host = InlineHost(OtelPlugin(), {"endpoint": silent})
    items = envelopes([*kit.small_proof() * 20, kit.proof_start()], close=False)
    began = time.monotonic()
    host.feed(items)
    assert 0.3 <= time.monotonic() - began < 2.0
    host.close(1.0)
    assert time.monotonic() - began < 3.5
    # 20 layers, 20 whole proofs, the open one and the session: each of them is accounted for.
    assert host.health()["lost_spans"] == 42
    assert len([text for text in warnings(caplog) if "takes nothing" in text]) == 1


def test_a_slow_receiver_loses_nothing(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver.answers = [kit.Answer(delay_s=0.05)]
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    host = run(kit, receiver.url, proofs=10)
    assert len(receiver.spans) == 21
    assert host.health()["lost_spans"] == 0


def test_a_slow_receiver_gets_the_spans_that_the_end_closes(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.answers = [kit.Answer(delay_s=0.05)]
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    started = [kit.layer_start(layer_idx=number) for number in range(20)]
    host.feed(envelopes([*kit.small_proof() * 4, kit.proof_start(), *started], close=False))
    host.close(5.0)
    # The proofs of one layer each, the open layers with their proof, and the session.
    assert len(receiver.spans) == 4 * 2 + 21 + 1
    assert host.health()["lost_spans"] == 0


@pytest.mark.usefixtures("quick")
def test_a_receiver_that_returns_gets_queued_items(kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers = [kit.Answer(status=503)] * 3 + [kit.Answer()]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    items = envelopes(kit.small_proof() * 3)
    for envelope in items:
        host.feed([envelope])
    kit.wait_until(lambda: host.health()["spans_exported"] == 7)
    host.close()
    assert len({span.span_id for span in receiver.spans}) == 7
    assert len(warnings(caplog)) == 2


def test_a_2xx_without_otlp_is_accepted(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def thanks(answer: Any) -> bytes:
        return b"\xff\xffthanks"

    monkeypatch.setattr(kit.Answer, "body", thanks)
    assert run(kit, receiver.url).health()["spans_exported"] == 3


def test_a_redirect_is_not_followed(kit: Any, receiver: Any) -> None:
    receiver.answers = [kit.Answer(status=302, headers={"Location": receiver.url})]
    assert run(kit, receiver.url).health()["lost_spans"] == 3
    assert len(receiver.paths) == 1


def test_an_answer_that_trickles_in_is_given_up(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = threading.Event()

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not ended.wait(0.05):
                    connection.sendall(b"x" * 4096)

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        transport = open_transport(f"http://127.0.0.1:{server.getsockname()[1]}", {}, TRACES)
        began = time.monotonic()
        reply = transport.post(b"", 10.0)
        assert time.monotonic() - began < 2
        assert (reply.accepted, reply.retryable, reply.reason) == (False, True, "no answer in time")
        transport.close()
        ended.set()
        thread.join(5)


def test_a_configured_header_is_not_replaced_by_netrc(
    kit: Any, receiver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login other password other\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    run(kit, receiver.url, headers={"Authorization": "Bearer mine"})
    assert receiver.headers[0]["Authorization"] == "Bearer mine"


class TestEnvironment:
    """OpenTelemetry's own variables are respected."""

    def test_the_base_url_gets_the_path_of_traces(self, kit: Any, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url + "/collect/")
        run(kit, "")
        assert receiver.paths == ["/collect/v1/traces"]

    def test_the_url_for_traces_is_used_unchanged(self, kit: Any, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receiver.url + "/own")
        run(kit, "")
        assert receiver.paths == ["/own"]

    def test_a_configured_endpoint_wins(self, kit: Any, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/own")
        run(kit, receiver.url + "/v1/traces")
        assert receiver.paths == ["/v1/traces"]

    def test_an_endpoint_in_the_environment_turns_the_plugin_on(
        self, kit: Any, receiver: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        host = InlineHost(OtelPlugin())
        host.feed(envelopes(kit.small_proof()))
        host.close()
        assert len(receiver.spans) == 3

    def test_headers_and_gzip(self, kit: Any, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=a%20b,authorization=Bearer%20t")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        run(kit, receiver.url, headers={"X-Own": "1"})
        (headers,) = receiver.headers
        assert headers["x-tenant"] == "a b"
        assert headers["authorization"] == "Bearer t"
        assert headers["X-Own"] == "1"
        assert headers["Content-Encoding"] == "gzip"
        assert headers["Content-Type"] == "application/x-protobuf"
        assert len(receiver.spans) == 3

    def test_the_resource(self, kit: Any, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", "my-prover")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=staging")
        run(kit, receiver.url)
        resource = receiver.spans[0].resource
        assert resource["service.name"] == "my-prover"
        assert resource["deployment.environment.name"] == "staging"
        assert resource["service.instance.id"] == "test-instance"

    def test_the_sampler(self, kit: Any, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        host = run(kit, receiver.url)
        assert receiver.spans == []
        assert host.health()["spans_unsampled"] == 3

    def test_the_sdk_turned_off(self, kit: Any, receiver: Any, monkeypatch: Any, caplog: Any) -> None:
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        host = run(kit, receiver.url)
        assert receiver.paths == []
        assert host.health() == {}
        assert warnings(caplog) == ["OTEL_SDK_DISABLED is set: nothing is exported"]

    def test_the_sdk_turned_off_refuses_no_run(self, receiver: Any, monkeypatch: Any) -> None:
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        with open_session(plugins=["otel"], config={"otel": {"endpoint": receiver.url}}) as session:
            pass
        assert session.problems == []
        assert receiver.paths == []

    @pytest.mark.parametrize(("raw", "expected"), [("5", 5.0), ("0.5", 0.5), ("10000", 10.0), (None, 10.0)])
    def test_a_timeout_is_in_seconds_unless_it_must_be_milliseconds(
        self, monkeypatch: Any, raw: str | None, expected: float
    ) -> None:
        if raw is not None:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", raw)
        assert environment.timeout_s(TRACES) == expected

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "OTEL_EXPORTER_OTLP_TIMEOUT: 'soon' is not a positive number"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "OTEL_BSP_MAX_QUEUE_SIZE: '-1' is not a whole number"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "br", "OTEL_EXPORTER_OTLP_COMPRESSION: 'br' is neither gzip nor none"),
            (
                "OTEL_EXPORTER_OTLP_CERTIFICATE",
                "/no/ca",
                "OTEL_EXPORTER_OTLP_CERTIFICATE: the file /no/ca does not exist",
            ),
        ],
    )
    def test_a_bad_variable_is_named(self, monkeypatch: Any, name: str, value: str, message: str) -> None:
        monkeypatch.setenv(name, value)
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://127.0.0.1:1"})
        assert str(raised.value) == message


def test_secrets_of_a_url_are_not_shown() -> None:
    transport = open_transport("http://user:secret@127.0.0.1:1/x?token=abc", {}, TRACES)
    assert transport.shown == "http://127.0.0.1:1/x/v1/traces"
    transport.close()
