"""Proofs, layers and their parts as metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import count

from proofstream import (
    AggregatedBindingEnd,
    Envelope,
    Interval,
    IntervalKind,
    LayerEnd,
    Proof,
    ProofStart,
    SumcheckRound,
)
from proofstream_otel.metrics.meter import Labels, Meter, Reading
from proofstream_otel.traces.open_spans import Page
from proofstream_otel.values.metric_points import SpanRef
from proofstream_otel.values.semconv import Label, Metric, Metrics

COMPLETE = "complete"
ABORTED = "aborted"
UNKNOWN = "unknown"

_NS_PER_S = 1e9
_MAX_NAME = 256
_PARTS = {
    IntervalKind.WEIGHT_OPENING: Metrics.WEIGHT_OPENING_DURATION,
    IntervalKind.WEIGHT_BINDING: Metrics.WEIGHT_BINDING_DURATION,
    IntervalKind.STARK_PROOF: Metrics.STARK_DURATION,
}


class Phase:
    """Where a running proof stands, as far as silence is concerned."""

    BEFORE_LAYERS = "before_layers"
    """No layer has begun: a forward pass is silent for long."""
    LAYERS = "layers"
    """Something is being worked on that says so again and again."""
    BETWEEN = "between"
    """Nothing is open: what follows the last layer is silent, too."""
    ALL = (BEFORE_LAYERS, LAYERS, BETWEEN)


class _Running:
    """A proof that is open."""

    def __init__(self, proof: Proof, labels: Labels, slot: int, now: float) -> None:
        self.proof = proof
        self.labels = labels
        self.slot = slot
        self.began_at = now
        self.heard_at = now

    def gauges(self, clock: Callable[[], float]) -> list[tuple[Metric, Labels, Reading]]:
        """What is shown of it while it runs; each is read when it is collected, maybe by another thread."""
        proof = self.proof
        labels = {**self.labels, Label.SLOT: self.slot}
        return [
            (Metrics.PROOF_PROGRESS, labels, lambda: proof.progress),
            (Metrics.PROOF_LAYERS_TOTAL, labels, lambda: proof.num_layers),
            (Metrics.PROOF_LAYERS_CLOSED, labels, lambda: proof.layers_closed + proof.layers_superseded),
            (Metrics.PROOF_ELAPSED, labels, lambda: clock() - self.began_at),
            *(
                (Metrics.PROOF_SILENCE, {**labels, Label.PHASE: phase}, self._silence(phase, clock))
                for phase in Phase.ALL
            ),
        ]

    def _silence(self, phase: str, clock: Callable[[], float]) -> Reading:
        return lambda: clock() - self.heard_at if phase == phase_of(self.proof) else None


def phase_of(proof: Proof) -> str:
    """Where a running proof stands."""
    if not proof.layers_opened:
        return Phase.BEFORE_LAYERS
    is_open = proof.open_children or len(proof.open_layers) > proof.layers_superseded
    return Phase.LAYERS if is_open else Phase.BETWEEN


class ProofMetrics:
    """Follows intervals.

    Args:
        meter: Where measurements go.
        live: Whether events happen now. Else nothing is said about the present.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, meter: Meter, *, live: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._meter = meter
        self._live = live
        self._clock = clock
        self._running: dict[Interval, _Running] = {}
        self._open: Counter[tuple[str, str]] = Counter()
        self._rounds: dict[Interval, int] = {}
        self._heard: Interval | None = None
        self._ended = False

    def opened(self, interval: Interval) -> None:
        """Take an interval that began."""
        if isinstance(interval, Proof):
            self._begin(interval)
        else:
            self._hear(interval)

    def noted(self, interval: Interval | None, envelope: Envelope, page: Page) -> None:
        """Take an event that happened in an interval."""
        if interval is None:
            return
        self._hear(interval)
        if isinstance(envelope.event, SumcheckRound):
            self._rounds[interval] = self._rounds.get(interval, 0) + 1

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Take an interval that ended, and its span."""
        if isinstance(interval, Proof):
            self._end(interval, ref)
            return
        self._hear(interval)
        if interval.aborted_reason is None:
            self._record_part(interval, ref)

    def flush(self) -> bool:
        """Hand on what was counted; returns whether a proof has ended since the last time."""
        for interval, rounds in self._rounds.items():
            labels = _labels_of(interval)
            if interval.kind is IntervalKind.LAYER:
                labels[Label.LAYER_KIND] = interval.layer_kind
            self._meter.add(Metrics.ROUNDS, rounds, labels)
        self._rounds.clear()
        self._heard = None
        ended, self._ended = self._ended, False
        return ended

    @property
    def is_any_running(self) -> bool:
        """Whether a proof is open."""
        return bool(self._running)

    def _hear(self, interval: Interval) -> None:
        proof = interval.proof or interval
        if proof is self._heard or not self._live:
            return  # of one batch's events the first one is enough
        self._heard = proof
        running = self._running.get(proof)
        if running is not None:
            running.heard_at = self._clock()

    def _begin(self, proof: Proof) -> None:
        taken = {running.slot for running in self._running.values()}
        slot = next(number for number in count() if number not in taken)
        labels = _labels_of(proof)
        running = self._running[proof] = _Running(proof, labels, slot, self._clock())
        for outcome in (COMPLETE, ABORTED):
            self._meter.add(Metrics.PROOFS, 0, {**labels, Label.OUTCOME: outcome})
        self._count_open(proof, 1)
        if self._live:
            for metric, series, reading in running.gauges(self._clock):
                self._meter.watch(metric, series, reading)

    def _end(self, proof: Proof, ref: SpanRef) -> None:
        self._ended = True
        running = self._running.pop(proof)
        self._count_open(proof, -1)
        if self._live:
            for metric, series, _ in running.gauges(self._clock):
                self._meter.remove(metric, series)
        labels = {**running.labels, Label.OUTCOME: COMPLETE if proof.aborted_reason is None else ABORTED}
        self._meter.add(Metrics.PROOFS, 1, labels)
        if proof.end_unix_nano is not None:
            self._meter.set(Metrics.PROOF_LAST_END, proof.end_unix_nano / _NS_PER_S, labels)
        duration_s = _duration_s(proof)
        if duration_s is not None:
            self._meter.record(Metrics.PROOF_DURATION, duration_s, labels, ref)
            self._meter.set(Metrics.PROOF_LAST_DURATION, duration_s, labels)

    def _count_open(self, proof: Proof, change: int) -> None:
        names = _names_of(proof)
        self._open[names] += change
        if self._live:
            self._meter.set(Metrics.PROOFS_RUNNING, self._open[names], _labels_of(proof))
        if not self._open[names]:
            del self._open[names]

    def _record_part(self, interval: Interval, ref: SpanRef) -> None:
        labels = _labels_of(interval)
        event = None if interval.closed is None else interval.closed.event
        if isinstance(event, AggregatedBindingEnd):
            self._meter.set(Metrics.WEIGHT_BINDING_CALLDATA, event.estimated_calldata_felts, labels)
        duration_s = _duration_s(interval)
        if duration_s is None:
            return
        if interval.kind is IntervalKind.LAYER:
            labels[Label.LAYER_KIND] = interval.layer_kind
            if isinstance(event, LayerEnd):
                labels[Label.PROOF_KIND] = event.kind.value
        self._meter.record(_PARTS.get(interval.kind, Metrics.LAYER_DURATION), duration_s, labels, ref)


def _duration_s(interval: Interval) -> float | None:
    """How long it took; None if its start was not seen, as that is a guess then."""
    duration_ns = interval.duration_ns
    return None if duration_ns is None or not interval.start_seen else duration_ns / _NS_PER_S


def _names_of(interval: Interval) -> tuple[str, str]:
    """Model and backend of the proof that an interval belongs to."""
    proof = interval if isinstance(interval, Proof) else interval.proof
    event = None if proof is None or proof.opened is None else proof.opened.event
    if not isinstance(event, ProofStart):
        return UNKNOWN, UNKNOWN
    return (event.model_name or UNKNOWN)[:_MAX_NAME], event.backend[:_MAX_NAME]


def _labels_of(interval: Interval) -> dict[str, str | int]:
    model, backend = _names_of(interval)
    return {Label.MODEL: model, Label.BACKEND: backend}
