"""The fate of events and exports, and the health of plugins, as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from proofstream import (
    PRODUCER,
    Batch,
    Envelope,
    EventsLost,
    Log,
    PluginHealth,
    ProofEvent,
    SessionClosed,
    UnknownEvent,
)
from proofstream_otel.metrics.label_values import OTHER, Labels
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.values.semconv import Label, Metric, Metrics
from proofstream_otel.values.signals import ExportCounts

INTAKE = "intake"
PRODUCER_SIDE = "producer"

FOLLOWED = frozenset({Log, PluginHealth, EventsLost, SessionClosed})
"""The kinds that say something about the pipeline."""

_MAX_TOTALS = 4096
_VOCABULARY = frozenset(kind.__name__ for kind in ProofEvent.__subclasses__())
_READY = frozenset({"ready", "idle"})
_DOWN = frozenset({"broken", "failed"})


class PipelineMetrics:
    """Counts events, and follows the host's reports on plugins."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._received: Counter[type[ProofEvent]] = Counter()
        self._known: dict[tuple[Metric, tuple[str, ...]], int] = {}
        meter.add_count(Metrics.EVENTS_REFUSED, 0, {})
        for where in (INTAKE, PRODUCER_SIDE):
            meter.add_count(Metrics.EVENTS_LOST, 0, {Label.WHERE: where})

    def count_batch(self, batch: Batch) -> None:
        """Count the producer's envelopes by their kinds."""
        self._received.update([type(envelope.event) for envelope in batch if envelope.origin == PRODUCER])

    def note_event(self, envelope: Envelope) -> None:
        """Note what an event of a kind in `FOLLOWED` says."""
        event = envelope.event
        if envelope.origin == PRODUCER:
            if isinstance(event, Log):
                self._meter.add_count(Metrics.EVENTS_LOST, event.lagged_events, {Label.WHERE: PRODUCER_SIDE})
        elif isinstance(event, PluginHealth):
            self._note_health(event)
        elif isinstance(event, EventsLost):
            self._note_lost(event)
        elif isinstance(event, SessionClosed):
            self._meter.add_count(Metrics.EVENTS_REFUSED, event.refused, {})

    def flush(self) -> None:
        """Pass the counts on to the meter."""
        for kind, number in self._received.items():
            name = OTHER if kind is UnknownEvent else kind.__name__
            self._meter.add_count(Metrics.EVENTS_RECEIVED, number, {Label.EVENT_KIND: name})
        self._received.clear()

    def note_exports(self, exports: Mapping[str, ExportCounts]) -> None:
        """Record the exporters' counts, given by the signal's name."""
        for signal, counts in exports.items():
            labels = {Label.SIGNAL: signal}
            self._raise_to(Metrics.OTLP_EXPORTED, counts.exported, labels)
            self._raise_to(Metrics.OTLP_LOST, counts.lost, labels)
            self._raise_to(Metrics.OTLP_FAILURES, counts.failed_attempts, labels)

    def _note_lost(self, event: EventsLost) -> None:
        if event.where != INTAKE:
            return  # that plugin's health counts the events that its lane drops
        for kind, number in _by_known_kind(event.counts).items():
            self._meter.add_count(Metrics.EVENTS_LOST, number, {Label.WHERE: INTAKE, Label.EVENT_KIND: kind})

    def _note_health(self, event: PluginHealth) -> None:
        labels = {Label.PLUGIN: event.plugin}
        self._meter.set_value(Metrics.LANE_DEPTH, event.depth, labels)
        self._meter.set_value(Metrics.LANE_LAG, event.lag_s, labels)
        self._meter.set_value(Metrics.PLUGIN_READY, int(event.status in _READY), labels)
        self._raise_to(Metrics.PLUGIN_FAILURES, int(event.status in _DOWN), labels)
        self._meter.add_count(Metrics.EVENTS_DROPPED, 0, labels)
        for kind, number in _by_known_kind(event.dropped).items():
            self._raise_to(Metrics.EVENTS_DROPPED, number, {**labels, Label.EVENT_KIND: kind})

    def _raise_to(self, metric: Metric, total: int, labels: Labels) -> None:
        """Raise a counter by the growth of its total."""
        key = (metric, tuple(str(value) for value in labels.values()))
        known = self._known.pop(key, 0)
        if len(self._known) >= _MAX_TOTALS:
            del self._known[next(iter(self._known))]  # the one raised longest ago; a recording may name any plugins
        self._meter.add_count(metric, max(0, total - known), labels)
        self._known[key] = max(total, known)


def _by_known_kind(counts: Mapping[str, int]) -> Mapping[str, int]:
    """Return the counts by kind, with one sum for all kinds outside of the vocabulary."""
    found: Counter[str] = Counter()
    for kind, number in counts.items():
        found[kind if kind in _VOCABULARY else OTHER] += number
    return found
