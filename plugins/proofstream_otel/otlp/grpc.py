"""Sends OTLP over gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]  # it ships no types
import grpc._channel  # type: ignore[import-untyped]  # grpc imports it when it connects; a fork might come in between

from proofstream_otel import environment
from proofstream_otel.otlp.protobuf import decode_rejection
from proofstream_otel.otlp.transport import Reply, without_secrets
from proofstream_otel.values.signals import Signal

_DEFAULT_PORT = 4317
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

    def __init__(self, url: str, headers: Mapping[str, str], signal: Signal) -> None:
        parts = urlsplit(url)
        self.shown = without_secrets(url)
        self._target = f"{parts.hostname}:{parts.port or _DEFAULT_PORT}"
        self._secure = parts.scheme == "https"
        self._metadata = tuple((key.lower(), value) for key, value in headers.items())
        self._compression = grpc.Compression.Gzip if environment.is_gzip(signal) else grpc.Compression.NoCompression
        self._timeout_s = environment.timeout_s(signal)
        self._tls = environment.tls(signal)
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
                reason=f"gRPC {code.name}: {error.details()}",
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
        options = (("grpc.max_reconnect_backoff_ms", _RECONNECT_MS),)
        if not self._secure:
            return grpc.insecure_channel(self._target, options, compression=self._compression)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=_read(self._tls.authority),
            private_key=_read(self._tls.key),
            certificate_chain=_read(self._tls.certificate),
        )
        return grpc.secure_channel(self._target, credentials, options, compression=self._compression)


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()
