"""The pipeline of OpenTelemetry's SDK: made as its configurator makes it, and not made global."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from opentelemetry.sdk import _configuration
from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.resources import OTELResourceDetector
from opentelemetry.sdk.trace.export import SpanExporter

from proofstream import ConfigError, PluginContext, PluginError, safe_text
from proofstream_otel import environment
from proofstream_otel.sdk.capture import captured
from proofstream_otel.sdk.counting import CountedLogs, CountedSpans, Tally
from proofstream_otel.sdk.ending import Ending
from proofstream_otel.settings import Settings
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.signals import LOGS, METRICS, SIGNALS, TRACES, Signal

_Configurator: type[Any] = vars(_configuration)["_OTelSDKConfigurator"]
"""Private, and meant to be derived from by the vendors of distributions."""

_HTTP = "otlp_proto_http"
_GRPC = "otlp_proto_grpc"
_SHARE_OF_DEADLINE = 0.9
"""The part of the time for closing that the providers have. The rest is for counting losses and for warnings."""
_UNUSED = {
    "metric_interval_s": "OTEL_METRIC_EXPORT_INTERVAL",
    "max_queue_bytes": "OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BLRP_MAX_QUEUE_SIZE",
}
"""Settings of our own pipeline, and what the SDK has in their place."""


class SdkPipeline:
    """The providers that the environment asks for, and what became of the items that they got.

    Raises:
        ConfigError: A setting contradicts this pipeline.
        PluginError: The environment names something that is not installed, or the SDK refuses it.
    """

    def __init__(self, settings: Settings, context: PluginContext) -> None:
        if settings.file is not None:
            raise ConfigError('otel.file: only our own pipeline writes files: remove otel.pipeline = "sdk"')
        for key in sorted(key for key in _UNUSED if getattr(settings, key) != getattr(Settings(), key)):
            context.log.warning('otel.%s has no effect with otel.pipeline = "sdk": set %s', key, _UNUSED[key])
        self._log = context.log
        self._owner = os.getpid()
        self._tallies: list[Tally] = []
        self._lost_collections = 0
        try:
            self._providers = self._made(settings, context.identity)
        except Exception as error:
            reason = safe_text(str(error) or type(error).__name__)
            hint = "the OTLP exporters are in proofstream[otel-sdk]" if "'otlp_proto_" in reason else None
            raise PluginError(f"otel: the SDK's pipeline cannot be made: {reason}", hint=hint) from error
        self._endings = {signal: Ending(provider, signal.name) for signal, provider in self._providers.items()}

    def provider(self, signal: Signal) -> Any | None:
        """Return the provider for a signal, or None if the configurator made none."""
        return self._providers.get(signal)

    def counters(self) -> dict[str, int]:
        """Count the spans and log records that were delivered and lost, as far as the SDK tells."""
        total = {"lost_metric_collections": self._lost_collections} if self._lost_collections else {}
        for tally in self._tallies:
            for key, count in tally.counters().items():
                total[key] = total.get(key, 0) + count
        return total

    def begin_closing(self) -> None:
        """Let the providers deliver what they hold, all at once."""
        if os.getpid() == self._owner:
            for ending in self._endings.values():
                ending.begin()

    def close(self, timeout_s: float) -> None:
        """Wait for that, for `timeout_s` at most, and count as lost what is not delivered by then."""
        if os.getpid() != self._owner:
            return
        deadline = time.monotonic() + timeout_s * _SHARE_OF_DEADLINE
        late = [signal for signal, ending in self._endings.items() if not ending.wait_until(deadline)]
        for tally in self._tallies:
            tally.has_ended = True
        self._lost_collections = int(METRICS in late)
        if late:
            names = " and ".join(signal.name for signal in late)
            self._log.warning("OpenTelemetry's SDK did not deliver the last %s in time: they are lost", names)

    def _made(self, settings: Settings, identity: Mapping[str, str]) -> dict[Signal, Any]:
        if distribution := os.environ.get("OTEL_PYTHON_DISTRO", "").strip():
            _load("opentelemetry_distro", distribution)().configure()
        name = os.environ.get("OTEL_PYTHON_CONFIGURATOR", "").strip()
        kind: type[Any] = _load("opentelemetry_configurator", name) if name else _Configurator
        # A configurator with ways of its own, and a configuration file, leave no room for ours.
        is_plain = _is_plain(kind) and not os.environ.get("OTEL_CONFIG_FILE")
        arguments = self._arguments(settings, identity) if is_plain else {}
        with captured() as found:
            kind().configure(**arguments)
        return found

    def _arguments(self, settings: Settings, identity: Mapping[str, str]) -> dict[str, Any]:
        said = OTELResourceDetector().detect().attributes
        ours = {"service.name": SCOPE, **identity}
        return {
            "resource_attributes": {key: value for key, value in ours.items() if key not in said},
            "setup_logging_handler": False,  # the application's own log is none of ours
            "trace_exporter_names": _names(settings, TRACES),
            "metric_exporter_names": _names(settings, METRICS),
            "log_exporter_names": _names(settings, LOGS),
            "exporter_args_map": _exporter_arguments(settings),
            "export_span_processor": self._counted_spans,
            "export_log_record_processor": self._counted_logs,
        }

    def _counted_spans(self, span_exporter: SpanExporter) -> CountedSpans:
        return CountedSpans(span_exporter, self._tally(TRACES))

    def _counted_logs(self, exporter: LogRecordExporter) -> CountedLogs:
        return CountedLogs(exporter, self._tally(LOGS))

    def _tally(self, signal: Signal) -> Tally:
        tally = Tally(signal)
        self._tallies.append(tally)
        return tally


def _is_plain(kind: type[Any]) -> bool:
    """Return whether a configurator does as the SDK's own one does."""
    lineage = kind.__mro__
    if _Configurator not in lineage:
        return False
    return all("_configure" not in vars(one) for one in lineage[: lineage.index(_Configurator)])


def _names(settings: Settings, signal: Signal) -> list[str]:
    """Return the exporters beside those that the environment names: OTLP, as long as it names none."""
    if not settings.wants(signal):
        return []
    if settings.endpoint:
        return [_GRPC if settings.endpoint.startswith("grpc") else _HTTP]
    if os.environ.get(f"OTEL_{signal.variable}_EXPORTER", "").strip():
        return []
    # The SDK would take gRPC, but the specification recommends what our own pipeline does.
    return [_GRPC if environment.is_grpc(signal) else _HTTP]


def _exporter_arguments(settings: Settings) -> dict[type[Any], dict[str, Any]]:
    """Return what the settings, and not the environment, say to the official exporters."""
    found: dict[type[Any], dict[str, Any]] = {}
    for signal in SIGNALS:
        for point in entry_points(group=f"opentelemetry_{signal.name}_exporter"):
            if point.name in (_HTTP, _GRPC) and (arguments := _said(settings, signal, point.name)):
                found[point.load()] = arguments
    return found


def _said(settings: Settings, signal: Signal, name: str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    endpoint = settings.endpoint or ""
    is_grpc = endpoint.startswith("grpc")
    if endpoint and is_grpc == (name == _GRPC):
        said["endpoint"] = endpoint.replace("grpc", "http", 1) if is_grpc else _with_path(endpoint, signal)
    if settings.headers:
        of_environment = environment.headers(signal)
        said["headers"] = {**of_environment, **{key.lower(): value for key, value in settings.headers.items()}}
    return said


def _with_path(url: str, signal: Signal) -> str:
    base = url.rstrip("/")
    return base if base.endswith(signal.path) else base + signal.path


def _load(group: str, name: str) -> Any:
    for point in entry_points(group=group, name=name):
        return point.load()
    raise LookupError(f"{name!r} is not found among the installed packages' {group}")
