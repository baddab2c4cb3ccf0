"""OTLP over gRPC, against a real server on loopback."""

from __future__ import annotations

import base64
import importlib.util
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc  # type: ignore[import-untyped]  # it ships no types
import pytest
from pki import Pki, make_pki

from proofstream import Log, LogLevel, PluginError
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.otlp import exporter


class GrpcReceiver:
    """Services that keep their requests; the one for traces gives the configured answers."""

    def __init__(self, kit: Any, *, bind: str = "127.0.0.1:0", credentials: Any = None) -> None:
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
        if credentials is None:
            self.port = self.server.add_insecure_port(bind)
        else:
            self.port = self.server.add_secure_port(bind, credentials)
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


@pytest.fixture
def grpc_receivers(kit: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., GrpcReceiver]]:
    """A maker of receivers over gRPC."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    made: list[GrpcReceiver] = []

    def make(**arguments: Any) -> GrpcReceiver:
        made.append(GrpcReceiver(kit, **arguments))
        return made[-1]

    yield make
    for receiver in made:
        receiver.server.stop(None).wait(5)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """Certificates and keys."""
    return make_pki(tmp_path_factory.mktemp("pki"))


def server_credentials(pki: Pki, *, mutual: bool) -> Any:
    """What a server needs for TLS; `mutual` asks clients for a certificate."""
    api: Any = grpc  # its stubs leave types open
    pair = (pki.server_key.read_bytes(), pki.server.read_bytes())
    return api.ssl_server_credentials([pair], pki.authority.read_bytes() if mutual else None, mutual)


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


def test_an_ipv6_address(kit: Any, grpc_receivers: Callable[..., GrpcReceiver]) -> None:
    receiver = grpc_receivers(bind="[::1]:0")
    run(kit, f"grpc://[::1]:{receiver.port}")
    assert len(receiver.spans) == 3


def test_user_and_password_are_sent_and_not_shown(
    kit: Any, grpc_receiver: GrpcReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    grpc_receiver.failures = [grpc.StatusCode.INVALID_ARGUMENT]
    run(kit, f"grpc://u:s3cr%3At%25@127.0.0.1:{grpc_receiver.port}")
    expected = base64.b64encode(b"u:s3cr:t%").decode()
    assert grpc_receiver.metadata[0]["authorization"] == f"Basic {expected}"
    assert caplog.messages
    assert "s3cr" not in caplog.text


class TestTls:
    """Over TLS, with a scheme of its own or with `https` and the protocol's variable."""

    def test_the_scheme(
        self, kit: Any, pki: Pki, grpc_receivers: Callable[..., GrpcReceiver], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        receiver = grpc_receivers(credentials=server_credentials(pki, mutual=False))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(pki.authority))
        run(kit, f"grpcs://localhost:{receiver.port}")
        assert len(receiver.spans) == 3

    def test_both_sides_have_certificates(
        self, kit: Any, pki: Pki, grpc_receivers: Callable[..., GrpcReceiver], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        receiver = grpc_receivers(credentials=server_credentials(pki, mutual=True))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(pki.authority))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(pki.client))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(pki.client_key))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"https://localhost:{receiver.port}")
        run(kit, "")
        assert len(receiver.spans) == 3

    def test_a_variable_without_a_scheme(
        self, kit: Any, pki: Pki, grpc_receivers: Callable[..., GrpcReceiver], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        secure = grpc_receivers(credentials=server_credentials(pki, mutual=False))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(pki.authority))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"localhost:{secure.port}")
        run(kit, "")
        assert len(secure.spans) == 3
        plain = grpc_receivers()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"localhost:{plain.port}")
        run(kit, "")
        assert len(plain.spans) == 3

    @pytest.mark.parametrize("mutual", [True, False])
    def test_a_certificate_that_is_not_trusted(
        self, kit: Any, pki: Pki, grpc_receivers: Callable[..., GrpcReceiver], caplog: Any, mutual: bool
    ) -> None:
        receiver = grpc_receivers(credentials=server_credentials(pki, mutual=mutual))
        # Of a name with several addresses gRPC says what the last one answered, which may be that nothing listens.
        host = run(kit, f"grpcs://127.0.0.1:{receiver.port}")
        assert host.health()["lost_spans"] == 3
        assert "OTEL_EXPORTER_OTLP_CERTIFICATE names a file with the authority to trust" in caplog.text

    def test_a_receiver_that_wants_our_certificate(
        self, kit: Any, pki: Pki, grpc_receivers: Callable[..., GrpcReceiver], monkeypatch: Any, caplog: Any
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(pki.authority))
        run(kit, f"grpcs://localhost:{grpc_receivers(credentials=server_credentials(pki, mutual=True)).port}")
        assert "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY name its files" in caplog.text

    def test_a_receiver_with_tls_that_is_addressed_in_plain_text(
        self, kit: Any, pki: Pki, grpc_receivers: Callable[..., GrpcReceiver], caplog: Any
    ) -> None:
        run(kit, f"grpc://localhost:{grpc_receivers(credentials=server_credentials(pki, mutual=False)).port}")
        assert "TLS is spoken there; with TLS the endpoint begins with grpcs://" in caplog.text

    def test_a_receiver_in_plain_text(self, kit: Any, grpc_receiver: GrpcReceiver, caplog: Any) -> None:
        run(kit, f"grpcs://127.0.0.1:{grpc_receiver.port}")
        assert "no TLS is spoken there; for plain text the endpoint begins with grpc://" in caplog.text

    def test_files_for_tls_that_are_not_used_are_named(
        self, kit: Any, pki: Pki, grpc_receiver: GrpcReceiver, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(pki.authority))
        shown = f"grpc://127.0.0.1:{grpc_receiver.port}"
        run(kit, shown)
        (line,) = caplog.messages
        assert line.startswith(f"OTEL_EXPORTER_OTLP_CERTIFICATE: not used, because {shown} is plain text; ")
        assert line.endswith("for TLS the endpoint begins with grpcs://")
        assert len(grpc_receiver.spans) == 3


def test_a_receiver_that_speaks_http(kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    host = run(kit, receiver.url.replace("http", "grpc"))
    assert host.health()["lost_spans"] == 3
    assert (
        "HTTP answers there; OTLP over gRPC has port 4317 by default, and the endpoint for HTTP begins with http://"
        in (caplog.text)
    )


def test_the_protocol_of_the_environment_is_named_if_it_does_not_fit(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    run(kit, "")
    assert (
        "HTTP answers there; OTLP over gRPC has port 4317 by default, and for HTTP OTEL_EXPORTER_OTLP_PROTOCOL is"
        in (caplog.text)
    )


def test_http_to_a_receiver_that_speaks_grpc(
    kit: Any, grpc_receiver: GrpcReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    host = run(kit, f"http://127.0.0.1:{grpc_receiver.port}")
    assert host.health()["lost_spans"] == 3
    assert (
        "gRPC answers there; OTLP over HTTP has port 4318 by default, and the endpoint for gRPC begins with grpc://"
        in (caplog.text)
    )


def test_the_protocol_of_the_environment_does_not_change_an_endpoint_in_silence(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    run(kit, receiver.url)
    assert len(receiver.spans) == 3
    (line,) = caplog.messages
    assert line.startswith(f"OTEL_EXPORTER_OTLP_PROTOCOL: {receiver.url} was asked for, which is OTLP over HTTP")


class TestProxies:
    """gRPC reads the variables for proxies by itself."""

    def test_a_receiver_on_this_machine_is_reached_directly(
        self, kit: Any, grpc_receiver: GrpcReceiver, closed: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("http_proxy", closed)
        run(kit, f"grpc://127.0.0.1:{grpc_receiver.port}")
        assert len(grpc_receiver.spans) == 3

    def test_one_that_is_silent_does_not_delay_the_end(
        self, kit: Any, silent: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("http_proxy", silent)
        began = time.monotonic()
        run(kit, "grpc://collector.example:4317")
        assert time.monotonic() - began < 5.0  # it has 3 s to close
        assert f"by way of the proxy {silent} (http_proxy)" in caplog.text

    def test_a_failure_names_the_proxy(
        self, kit: Any, closed: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
        monkeypatch.setenv("http_proxy", closed.replace("://", "://user:secret@"))
        run(kit, "grpc://collector.example:4317")
        assert f"by way of the proxy {closed} (http_proxy)" in caplog.text
        assert "secret" not in caplog.text
