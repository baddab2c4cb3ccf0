"""Exports proofs as OpenTelemetry traces, metrics and logs: to a receiver, to files or through the app's providers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from proofstream import Artefact, Batch, Option, OptionKind, PluginContext, ProofEvent, hookimpl
from proofstream_otel.traces import parents
from proofstream_otel.values.signals import SIGNALS

if TYPE_CHECKING:
    from msgspec import Struct
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from proofstream_otel.telemetry import Telemetry

_GLOBALS = (
    ("opentelemetry.trace", "_TRACER_PROVIDER"),
    ("opentelemetry.metrics._internal", "_METER_PROVIDER"),
    ("opentelemetry._logs._internal", "_LOGGER_PROVIDER"),
)
"""Where the API keeps the providers that an application has made global. To ask for them may load one."""

URL_PREFIXES = ("http://", "https://", "grpc://", "grpcs://")


class OtelPlugin:
    """The plugin ``otel``.

    Attributes:
        requires: The modules that must be installed.
        wanted_by: The variables by which a user wants it.
        tick_s: Seconds between calls while no events arrive.

    Args:
        tracer_provider: The application's tracer provider. It makes the spans, and is never shut down. Without one, the
            configured destinations are used, or else the global provider if the application has set one.
        meter_provider: The application's meter provider, with the same rules for metrics.
        logger_provider: The application's logger provider, with the same rules for log records.
        settings: Values that override the configuration table ``[otel]``.
    """

    requires = ("opentelemetry.proto", "opentelemetry.sdk", "requests")

    wanted_by = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_", "LOGS_"))

    tick_s = 1.0

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: object | None = None,
        **settings: Any,
    ) -> None:
        self._tracer_provider = tracer_provider
        self._meter_provider = meter_provider
        self._logger_provider = logger_provider
        self.given_settings = settings
        self._telemetry: Telemetry | None = None

    @property
    def needs_settings(self) -> bool:
        """Whether only settings could tell where to export to: no variable of OpenTelemetry and no provider does."""
        given = (self._tracer_provider, self._meter_provider, self._logger_provider)
        if any(provider is not None for provider in given) or any(name.startswith("OTEL_") for name in os.environ):
            return False
        return not any(getattr(sys.modules.get(module), name, None) is not None for module, name in _GLOBALS)

    @property
    def joins_other_traces(self) -> bool:
        """Whether the application's provider may make the traces, so that their ids derive from nothing."""
        trace = sys.modules.get("opentelemetry.trace")
        # `get_tracer_provider` may load one, so look for the one that was set.
        return self._tracer_provider is not None or getattr(trace, "_TRACER_PROVIDER", None) is not None

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Declare ``--otlp`` and ``--otlp-file``."""
        return (
            Option(
                flag="--otlp",
                key="endpoint",
                kind=OptionKind.OPTIONAL_VALUE,
                summary="Send telemetry to an OTLP receiver, by default OTEL_EXPORTER_OTLP_ENDPOINT or localhost.",
                metavar="ENDPOINT",
                value_prefixes=URL_PREFIXES,
            ),
            Option(
                flag="--otlp-file",
                key="file",
                kind=OptionKind.VALUE,
                summary="Write OTLP JSON lines to DIR: traces.jsonl, metrics.jsonl and logs.jsonl.",
                metavar="DIR",
                artefact=Artefact(
                    name="otlp",
                    next_step="traces, metrics and logs as OTLP JSON lines, for a Collector",
                    files=tuple(signal.file_name for signal in SIGNALS),
                ),
            ),
        )

    @hookimpl
    def proofstream_settings(self) -> type[Struct]:
        """Declare the keys of the table."""
        from proofstream_otel.settings import Settings

        return Settings

    @hookimpl
    def proofstream_capture(self) -> object:
        """Capture the OpenTelemetry span that is current on the producer's thread, or None."""
        # Never import here. If opentelemetry.trace is not loaded, or only half loaded by our own lane (no `__all__`
        # yet), no span can be current.
        trace = sys.modules.get("opentelemetry.trace")
        return parents.current_span(trace) if hasattr(trace, "__all__") else None

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Validate the table and open the destinations; sit the run out if there are none.

        OTEL_SDK_DISABLED is no reason to refuse a run: it turns telemetry off where the command stays as it is.
        """
        from proofstream_otel import environment, idleness, settings

        chosen = settings.read({**context.config, **self.given_settings})
        settings.metric_interval_s(chosen)  # complains of a wrong variable in any case
        passed_in = (self._tracer_provider, self._meter_provider, self._logger_provider)
        if passed_in == (None, None, None) and idleness.is_surely_idle(chosen, context):
            context.log.info(idleness.NOTHING_SET)
            return False
        from proofstream_otel.destinations import Providers
        from proofstream_otel.telemetry import Telemetry

        self._telemetry = Telemetry(context, chosen, Providers(*passed_in))
        return not self._telemetry.is_idle or (context.asked and environment.is_sdk_disabled())

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None:
        """Turn envelopes into spans, metrics and log records; return the trace of each proof that begins."""
        return None if self._telemetry is None else self._telemetry.consume(batch)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Count exported and lost items."""
        return {} if self._telemetry is None else self._telemetry.counters()

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """End the open spans and deliver what is left."""
        if self._telemetry is not None:
            self._telemetry.close(timeout_s)
