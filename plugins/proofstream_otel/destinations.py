"""Decides for each signal where it goes: where the user asked, or else to the application's provider."""

from __future__ import annotations

import logging
import os
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from proofstream import ConfigError, PluginContext
from proofstream_otel import environment, variables
from proofstream_otel.borrowed import providers as borrowed
from proofstream_otel.idleness import NOTHING_SET
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.otlp.file import LogFile, MetricFile, SpanFile
from proofstream_otel.otlp.json_lines import JsonLines, open_folder
from proofstream_otel.otlp.resources import Resources
from proofstream_otel.otlp.span_writer import SampledWriter, SpanSink
from proofstream_otel.settings import Pipeline, Settings
from proofstream_otel.values.limits import Limits, limited
from proofstream_otel.values.logs import LogSink
from proofstream_otel.values.metric_points import MetricSink
from proofstream_otel.values.signals import METRICS, SIGNALS, TRACES, ExportCounts, Signal
from proofstream_otel.values.spans import SpanWriter

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from proofstream_otel.borrowed.meter import BorrowedMeter
    from proofstream_otel.otlp.exporter import Exporter
    from proofstream_otel.sdk.pipeline import SdkPipeline


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
        sdk: The SDK's providers that were made for us. To be closed.
        borrowed_meter: The meter, if it is that of the application. Its series are to be ended.
        unborrowed: Signals that would have gone to a provider of the application, if it had set one up in time.
    """

    writer: SpanWriter | None = None
    meter: Meter | None = None
    metric_sinks: list[MetricSink] = []
    log_sinks: list[LogSink] = []
    exporters: dict[str, Exporter] = {}
    files: list[JsonLines] = []
    counted: list[ItemCounter] = []
    sdk: SdkPipeline | None = None
    borrowed_meter: BorrowedMeter | None = None
    unborrowed: list[Signal] = []

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

    def close(self, deadline: float) -> None:
        """Deliver what is left until `deadline`, by the monotonic clock. All begin at once, and so share the time."""

        def left_s() -> float:
            return max(0.0, deadline - time.monotonic())

        for exporter in self.exporters.values():
            exporter.begin_closing(left_s())
        if self.sdk is not None:
            self.sdk.begin_closing()
        for file in self.files:
            file.close()
        for exporter in self.exporters.values():
            exporter.close(left_s())
        if self.sdk is not None:
            self.sdk.close(left_s())
        if self.borrowed_meter is not None:
            self.borrowed_meter.end_all_series()

    def note_late_providers(self) -> list[Signal]:
        """Return the signals, each once, for which the application has set up a provider since this was chosen."""
        late = [signal for signal in self.unborrowed if borrowed.find(signal) is not None]
        self.unborrowed = [signal for signal in self.unborrowed if signal not in late]
        return late


def choose(settings: Settings, context: PluginContext, providers: Providers) -> Destinations:
    """Open a destination for each signal: where the user asked, or the application's provider, or a receiver.

    Raises:
        ConfigError: The settings contradict each other, or a destination cannot be opened.
        PluginError: A destination needs packages that are not installed.
    """
    if environment.is_sdk_disabled():
        context.log.warning("OTEL_SDK_DISABLED is set: nothing is exported")
        return Destinations()
    opening = _Opening(settings, context, providers)
    opening.open_all()
    found = opening.destinations()
    if found.is_empty and not context.asked:
        context.log.info(NOTHING_SET)
    elif settings.pipeline is not Pipeline.SDK:  # there, a configuration file may leave signals out
        _say_nowhere(opening, context)
    for line in opening.notes():
        context.log.warning("%s", line)
    return found


def _say_nowhere(opening: _Opening, context: PluginContext) -> None:
    """Say which signals go nowhere: as a warning, if the user asked for telemetry."""
    level = logging.WARNING if context.asked or environment.has_endpoint() else logging.INFO
    if opening.nowhere:
        context.log.log(
            level,
            "%s go nowhere, because no provider and no endpoint takes them: set OTEL_EXPORTER_OTLP_ENDPOINT, or leave "
            "them out with %s",
            _named(opening.nowhere),
            ", ".join(f"OTEL_{signal.variable}_EXPORTER=none" for signal in opening.nowhere),
        )
    if opening.unheard:
        context.log.log(
            level,
            "%s go nowhere so far: the application's provider has nothing that exports them; give it a processor or "
            'reader, or set otel.pipeline = "own"',
            _named(opening.unheard),
        )


def _named(signals: list[Signal]) -> str:
    return " and ".join(signal.name for signal in signals)


class _Opening:
    """Opens the destinations.

    Attributes:
        nowhere: The signals that have none.
        unheard: The signals whose providers export nothing so far.
    """

    def __init__(self, settings: Settings, context: PluginContext, providers: Providers) -> None:
        self._settings = settings
        self._context = context
        self._passed_in: dict[Signal, Any] = {
            signal: provider
            for signal, provider in zip(SIGNALS, msgspec.structs.astuple(providers), strict=True)
            if provider is not None
        }
        self._asks_for_own = settings.endpoint is not None or settings.file is not None
        if self._asks_for_own and len(self._passed_in) == len(SIGNALS):
            raise ConfigError("otel: providers for all signals were passed in: nothing is left for endpoint and file")
        self._providers: dict[Signal, Any] = {}
        self._span_sinks: list[SpanSink] = []
        self._found = Destinations()
        self._is_own = False
        self._about_endpoints: list[str] = []
        self.nowhere: list[Signal] = []
        self.unheard: list[Signal] = []

    def open_all(self) -> None:
        """Open all that takes the signals that the user wants."""
        wanted = [signal for signal in SIGNALS if self._settings.wants(signal)]
        for signal in wanted:
            if (provider := self._find_provider(signal)) is not None:
                self._providers[signal] = provider
        for signal in wanted:
            if signal in self._providers:
                self._hand_over(signal)
            # Both, if there are both.
            elif self._open_file(signal) | self._open_receiver(signal):
                self._is_own = True
            elif not self._settings.leaves_otlp_out(signal):  # which a note says
                self.nowhere.append(signal)

    def destinations(self) -> Destinations:
        """Return the destinations opened so far."""
        found = self._found
        if self._span_sinks:
            found.writer = SampledWriter(self._span_sinks, environment.sampling(), self._limits)
            found.counted.append(found.writer)
        if found.metric_sinks:
            found.meter = OwnMeter(
                exemplars=environment.exemplars(), temporality=environment.temporality(), log=self._context.log
            )
        return found

    def notes(self) -> list[str]:
        """Return a line for each variable without effect on our own pipeline, or that the user may have forgotten."""
        settings = self._settings
        is_asked = self._context.asked or environment.has_endpoint()
        if settings.pipeline is Pipeline.SDK or TRACES in self._providers or not (self._is_own or is_asked):
            return []  # it is not used, or not for traces, which most of the variables concern
        found = variables.notes(os.environ)
        if environment.is_turned_off(TRACES) and settings.traces is None:
            found.append("OTEL_TRACES_EXPORTER=none: no traces are exported (otel.traces = true exports them)")
        return list(dict.fromkeys([*found, *self._about_endpoints]))

    @cached_property
    def _folder(self) -> Path | None:
        """The folder of the files, made for the signals that go through our own pipeline."""
        settings, context = self._settings, self._context
        if settings.file is None:
            return None
        own = [signal for signal in SIGNALS if settings.wants(signal) and signal not in self._providers]
        reserved = settings.file in context.outputs
        return open_folder(settings.file, own, reserved=reserved, overwrite=settings.overwrite, log=context.log)

    @cached_property
    def _limits(self) -> Limits:
        return environment.limits()

    @cached_property
    def _resources(self) -> Resources:
        return Resources(self._context.identity, service=borrowed.service_of(self._providers.values()))

    @cached_property
    def _sdk(self) -> SdkPipeline:
        """The SDK's providers, made for us."""
        from proofstream_otel.sdk.pipeline import SdkPipeline

        made = self._found.sdk = SdkPipeline(self._settings, self._context)
        self._found.counted.append(made)
        return made

    def _find_provider(self, signal: Signal) -> Any | None:
        """Return the provider that a signal goes to, or None if it goes through our own pipeline."""
        if signal in self._passed_in:
            return self._passed_in[signal]
        if self._settings.pipeline is Pipeline.SDK:
            return self._sdk.provider(signal)
        if self._settings.pipeline is Pipeline.OWN or self._asks_for_own:
            return None
        provider = borrowed.find(signal)
        if provider is None:
            self._found.unborrowed.append(signal)
        return provider

    def _hand_over(self, signal: Signal) -> None:
        provider, found = self._providers[signal], self._found
        identity, log = self._context.identity, self._context.log
        log.info("%s go to %s", signal.name, borrowed.shown(provider))
        if borrowed.is_deaf(provider, signal):
            self.unheard.append(signal)
        # Each is loaded where it is needed, with OpenTelemetry's API and SDK.
        if signal is TRACES:
            from proofstream_otel.borrowed.spans import BorrowedWriter

            found.writer = writer = BorrowedWriter(provider, identity, log)
            found.counted.append(writer)
        elif signal is METRICS:
            from proofstream_otel.borrowed.meter import BorrowedMeter

            found.meter = found.borrowed_meter = BorrowedMeter(provider, identity, log)
        else:
            from proofstream_otel.borrowed.logs import BorrowedLogs

            logs = BorrowedLogs(provider, identity)
            found.log_sinks.append(logs)
            found.counted.append(logs)

    def _open_file(self, signal: Signal) -> bool:
        if self._folder is None:
            return False
        lines = JsonLines(self._folder, signal, max_bytes=self._settings.max_file_bytes, log=self._context.log)
        self._found.files.append(lines)
        self._found.counted.append(lines)
        self._write_to(lines, signal)
        return True

    def _open_receiver(self, signal: Signal) -> bool:
        endpoint = self._endpoint(signal)
        if endpoint is None or not _has_receiver(self._settings, signal):
            return False
        from proofstream_otel.otlp import endpoints  # what sends is slow to load

        self._about_endpoints += endpoints.notes(endpoint, signal)
        exporter = self._found.exporters[signal.name] = self._exporter(endpoint, signal)
        self._found.counted.append(exporter)
        self._send_with(exporter, signal)
        return True

    def _endpoint(self, signal: Signal) -> str | None:
        """Return where our own pipeline sends a signal: empty for the environment's endpoint, None for nowhere."""
        settings = self._settings
        if self._asks_for_own:
            return settings.endpoint
        if settings.pipeline is Pipeline.SDK or settings.leaves_otlp_out(signal):
            return None
        is_named = environment.has_endpoint() or (settings.requires(signal) and signal is not TRACES)
        # Beside traces that go to the application's provider, a receiver on this machine is no more than a guess.
        is_default = self._context.asked and TRACES not in self._providers
        return "" if is_named or is_default else None

    def _write_to(self, lines: JsonLines, signal: Signal) -> None:
        if signal is TRACES:
            self._span_sinks.append(SpanFile(lines, self._resources))
        elif signal is METRICS:
            self._found.metric_sinks.append(MetricFile(lines, self._resources))
        else:
            self._found.log_sinks.append(limited(LogFile(lines, self._resources), self._limits.log))

    def _send_with(self, exporter: Exporter, signal: Signal) -> None:
        from proofstream_otel.otlp.senders import LogSender, MetricSender, SpanSender

        if signal is TRACES:
            self._span_sinks.append(SpanSender(exporter))
        elif signal is METRICS:
            self._found.metric_sinks.append(MetricSender(exporter))
        else:
            self._found.log_sinks.append(limited(LogSender(exporter), self._limits.log))

    def _exporter(self, endpoint: str, signal: Signal) -> Exporter:
        from proofstream_otel.otlp import endpoints
        from proofstream_otel.otlp.exporter import Exporter

        settings, context = self._settings, self._context
        return Exporter(
            endpoints.open_transport(endpoint, settings.headers, signal),
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
    return environment.endpoint_of(signal) is not None or not environment.has_endpoint()
