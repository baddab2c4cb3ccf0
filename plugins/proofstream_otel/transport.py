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

HTTP_DEFAULT = "http://localhost:4318"
GRPC_DEFAULT = "grpc://localhost:4317"
TRACES_PATH = "/v1/traces"


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attempt.

    Attributes:
        accepted: The receiver took the request.
        reason: Why not, or what it wants to say although it did; else empty.
        retryable: Another attempt may be accepted.
        retry_after_s: When the receiver wants to be asked again, or None.
        rejected: Spans that it refused to keep although it took the request.
    """

    accepted: bool
    reason: str = ""
    retryable: bool = False
    retry_after_s: float | None = None
    rejected: int = 0


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


def open_transport(endpoint: str, headers: Mapping[str, str]) -> Transport:
    """The transport for an endpoint; an empty one is looked up in the environment. Nothing is connected yet.

    Raises:
        ConfigError: The endpoint is not one, or a variable is wrong.
        PluginError: It needs packages that are not installed.
    """
    url = endpoint or _endpoint_of_environment()
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigError(f"otel.endpoint: {show(url)!r} has no host")
    all_headers = {**parse_env_headers(environment.exporter("HEADERS") or "", liberal=True), **headers}
    if parts.scheme == "grpc" or _is_grpc(endpoint):
        return _open_grpc(url, all_headers)
    from proofstream_otel.otlp_http import HttpTransport

    exact = not endpoint and environment.traces_endpoint() is not None
    return HttpTransport(url if exact else _with_path(url), all_headers)


def show(url: str) -> str:
    """The URL without user, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _endpoint_of_environment() -> str:
    default = GRPC_DEFAULT if _is_grpc("") else HTTP_DEFAULT
    return environment.traces_endpoint() or environment.base_endpoint() or default


def _is_grpc(endpoint: str) -> bool:
    """Whether the environment's protocol is gRPC; an endpoint that was asked for says its own by its scheme."""
    return not endpoint and (environment.exporter("PROTOCOL") or "") == "grpc"


def _with_path(url: str) -> str:
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    return urlunsplit(parts._replace(path=path if path.endswith(TRACES_PATH) else path + TRACES_PATH))


def _open_grpc(url: str, headers: Mapping[str, str]) -> Transport:
    if importlib.util.find_spec("grpc") is None:
        raise PluginError(
            "otel: an endpoint with gRPC needs packages that are not installed",
            hint="pip install 'proofstream[otel-grpc]'",
        )
    from proofstream_otel.otlp_grpc import GrpcTransport

    return GrpcTransport(url, headers)
