"""Reads OpenTelemetry's environment variables for OTLP exporters.

No public function does that: the official exporters resolve these variables in private functions, which differ between
HTTP and gRPC, and which log a bad value and fall back to a default where we refuse to start. Where the SDK does have
public parts, this plugin uses them: for the sampler, the resource and the headers.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from proofstream import ConfigError, safe_text
from proofstream_otel.values.signals import METRICS, SIGNALS, TRACES, Signal

_EXPORTER = "OTEL_EXPORTER_OTLP_"
_MILLISECONDS_FROM = 1000.0
"""OTEL_EXPORTER_OTLP_TIMEOUT is in milliseconds from this value on, else in seconds.

The specification says milliseconds, but Python's exporters read seconds.
"""


class Batching(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a queue and of its requests. The variables are given for traces.

    Attributes:
        max_queue_bytes: The most memory that waiting items take, in bytes.
        max_queue_items: The most items that wait, or None for no such limit. OTEL_BSP_MAX_QUEUE_SIZE.
        max_request_bytes: A request is sent when it is this large,
        max_request_items: or when it holds this many items (OTEL_BSP_MAX_EXPORT_BATCH_SIZE),
        delay_s: or when its first item has waited this long (OTEL_BSP_SCHEDULE_DELAY, in milliseconds).
        attempt_s: One attempt to send a request takes at most this time. OTEL_BSP_EXPORT_TIMEOUT, in milliseconds.
    """

    max_queue_bytes: int = 64 * 2**20
    max_queue_items: int | None = None
    max_request_bytes: int = 2**20
    max_request_items: int = 512
    delay_s: float = 1.0
    attempt_s: float = 30.0


def batching_of(signal: Signal, max_queue_bytes: int) -> Batching:
    """Return the batching that the variables ask for: OTEL_BSP_* for traces, OTEL_BLRP_* for logs, none for metrics.

    Raises:
        ConfigError: A variable is not a whole number.
    """
    if signal is METRICS:
        # A whole collection comes at once, so waiting gains nothing.
        return Batching(max_queue_bytes=max_queue_bytes, delay_s=0.1)
    return _batching("OTEL_BSP_" if signal is TRACES else "OTEL_BLRP_", max_queue_bytes)


def _batching(prefix: str, max_queue_bytes: int) -> Batching:
    """Return the batching that the variables with a prefix ask for.

    Raises:
        ConfigError: A variable is not a whole number.
    """
    default = Batching()
    delay_ms = whole_number(f"{prefix}SCHEDULE_DELAY")
    attempt_ms = whole_number(f"{prefix}EXPORT_TIMEOUT")
    queue = whole_number(f"{prefix}MAX_QUEUE_SIZE") or None
    request = whole_number(f"{prefix}MAX_EXPORT_BATCH_SIZE") or default.max_request_items
    return Batching(
        max_queue_bytes=max_queue_bytes,
        max_queue_items=queue,
        max_request_items=request if queue is None else min(request, queue),
        delay_s=default.delay_s if delay_ms is None else delay_ms / 1000,
        attempt_s=attempt_ms / 1000 if attempt_ms else default.attempt_s,
    )


def whole_number(name: str) -> int | None:
    """Return a variable as a number from 0 up, or None if it is not set.

    Raises:
        ConfigError: It is not a whole number.
    """
    raw = os.environ.get(name, "").strip()
    if not raw:
        return None
    if not raw.isascii() or not raw.isdecimal():
        raise ConfigError(f"{name}: {raw!r} is not a whole number")
    return int(raw)


def is_sdk_disabled() -> bool:
    """Return whether OTEL_SDK_DISABLED turns all of OpenTelemetry off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def exporter(name: str, signal: Signal) -> str | None:
    """Return an OTEL_EXPORTER_OTLP_ variable: the signal's own one, or else the one for all signals."""
    return (
        os.environ.get(f"{_EXPORTER}{signal.variable}_{name}", "").strip()
        or os.environ.get(f"{_EXPORTER}{name}", "").strip()
        or None
    )


def has_endpoint() -> bool:
    """Return whether a variable names an OTLP endpoint."""
    return base_endpoint() is not None or any(own_endpoint(signal) is not None for signal in SIGNALS)


def own_endpoint(signal: Signal) -> str | None:
    """Return OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or the variable of another signal; its URL is used unchanged."""
    return os.environ.get(f"{_EXPORTER}{signal.variable}_ENDPOINT", "").strip() or None


def base_endpoint() -> str | None:
    """Return OTEL_EXPORTER_OTLP_ENDPOINT, a base URL to which the signal's path is appended."""
    return os.environ.get(f"{_EXPORTER}ENDPOINT", "").strip() or None


def timeout_s(signal: Signal, default: float = 10.0) -> float:
    """Return OTEL_EXPORTER_OTLP_TIMEOUT, the longest time for one attempt, in seconds.

    Raises:
        ConfigError: It is not a positive number.
    """
    raw = exporter("TIMEOUT", signal)
    if raw is None:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"{_EXPORTER}TIMEOUT: {raw!r} is not a positive number")
    return value / 1000 if value >= _MILLISECONDS_FROM else value


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files for TLS: the authority to trust, and our own certificate and key."""

    authority: Path | None
    certificate: Path | None
    key: Path | None


def tls(signal: Signal) -> Tls:
    """Return the files that OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY name.

    Raises:
        ConfigError: One of them does not exist.
    """
    return Tls(
        authority=_file("CERTIFICATE", signal),
        certificate=_file("CLIENT_CERTIFICATE", signal),
        key=_file("CLIENT_KEY", signal),
    )


def _file(name: str, signal: Signal) -> Path | None:
    raw = exporter(name, signal)
    if raw is None:
        return None
    path = Path(raw)
    if not path.is_file():
        raise ConfigError(f"{_EXPORTER}{name}: the file {safe_text(raw)} does not exist")
    return path


def is_gzip(signal: Signal) -> bool:
    """Return whether OTEL_EXPORTER_OTLP_COMPRESSION asks for gzip.

    Raises:
        ConfigError: It asks for another compression.
    """
    raw = exporter("COMPRESSION", signal) or "none"
    if raw.lower() not in ("none", "gzip"):
        raise ConfigError(f"{_EXPORTER}COMPRESSION: {raw!r} is neither gzip nor none")
    return raw.lower() == "gzip"


def is_turned_off(signal: Signal) -> bool:
    """Return whether OTEL_METRICS_EXPORTER, or the variable of another signal, is `none`."""
    return os.environ.get(f"OTEL_{signal.variable}_EXPORTER", "").strip().lower() == "none"


def metric_interval_s(default: float) -> float:
    """Return OTEL_METRIC_EXPORT_INTERVAL, which is in milliseconds, in seconds.

    Raises:
        ConfigError: It is not a whole number above 0.
    """
    said = whole_number("OTEL_METRIC_EXPORT_INTERVAL")
    if said == 0:
        raise ConfigError("OTEL_METRIC_EXPORT_INTERVAL: 0 is too short; give at least 1, in milliseconds")
    return default if said is None else said / 1000


def wants_exemplars() -> bool:
    """Return whether OTEL_METRICS_EXEMPLAR_FILTER lets measurements point to their traces."""
    return os.environ.get("OTEL_METRICS_EXEMPLAR_FILTER", "").strip().lower() != "always_off"
