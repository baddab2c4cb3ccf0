"""Lists OpenTelemetry's environment variables, and what becomes of each in this plugin's own pipeline.

`environment` reads those that are honoured. A variable, or a value of one, that this pipeline cannot honour is named
when it is set. The table in ``docs/opentelemetry-variables.md`` is this list; a test compares them, and looks for
variables of the installed SDK that are missing here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping

import msgspec

from proofstream import safe_text
from proofstream_otel.values.signals import SIGNALS

_BY_SDK = 'not used by otel\'s own pipeline, but by the SDK with otel.pipeline = "sdk"'


class How(enum.Enum):
    """What becomes of a variable."""

    HONOURED = "honoured"
    PARTLY = "honoured, or else named"
    NAMED = "named"
    ELSEWHERE = "elsewhere"


class Variable(msgspec.Struct, frozen=True, kw_only=True):
    """One variable.

    Attributes:
        name: Its name.
        how: What becomes of it.
        effect: The same in a few words, for the documentation.
        note: Returns what the user must hear about a value, or None.
    """

    name: str
    how: How
    effect: str
    note: Callable[[str], str | None]


def notes(environ: Mapping[str, str]) -> list[str]:
    """Return a line for everything that is set and not honoured; variables with the same fate share one."""
    found: dict[str, list[str]] = {}
    for variable in VARIABLES:
        value = environ.get(variable.name, "").strip()
        note = variable.note(value) if value else None
        if note is not None:
            found.setdefault(note, []).append(variable.name)
    return [f"{', '.join(names)}: {note}" for note, names in found.items()]


def _nothing(_value: str) -> None:
    return None


def _honoured(name: str, effect: str) -> Variable:
    return Variable(name=name, how=How.HONOURED, effect=effect, note=_nothing)


def _named(name: str, effect: str, note: str = _BY_SDK) -> Variable:
    return Variable(name=name, how=How.NAMED, effect=effect, note=lambda _value: note)


def _elsewhere(name: str, effect: str) -> Variable:
    return Variable(name=name, how=How.ELSEWHERE, effect=effect, note=_nothing)


def _partly(name: str, effect: str, note: Callable[[str], str | None]) -> Variable:
    return Variable(name=name, how=How.PARTLY, effect=effect, note=note)


def _one_of(*known: str, else_: str) -> Callable[[str], str | None]:
    """Return a note on any value but the known ones."""

    def note(value: str) -> str | None:
        return None if value.lower() in known else f"{safe_text(value)!r} is not known: {else_}"

    return note


def _sampler_note(value: str) -> str | None:
    if value.lower().removeprefix("parentbased_") in ("always_on", "always_off", "traceidratio"):
        return None
    return (
        f"{safe_text(value)!r} is no sampler of otel's own pipeline, so all traces are sampled; "
        'otel.pipeline = "sdk" may know it'
    )


def _exporters_note(value: str) -> str | None:
    foreign = [word for word in map(str.strip, value.split(",")) if word and word.lower() not in ("otlp", "none")]
    if not foreign:
        return None
    return f'otel\'s own pipeline has no exporter {safe_text(", ".join(foreign))!r}; otel.pipeline = "sdk" may have it'


def _propagators_note(value: str) -> str | None:
    known = ("tracecontext", "baggage", "none")
    foreign = [word for word in map(str.strip, value.split(",")) if word and word.lower() not in known]
    if not foreign:
        return None
    return f"{safe_text(', '.join(foreign))!r} is not read; a parent can be given by TRACEPARENT and TRACESTATE only"


def _aggregation_note(value: str) -> str | None:
    return None if value.lower() == "explicit_bucket_histogram" else f"{safe_text(value)!r}: {_BY_SDK}"


def _protocol_note(value: str) -> str | None:
    return "http/json is sent as http/protobuf, which has the same paths" if value == "http/json" else None


def _of_exporter(prefix: str, what: str) -> Iterable[Variable]:
    """Yield the variables of OTLP's exporter, for all signals or for one."""
    rest = {
        "TIMEOUT": "limits one attempt; from 1000 on in milliseconds, below in seconds, as Python's exporters have it",
        "COMPRESSION": "`gzip` or `none`; another word is an error",
        "HEADERS": "sent with each request; `otel.headers` wins",
        "CERTIFICATE": "the authorities to trust; checked at the start",
        "CLIENT_KEY": "our own key; checked at the start, together with its certificate",
        "CLIENT_CERTIFICATE": "our own certificate; checked at the start, together with its key",
    }
    yield _honoured(f"{prefix}ENDPOINT", f"the receiver {what}; `--otlp URL` and `otel.endpoint` win")
    yield _partly(
        f"{prefix}PROTOCOL",
        "`grpc`, `http/protobuf`; `http/json` is named and sent as `http/protobuf`; another word is an error. The "
        "scheme of `otel.endpoint` wins",
        _protocol_note,
    )
    for name, effect in rest.items():
        yield _honoured(prefix + name, effect)
    yield _partly(
        f"{prefix}INSECURE",
        "`true`: plain text, where a gRPC endpoint has no scheme; words but `true` and `false` are named",
        _one_of("true", "false", else_="only true asks for plain text"),
    )


def _of_batches(prefix: str) -> Iterable[Variable]:
    """Yield the variables of a batch processor."""
    yield _honoured(f"{prefix}SCHEDULE_DELAY", "how long an item waits for others; 1 s by default")
    yield _honoured(f"{prefix}EXPORT_TIMEOUT", "limits one attempt; 30 s by default")
    yield _honoured(f"{prefix}MAX_QUEUE_SIZE", "beside `otel.max_queue_bytes`")
    yield _honoured(f"{prefix}MAX_EXPORT_BATCH_SIZE", "items of one request; 512 by default")


def _of_limits() -> Iterable[Variable]:
    """Yield the limits on attributes, events and links."""
    for kind, whose in (
        ("", "spans, events and log records"),
        ("SPAN_", "spans"),
        ("EVENT_", "span events"),
        ("LOGRECORD_", "log records"),
    ):
        yield _honoured(f"OTEL_{kind}ATTRIBUTE_COUNT_LIMIT", f"of {whose}; those left out are counted")
        if kind != "EVENT_":
            yield _honoured(f"OTEL_{kind}ATTRIBUTE_VALUE_LENGTH_LIMIT", f"of {whose}, where it is below our own 1024")
    yield _honoured("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "our links have no attributes")
    yield _honoured("OTEL_SPAN_EVENT_COUNT_LIMIT", "where it is below `otel.max_round_events`; drops rounds first")
    yield _honoured("OTEL_SPAN_LINK_COUNT_LIMIT", "those left out are counted")


def _of_all_signals() -> Iterable[Variable]:
    """Yield those that concern the SDK as a whole, traces, and the choice of exporters."""
    yield _partly(
        "OTEL_SDK_DISABLED",
        "`true`: nothing is exported, and a line says so",
        _one_of("true", "false", else_="only true turns OpenTelemetry off"),
    )
    yield _named("OTEL_CONFIG_FILE", "a file of the SDK's")
    yield _named("OTEL_EXPERIMENTAL_CONFIG_FILE", "the same, by its earlier name")
    yield _honoured("OTEL_RESOURCE_ATTRIBUTES", "beside the session's and this machine's")
    yield _honoured("OTEL_SERVICE_NAME", "`proofstream` by default")
    yield _honoured("OTEL_EXPERIMENTAL_RESOURCE_DETECTORS", "the SDK's detectors run")
    yield _named(
        "OTEL_ENTITIES", "in development", "otel does not use it; OTEL_RESOURCE_ATTRIBUTES describes the resource"
    )
    yield _named(
        "OTEL_LOG_LEVEL", "for the SDK's own log", "otel logs through Python's logging, which has levels itself"
    )
    yield _partly(
        "OTEL_PROPAGATORS",
        "without `tracecontext`, TRACEPARENT and TRACESTATE are not read; other words but `baggage` are named",
        _propagators_note,
    )
    yield _partly(
        "OTEL_TRACES_SAMPLER",
        "`always_on`, `always_off`, `traceidratio`, each also with `parentbased_`; others are named",
        _sampler_note,
    )
    yield _honoured("OTEL_TRACES_SAMPLER_ARG", "the ratio of `traceidratio`; an error if it is not from 0 to 1")
    for signal in SIGNALS:
        yield _partly(
            f"OTEL_{signal.variable}_EXPORTER",
            f"`none`: no {signal.name}, unless `otel.{signal.name} = true`; without `otlp` in it, a receiver gets "
            f"{signal.name} only if `--otlp` or `otel.endpoint` asks for that; other words are named",
            _exporters_note,
        )


def _of_metrics() -> Iterable[Variable]:
    """Yield those that say how metrics are collected."""
    yield _honoured("OTEL_METRIC_EXPORT_INTERVAL", "10 s by default; `otel.metric_interval_s` wins")
    yield _honoured("OTEL_METRIC_EXPORT_TIMEOUT", "limits one attempt; 30 s by default")
    yield _partly(
        "OTEL_METRICS_EXEMPLAR_FILTER",
        "`trace_based` by default, `always_on`, `always_off`; others are named",
        _one_of("trace_based", "always_on", "always_off", else_="trace_based is used"),
    )
    yield _partly(
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
        "`cumulative`, `delta`, `lowmemory`, also for files; others are named",
        _one_of("cumulative", "delta", "lowmemory", else_="cumulative is used"),
    )
    yield _partly(
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
        "`explicit_bucket_histogram`, with buckets from 1 ms to 2 h; others are named",
        _aggregation_note,
    )


def _of_others() -> Iterable[Variable]:
    """Yield those of other exporters and of earlier times."""
    for name, now in (("SPAN", "TRACES"), ("METRIC", "METRICS")):
        takes_over = f"OTEL_EXPORTER_OTLP_{now}_INSECURE has taken its place"
        yield _named(f"OTEL_EXPORTER_OTLP_{name}_INSECURE", "an earlier name", takes_over)
    for name in ("HOST", "PORT"):
        yield _named(f"OTEL_EXPORTER_PROMETHEUS_{name}", "Prometheus can read from a Collector, or take OTLP itself")
    for name in ("ENDPOINT", "TIMEOUT", "PROTOCOL"):
        yield _named(f"OTEL_EXPORTER_ZIPKIN_{name}", "Zipkin's exporter")
    for name in ("AGENT_HOST", "AGENT_PORT", "ENDPOINT", "PROTOCOL", "TIMEOUT", "USER", "PASSWORD"):
        yield _named(
            f"OTEL_EXPORTER_JAEGER_{name}",
            "OpenTelemetry has given this exporter up: Jaeger takes OTLP",
            "OpenTelemetry has given this exporter up: send OTLP to Jaeger, on its ports 4317 and 4318",
        )


def _of_python() -> Iterable[Variable]:
    """Yield those of Python alone."""
    yield _named("OTEL_PYTHON_ID_GENERATOR", "our ids are made of the session's, so that a replay has the same")
    for name in ("TRACER", "METER", "LOGGER"):
        yield _named(f"OTEL_PYTHON_{name}_CONFIGURATOR", "for the SDK's own scopes")
    yield _named("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "our own counts are in the metrics `proofstream.otlp.*`")
    for transport in ("HTTP", "GRPC"):
        for signal in ("", "TRACES_", "METRICS_", "LOGS_"):
            name = f"OTEL_PYTHON_EXPORTER_OTLP_{transport}_{signal}CREDENTIAL_PROVIDER"
            yield _named(name, "for the SDK's exporters; `otel.headers` and the files for TLS are ours")
    yield _named("OTEL_PYTHON_EXPORTER_OTLP_GRPC_RETRYABLE_ERROR_CODES", "ours are the specification's")
    for name in ("CONTEXT", "TRACER_PROVIDER", "METER_PROVIDER", "LOGGER_PROVIDER"):
        yield _elsewhere(f"OTEL_PYTHON_{name}", "OpenTelemetry's API reads it for the whole process")
    for name in ("CONFIGURATOR", "DISTRO"):
        yield _elsewhere(f"OTEL_PYTHON_{name}", 'makes the providers of `otel.pipeline = "sdk"`')
    yield _elsewhere("OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED", "concerns the application's own log records")


def _all() -> Iterable[Variable]:
    yield from _of_all_signals()
    yield from _of_batches("OTEL_BSP_")
    yield from _of_batches("OTEL_BLRP_")
    yield from _of_limits()
    yield from _of_metrics()
    yield from _of_exporter("OTEL_EXPORTER_OTLP_", "of all signals")
    for signal in SIGNALS:
        yield from _of_exporter(f"OTEL_EXPORTER_OTLP_{signal.variable}_", f"of {signal.name}, used unchanged")
    yield from _of_others()
    yield from _of_python()


VARIABLES = tuple(_all())
"""All variables of the specification that concern exporting, and those that Python's SDK adds."""
