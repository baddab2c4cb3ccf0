"""Passes each event and interval to the metrics that it concerns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from proofstream import Batch, Envelope, GpuStatus, GpuTelemetry, Interval, StateBytesMoved, StateProgramCost
from proofstream_otel.metrics.gpus import GpuMetrics
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.metrics.pipeline import FOLLOWED, PipelineMetrics
from proofstream_otel.metrics.proofs import ProofMetrics
from proofstream_otel.metrics.states import StateMetrics
from proofstream_otel.values.signals import ExportCounts
from proofstream_otel.values.spans import SpanRef, SpanValues

_ABOUT_GPUS = (GpuTelemetry, GpuStatus)
_ABOUT_STATES = (StateProgramCost, StateBytesMoved)


class Measuring:
    """Turns envelopes and intervals into measurements; a listener of the mapping of spans.

    Args:
        meter: Takes the measurements.
        live: Whether events happen now. If not, metrics that describe the present of provers and GPUs stay empty.
        phases: The names of the phases that are measured.

    Attributes:
        measured: The kinds that say something of themselves.
    """

    def __init__(self, meter: Meter, *, live: bool, phases: Collection[str] = ()) -> None:
        self._meter = meter
        self.measured = FOLLOWED | {*_ABOUT_STATES, *(_ABOUT_GPUS if live else ())}
        self._proofs = ProofMetrics(meter, live=live, phases=phases)
        self._pipeline = PipelineMetrics(meter)
        self._gpus = GpuMetrics(meter)
        self._states = StateMetrics(meter)

    def count_batch(self, batch: Batch) -> None:
        """Count the next envelopes."""
        self._pipeline.count_batch(batch)

    def measure_event(self, envelope: Envelope) -> None:
        """Measure what an envelope of a kind in `measured` says of itself."""
        event = envelope.event
        self._pipeline.note_event(envelope)
        if isinstance(event, _ABOUT_GPUS):
            self._gpus.record_devices(event)
        elif isinstance(event, _ABOUT_STATES):
            self._states.record_program(event)

    def opened(self, interval: Interval) -> None:
        """Measure an interval that began."""
        self._proofs.opened(interval)

    def noted(self, interval: Interval | None, envelope: Envelope, span: SpanValues, ref: SpanRef) -> None:
        """Measure an event that happened in an interval."""
        self._proofs.noted(interval, envelope)

    def noted_rounds(self, interval: Interval, envelopes: Sequence[Envelope], span: SpanValues, ref: SpanRef) -> None:
        """Measure sumcheck rounds that happened in an interval."""
        self._proofs.noted_rounds(interval, len(envelopes))

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Measure an interval that ended."""
        self._proofs.closed(interval, ref)
        if not self._proofs.is_any_running:
            self._gpus.forget_reported()

    def flush(self) -> bool:
        """Pass the counts on to the meter. Return whether a proof has ended since the last call."""
        self._pipeline.flush()
        self._gpus.flush()
        return self._proofs.flush()

    def note_exports(self, exports: Mapping[str, ExportCounts]) -> None:
        """Record the exporters' counts, given by the signal's name."""
        self._pipeline.note_exports(exports)

    @property
    def refused(self) -> int:
        """Measurements left out because they were not finite."""
        return self._meter.refused
