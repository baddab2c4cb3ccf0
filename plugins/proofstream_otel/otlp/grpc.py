"""Sends OTLP over gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import grpc  # type: ignore[import-untyped]  # it ships no types
import grpc._channel  # type: ignore[import-untyped]  # grpc imports it when it connects; a fork might come in between

from proofstream_otel import environment
from proofstream_otel.addresses import Address
from proofstream_otel.otlp.protobuf import decode_rejection
from proofstream_otel.otlp.proxies import grpc_proxy_of, shown_with
from proofstream_otel.otlp.transport import NO_TLS, PERHAPS_OURS, TLS_ONLY, TRUST, Reply, speaks_tls
from proofstream_otel.tls import Tls
from proofstream_otel.values.signals import Signal

_DEFAULT_PORT = 4317
_HTTP_PORT = 4318
_SPOKE_HTTP = ("http1.x", "Failed parsing HTTP/2", "missing selected ALPN")
"""What gRPC says of a server that answers in HTTP/1."""
_BROKEN = ("reset by peer", "closed", "Broken pipe", "end of TCP stream")
"""What it says of a connection that the server ends."""
_ABOUT_ADDRESSES = "failed to connect to all addresses; last error: "
_RECONNECT_MS = 1000
"""The longest pause before gRPC connects again. It would grow to two minutes, which outlast the end of a run."""
_RETRYABLE = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


class GrpcTransport:
    """Calls one receiver. The first call opens the channel, on the thread and in the process that use it.

    gRPC starts threads of its own, which do not survive a fork.
    """

    def __init__(self, address: Address, headers: Mapping[str, str], tls: Tls, signal: Signal) -> None:
        self._address = address
        self._proxy = grpc_proxy_of(address)
        self.shown = shown_with(self._proxy, address)
        self._metadata = tuple((key.lower(), value) for key, value in headers.items())
        self._compression = grpc.Compression.Gzip if environment.is_gzip(signal) else grpc.Compression.NoCompression
        self._timeout_s = environment.timeout_s(signal)
        self._tls = tls
        self._rpc = signal.rpc
        self._channel: grpc.Channel | None = None

    def post(self, body: bytes, timeout_s: float) -> Reply:
        """Send one request."""
        try:
            if self._channel is None:
                self._channel = self._open()
            channel: Any = self._channel
            call = channel.unary_unary(self._rpc)  # without serializers it takes and returns bytes
            answer = call(body, timeout=min(timeout_s, self._timeout_s), metadata=self._metadata)
        except grpc.RpcError as error:
            code = error.code()
            return Reply(
                accepted=False,
                reason=f"gRPC {code.name}: {self._explained(error.details() or '')}",
                retryable=code in _RETRYABLE,
                unsupported=code is grpc.StatusCode.UNIMPLEMENTED,
            )
        except Exception as error:  # noqa: BLE001 - no failure may end the exporting thread
            return Reply(accepted=False, reason=str(error))
        rejected, message = decode_rejection(bytes(answer))
        return Reply(accepted=True, rejected=rejected, reason=message)

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()

    def _open(self) -> grpc.Channel:
        target = self._address.target(_DEFAULT_PORT)
        # It would ask the environment's proxy for receivers on this machine, too.
        options = (
            ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS),
            ("grpc.enable_http_proxy", int(self._proxy is not None)),
        )
        if not self._address.uses_tls:
            return grpc.insecure_channel(target, options, compression=self._compression)
        authority, certificate = self._tls.authority, self._tls.certificate
        credentials = grpc.ssl_channel_credentials(
            root_certificates=None if authority is None else authority.path.read_bytes(),
            private_key=None if self._tls.key_path is None else self._tls.key_path.read_bytes(),
            certificate_chain=None if certificate is None else certificate.path.read_bytes(),
        )
        return grpc.secure_channel(target, credentials, options, compression=self._compression)

    def _explained(self, details: str) -> str:
        """Add to gRPC's words where they may come from, or replace them by clearer ones."""
        details = details.removeprefix(_ABOUT_ADDRESSES)
        if self._proxy is not None:
            return details
        if "WRONG_VERSION_NUMBER" in details:
            return NO_TLS.format(scheme=self._address.scheme.removesuffix("s"))
        if "CERTIFICATE_VERIFY_FAILED" in details:
            return f"the certificate is not trusted; {TRUST}"
        if any(words in details for words in _SPOKE_HTTP):
            return f"HTTP answers there; {self._other_protocol}"
        is_broken = any(words in details for words in _BROKEN)
        if is_broken and not self._address.uses_tls and self._speaks_tls:
            return TLS_ONLY.format(scheme=self._address.scheme)
        if is_broken and self._address.uses_tls and self._tls.certificate is None:
            details = f"{details}; {PERHAPS_OURS}"
        if self._address.port == _HTTP_PORT and "refused" not in details:
            return f"{details}; {_HTTP_PORT} is the port of HTTP: {self._other_protocol}"
        return details

    @cached_property
    def _speaks_tls(self) -> bool:
        return speaks_tls(self._address, _DEFAULT_PORT)

    @property
    def _other_protocol(self) -> str:
        scheme = "https" if self._address.uses_tls else "http"
        wish = f"the endpoint for HTTP begins with {scheme}://"
        if self._address.scheme == scheme:
            wish = "for HTTP OTEL_EXPORTER_OTLP_PROTOCOL is http/protobuf"
        return f"OTLP over gRPC has port {_DEFAULT_PORT} by default, and {wish}"
