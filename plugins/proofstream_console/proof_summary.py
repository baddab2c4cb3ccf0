"""What is remembered of proofs and layers: plain values, each of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofstream import Interval, LayerEnd, LayerStart, Phase, Proof, reported_duration_ms
from proofstream_console.durations import Took, took
from proofstream_console.formats import clip_optional
from proofstream_console.layer_strip import LayerStrip
from proofstream_console.phase_summary import FailedPhase, failed_phase


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer that ended. The shapes are None if its start was not seen; number and model are its proof's."""

    index: int
    kind: str
    took: Took
    rounds: int
    input_shape: tuple[int, int] | None
    output_shape: tuple[int, int] | None
    start_seen: bool
    end_seen: bool
    aborted: bool
    proof_number: int
    model_name: str | None


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
        parent_number: The number of the proof inside which it was started, or None.
        inner: The numbers of the open proofs that were started inside this one.
        at_once: Whether another proof was open at the same time, so that its lines need more than a number.
        took: How long it took; None while it is open.
        stages: The stages that it went through, each with how long it took; empty while it is open.
        stage: The stage in which it ended, or None.
        end_ambiguous: Whether its end may be another proof's.
        reported_ms: The producer's own durations of layers, summed.
        measured_ns: The measured durations of the same layers, summed.
        aborted_reason: Why it ended without success, or None.
        aborted_layer: The layer in which it died, as `(index, kind)`, or None.
        failed_phase: The phase that ended without success last; of those for the same reason, the innermost.
        silent_ns: How long it had said nothing when it died, or None.
        heard_unix_nano: The time of the latest event of its producer.
        heard_in: The stage that it was in then.
        heard_after_layers: Whether anything was heard of what follows its layers.
        silence_told: Whether the reader was told that its silence is unusual.
        trace_id: Its trace, once one was started.
        trace_sampled: Whether that trace is exported.
        strip: Its layers in the order in which they began.
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
    parent_number: int | None = None
    inner: list[int] = field(default_factory=list[int])
    at_once: bool = False
    took: Took | None = None
    stages: tuple[tuple[str, Took], ...] = ()
    stage: str | None = None
    end_ambiguous: bool = False
    reported_ms: int = 0
    measured_ns: int = 0
    aborted_reason: str | None = None
    aborted_layer: tuple[int, str] | None = None
    failed_phase: FailedPhase | None = None
    silent_ns: int | None = None
    heard_unix_nano: int = 0
    heard_in: str | None = None
    heard_after_layers: bool = False
    silence_told: bool = False
    trace_id: str | None = None
    trace_sampled: bool = True
    strip: LayerStrip = field(default_factory=LayerStrip)

    @property
    def progress(self) -> float | None:
        """The share of its layers that are done, from 0 to 1; None if it has ended or announced no layers."""
        return None if self.proof is None else self.proof.progress

    @property
    def died_in(self) -> FailedPhase | None:
        """The phase in which it died, or None."""
        failed = self.failed_phase
        return failed if failed is not None and failed.reason == self.aborted_reason else None

    @property
    def layers_took(self) -> Took | None:
        """How long its layers took together, from the first one's start to the last one's end; None if not known."""
        return next((stage for name, stage in self.stages if name == "layers" and stage.source != "unknown"), None)

    def update_counts(self, proof: Proof) -> None:
        """Copy the counts that the timeline keeps."""
        self.rounds, self.lost, self.num_layers = proof.rounds, proof.lost_events, proof.num_layers
        self.layers_left_behind = proof.layers_left_behind

    def count_layer(self, layer: Interval) -> None:
        """Count a layer that ended."""
        self.strip.end_layer(layer)
        if layer.aborted_reason is None:
            self.layers_done += 1
        if not layer.end_seen:
            self.layers_without_end += layer.aborted_reason is None
            return
        self.layers_ended += 1
        reported_ms = reported_duration_ms(layer)
        if isinstance(layer.end_event, LayerEnd) and reported_ms is not None and took(layer).is_known:
            self.reported_ms += reported_ms
            self.measured_ns += layer.duration_ns or 0

    def count_phase(self, phase: Phase) -> None:
        """Remember a phase that ended without success: it may be why the proof will."""
        failed = failed_phase(phase)
        if failed is not None and (self.failed_phase is None or self.failed_phase.reason != failed.reason):
            self.failed_phase = failed

    def end_proof(self, proof: Proof) -> None:
        """Keep how the proof ended, and let go of the timeline's own, which holds all of its layers."""
        self.update_counts(proof)
        self.proof = None
        self.strip = LayerStrip()
        self.took = took(proof)
        self.stage = proof.stage
        self.stages = tuple((stage.name, took(stage)) for stage in proof.stages)
        self.end_ambiguous = proof.end_ambiguous
        self.silent_ns = proof.silent_ns
        self.aborted_reason = clip_optional(proof.aborted_reason)
        layer = proof.aborted_layer
        if layer is not None and layer.key is not None:
            self.aborted_layer = (layer.key, layer.layer_kind)


def summarize_proof(proof: Proof, number: int, parent: ProofSummary | None) -> ProofSummary:
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
        parent_number=None if parent is None else parent.number,
        heard_unix_nano=proof.start_unix_nano,
        heard_in=proof.stage,
    )


def summarize_layer(layer: Interval, proof: ProofSummary | None) -> LayerSummary:
    """Make the summary of a layer that ended."""
    start = layer.start_event if isinstance(layer.start_event, LayerStart) else None
    return LayerSummary(
        index=layer.key or 0,
        kind=layer.layer_kind,
        took=took(layer),
        rounds=layer.rounds,
        input_shape=None if start is None else start.input_shape,
        output_shape=None if start is None else start.output_shape,
        start_seen=layer.start_seen,
        end_seen=layer.end_seen,
        aborted=layer.aborted_reason is not None,
        proof_number=0 if proof is None else proof.number,
        model_name=None if proof is None else proof.model_name,
    )
