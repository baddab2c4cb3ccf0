"""Addresses, credentials, certificates and proxies: what cannot work is named at the start, without secrets."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import socket
import ssl
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pki import Pki, make_pki

from proofstream import ConfigError
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin, addresses
from proofstream_otel.otlp import grpc, http

OTLP = "OTEL_EXPORTER_OTLP_"
QUOTED = "has a quotation mark at its end; leave the marks out (some readers of env files keep them)"


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """Certificates and keys."""
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def tls_receivers(kit: Any, pki: Pki) -> Iterator[Any]:
    """A function that starts a receiver over HTTPS; a mutual one wants the client's certificate."""
    with contextlib.ExitStack() as stack:

        def start(*, mutual: bool = False) -> Any:
            made = kit.Receiver()
            stack.callback(made.close)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pki.server, pki.server_key)
            if mutual:
                context.load_verify_locations(pki.authority)
                context.verify_mode = ssl.CERT_REQUIRED
            made.serve_tls(context)
            return made

        yield start


@pytest.fixture
def tls_receiver(tls_receivers: Any) -> Any:
    """A receiver over HTTPS that asks for no certificate."""
    return tls_receivers()


def run(kit: Any, endpoint: str, **config: Any) -> InlineHost:
    """Send one proof to an endpoint, and end."""
    host = InlineHost(OtelPlugin(), {"endpoint": endpoint, **config})
    host.feed(envelopes(kit.small_proof()))
    host.close(2.0)
    return host


class TestFaults:
    """What no address can be."""

    @pytest.mark.parametrize(
        ("url", "fault"),
        [
            ("http://127.0.0.1:abc", "'http://127.0.0.1:abc' has a port that is not a number from 1 to 65535"),
            ("http://127.0.0.1:99999", "'http://127.0.0.1:99999' has a port that is not a number from 1 to 65535"),
            ("grpc://127.0.0.1:0", "'grpc://127.0.0.1:0' has a port that is not a number from 1 to 65535"),
            ("http://[::1", "'http://[::1' has brackets that do not enclose an IPv6 address"),
            ("http://[zz]:1", "'http://[zz]:1' has brackets that do not enclose an IPv6 address"),
            (
                "http://::1:4318",
                "'http://::1:4318' has an IPv6 address without brackets; write http://[::1]:4318, for example",
            ),
            ("ftp://h:9", "'ftp://h:9' does not begin with http://, https://, grpc:// or grpcs://"),
            ("collector:4318", "'collector:4318' has no scheme; write http://collector:4318"),
            ("//collector:4318", "'//collector:4318' has no scheme; write http://collector:4318"),
            ("http://", "'http://' has no host"),
            ("http://:4318", "'http://:4318' has no host"),
            ("http://a b:1", "'http://a b:1' has white space or control characters in it"),
            ("http://a\x1b[31m:1", "'http://a\N{SYMBOL FOR ESCAPE}[31m:1' has white space or control characters in it"),
            ("http://.example:1", "'http://.example:1' has a host that is no host's name"),
            (f"http://{'a' * 64}:1", f"'http://{'a' * 64}:1' has a host that is no host's name"),
            ("http://$HOST:1", None),
            ("http://${HOST}:1", "'http://${HOST}:1' has a host that is no host's name"),
            ("'http://h:1'", f"'http://h:1' {QUOTED}"),
            ('"http://h:1', f'"http://h:1 {QUOTED}'),
            ("grpcs://[::1]:4317", None),
            ("HTTPS://collector.example/base?key=v", None),
            ("http://xn--bcher-kva.example:4318", None),
            ("http://b\u00fccher.example:4318", None),
            ("http://under_score:4318", None),
        ],
    )
    def test_each_is_told_in_one_line(self, url: str, fault: str | None) -> None:
        assert addresses.fault_of(url) == fault

    @pytest.mark.parametrize(
        "url",
        [
            "http://u:s3cret@h:abc",
            "http://u:s3/cret@h:1",
            "http://u:s3?cret@h",
            "http://u:s3#cret@h:1",
            "u:s3cret@h:1",
            "ftp://u:s3cret@h",
            '"http://u:s3cret@h:1"',
            "http://u:s3cret@[::1",
            "http://u:s3 cret@h",
            "http://h:abc?token=s3cret",
            "http://u:a@s3cret@h:abc",
        ],
    )
    def test_none_shows_a_password(self, url: str) -> None:
        fault = addresses.fault_of(url)
        assert fault is not None
        assert "s3" not in fault
        assert "cret" not in fault

    def test_an_endpoint_names_the_setting(self) -> None:
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://127.0.0.1:abc"})
        assert str(raised.value).startswith("otel.endpoint: 'http://127.0.0.1:abc' has a port")

    @pytest.mark.parametrize("name", ["ENDPOINT", "TRACES_ENDPOINT", "METRICS_ENDPOINT", "LOGS_ENDPOINT"])
    def test_a_variable_is_named(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(OTLP + name, "ftp://h")
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": ""})
        assert str(raised.value).startswith(f"{OTLP}{name}: 'ftp://h' does not begin with")

    def test_a_protocol_that_does_not_exist(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(f"{OTLP}LOGS_PROTOCOL", "http")
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": ""})
        assert str(raised.value) == (f"{OTLP}LOGS_PROTOCOL: 'http' is no protocol; known are grpc and http/protobuf")


class TestCredentials:
    """User and password of a URL, and headers."""

    def test_they_are_sent_and_not_shown(self, kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
        receiver.answers = [kit.Answer(status=401)]
        run(kit, receiver.url.replace("://", "://u:s3cr%3At%25@"))
        expected = base64.b64encode(b"u:s3cr:t%").decode()
        assert receiver.headers[0]["Authorization"] == f"Basic {expected}"
        assert "HTTP 401" in caplog.text
        assert "s3cr" not in caplog.text

    def test_a_header_wins_whatever_its_case(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        url = receiver.url.replace("://", "://u:p@")
        run(kit, url, headers={"authorization": "Bearer mine"})
        monkeypatch.setenv(f"{OTLP}HEADERS", "AUTHORIZATION=Bearer%20ours")
        run(kit, url)
        run(kit, url, headers={"authorization": "Bearer mine"})
        seen = [{key.lower(): value for key, value in headers.items()}["authorization"] for headers in receiver.headers]
        assert seen == ["Bearer mine", "Bearer ours", "Bearer mine"]

    @pytest.mark.parametrize(
        ("headers", "message"),
        [
            ({"a b": "s3cret"}, "otel.headers: 'a b' cannot be the name of a header"),
            ({"a": "s3cret\n"}, "otel.headers: the value of a has characters that no header can have"),
            ({"a": "s3cret\u20ac"}, "otel.headers: the value of a has characters that no header can have"),
        ],
    )
    def test_a_header_that_cannot_be_sent(self, headers: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://127.0.0.1:1", "headers": headers})
        assert str(raised.value) == message

    def test_headers_of_a_variable_that_are_no_pairs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(f"{OTLP}HEADERS", '"a=b"')
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://127.0.0.1:1"})
        assert str(raised.value) == f"{OTLP}HEADERS: '\"a' cannot be the name of a header"
        monkeypatch.setenv(f"{OTLP}HEADERS", "a=b,s3cret")
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://127.0.0.1:1"})
        assert str(raised.value) == f"{OTLP}HEADERS: entry 2 is not of the form key=value"


class TestTls:
    """Certificates and keys."""

    @pytest.mark.parametrize("scheme", ["https", "grpcs"])
    @pytest.mark.parametrize(
        ("files", "message"),
        [
            (
                {"CLIENT_KEY": "client_key"},
                "CLIENT_KEY: a key is of no use without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            ),
            (
                {"CLIENT_CERTIFICATE": "client"},
                "CLIENT_CERTIFICATE: there is no key in {client}; OTEL_EXPORTER_OTLP_CLIENT_KEY names its file",
            ),
            (
                {"CLIENT_CERTIFICATE": "client", "CLIENT_KEY": "server_key"},
                "CLIENT_KEY: the key does not belong to the certificate in {client}",
            ),
            (
                {"CLIENT_CERTIFICATE": "client", "CLIENT_KEY": "encrypted_key"},
                "CLIENT_KEY: the key in {encrypted_key} is encrypted; give one without a password",
            ),
            (
                {"CLIENT_CERTIFICATE": "client", "CLIENT_KEY": "authority"},
                "CLIENT_KEY: there is no key in {authority}",
            ),
            (
                {"CLIENT_CERTIFICATE": "client_key", "CLIENT_KEY": "client_key"},
                "CLIENT_CERTIFICATE: there is no certificate in {client_key}",
            ),
            ({"CERTIFICATE": "client_key"}, "CERTIFICATE: there is no certificate in {client_key}"),
        ],
    )
    def test_what_cannot_work_is_named(
        self, pki: Pki, monkeypatch: pytest.MonkeyPatch, scheme: str, files: dict[str, str], message: str
    ) -> None:
        for variable, name in files.items():
            monkeypatch.setenv(OTLP + variable, str(getattr(pki, name)))
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": f"{scheme}://localhost:9"})
        places = {name: getattr(pki, name) for name in pki.__struct_fields__}
        assert str(raised.value) == OTLP + message.format(**places)

    @pytest.mark.parametrize("name", ["CERTIFICATE", "LOGS_CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"])
    def test_files_that_are_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        monkeypatch.setenv(OTLP + name, str(tmp_path))
        with pytest.raises(ConfigError, match=f"^{OTLP}{name}: .* is not a file$"):
            InlineHost(OtelPlugin(), {"endpoint": "https://localhost:9"})
        monkeypatch.setenv(OTLP + name, str(tmp_path / "none"))
        with pytest.raises(ConfigError, match=f"^{OTLP}{name}: the file .* does not exist$"):
            InlineHost(OtelPlugin(), {"endpoint": "https://localhost:9"})

    def test_what_can_work_does(
        self, kit: Any, pki: Pki, tls_receiver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "both.pem").write_bytes(pki.client.read_bytes() + pki.client_key.read_bytes())
        monkeypatch.setenv(f"{OTLP}CERTIFICATE", str(pki.authority))
        monkeypatch.setenv(f"{OTLP}CLIENT_CERTIFICATE", str(tmp_path / "both.pem"))
        run(kit, f"https://localhost:{tls_receiver.port}")
        assert len(tls_receiver.spans) == 3

    @pytest.mark.parametrize("scheme", ["https", "grpcs"])
    def test_a_receiver_that_is_silent_does_not_delay_the_end(self, kit: Any, silent: str, scheme: str) -> None:
        began = time.monotonic()
        host = run(kit, silent.replace("http", scheme))
        assert time.monotonic() - began < 5.0  # it has 2 s to close
        assert host.health()["lost_spans"] == 3

    def test_a_certificate_that_is_not_trusted(self, kit: Any, tls_receiver: Any, caplog: Any) -> None:
        host = run(kit, f"https://localhost:{tls_receiver.port}")
        assert host.health()["lost_spans"] == 3
        assert "OTEL_EXPORTER_OTLP_CERTIFICATE names a file with the authority to trust" in caplog.text

    def test_a_receiver_in_plain_text(self, kit: Any, receiver: Any, caplog: Any) -> None:
        run(kit, receiver.url.replace("http", "https"))
        assert "no TLS is spoken there; for plain text the endpoint begins with http://" in caplog.text

    @pytest.mark.parametrize("mutual", [True, False])
    @pytest.mark.parametrize("scheme", ["http", "grpc"])
    def test_a_receiver_with_tls_that_is_addressed_in_plain_text(
        self, kit: Any, pki: Pki, tls_receivers: Any, caplog: Any, scheme: str, mutual: bool
    ) -> None:
        run(kit, f"{scheme}://127.0.0.1:{tls_receivers(mutual=mutual).url.rpartition(':')[2]}")
        assert f"TLS is spoken there; with TLS the endpoint begins with {scheme}s://" in caplog.text

    def test_a_receiver_with_tls_that_answers_in_plain_text(self, kit: Any, caplog: Any) -> None:
        with proxy(
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", closes=True
        ) as url:
            run(kit, url)
        assert "TLS is spoken there; with TLS the endpoint begins with https://" in caplog.text

    def test_a_receiver_that_wants_our_certificate(
        self, kit: Any, pki: Pki, tls_receivers: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        monkeypatch.setenv(f"{OTLP}CERTIFICATE", str(pki.authority))
        run(kit, f"https://127.0.0.1:{tls_receivers(mutual=True).url.rpartition(':')[2]}")
        assert "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY name its files" in caplog.text
        assert "_ssl.c" not in caplog.text

    def test_files_that_are_not_used_are_named(
        self, kit: Any, pki: Pki, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        monkeypatch.setenv(f"{OTLP}CERTIFICATE", str(pki.authority))
        run(kit, receiver.url)
        (line,) = caplog.messages
        assert line == (
            f"{OTLP}CERTIFICATE: not used, because {receiver.url} is plain text; "
            "for TLS the endpoint begins with https://"
        )


@contextlib.contextmanager
def proxy(answer: bytes, *, closes: bool = False) -> Generator[str]:
    """The URL of a server that answers every request with these bytes; with none it stays silent, or closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        ended = threading.Event()
        held: list[socket.socket] = []

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    held.append(connection)
                    connection.settimeout(1.0)
                    if answer or closes:
                        connection.recv(65536)
                        connection.sendall(answer)
                        connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        ended.set()
        thread.join(5)
        for connection in held:
            connection.close()


@pytest.mark.parametrize("answer", [b"", b"\x15\x03\x01\x00\x02\x02\x46"])
def test_the_port_of_the_other_protocol_is_named_when_the_connection_breaks(
    kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, answer: bytes
) -> None:
    with proxy(answer, closes=True) as url:
        monkeypatch.setattr(http, "_GRPC_PORT", int(url.rpartition(":")[2]))
        run(kit, url)
        monkeypatch.setattr(grpc, "_HTTP_PORT", int(url.rpartition(":")[2]))
        run(kit, url.replace("http", "grpc"))
    assert (
        "is the port of gRPC: OTLP over HTTP has port 4318 by default, and the endpoint for gRPC begins with grpc://"
        in (caplog.text)
    )
    assert (
        "is the port of HTTP: OTLP over gRPC has port 4317 by default, and the endpoint for HTTP begins with http://"
        in (caplog.text)
    )


class TestProxies:
    """A proxy's failure is told as the proxy's."""

    @pytest.fixture(autouse=True)
    def no_exceptions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No host is excepted, and requests go out at once."""
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")

    def test_a_receiver_on_this_machine_is_reached_directly(
        self, kit: Any, receiver: Any, closed: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, closed)
        run(kit, receiver.url)
        run(kit, receiver.url.replace("127.0.0.1", "localhost"))
        assert len(receiver.spans) == 6

    @pytest.mark.parametrize(
        ("scheme", "variable"), [("http", "HTTP_PROXY"), ("https", "https_proxy"), ("https", "ALL_PROXY")]
    )
    def test_one_that_is_away(
        self, kit: Any, closed: str, monkeypatch: pytest.MonkeyPatch, caplog: Any, scheme: str, variable: str
    ) -> None:
        monkeypatch.setenv(variable, closed.replace("://", "://user:s3cret@"))
        run(kit, f"{scheme}://collector.example:4318")
        assert (
            f" by way of the proxy {closed} ({variable}): the proxy cannot be used: Connection refused" in caplog.text
        )
        assert "s3cret" not in caplog.text

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_one_that_wants_a_password(
        self, kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, scheme: str
    ) -> None:
        with proxy(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n") as url:
            monkeypatch.setenv("ALL_PROXY", url)
            run(kit, f"{scheme}://collector.example:4318")
        verb = "HTTP" if scheme == "http" else "the proxy cannot be used: Tunnel connection failed:"
        assert f" by way of the proxy {url} (ALL_PROXY): {verb} 407 Proxy Authentication Required" in caplog.text

    def test_one_that_does_not_reach_the_receiver(self, kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        with proxy(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n") as url:
            monkeypatch.setenv("HTTP_PROXY", url)
            run(kit, "http://collector.example:4318")
        assert f" by way of the proxy {url} (HTTP_PROXY): HTTP 503 Service Unavailable" in caplog.text

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_one_that_is_silent(self, kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, scheme: str) -> None:
        monkeypatch.setenv(f"{OTLP}TIMEOUT", "0.3")
        with proxy(b"") as url:
            monkeypatch.setenv("ALL_PROXY", url)
            run(kit, f"{scheme}://collector.example:4318")
        assert f" by way of the proxy {url} (ALL_PROXY): no answer in time" in caplog.text

    def test_one_that_delivers(self, kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", receiver.url.removeprefix("http://"))
        run(kit, "http://collector.example:4318")
        assert receiver.paths == ["http://collector.example:4318/v1/traces"]

    def test_an_exception(self, kit: Any, closed: str, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        monkeypatch.setenv("HTTP_PROXY", closed)
        monkeypatch.setenv("NO_PROXY", "collector.invalid")
        run(kit, "http://collector.invalid:4318")
        assert "proxy" not in caplog.text

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("http://h:abc", "HTTP_PROXY: 'http://h:abc' has a port that is not a number from 1 to 65535"),
            ("ftp://u:s3cret@h", "HTTP_PROXY: 'ftp://h' does not begin with http://, "),
        ],
    )
    def test_one_that_can_be_none(self, monkeypatch: pytest.MonkeyPatch, url: str, message: str) -> None:
        monkeypatch.setenv("HTTP_PROXY", url)
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://collector.example:4318"})
        assert str(raised.value).startswith(message)

    def test_one_that_needs_a_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nothing(name: str) -> None:
            return None

        monkeypatch.setattr(importlib.util, "find_spec", nothing)
        monkeypatch.setenv("HTTP_PROXY", "socks5://127.0.0.1:9")
        with pytest.raises(ConfigError) as raised:
            InlineHost(OtelPlugin(), {"endpoint": "http://collector.example:4318"})
        assert str(raised.value) == "HTTP_PROXY: a SOCKS proxy needs a package that is not installed"
        assert raised.value.hint == "pip install 'requests[socks]'"
