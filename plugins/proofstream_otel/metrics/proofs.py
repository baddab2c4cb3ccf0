"""Proofs, layers and their parts as metrics."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable

from proofstream import (
    AggregatedBindingEnd,
    Envelope,
    Interval,
    IntervalKind,
    LayerEnd,
    Proof,
    SumcheckRound,
)
from proofstream_otel.metrics.label_values import OTHER, Labels, LabelValue
from proofstream_otel.metrics.meter import Meter, Reading
from proofstream_otel.values.semconv import Label, Metric, Metrics
from proofstream_otel.values.spans import SpanRef

COMPLETE = "complete"
ABORTED = "aborted"
UNKNOWN = "unknown"

_NS_PER_S = 1e9
_PARTS = {
    IntervalKind.WEIGHT_OPENING: Metrics.WEIGHT_OPENING_DURATION,
    IntervalKind.WEIGHT_BINDING: Metrics.WEIGHT_BINDING_DURATION,
    IntervalKind.STARK_PROOF: Metrics.STARK_DURATION,
}


class Phase:
    """The phases of a running proof. In each, silence means something else."""

    BEFORE_LAYERS = "before_layers"
    """No layer has begun: the forward pass is silent for long."""
    LAYERS = "layers"
    """A layer, opening, binding or STARK proof is open: provers report on those often."""
    BETWEEN = "between"
    """Nothing is open: the work after the last layer is silent, too."""
    ALL = (BEFORE_LAYERS, LAYERS, BETWEEN)


class _RunningProof:
    """An open proof; `held` labels stay live as long as it is open."""

    def __init__(self, proof: Proof, slot: int, held: Labels, now: float) -> None:
        self.proof = proof
        self.slot = slot
        self.held = held
        self.labels = {Label.MODEL: held[Label.MODEL], Label.BACKEND: held[Label.BACKEND]}
        self.began_at = now
        self.heard_at = now

    def gauges(self, clock: Callable[[], float]) -> list[tuple[Metric, Labels, Reading]]:
        """Return its series while it runs. A reading is called at collection, maybe by another thread."""
        proof, labels = self.proof, self.held
        if labels[Label.SLOT] == OTHER:
            return []  # too many proofs are open; several in one series would contradict each other
        return [
            (Metrics.PROOF_PROGRESS, labels, lambda: proof.progress),
            (Metrics.PROOF_LAYERS_TOTAL, labels, lambda: proof.num_layers),
            (Metrics.PROOF_LAYERS_CLOSED, labels, lambda: proof.layers_left_behind),
            (Metrics.PROOF_ELAPSED, labels, lambda: clock() - self.began_at),
            *(
                (Metrics.PROOF_SILENCE, {**labels, Label.PHASE: phase}, self._silence(phase, clock))
                for phase in Phase.ALL
            ),
        ]

    def _silence(self, phase: str, clock: Callable[[], float]) -> Reading:
        return lambda: clock() - self.heard_at if phase == phase_of(self.proof) else None


def phase_of(proof: Proof) -> str:
    """Return the phase of a running proof."""
    if not proof.layers_opened:
        return Phase.BEFORE_LAYERS
    is_open = proof.open_children or len(proof.open_layers) > proof.layers_superseded
    return Phase.LAYERS if is_open else Phase.BETWEEN


class ProofMetrics:
    """Turns intervals into measurements.

    Args:
        meter: Takes the measurements.
        live: Whether events happen now. If not, metrics that describe the present stay empty.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, meter: Meter, *, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._meter = meter
        self._live = live
        self._clock = clock
        self._running: dict[Interval, _RunningProof] = {}
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
        self._note_life(interval)
        if isinstance(envelope.event, SumcheckRound):
            self._rounds[interval] = self._rounds.get(interval, 0) + 1

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Measure an interval that ended; `ref` points to its span."""
        if isinstance(interval, Proof):
            self._end_proof(interval, ref)
            return
        self._note_life(interval)
        if interval.aborted_reason is None:
            self._record_part(interval, ref)

    def flush(self) -> bool:
        """Pass the counts on to the meter. Return whether a proof has ended since the last call."""
        for interval, rounds in self._rounds.items():
            labels = self._labels_of(interval)
            if interval.kind is IntervalKind.LAYER:
                labels[Label.LAYER_KIND] = interval.layer_kind
            self._meter.add_count(Metrics.ROUNDS, rounds, labels)
        self._rounds.clear()
        self._last_alive = None
        ended, self._ended = self._ended, False
        return ended

    @property
    def is_any_running(self) -> bool:
        """Whether a proof is open."""
        return bool(self._running)

    def _note_life(self, interval: Interval) -> None:
        proof = interval.proof or interval
        if proof is self._last_alive or not self._live:
            return  # one reading of the clock is enough for a batch
        self._last_alive = proof
        running = self._running.get(proof)
        if running is not None:
            running.heard_at = self._clock()

    def _begin_proof(self, proof: Proof) -> None:
        # The numbers below the count of open proofs are taken, except for the ones that ended proofs gave back.
        slot = heapq.heappop(self._free_slots) if self._free_slots else len(self._running)
        held = self._meter.hold_labels({**_names_of(proof), Label.SLOT: str(slot)})
        running = self._running[proof] = _RunningProof(proof, slot, held, self._clock())
        for outcome in (COMPLETE, ABORTED):
            self._meter.add_count(Metrics.PROOFS, 0, {**running.labels, Label.OUTCOME: outcome})
        self._count_open(running, 1)
        if self._live:
            for metric, series, reading in running.gauges(self._clock):
                self._meter.watch_value(metric, series, reading)

    def _end_proof(self, proof: Proof, ref: SpanRef) -> None:
        self._ended = True
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
        duration_s = _duration_s(proof)
        if duration_s is not None:
            self._meter.record_value(Metrics.PROOF_DURATION, duration_s, labels, ref)
            self._meter.set_value(Metrics.PROOF_LAST_DURATION, duration_s, labels)
        self._meter.release_labels(running.held)

    def _count_open(self, running: _RunningProof, change: int) -> None:
        names = running.labels[Label.MODEL], running.labels[Label.BACKEND]
        self._open[names] += change
        if self._live:
            self._meter.set_value(Metrics.PROOFS_RUNNING, self._open[names], running.labels)
        if not self._open[names]:
            del self._open[names]

    def _record_part(self, interval: Interval, ref: SpanRef) -> None:
        labels = self._labels_of(interval)
        event = interval.end_event
        if isinstance(event, AggregatedBindingEnd):
            self._meter.set_value(Metrics.WEIGHT_BINDING_CALLDATA, event.estimated_calldata_felts, labels)
        duration_s = _duration_s(interval)
        if duration_s is None:
            return
        if interval.kind is IntervalKind.LAYER:
            labels[Label.LAYER_KIND] = interval.layer_kind
            if isinstance(event, LayerEnd):
                labels[Label.PROOF_KIND] = event.kind.value
        self._meter.record_value(_PARTS.get(interval.kind, Metrics.LAYER_DURATION), duration_s, labels, ref)

    def _labels_of(self, interval: Interval) -> dict[str, LabelValue]:
        """Return the labels of the proof that an interval belongs to, as it holds them if it is open."""
        running = self._running.get(interval.proof or interval)
        return _names_of(interval) if running is None else dict(running.labels)


def _duration_s(interval: Interval) -> float | None:
    """Return the duration, or None if the start was not seen: it is a guess then."""
    duration_ns = interval.duration_ns
    return None if duration_ns is None or not interval.start_seen else duration_ns / _NS_PER_S


def _names_of(interval: Interval) -> dict[str, LabelValue]:
    """Return the labels for the model and the backend of the proof that an interval belongs to."""
    proof = interval if isinstance(interval, Proof) else interval.proof
    if proof is None or proof.backend is None:
        return {Label.MODEL: UNKNOWN, Label.BACKEND: UNKNOWN}
    return {Label.MODEL: proof.model_name or UNKNOWN, Label.BACKEND: proof.backend}
