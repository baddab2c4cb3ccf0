"""Where each signal goes: what was asked for, or else what the application has set up."""

from __future__ import annotations

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
from proofstream_otel.metrics.own_meter import Registry
from proofstream_otel.otlp.exporter import Delivery, Exporter
from proofstream_otel.otlp.file import LogFile, MetricFile, TraceFile
from proofstream_otel.otlp.json_lines import JsonLines
from proofstream_otel.otlp.span_writer import OwnedWriter, Sink
from proofstream_otel.settings import Settings
from proofstream_otel.traces.log_records import LogSink
from proofstream_otel.values.metric_points import MetricSink
from proofstream_otel.values.resources import Resource
from proofstream_otel.values.signals import LOGS, METRICS, SIGNALS, TRACES, Signal
from proofstream_otel.values.spans import Writer

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


class Part(Protocol):
    """What the writers and sinks of all signals do alike."""

    def counters(self) -> dict[str, int]:
        """What was delivered and what could not be."""
        ...

    def hurry(self) -> None:
        """Hold the lane no more, as `close` is about to come."""
        ...

    def begin_closing(self, timeout_s: float) -> None:
        """Begin to deliver what is left within `timeout_s` from now."""
        ...

    def close(self, timeout_s: float) -> None:
        """Deliver what can be delivered within `timeout_s`."""
        ...


class Providers(msgspec.Struct, frozen=True):
    """The application's own providers, as they were passed in."""

    tracer: TracerProvider | None
    meter: MeterProvider | None
    logger: object | None


class Routes(msgspec.Struct, kw_only=True):
    """Where each signal goes.

    Attributes:
        writer: Takes spans; None if they go nowhere.
        meter: Takes measurements; None if they go nowhere.
        metric_sinks: Take what our own pipeline collects.
        log_sinks: Take log records.
        exporters: What sends to a receiver, by the signal's name.
    """

    writer: Writer | None = None
    meter: Meter | None = None
    metric_sinks: list[MetricSink] = []
    log_sinks: list[LogSink] = []
    exporters: dict[str, Exporter] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing goes anywhere."""
        return not self.parts and self.meter is None

    @property
    def parts(self) -> list[Part]:
        """All that delivers something, which has to be closed."""
        return [*([] if self.writer is None else [self.writer]), *self.metric_sinks, *self.log_sinks]

    def deliveries(self) -> dict[str, Delivery]:
        """What became of what was sent, by the signal's name."""
        return {name: exporter.delivery for name, exporter in self.exporters.items()}


def choose(settings: Settings, context: PluginContext, providers: Providers) -> Routes:
    """Open what was asked for, or find what the application has set up.

    Raises:
        ConfigError: What is asked for contradicts itself, or cannot be opened.
        PluginError: It needs packages that are not installed.
    """
    if environment.is_sdk_disabled():
        context.log.warning("OTEL_SDK_DISABLED is set: nothing is exported")
        return Routes()
    asked = settings.endpoint is not None or settings.file is not None
    for name, provider in msgspec.structs.asdict(providers).items():
        if provider is not None and asked:
            raise ConfigError(f"otel: a {name} provider was passed in, so otel.endpoint and otel.file cannot be set")
    if asked:
        return _own(settings, context)
    found = Routes(
        writer=_borrowed_writer(context, providers.tracer),
        meter=_borrowed_meter(context, providers.meter) if settings.wants(METRICS) else None,
    )
    if settings.wants(LOGS) and (logs := borrowed_logs.find(providers.logger, context.identity)) is not None:
        found.log_sinks.append(logs)
    if not found.is_empty:
        return found
    if context.asked or environment.has_endpoint():
        return _own(settings.model_copy(update={"endpoint": ""}), context)
    context.log.info("no OTLP endpoint, file or provider is there: nothing is exported")
    return found


def _borrowed_writer(context: PluginContext, passed_in: TracerProvider | None) -> BorrowedWriter | None:
    provider = passed_in or trace.get_tracer_provider()
    usable = passed_in is not None or isinstance(provider, SdkTracerProvider)
    return BorrowedWriter(provider, context.identity) if usable else None


def _borrowed_meter(context: PluginContext, passed_in: MeterProvider | None) -> BorrowedMeter | None:
    provider = passed_in or metrics.get_meter_provider()
    usable = passed_in is not None or isinstance(provider, SdkMeterProvider)
    return BorrowedMeter(provider, context.identity) if usable else None


def _own(settings: Settings, context: PluginContext) -> Routes:
    """Our own pipelines, to files and to a receiver."""
    opening = _Opening(settings, context)
    for signal in SIGNALS:
        if settings.wants(signal):
            opening.open(signal)
    return opening.routes()


class _Opening:
    """Opens what our own pipelines need, signal by signal."""

    def __init__(self, settings: Settings, context: PluginContext) -> None:
        self._settings = settings
        self._context = context
        self._resource = Resource(context.identity)
        self._spans: list[Sink] = []
        self._routes = Routes()

    def open(self, signal: Signal) -> None:
        """Open the file and the way to the receiver, as far as they are asked for."""
        settings = self._settings
        if settings.file is not None:
            log = self._context.log
            self._write_to(JsonLines(settings.file, signal, max_bytes=settings.max_file_bytes, log=log), signal)
        if settings.endpoint is not None and _has_receiver(settings, signal):
            self._send_with(self._exporter(settings.endpoint, signal), signal)

    def routes(self) -> Routes:
        """What has been opened."""
        routes = self._routes
        routes.writer = OwnedWriter(self._spans)
        if routes.metric_sinks:
            routes.meter = Registry(exemplars=environment.wants_exemplars())
        return routes

    def _write_to(self, lines: JsonLines, signal: Signal) -> None:
        if signal is TRACES:
            self._spans.append(TraceFile(lines, self._resource))
        elif signal is METRICS:
            self._routes.metric_sinks.append(MetricFile(lines, self._resource))
        else:
            self._routes.log_sinks.append(LogFile(lines, self._resource))

    def _send_with(self, exporter: Exporter, signal: Signal) -> None:
        from proofstream_otel.otlp.senders import LogSender, MetricSender, TraceSender

        self._routes.exporters[signal.name] = exporter
        if signal is TRACES:
            self._spans.append(TraceSender(exporter))
        elif signal is METRICS:
            self._routes.metric_sinks.append(MetricSender(exporter))
        else:
            self._routes.log_sinks.append(LogSender(exporter))

    def _exporter(self, endpoint: str, signal: Signal) -> Exporter:
        from proofstream_otel.otlp.transport import open_transport

        settings, context = self._settings, self._context
        return Exporter(
            open_transport(endpoint, settings.headers, signal),
            self._resource,
            signal=signal,
            batching=environment.batching_of(signal),
            may_be_refused=not settings.requires(signal),
            progress=context.progress,
            log=context.log,
        )


def _has_receiver(settings: Settings, signal: Signal) -> bool:
    """Whether there is somebody to send a signal to: who names a receiver of one signal alone means just that."""
    if settings.endpoint or (settings.requires(signal) and signal is not TRACES):
        return True
    named = environment.base_endpoint() or environment.own_endpoint(signal)
    return bool(named) or not environment.has_endpoint()
