"""What is remembered of proofs, layers and sessions: plain values, each of a fixed size."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofstream import Interval, LayerEnd, LayerStart, Proof, ProofStart
from proofstream_console.formats import clip, clip_optional

NOT_WORKING = frozenset({"stalled", "failed", "broken"})
"""What a plugin's status is when it needs a person's attention."""


@dataclass(slots=True)
class DurationTally:
    """Intervals of one kind: how many ended, and their time together and at most, in nanoseconds."""

    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0

    def add(self, duration_ns: int) -> None:
        """Count one that took so long."""
        self.count += 1
        self.total_ns += duration_ns
        self.longest_ns = max(self.longest_ns, duration_ns)

    @property
    def mean_ns(self) -> float:
        """The mean time."""
        return self.total_ns / self.count if self.count else 0.0


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
        model: The model's name as the producer wrote it, or None.
        backend: The backend as the producer wrote it, or None if the start was not seen.
        num_layers: Layers announced, or None.
        start_seen: Whether its start event was seen.
        proof: The timeline's own; let go when it ends.
        layers_done: Layers that came to their end, whether or not an end event was seen, and were not aborted.
        layers_left_behind: The same, with the open layers that another one followed on the same device.
        layers_ended: Layers with an end event.
        layers_without_end: Layers that were done without an end event.
        rounds: Sumcheck rounds counted.
        lost: Events known to be missing while it was open.
        duration_ns: Measured from envelope times; None while it is open.
        after_layers_ns: How much of it came after its last layer's end.
        reported_ms: The producer's own durations of the layers with an end event, summed.
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
    model: str | None
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
        """Layers that the walk has left behind over layers announced, from 0 to 1; None if none were announced."""
        return min(1.0, self.layers_left_behind / self.num_layers) if self.num_layers else None

    def follow(self, proof: Proof) -> None:
        """Take over what the timeline counts by itself."""
        self.rounds, self.lost, self.num_layers = proof.rounds, proof.lost_events, proof.num_layers
        # A layer that another one followed is done, although its end event may still come.
        self.layers_left_behind = self.layers_done + len(proof.open_layers) - len(proof.active_layers)

    def count_layer(self, layer: Interval) -> None:
        """Take in a layer that ended."""
        if layer.aborted_reason is None:
            self.layers_done += 1
            self.layers_end_unix_nano = max(self.layers_end_unix_nano or 0, layer.end_unix_nano or 0)
        if layer.closed is None:
            self.layers_without_end += layer.aborted_reason is None
            return
        self.layers_ended += 1
        event = layer.closed.event
        if isinstance(event, LayerEnd):
            self.reported_ms += event.duration_ms
            self.measured_ns += layer.duration_ns or 0

    def end(self, proof: Proof) -> None:
        """Take in the proof's end, and let go of it."""
        self.follow(proof)
        self.proof = None
        self.duration_ns = proof.duration_ns
        self.aborted_reason = clip_optional(proof.aborted_reason)
        if proof.end_unix_nano is not None and self.layers_end_unix_nano is not None:
            self.after_layers_ns = max(0, proof.end_unix_nano - self.layers_end_unix_nano)
        last = proof.last_layer
        if last is not None and last.key is not None:
            self.last_layer = (last.key, last.layer_kind)


@dataclass(slots=True)
class SessionSummary:
    """An open session: where it comes from, its latest event time, and when that was seen on our clock."""

    source: str
    latest_unix_nano: int
    seen_at: float


@dataclass(slots=True)
class Totals:
    """Sums: of events, sessions and proofs since they began, of all else over the proofs that have ended.

    Attributes:
        events: Events of producers.
        sessions: Sessions that were opened.
        broken_off: Sessions that neither came to their end nor were told to.
        broken_reason: Why the last of those broke off, as far as it is known.
        refused: Lines or events that could not be read.
        lost: Events known to be missing in sessions that are closed.
        proof_time: Of the proofs that are complete.
        after_layers: The parts of complete proofs that came after their last layers.
    """

    events: int = 0
    sessions: int = 0
    broken_off: int = 0
    broken_reason: str | None = None
    refused: int = 0
    lost: int = 0
    proofs: int = 0
    complete: int = 0
    aborted: int = 0
    layers_done: int = 0
    layers_ended: int = 0
    layers_without_end: int = 0
    rounds: int = 0
    reported_ms: int = 0
    measured_ns: int = 0
    proof_time: DurationTally = field(default_factory=DurationTally)
    after_layers: DurationTally = field(default_factory=DurationTally)

    def add(self, summary: ProofSummary) -> None:
        """Take in a proof that ended."""
        if summary.aborted_reason is None:
            self.complete += 1
            self.proof_time.add(summary.duration_ns or 0)
            if summary.layers_done:
                self.after_layers.add(summary.after_layers_ns)
        else:
            self.aborted += 1
        self.layers_done += summary.layers_done
        self.layers_ended += summary.layers_ended
        self.layers_without_end += summary.layers_without_end
        self.rounds += summary.rounds
        self.reported_ms += summary.reported_ms
        self.measured_ns += summary.measured_ns


def summarize_proof(proof: Proof, number: int) -> ProofSummary:
    """What is known of a proof that began."""
    event = proof.opened.event if proof.opened is not None else None
    start = event if isinstance(event, ProofStart) else None
    return ProofSummary(
        number=number,
        session_id=proof.session_id,
        job_id=clip_optional(proof.job_id),
        ordinal=proof.proof_ordinal,
        model=clip_optional(start.model_name) if start is not None else None,
        backend=clip(start.backend) if start is not None else None,
        num_layers=proof.num_layers,
        start_seen=proof.start_seen,
        proof=proof,
    )


def summarize_layer(layer: Interval, proof_number: int) -> LayerSummary:
    """What is kept of a layer that ended."""
    event = layer.opened.event if layer.opened is not None else None
    start = event if isinstance(event, LayerStart) else None
    return LayerSummary(
        index=layer.key or 0,
        kind=layer.layer_kind,
        duration_ns=layer.duration_ns or 0,
        rounds=layer.rounds,
        input_shape=start.input_shape if start is not None else None,
        output_shape=start.output_shape if start is not None else None,
        start_seen=layer.start_seen,
        end_seen=layer.end_seen,
        aborted=layer.aborted_reason is not None,
        proof_number=proof_number,
    )
