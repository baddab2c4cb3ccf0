"""Finds the endpoint of a signal, and opens the transport to it: HTTP or gRPC."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from opentelemetry.util.re import parse_env_headers

from proofstream import ConfigError, PluginError
from proofstream_otel import environment
from proofstream_otel.otlp.transport import Transport, without_secrets
from proofstream_otel.values.signals import SIGNALS, Signal

HTTP_DEFAULT = "http://localhost:4318"
GRPC_DEFAULT = "grpc://localhost:4317"


def open_transport(endpoint: str, headers: Mapping[str, str], signal: Signal) -> Transport:
    """Return the transport for a signal to an endpoint, or to the environment's endpoint if it is empty.

    Nothing is connected yet.

    Raises:
        ConfigError: The endpoint has no host, or a variable is wrong.
        PluginError: The packages for gRPC are not installed.
    """
    url = endpoint or _endpoint_of_environment(signal)
    parts = urlsplit(url)
    if not parts.hostname:
        raise ConfigError(f"otel.endpoint: {without_secrets(url)!r} has no host")
    all_headers = {**parse_env_headers(environment.exporter("HEADERS", signal) or "", liberal=True), **headers}
    if parts.scheme == "grpc" or _is_grpc(endpoint, signal):
        return _open_grpc(url, all_headers, signal)
    from proofstream_otel.otlp.http import HttpTransport

    # The specification has a signal's own endpoint used unchanged.
    exact = not endpoint and environment.own_endpoint(signal) is not None
    return HttpTransport(url if exact else _with_path(url, signal), all_headers, signal)


def _endpoint_of_environment(signal: Signal) -> str:
    default = GRPC_DEFAULT if _is_grpc("", signal) else HTTP_DEFAULT
    return environment.own_endpoint(signal) or environment.base_endpoint() or default


def _is_grpc(endpoint: str, signal: Signal) -> bool:
    """Return whether the environment asks for gRPC. A configured endpoint names its protocol by its scheme instead."""
    return not endpoint and (environment.exporter("PROTOCOL", signal) or "") == "grpc"


def _with_path(url: str, signal: Signal) -> str:
    """Return the signal's URL below a base URL, from which the path of any signal is removed first."""
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
