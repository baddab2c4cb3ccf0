"""Exports proofs as OpenTelemetry traces, metrics and logs: to a receiver, to files, or through the app's providers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from proofstream import Artefact, Batch, Option, OptionKind, PluginContext, ProofEvent, hookimpl
from proofstream_otel.traces import parents

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from proofstream_otel.exporting import Exporting

URL_PREFIXES = ("http://", "https://", "grpc://")


class OtelPlugin:
    """The plugin ``otel``.

    Attributes:
        requires: The modules that it needs.
        tick_s: How often it wants to be called when nothing happens.

    Args:
        tracer_provider: The application's tracer provider. Spans are made with it; it is never shut down. Without one,
            what is configured is used, or else the global provider if it is one of the SDK.
        meter_provider: The application's meter provider, with the same rules for metrics.
        logger_provider: The application's logger provider, with the same rules for log records.
        settings: Values of the configuration table ``[otel]``, which win over it.
    """

    requires = ("opentelemetry.sdk",)

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
        self._settings = settings
        self._exporting: Exporting | None = None

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
                ),
            ),
        )

    @hookimpl
    def proofstream_capture(self) -> object:
        """Capture the OpenTelemetry span that is current on the producer's thread, if there is one."""
        # Nothing is imported: where this module is not loaded, no span can be current. Nor where it is half loaded, by
        # this plugin's own lane for instance: what stands at its end is then missing.
        trace = sys.modules.get("opentelemetry.trace")
        return parents.current(trace) if hasattr(trace, "__all__") else None

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Validate the table and open what it asks for; sits the run out if there is nowhere to export to."""
        from proofstream_otel.exporting import Exporting
        from proofstream_otel.routes import Providers

        providers = Providers(self._tracer_provider, self._meter_provider, self._logger_provider)
        self._exporting = Exporting(context, {**context.config, **self._settings}, providers)
        return not self._exporting.is_idle

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> Iterable[ProofEvent] | None:
        """Turn envelopes into spans, metrics and log records; returns the trace of each proof that begins."""
        return None if self._exporting is None else self._exporting.consume(batch)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Report what was exported and what was lost."""
        return {} if self._exporting is None else self._exporting.counters()

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """End what is open and deliver what is left."""
        if self._exporting is not None:
            self._exporting.close(timeout_s)
