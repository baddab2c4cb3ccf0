"""What `OtelPlugin` does once it is configured: feed the mappings, and close what was opened within the deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from typing import Any

from proofstream import Batch, ConfigError, PluginContext, TraceStarted
from proofstream_otel import environment, routes
from proofstream_otel import settings as tables
from proofstream_otel.borrowed.meter import BorrowedMeter
from proofstream_otel.metrics.measuring import Measuring, MetricsPipeline
from proofstream_otel.metrics.own_meter import Registry
from proofstream_otel.settings import Settings
from proofstream_otel.traces.held_spans import Answers
from proofstream_otel.traces.log_records import LogWriter
from proofstream_otel.traces.mapping import Listener, SpanMapper
from proofstream_otel.traces.parents import Parents
from proofstream_otel.values.spans import NOWHERE

INTERVAL_S = 10.0
"""Seconds between exports of metrics, by default."""


class Exporting:
    """One plugin at work."""

    def __init__(self, context: PluginContext, table: Mapping[str, Any], providers: routes.Providers) -> None:
        """Open what the table asks for.

        Raises:
            ConfigError: The table is wrong, or what it asks for cannot be opened.
            PluginError: It needs packages that are not installed.
        """
        settings = tables.read(table)
        interval_s = settings.metric_interval_s or environment.metric_interval_s(INTERVAL_S)
        self._routes = routes.choose(settings, context, providers)
        meter = self._routes.meter
        self._measuring = None if meter is None else Measuring(meter, live=context.live)
        self._collecting: MetricsPipeline | None = None
        if isinstance(meter, Registry):
            self._collecting = MetricsPipeline(meter, self._routes.metric_sinks, interval_s=interval_s)
        self._mapper: SpanMapper | None = None
        if not self.is_idle:
            listeners = self._listeners(settings)
            writer = self._routes.writer or NOWHERE
            answers = Answers(live=context.live, instance=context.identity.get("service.instance.id", ""))
            parents = Parents(context.log)
            self._mapper = SpanMapper(writer, parents, settings.note_limits, listeners, answers=answers)

    @property
    def is_idle(self) -> bool:
        """Whether there is nowhere to export to."""
        return self._routes.is_empty

    def consume(self, batch: Batch) -> Iterable[TraceStarted]:
        """Turn envelopes into telemetry; returns the trace of each proof that begins."""
        started: list[TraceStarted] = []
        if self._mapper is None:
            return started
        # An empty batch says that nothing came for a second. Else the time is taken first: while a batch takes long, as
        # with a slow receiver, what comes is not seen.
        now = time.monotonic() if batch else math.inf
        for envelope in batch:
            if self._measuring is not None:
                self._measuring.feed(envelope)
            started.extend(self._mapper.feed(envelope))
        self._mapper.settle(now)
        self._flush()
        return started

    def counters(self) -> dict[str, int]:
        """What was exported and what was lost."""
        total: dict[str, int] = {}
        for part in self._routes.parts:
            for key, count in part.counters().items():
                total[key] = total.get(key, 0) + count
        if self._measuring is not None and self._measuring.refused:
            total["measurements_refused"] = self._measuring.refused
        if self._mapper is not None:
            total |= self._mapper.counters()
        return total

    def close(self, timeout_s: float) -> None:
        """End what is open and deliver what is left, within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        for part in self._routes.parts:
            part.hurry()
        if self._mapper is not None:
            self._mapper.close("proofstream stopped")
        self._flush(at_the_end=True)
        for part in self._routes.parts:
            part.begin_closing(max(0.0, deadline - time.monotonic()))
        for part in self._routes.parts:
            part.close(max(0.0, deadline - time.monotonic()))
        if isinstance(self._routes.meter, BorrowedMeter):
            self._routes.meter.forget()

    def _listeners(self, settings: Settings) -> list[Listener]:
        listeners: list[Listener] = []
        if self._measuring is not None:
            listeners.append(self._measuring)
        if self._routes.log_sinks:
            listeners.append(LogWriter(self._routes.log_sinks, rounds=settings.rounds.in_logs))
        elif settings.rounds.in_logs:
            raise ConfigError(f"otel.rounds: {settings.rounds.value!r} needs log records, and they go nowhere")
        return listeners

    def _flush(self, *, at_the_end: bool = False) -> None:
        """Hand on measurements, and collect them if that is due."""
        if self._measuring is None:
            return
        proof_ended = self._measuring.flush()
        if self._collecting is not None and (self._collecting.is_due(hurry=proof_ended) or at_the_end):
            self._measuring.note_deliveries(self._routes.deliveries())
            self._collecting.collect()
