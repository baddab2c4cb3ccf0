"""Reads OpenTelemetry's environment variables for OTLP exporters.

No public function does that: the official exporters resolve these variables in private functions, which differ between
HTTP and gRPC, and which log a bad value and fall back to a default where we refuse to start. Where the SDK does have
public parts, this plugin uses them: its samplers, and its resource. `variables` lists what becomes of each variable.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

import msgspec

from proofstream import ConfigError, safe_text
from proofstream_otel.tls import Tls, TlsFile
from proofstream_otel.values.limits import AttributeLimits, Limits
from proofstream_otel.values.metric_points import Exemplars, Temporality
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
            For metrics this is OTEL_METRIC_EXPORT_TIMEOUT.
    """

    max_queue_bytes: int = 64 * 2**20
    max_queue_items: int | None = None
    max_request_bytes: int = 2**20
    max_request_items: int = 512
    delay_s: float = 1.0
    attempt_s: float = 30.0


def batching_of(signal: Signal, max_queue_bytes: int) -> Batching:
    """Return the batching that the variables ask for: OTEL_BSP_* for traces, OTEL_BLRP_* for logs.

    Raises:
        ConfigError: A variable is not a whole number.
    """
    if signal is METRICS:
        # A whole collection comes at once, so waiting gains nothing.
        attempt_ms = whole_number("OTEL_METRIC_EXPORT_TIMEOUT")
        attempt_s = attempt_ms / 1000 if attempt_ms else Batching().attempt_s
        return Batching(max_queue_bytes=max_queue_bytes, delay_s=0.1, attempt_s=attempt_s)
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
    return _word("OTEL_SDK_DISABLED") == "true"


def exporter_variable(name: str, signal: Signal) -> str:
    """Return which OTEL_EXPORTER_OTLP_ variable counts: the signal's own one if it is set, or else the general one."""
    return _exporter(name, signal)[0]


def _exporter(name: str, signal: Signal) -> tuple[str, str]:
    """Return that variable and its value, which is empty if it is not set."""
    own, common = f"{_EXPORTER}{signal.variable}_{name}", f"{_EXPORTER}{name}"
    said = _text(own)
    return (own, said) if said else (common, _text(common))


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()


def _word(name: str) -> str:
    return _text(name).lower()


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint as a variable has it.

    Attributes:
        url: Its value.
        variable: The variable.
        is_exact: Whether the URL is used unchanged, because it is for one signal only. Otherwise it is a base URL to
            which the signal's path is appended.
    """

    url: str
    variable: str
    is_exact: bool


def has_endpoint() -> bool:
    """Return whether a variable names an OTLP endpoint."""
    return any(endpoint_of(signal) is not None for signal in SIGNALS)


def endpoint_of(signal: Signal) -> Endpoint | None:
    """Return the endpoint that OTEL_EXPORTER_OTLP_ENDPOINT, or the signal's own variable, names."""
    variable, url = _exporter("ENDPOINT", signal)
    return Endpoint(url=url, variable=variable, is_exact=variable != f"{_EXPORTER}ENDPOINT") if url else None


def is_grpc(signal: Signal) -> bool:
    """Return whether OTEL_EXPORTER_OTLP_PROTOCOL asks for gRPC.

    Raises:
        ConfigError: It is no protocol of OTLP.
    """
    variable, said = _exporter("PROTOCOL", signal)
    if said not in ("", "grpc", "http/protobuf", "http/json"):
        raise ConfigError(f"{variable}: {safe_text(said)!r} is no protocol; known are grpc and http/protobuf")
    return said == "grpc"


def is_insecure(signal: Signal) -> bool:
    """Return whether OTEL_EXPORTER_OTLP_INSECURE asks for plain text where a gRPC endpoint has no scheme."""
    return _exporter("INSECURE", signal)[1].lower() == "true"


def headers(signal: Signal) -> dict[str, str]:
    """Return the headers of OTEL_EXPORTER_OTLP_HEADERS: pairs, separated by commas, with values in percent-encoding.

    Raises:
        ConfigError: One is not a pair. The message does not quote it, since headers hold secrets.
    """
    variable, said = _exporter("HEADERS", signal)
    found: dict[str, str] = {}
    for position, part in enumerate(said.split(","), 1):
        key, mark, value = part.partition("=")
        if mark and key.strip():
            found[unquote(key.strip())] = unquote(value.strip())
        elif part.strip():
            raise ConfigError(f"{variable}: entry {position} is not of the form key=value")
    return found


def timeout_s(signal: Signal, default: float = 10.0) -> float:
    """Return OTEL_EXPORTER_OTLP_TIMEOUT, the longest time for one attempt, in seconds.

    Raises:
        ConfigError: It is not a positive number.
    """
    variable, raw = _exporter("TIMEOUT", signal)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ConfigError(f"{variable}: {raw!r} is not a positive number")
    return value / 1000 if value >= _MILLISECONDS_FROM else value


def tls(signal: Signal) -> Tls:
    """Return the files that OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY name."""
    return Tls(
        authority=_file("CERTIFICATE", signal),
        certificate=_file("CLIENT_CERTIFICATE", signal),
        key=_file("CLIENT_KEY", signal),
    )


def _file(name: str, signal: Signal) -> TlsFile | None:
    variable, raw = _exporter(name, signal)
    return TlsFile(Path(raw), variable) if raw else None


def is_gzip(signal: Signal) -> bool:
    """Return whether OTEL_EXPORTER_OTLP_COMPRESSION asks for gzip.

    Raises:
        ConfigError: It asks for another compression.
    """
    variable, raw = _exporter("COMPRESSION", signal)
    if raw.lower() not in ("", "none", "gzip"):
        raise ConfigError(f"{variable}: {raw!r} is neither gzip nor none")
    return raw.lower() == "gzip"


def is_turned_off(signal: Signal) -> bool:
    """Return whether OTEL_METRICS_EXPORTER, or the variable of another signal, is `none`."""
    return "none" in _exporters(signal)


def leaves_otlp_out(signal: Signal) -> bool:
    """Return whether that variable names exporters, but not the one for OTLP."""
    named = _exporters(signal)
    return bool(named) and "otlp" not in named


def _exporters(signal: Signal) -> list[str]:
    words = _word(f"OTEL_{signal.variable}_EXPORTER").split(",")
    return [word.strip() for word in words if word.strip()]


def metric_interval_s(default: float) -> float:
    """Return OTEL_METRIC_EXPORT_INTERVAL, which is in milliseconds, in seconds.

    Raises:
        ConfigError: It is not a whole number above 0.
    """
    said = whole_number("OTEL_METRIC_EXPORT_INTERVAL")
    if said == 0:
        raise ConfigError("OTEL_METRIC_EXPORT_INTERVAL: 0 is too short; give at least 1, in milliseconds")
    return default if said is None else said / 1000


def exemplars() -> Exemplars:
    """Return what OTEL_METRICS_EXEMPLAR_FILTER lets through; by default, measurements in sampled spans."""
    said = _word("OTEL_METRICS_EXEMPLAR_FILTER")
    return next((choice for choice in Exemplars if choice.value == said), Exemplars.SAMPLED)


def temporality() -> Temporality:
    """Return what OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE asks for."""
    said = _word(f"{_EXPORTER}METRICS_TEMPORALITY_PREFERENCE")
    return next((choice for choice in Temporality if choice.value == said), Temporality.CUMULATIVE)


def reads_traceparent() -> bool:
    """Return whether OTEL_PROPAGATORS lets TRACEPARENT and TRACESTATE name a parent, as it does by default."""
    said = _word("OTEL_PROPAGATORS")
    return not said or "tracecontext" in (word.strip() for word in said.split(","))


class Sampling(msgspec.Struct, frozen=True):
    """A sampler of the SDK.

    Attributes:
        name: Its name without ``parentbased_``.
        ratio: The share of traces that `traceidratio` samples.
        asks_parent: Whether a parent decides, if there is one.
    """

    name: str
    ratio: float
    asks_parent: bool


SAMPLERS = ("always_on", "always_off", "traceidratio")


def sampling() -> Sampling:
    """Return the sampler that OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG name; by default parentbased_always_on.

    Raises:
        ConfigError: The ratio is not a number from 0 to 1.
    """
    said = _word("OTEL_TRACES_SAMPLER")
    name = said.removeprefix("parentbased_")
    if name not in SAMPLERS:
        return Sampling("always_on", 1.0, asks_parent=True)
    return Sampling(name, _ratio() if name == "traceidratio" else 1.0, asks_parent=name != said)


def _ratio() -> float:
    raw = _text("OTEL_TRACES_SAMPLER_ARG")
    try:
        ratio = float(raw or 1.0)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(f"OTEL_TRACES_SAMPLER_ARG: {raw!r} is not a number from 0 to 1")
    return ratio


def limits() -> Limits:
    """Return the limits on attributes and links.

    Raises:
        ConfigError: A variable is not a whole number.
    """
    count, length = whole_number("OTEL_ATTRIBUTE_COUNT_LIMIT"), whole_number("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT")

    def of(name: str) -> AttributeLimits:
        own_count = whole_number(f"OTEL_{name}_ATTRIBUTE_COUNT_LIMIT")
        # The specification has no limit on the length of events' values in particular.
        own_length = None if name == "EVENT" else whole_number(f"OTEL_{name}_ATTRIBUTE_VALUE_LENGTH_LIMIT")
        return AttributeLimits(
            count=count if own_count is None else own_count, length=length if own_length is None else own_length
        )

    return Limits(
        span=of("SPAN"), event=of("EVENT"), log=of("LOGRECORD"), links=whole_number("OTEL_SPAN_LINK_COUNT_LIMIT")
    )
