"""Proofs, layers and their parts as metrics."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Collection

from proofstream import (
    AggregatedBindingEnd,
    Envelope,
    Interval,
    IntervalKind,
    LayerEnd,
    Phase,
    Proof,
    SumcheckRound,
)
from proofstream_otel.metrics.durations import duration_s, stage_duration_s
from proofstream_otel.metrics.label_values import Labels, LabelValue
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.metrics.running import RunningProof
from proofstream_otel.values.semconv import Label, Metrics
from proofstream_otel.values.spans import SpanRef

COMPLETE = "complete"
ABORTED = "aborted"
UNKNOWN = "unknown"

_NS_PER_S = 1e9
_DURATIONS = {
    IntervalKind.LAYER: Metrics.LAYER_DURATION,
    IntervalKind.PHASE: Metrics.PHASE_DURATION,
    IntervalKind.WEIGHT_OPENING: Metrics.WEIGHT_OPENING_DURATION,
    IntervalKind.WEIGHT_BINDING: Metrics.WEIGHT_BINDING_DURATION,
    IntervalKind.STARK_PROOF: Metrics.STARK_DURATION,
}


class ProofMetrics:
    """Turns intervals into measurements.

    Args:
        meter: Takes the measurements.
        live: Whether events happen now. If not, metrics that describe the present stay empty.
        phases: The names of the phases that are measured.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        meter: Meter,
        *,
        live: bool,
        phases: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._meter = meter
        self._live = live
        self._phases = frozenset(phases)
        self._clock = clock
        self._running: dict[Interval, RunningProof] = {}
        self._heard: dict[Interval, RunningProof] = {}
        self._free_slots: list[int] = []
        self._open: Counter[tuple[LabelValue, LabelValue]] = Counter()
        self._rounds: dict[Interval, int] = {}
        self._last_alive: Interval | None = None
        self._ended = False

    def opened(self, interval: Interval) -> None:
        """Measure an interval that began."""
        if isinstance(interval, Proof):
            self._begin_proof(interval)
        else:
            self._note_life(interval)

    def noted(self, interval: Interval | None, envelope: Envelope) -> None:
        """Measure an event that happened in an interval."""
        if interval is None:
            return
        if isinstance(envelope.event, SumcheckRound):
            self.noted_rounds(interval, 1)
        else:
            self._note_life(interval)

    def noted_rounds(self, interval: Interval, count: int) -> None:
        """Measure sumcheck rounds that happened in an interval."""
        self._note_life(interval)
        self._rounds[interval] = self._rounds.get(interval, 0) + count

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Measure an interval that ended; `ref` points to its span."""
        if isinstance(interval, Proof):
            self._end_proof(interval, ref)
            return
        self._note_life(interval)
        if interval.aborted_reason is not None:
            return
        if interval.kind is IntervalKind.LAYER:
            self._record_layer(interval, ref)
        else:
            self._record_part(interval, ref)

    def flush(self) -> bool:
        """Pass the counts on to the meter. Return whether a proof has ended since the last call."""
        self._count_rounds()
        for running in self._heard.values():
            running.settle()
        self._heard.clear()
        self._last_alive = None
        ended, self._ended = self._ended, False
        return ended

    def _count_rounds(self) -> None:
        counts: Counter[tuple[Interval, str | None]] = Counter()
        some: dict[tuple[Interval, str | None], Interval] = {}
        for interval, rounds in self._rounds.items():
            # Layers of one proof and kind are one series.
            of = interval.proof or interval, interval.layer_kind if interval.kind is IntervalKind.LAYER else None
            counts[of] += rounds
            some[of] = interval
        for of, rounds in counts.items():
            labels = self._labels_of(some[of])
            if of[1] is not None:
                labels[Label.LAYER_KIND] = of[1]
            self._meter.add_count(Metrics.ROUNDS, rounds, labels)
        self._rounds.clear()

    @property
    def is_any_running(self) -> bool:
        """Whether a proof is open."""
        return bool(self._running)

    def _note_life(self, interval: Interval) -> None:
        if not self._live:
            return
        around: Interval | None = interval.proof or interval
        if around is self._last_alive:
            return  # one reading of the clock is enough for a batch
        self._last_alive = around
        while around is not None and around not in self._heard:  # a proof is alive in those that it has started
            running = self._running.get(around)
            if running is None:
                return
            self._heard[around] = running
            running.hear(self._clock())
            around = around.parent

    def _begin_proof(self, proof: Proof) -> None:
        # The numbers below the count of open proofs are taken, except for the ones that ended proofs gave back.
        slot = heapq.heappop(self._free_slots) if self._free_slots else len(self._running)
        held = self._meter.hold_labels({**_names_of(proof), Label.SLOT: str(slot)})
        running = self._running[proof] = RunningProof(proof, slot, held, self._clock(), self._meter.admit_labels)
        for outcome in (COMPLETE, ABORTED):
            self._meter.add_count(Metrics.PROOFS, 0, {**running.labels, Label.OUTCOME: outcome})
        self._count_open(running, 1)
        if self._live:
            for metric, series, reading in running.gauges(self._clock):
                self._meter.watch_value(metric, series, reading)

    def _end_proof(self, proof: Proof, ref: SpanRef) -> None:
        self._ended = True
        self._note_life(proof)
        running = self._running.pop(proof)
        heapq.heappush(self._free_slots, running.slot)
        self._count_open(running, -1)
        if self._live:
            for metric, series, _ in running.gauges(self._clock):
                self._meter.end_series(metric, series)
        labels = {**running.labels, Label.OUTCOME: COMPLETE if proof.aborted_reason is None else ABORTED}
        self._meter.add_count(Metrics.PROOFS, 1, labels)
        if proof.end_unix_nano is not None:
            self._meter.set_value(Metrics.PROOF_LAST_END, proof.end_unix_nano / _NS_PER_S, labels)
        took_s = duration_s(proof)
        if took_s is not None:
            self._meter.record_value(Metrics.PROOF_DURATION, took_s, labels, ref)
            self._meter.set_value(Metrics.PROOF_LAST_DURATION, took_s, labels)
        self._record_stages(proof, labels, ref)
        if self._live and proof.aborted_reason is None:
            for stage, silent_s in running.longest_silences_s.items():
                series = {**running.labels, Label.PHASE: stage}
                self._meter.set_value(Metrics.PROOF_LONGEST_SILENCE, silent_s, series)
        self._meter.release_labels(running.held)

    def _record_stages(self, proof: Proof, labels: Labels, ref: SpanRef) -> None:
        for stage in proof.stages:
            took_s = stage_duration_s(stage)
            if took_s is not None:
                series = {**labels, Label.PHASE: stage.name}
                self._meter.record_value(Metrics.PROOF_PHASE_DURATION, took_s, series, ref)

    def _count_open(self, running: RunningProof, change: int) -> None:
        names = running.labels[Label.MODEL], running.labels[Label.BACKEND]
        self._open[names] += change
        if self._live:
            self._meter.set_value(Metrics.PROOFS_RUNNING, self._open[names], running.labels)
        if not self._open[names]:
            del self._open[names]

    def _record_layer(self, layer: Interval, ref: SpanRef) -> None:
        took_s = duration_s(layer)
        running = self._running.get(layer.proof or layer)
        if running is None or took_s is None:
            self._record_part(layer, ref)
            return
        event = layer.end_event
        key = running.key_of_layer(layer.layer_kind, event.kind._value_ if isinstance(event, LayerEnd) else None)
        self._meter.record_known(Metrics.LAYER_DURATION, took_s, key, ref)

    def _record_part(self, interval: Interval, ref: SpanRef) -> None:
        labels = self._labels_of(interval)
        event = interval.end_event
        if isinstance(event, AggregatedBindingEnd):
            self._meter.set_value(Metrics.WEIGHT_BINDING_CALLDATA, event.estimated_calldata_felts, labels)
        took_s = duration_s(interval)
        if took_s is None:
            return
        if isinstance(interval, Phase):
            if interval.own_name not in self._phases:
                return
            labels[Label.PHASE_NAME] = interval.own_name
        elif interval.kind is IntervalKind.LAYER:
            labels[Label.LAYER_KIND] = interval.layer_kind
            if isinstance(event, LayerEnd):
                labels[Label.PROOF_KIND] = event.kind._value_
        self._meter.record_value(_DURATIONS[interval.kind], took_s, labels, ref)

    def _labels_of(self, interval: Interval) -> dict[str, LabelValue]:
        """Return the labels of the proof that an interval belongs to, as it holds them if it is open."""
        running = self._running.get(interval.proof or interval)
        return _names_of(interval) if running is None else dict(running.labels)


def _names_of(interval: Interval) -> dict[str, LabelValue]:
    """Return the labels for the model and the backend of the proof that an interval belongs to."""
    proof = interval if isinstance(interval, Proof) else interval.proof
    if proof is None or proof.backend is None:
        return {Label.MODEL: UNKNOWN, Label.BACKEND: UNKNOWN}
    return {Label.MODEL: proof.model_name or UNKNOWN, Label.BACKEND: proof.backend}
