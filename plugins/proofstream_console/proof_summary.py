"""What is remembered of proofs and layers: plain values, each of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass

from proofstream import Interval, LayerEnd, LayerStart, Proof, reported_duration_ms
from proofstream_console.formats import clip_optional


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer that ended. The shapes are None if its start was not seen; `proof_number` is its proof's."""

    index: int
    kind: str
    duration_ns: int
    rounds: int
    input_shape: tuple[int, int] | None
    output_shape: tuple[int, int] | None
    start_seen: bool
    end_seen: bool
    aborted: bool
    proof_number: int


@dataclass(slots=True)
class ProofSummary:
    """One proof.

    Attributes:
        number: How many proofs the console had seen before.
        session_id: Its session.
        job_id: The producer's name of its job, or None.
        ordinal: How many proofs its session had before.
        model_name: The model's name as the producer wrote it, or None.
        backend: The backend as the producer wrote it, or None if the start was not seen.
        num_layers: Layers announced, or None.
        start_seen: Whether its start event was seen.
        proof: The timeline's own while it is open, then None.
        layers_done: Layers that ended and were not aborted, with or without an end event.
        layers_left_behind: The same, with the open layers that another one followed on the same device.
        layers_ended: Layers with an end event.
        layers_without_end: Layers that were done without an end event.
        rounds: Sumcheck rounds counted.
        lost: Events known to be missing while it was open.
        duration_ns: Measured from envelope times; None while it is open.
        after_layers_ns: How much of it came after its last layer's end.
        reported_ms: The producer's own durations of layers, summed.
        measured_ns: The measured durations of the same layers, summed.
        aborted_reason: Why it ended without success, or None.
        last_layer: The layer that began last, as `(index, kind)`, or None.
        trace_id: Its trace, once one was started.
        trace_sampled: Whether that trace is exported.
    """

    number: int
    session_id: str
    job_id: str | None
    ordinal: int
    model_name: str | None
    backend: str | None
    num_layers: int | None
    start_seen: bool
    proof: Proof | None
    layers_done: int = 0
    layers_left_behind: int = 0
    layers_ended: int = 0
    layers_without_end: int = 0
    rounds: int = 0
    lost: int = 0
    duration_ns: int | None = None
    after_layers_ns: int = 0
    reported_ms: int = 0
    measured_ns: int = 0
    aborted_reason: str | None = None
    last_layer: tuple[int, str] | None = None
    trace_id: str | None = None
    trace_sampled: bool = True
    layers_end_unix_nano: int | None = None

    @property
    def progress(self) -> float | None:
        """Its progress while it is open, from 0 to 1; None if no layers were announced."""
        return None if self.proof is None else self.proof.progress

    def update_counts(self, proof: Proof) -> None:
        """Copy the counts that the timeline keeps."""
        self.rounds, self.lost, self.num_layers = proof.rounds, proof.lost_events, proof.num_layers
        self.layers_left_behind = proof.layers_left_behind

    def count_layer(self, layer: Interval) -> None:
        """Count a layer that ended."""
        if layer.aborted_reason is None:
            self.layers_done += 1
            self.layers_end_unix_nano = max(self.layers_end_unix_nano or 0, layer.end_unix_nano or 0)
        if not layer.end_seen:
            self.layers_without_end += layer.aborted_reason is None
            return
        self.layers_ended += 1
        reported_ms = reported_duration_ms(layer)
        if isinstance(layer.end_event, LayerEnd) and reported_ms is not None:
            self.reported_ms += reported_ms
            self.measured_ns += layer.duration_ns or 0

    def end_proof(self, proof: Proof) -> None:
        """Keep how the proof ended, and let go of the timeline's own, which holds all of its layers."""
        self.update_counts(proof)
        self.proof = None
        self.duration_ns = proof.duration_ns
        self.aborted_reason = clip_optional(proof.aborted_reason)
        if proof.end_unix_nano is not None and self.layers_end_unix_nano is not None:
            self.after_layers_ns = max(0, proof.end_unix_nano - self.layers_end_unix_nano)
        last = proof.last_layer
        if last is not None and last.key is not None:
            self.last_layer = (last.key, last.layer_kind)


def summarize_proof(proof: Proof, number: int) -> ProofSummary:
    """Make the summary of a proof that began."""
    return ProofSummary(
        number=number,
        session_id=proof.session_id,
        job_id=clip_optional(proof.job_id),
        ordinal=proof.proof_ordinal,
        model_name=clip_optional(proof.model_name),
        backend=clip_optional(proof.backend),
        num_layers=proof.num_layers,
        start_seen=proof.start_seen,
        proof=proof,
    )


def summarize_layer(layer: Interval, proof_number: int) -> LayerSummary:
    """Make the summary of a layer that ended."""
    start = layer.start_event if isinstance(layer.start_event, LayerStart) else None
    return LayerSummary(
        index=layer.key or 0,
        kind=layer.layer_kind,
        duration_ns=layer.duration_ns or 0,
        rounds=layer.rounds,
        input_shape=None if start is None else start.input_shape,
        output_shape=None if start is None else start.output_shape,
        start_seen=layer.start_seen,
        end_seen=layer.end_seen,
        aborted=layer.aborted_reason is not None,
        proof_number=proof_number,
    )
