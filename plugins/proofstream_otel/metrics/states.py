"""State programs as metrics: the cost of a run, and the bytes that runs have moved."""

from __future__ import annotations

from collections.abc import Iterator

from proofstream import StateBytesMoved, StateProgramCost
from proofstream_otel.metrics.label_values import MAX_VALUES, OTHER, Labels
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.values.semconv import Label, Metrics

_NS_PER_S = 1e9


class StateMetrics:
    """Follows the events that are derived from a model's declared states."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def record_program(self, event: StateProgramCost | StateBytesMoved) -> None:
        """Record a cost, or the bytes moved since the last such event."""
        if isinstance(event, StateProgramCost):
            self._price(event)
        else:
            self._move(event)

    def _price(self, event: StateProgramCost) -> None:
        for labels, size in _groups_of(event):
            self._meter.set_value(Metrics.STATE_COST, size, labels)

    def _move(self, event: StateBytesMoved) -> None:
        labels = _labels_of(event)
        self._meter.add_count(Metrics.STATE_RUNS, event.runs, labels)
        self._meter.add_count(Metrics.STATE_SEQUENCES, event.sequences, labels)
        for group, size in _groups_of(event):
            self._meter.add_count(Metrics.STATE_MOVED, size, group)
        if not event.timed_ns:
            return
        seconds = event.timed_ns / _NS_PER_S
        self._meter.add_count(Metrics.STATE_TIMED_MOVED, event.timed_bytes, labels)
        self._meter.add_count(Metrics.STATE_TIME, seconds, labels)
        self._meter.set_value(Metrics.STATE_BANDWIDTH, event.timed_bytes / seconds, labels)


def _labels_of(event: StateProgramCost | StateBytesMoved) -> Labels:
    return {
        Label.STATE_CIRCUIT: event.circuit,
        Label.STATE_CONVENTION: event.convention,
        Label.STATE_PROGRAM: event.program,
    }


def _groups_of(event: StateProgramCost | StateBytesMoved) -> Iterator[tuple[Labels, int]]:
    """Yield labels and bytes of each group of states, with one sum for those beyond `MAX_VALUES`."""
    labels = _labels_of(event)
    if not event.states:
        yield labels, event.bytes
    for group in event.states[:MAX_VALUES]:
        yield {**labels, Label.STATE_KIND: group.kind, Label.STATE_GROUP: group.group}, group.bytes
    if rest := event.states[MAX_VALUES:]:
        yield {**labels, Label.STATE_KIND: OTHER, Label.STATE_GROUP: OTHER}, sum(group.bytes for group in rest)
