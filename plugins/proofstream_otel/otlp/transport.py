"""How encoded requests reach a receiver, and what it answers.

The exporters of the SDK are not used: they take a partial success for a success, and retry where nobody can stop them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import msgspec
from opentelemetry.util.re import parse_env_headers

from proofstream import ConfigError, PluginError
from proofstream_otel import environment
from proofstream_otel.values.signals import SIGNALS, Signal

HTTP_DEFAULT = "http://localhost:4318"
GRPC_DEFAULT = "grpc://localhost:4317"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attempt.

    Attributes:
        accepted: The receiver took the request.
        reason: Why not, or what it wants to say although it did; else empty.
        retryable: Another attempt may be accepted.
        retry_after_s: When the receiver wants to be asked again, or None.
        rejected: Items that it refused to keep although it took the request.
        unsupported: It does not take this signal at all.
    """

    accepted: bool
    reason: str = ""
    retryable: bool = False
    retry_after_s: float | None = None
    rejected: int = 0
    unsupported: bool = False


class Transport(Protocol):
    """A way to one receiver. Used by one thread."""

    shown: str
    """The receiver's address, without secrets."""

    def post(self, body: bytes, timeout_s: float) -> Reply:
        """Send one request and wait for the answer, at most about `timeout_s`. Never raises."""
        ...

    def close(self) -> None:
        """Let the connection go."""
        ...


def open_transport(endpoint: str, headers: Mapping[str, str], signal: Signal) -> Transport:
    """The transport of a signal to an endpoint; an empty one is looked up in the environment. Nothing is connected yet.

    Raises:
        ConfigError: The endpoint is not one, or a variable is wrong.
        PluginError: It needs packages that are not installed.
    """
    url = endpoint or _endpoint_of_environment(signal)
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigError(f"otel.endpoint: {show(url)!r} has no host")
    all_headers = {**parse_env_headers(environment.exporter("HEADERS", signal) or "", liberal=True), **headers}
    if parts.scheme == "grpc" or _is_grpc(endpoint, signal):
        return _open_grpc(url, all_headers, signal)
    from proofstream_otel.otlp.http import HttpTransport

    exact = not endpoint and environment.own_endpoint(signal) is not None
    return HttpTransport(url if exact else _with_path(url, signal), all_headers, signal)


def show(url: str) -> str:
    """The URL without user, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _endpoint_of_environment(signal: Signal) -> str:
    default = GRPC_DEFAULT if _is_grpc("", signal) else HTTP_DEFAULT
    return environment.own_endpoint(signal) or environment.base_endpoint() or default


def _is_grpc(endpoint: str, signal: Signal) -> bool:
    """Whether the environment's protocol is gRPC; an endpoint that was asked for says its own by its scheme."""
    return not endpoint and (environment.exporter("PROTOCOL", signal) or "") == "grpc"


def _with_path(url: str, signal: Signal) -> str:
    """The signal's URL below a base URL; one that names a signal already stands for its base."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for known in SIGNALS:
        path = path.removesuffix(known.path)
    return urlunsplit(parts._replace(path=path + signal.path))


def _open_grpc(url: str, headers: Mapping[str, str], signal: Signal) -> Transport:
    if importlib.util.find_spec("grpc") is None:
        raise PluginError(
            "otel: an endpoint with gRPC needs packages that are not installed",
            hint="pip install 'proofstream[otel-grpc]'",
        )
    from proofstream_otel.otlp.grpc import GrpcTransport

    return GrpcTransport(url, headers, signal)
