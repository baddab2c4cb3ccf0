"""Exports the telemetry of one run: feeds the mappings, and closes everything within the deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from proofstream import Batch, ConfigError, PluginContext, SumcheckRound, TraceStarted
from proofstream_otel import destinations
from proofstream_otel.metrics.measuring import Measuring
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.metrics.reader import PeriodicReader
from proofstream_otel.settings import Settings, metric_interval_s
from proofstream_otel.traces.held_spans import ExpectedCosts
from proofstream_otel.traces.log_records import LogWriter
from proofstream_otel.traces.mapping import Listener, SpanMapper
from proofstream_otel.traces.parents import Parents
from proofstream_otel.traces.span_events import EventBudget
from proofstream_otel.values.span_limits import Rounds
from proofstream_otel.values.spans import NOWHERE

SILENCE_S = 1.0
"""After so many seconds without events, none are on their way that would change an ended span."""


class Telemetry:
    """All that the plugin does in one run."""

    def __init__(self, context: PluginContext, chosen: Settings, providers: destinations.Providers) -> None:
        """Open the destinations that the settings ask for.

        Raises:
            ConfigError: A destination cannot be opened.
            PluginError: A destination needs packages that are not installed.
        """
        self._log = context.log
        interval_s = metric_interval_s(chosen)
        self._destinations = destinations.choose(chosen, context, providers)
        meter = self._destinations.meter
        self._measuring = None if meter is None else Measuring(meter, live=context.live, phases=chosen.phase_metrics)
        self._consumed_at = time.monotonic()
        self._reader: PeriodicReader | None = None
        if isinstance(meter, OwnMeter):
            self._reader = PeriodicReader(meter, self._destinations.metric_sinks, interval_s=interval_s)
        self._mapper: SpanMapper | None = None
        if not self.is_idle:
            self._mapper = SpanMapper(
                self._destinations.writer or NOWHERE,
                Parents(context.log),
                chosen.span_limits,
                self._listeners(chosen.rounds),
                expected=ExpectedCosts(live=context.live, instance=context.identity.get("service.instance.id", "")),
                budget=EventBudget(context.log),
                trace_url=chosen.trace_url,
            )

    @property
    def is_idle(self) -> bool:
        """Whether there is no destination."""
        return self._destinations.is_empty

    def consume(self, batch: Batch) -> Iterable[TraceStarted]:
        """Turn envelopes into telemetry; return the trace of each proof that begins."""
        started: list[TraceStarted] = []
        if self._mapper is None:
            return started
        # Read the clock before the batch: events that arrive while we wait for a slow receiver are not seen yet.
        # Empty batches come while events wait, too. After a silence none do, so everything can be released.
        now = time.monotonic()
        if not batch:
            self._note_late_providers()
            now = math.inf if now - self._consumed_at >= SILENCE_S else -math.inf
        if self._measuring is not None:
            self._measuring.count_batch(batch)
        at = 0
        while at < len(batch):
            kind = type(batch[at].event)
            rounds = self._mapper.map_rounds(batch, at) if kind is SumcheckRound else 0
            if not rounds:
                if self._measuring is not None and kind in self._measuring.measured:
                    self._measuring.measure_event(batch[at])
                started += self._mapper.map_event(batch[at])
            at += rounds or 1
        if batch:
            self._consumed_at = time.monotonic()
        self._mapper.settle(now)
        self._flush()
        return started

    def counters(self) -> dict[str, int]:
        """Count exported and lost items."""
        total = self._destinations.counters()
        if self._measuring is not None and self._measuring.refused:
            total["measurements_refused"] = self._measuring.refused
        if self._mapper is not None:
            total |= self._mapper.counters()
        return total

    def close(self, timeout_s: float) -> None:
        """End the open spans and deliver what is left, within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        for exporter in self._destinations.exporters.values():
            exporter.hurry(timeout_s / 2)  # ending the open spans must not block for long on a full queue
        self._note_late_providers()
        if self._mapper is not None:
            self._mapper.close("proofstream stopped")
        self._flush(at_the_end=True)
        self._destinations.close(deadline)

    def _note_late_providers(self) -> None:
        """Say which providers came too late. They are not used, because the spans of a trace must stay together."""
        if late := self._destinations.note_late_providers():
            self._log.warning(
                "the application has set up a provider for %s after the session was opened: proofstream's do not "
                "go there; set it up before open_session",
                " and ".join(signal.name for signal in late),
            )

    def _listeners(self, rounds: Rounds) -> list[Listener]:
        listeners: list[Listener] = []
        if self._measuring is not None:
            listeners.append(self._measuring)
        if self._destinations.log_sinks:
            listeners.append(LogWriter(self._destinations.log_sinks, rounds=rounds.in_logs))
        elif rounds.in_logs:
            raise ConfigError(f"otel.rounds: {rounds.value!r} exports log records, but they have no destination")
        return listeners

    def _flush(self, *, at_the_end: bool = False) -> None:
        """Pass counts on to the meter, and collect it if that is due."""
        if self._measuring is None:
            return
        proof_ended = self._measuring.flush()
        if self._reader is not None and (self._reader.is_due(proof_ended=proof_ended) or at_the_end):
            self._measuring.note_exports(self._destinations.export_counts())
            self._reader.collect()
