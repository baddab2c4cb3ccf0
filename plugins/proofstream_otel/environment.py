"""OpenTelemetry's own environment variables, as far as they concern an OTLP exporter of traces."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from proofstream import ConfigError

_EXPORTER = "OTEL_EXPORTER_OTLP_"
_MILLISECONDS_FROM = 1000.0
"""The specification has OTEL_EXPORTER_OTLP_TIMEOUT in milliseconds, Python's exporters read seconds."""


class Batching(msgspec.Struct, frozen=True, kw_only=True):
    """How spans are put into requests.

    Attributes:
        max_queue_bytes: Encoded spans waiting, at most.
        max_queue_spans: The same in spans; None for no such limit. OTEL_BSP_MAX_QUEUE_SIZE.
        max_request_bytes: A request is sent when it is this large.
        max_request_spans: Or when it holds so many spans. OTEL_BSP_MAX_EXPORT_BATCH_SIZE.
        delay_s: Or when its first span has waited this long. OTEL_BSP_SCHEDULE_DELAY, in milliseconds there.
        give_up_s: A request not accepted in this time is given up. OTEL_BSP_EXPORT_TIMEOUT, in milliseconds there.
    """

    max_queue_bytes: int = 16 * 2**20
    max_queue_spans: int | None = None
    max_request_bytes: int = 2**20
    max_request_spans: int = 512
    delay_s: float = 1.0
    give_up_s: float = 30.0


def batching() -> Batching:
    """The batching that OTEL_BSP_* asks for.

    Raises:
        ConfigError: A variable is not a whole number.
    """
    default = Batching()
    delay_ms = whole_number("OTEL_BSP_SCHEDULE_DELAY")
    give_up_ms = whole_number("OTEL_BSP_EXPORT_TIMEOUT")
    queue = whole_number("OTEL_BSP_MAX_QUEUE_SIZE") or None
    request = whole_number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") or default.max_request_spans
    return Batching(
        max_queue_spans=queue,
        max_request_spans=request if queue is None else min(request, queue),
        delay_s=default.delay_s if delay_ms is None else delay_ms / 1000,
        give_up_s=give_up_ms / 1000 if give_up_ms else default.give_up_s,
    )


def whole_number(name: str) -> int | None:
    """The variable as a number from 0 up; None if it is not set.

    Raises:
        ConfigError: It is anything else.
    """
    raw = os.environ.get(name, "").strip()
    if not raw:
        return None
    if not raw.isascii() or not raw.isdecimal():
        raise ConfigError(f"{name}: {raw!r} is not a whole number")
    return int(raw)


def is_sdk_disabled() -> bool:
    """Whether OTEL_SDK_DISABLED turns all of OpenTelemetry off."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def exporter(name: str) -> str | None:
    """An OTEL_EXPORTER_OTLP_ variable: the one for traces, or else the one for all signals."""
    return (
        os.environ.get(f"{_EXPORTER}TRACES_{name}", "").strip()
        or os.environ.get(f"{_EXPORTER}{name}", "").strip()
        or None
    )


def has_endpoint() -> bool:
    """Whether a variable names an OTLP endpoint."""
    return traces_endpoint() is not None or base_endpoint() is not None


def traces_endpoint() -> str | None:
    """OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, which is used as it is."""
    return os.environ.get(f"{_EXPORTER}TRACES_ENDPOINT", "").strip() or None


def base_endpoint() -> str | None:
    """OTEL_EXPORTER_OTLP_ENDPOINT, which the signal's path is appended to."""
    return os.environ.get(f"{_EXPORTER}ENDPOINT", "").strip() or None


def timeout_s(default: float = 10.0) -> float:
    """OTEL_EXPORTER_OTLP_TIMEOUT: the longest that one attempt may take.

    Raises:
        ConfigError: It is not a positive number.
    """
    raw = exporter("TIMEOUT")
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
    """Files for TLS: whom to trust, and who we are."""

    authority: Path | None
    certificate: Path | None
    key: Path | None


def tls() -> Tls:
    """OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY.

    Raises:
        ConfigError: A file that is named does not exist.
    """
    return Tls(authority=_file("CERTIFICATE"), certificate=_file("CLIENT_CERTIFICATE"), key=_file("CLIENT_KEY"))


def _file(name: str) -> Path | None:
    raw = exporter(name)
    if raw is None:
        return None
    path = Path(raw)
    if not path.is_file():
        raise ConfigError(f"{_EXPORTER}{name}: there is no file {raw}")
    return path


def is_gzip() -> bool:
    """Whether OTEL_EXPORTER_OTLP_COMPRESSION asks for gzip.

    Raises:
        ConfigError: It asks for something that is not supported.
    """
    raw = exporter("COMPRESSION") or "none"
    if raw.lower() not in ("none", "gzip"):
        raise ConfigError(f"{_EXPORTER}COMPRESSION: {raw!r} is neither gzip nor none")
    return raw.lower() == "gzip"
