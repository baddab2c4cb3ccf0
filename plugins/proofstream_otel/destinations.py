"""Decides where each signal goes: where the user asked, or else to the application's providers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider

from proofstream import ConfigError, PluginContext
from proofstream_otel import environment
from proofstream_otel.borrowed import logs as borrowed_logs
from proofstream_otel.borrowed.meter import BorrowedMeter
from proofstream_otel.borrowed.spans import BorrowedWriter
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.otlp.exporter import Exporter
from proofstream_otel.otlp.file import LogFile, MetricFile, SpanFile
from proofstream_otel.otlp.json_lines import JsonLines, open_folder
from proofstream_otel.otlp.resources import Resources
from proofstream_otel.otlp.span_writer import SampledWriter, SpanSink
from proofstream_otel.settings import Settings
from proofstream_otel.values.logs import LogSink
from proofstream_otel.values.metric_points import MetricSink
from proofstream_otel.values.signals import LOGS, METRICS, SIGNALS, TRACES, ExportCounts, Signal
from proofstream_otel.values.spans import SpanWriter

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class ItemCounter(Protocol):
    """A writer, sink, file or exporter that counts items for the plugin's health."""

    def counters(self) -> dict[str, int]:
        """Return delivered and lost items, by the counter's name."""
        ...


class Providers(msgspec.Struct, frozen=True):
    """The application's own providers, as they were passed in."""

    tracer: TracerProvider | None
    meter: MeterProvider | None
    logger: object | None


class Destinations(msgspec.Struct, kw_only=True):
    """Where each signal goes.

    Attributes:
        writer: Takes spans; None if they go nowhere.
        meter: Takes measurements; None if they go nowhere.
        metric_sinks: Take the collections of our own meter.
        log_sinks: Take log records.
        exporters: Send to a receiver, by the signal's name. To be closed.
        files: Files of our own pipeline. To be closed.
        counted: Everything that counts items.
    """

    writer: SpanWriter | None = None
    meter: Meter | None = None
    metric_sinks: list[MetricSink] = []
    log_sinks: list[LogSink] = []
    exporters: dict[str, Exporter] = {}
    files: list[JsonLines] = []
    counted: list[ItemCounter] = []

    @property
    def is_empty(self) -> bool:
        """Whether no signal goes anywhere."""
        return self.writer is None and self.meter is None and not self.metric_sinks and not self.log_sinks

    def counters(self) -> dict[str, int]:
        """Add up the counters of all destinations."""
        total: dict[str, int] = {}
        for part in self.counted:
            for key, count in part.counters().items():
                total[key] = total.get(key, 0) + count
        return total

    def export_counts(self) -> dict[str, ExportCounts]:
        """Return the exporters' counts, by the signal's name."""
        return {name: exporter.counts for name, exporter in self.exporters.items()}


def choose(settings: Settings, context: PluginContext, providers: Providers) -> Destinations:
    """Open the destinations that the user asked for, or find the application's providers.

    Raises:
        ConfigError: The settings contradict each other, or a destination cannot be opened.
        PluginError: A destination needs packages that are not installed.
    """
    if environment.is_sdk_disabled():
        context.log.warning("OTEL_SDK_DISABLED is set: nothing is exported")
        return Destinations()
    asked = settings.endpoint is not None or settings.file is not None
    for name, provider in msgspec.structs.asdict(providers).items():
        if provider is not None and asked:
            raise ConfigError(f"otel: a {name} provider was passed in, so otel.endpoint and otel.file cannot be set")
    if asked:
        return _own(settings, context)
    found = _borrowed(settings, context, providers)
    if not found.is_empty:
        return found
    if context.asked or environment.has_endpoint():
        return _own(settings.model_copy(update={"endpoint": ""}), context)
    context.log.info("no OTLP endpoint, file or provider is set: nothing is exported")
    return found


def _borrowed(settings: Settings, context: PluginContext, providers: Providers) -> Destinations:
    """Find the application's providers: passed in, or global if the SDK made them."""
    found = Destinations()
    if (writer := _borrowed_writer(context, providers.tracer)) is not None:
        found.writer = writer
        found.counted.append(writer)
    if settings.wants(METRICS):
        found.meter = _borrowed_meter(context, providers.meter)
    if settings.wants(LOGS) and (logs := borrowed_logs.find(providers.logger, context.identity)) is not None:
        found.log_sinks.append(logs)
        found.counted.append(logs)
    return found


def _borrowed_writer(context: PluginContext, passed_in: TracerProvider | None) -> BorrowedWriter | None:
    provider = passed_in or trace.get_tracer_provider()
    usable = passed_in is not None or isinstance(provider, SdkTracerProvider)
    return BorrowedWriter(provider, context.identity) if usable else None


def _borrowed_meter(context: PluginContext, passed_in: MeterProvider | None) -> BorrowedMeter | None:
    provider = passed_in or metrics.get_meter_provider()
    usable = passed_in is not None or isinstance(provider, SdkMeterProvider)
    return BorrowedMeter(provider, context.identity, context.log) if usable else None


def _own(settings: Settings, context: PluginContext) -> Destinations:
    """Open our own pipelines, to files and to a receiver."""
    wanted = [signal for signal in SIGNALS if settings.wants(signal)]
    folder = None
    if settings.file is not None:
        reserved = settings.file in context.outputs
        folder = open_folder(settings.file, wanted, reserved=reserved, overwrite=settings.overwrite, log=context.log)
    opening = _Opening(settings, context, folder)
    for signal in wanted:
        opening.open_signal(signal)
    return opening.destinations()


class _Opening:
    """Opens our own pipelines, signal by signal."""

    def __init__(self, settings: Settings, context: PluginContext, folder: Path | None) -> None:
        self._folder = folder
        self._settings = settings
        self._context = context
        self._resources = Resources(context.identity)
        self._span_sinks: list[SpanSink] = []
        self._writer = SampledWriter(self._span_sinks)
        self._found = Destinations(writer=self._writer, counted=[self._writer])

    def open_signal(self, signal: Signal) -> None:
        """Open the file and the connection to the receiver, as far as the user asked for them."""
        settings, log = self._settings, self._context.log
        if self._folder is not None:
            lines = JsonLines(self._folder, signal, max_bytes=settings.max_file_bytes, log=log)
            self._found.files.append(lines)
            self._found.counted.append(lines)
            self._write_to(lines, signal)
        if settings.endpoint is not None and _has_receiver(settings, signal):
            exporter = self._found.exporters[signal.name] = self._exporter(settings.endpoint, signal)
            self._found.counted.append(exporter)
            self._send_with(exporter, signal)

    def destinations(self) -> Destinations:
        """Return the destinations opened so far."""
        if self._found.metric_sinks:
            self._found.meter = OwnMeter(exemplars=environment.wants_exemplars(), log=self._context.log)
        return self._found

    def _write_to(self, lines: JsonLines, signal: Signal) -> None:
        if signal is TRACES:
            self._span_sinks.append(SpanFile(lines, self._resources))
        elif signal is METRICS:
            self._found.metric_sinks.append(MetricFile(lines, self._resources))
        else:
            self._found.log_sinks.append(LogFile(lines, self._resources))

    def _send_with(self, exporter: Exporter, signal: Signal) -> None:
        from proofstream_otel.otlp.senders import LogSender, MetricSender, SpanSender

        if signal is TRACES:
            self._span_sinks.append(SpanSender(exporter))
        elif signal is METRICS:
            self._found.metric_sinks.append(MetricSender(exporter))
        else:
            self._found.log_sinks.append(LogSender(exporter))

    def _exporter(self, endpoint: str, signal: Signal) -> Exporter:
        from proofstream_otel.otlp.endpoints import open_transport

        settings, context = self._settings, self._context
        return Exporter(
            open_transport(endpoint, settings.headers, signal),
            self._resources,
            signal=signal,
            batching=environment.batching_of(signal, settings.max_queue_bytes),
            may_be_refused=not settings.requires(signal),
            progress=context.progress,
            log=context.log,
        )


def _has_receiver(settings: Settings, signal: Signal) -> bool:
    """Return whether a signal has a receiver. If variables name one for some signals only, the others have none."""
    if settings.endpoint or (settings.requires(signal) and signal is not TRACES):
        return True
    named = environment.base_endpoint() or environment.own_endpoint(signal)
    return bool(named) or not environment.has_endpoint()
