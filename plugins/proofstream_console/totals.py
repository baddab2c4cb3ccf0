"""Sums over a run: events, sessions and proofs."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofstream_console.durations import DurationTally, Took
from proofstream_console.proof_summary import ProofSummary


@dataclass(slots=True)
class Totals:
    """Sums. Events, sessions and proofs count from their beginning, everything else from the end of its proof.

    Attributes:
        events: Events of producers.
        sessions: Sessions that were opened.
        broken_off: Sessions that neither reached their end nor were told to end.
        broken_reason: Why the last of those broke off, if that is known.
        refused: Lines or events that could not be read.
        lost: Events known to be missing.
        at_once: Sessions in which a proof began while another was open, without job ids that tell them apart.
        proof_time: Of the complete proofs.
        aborted_time: Of the others.
        stages: Of the complete proofs whose durations are known, by the stage's name.
        layers_time: Of the complete proofs whose durations are not known, the stage `layers`.
    """

    events: int = 0
    sessions: int = 0
    broken_off: int = 0
    broken_reason: str | None = None
    at_once: int = 0
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
    aborted_time: DurationTally = field(default_factory=DurationTally)
    stages: dict[str, DurationTally] = field(default_factory=dict[str, DurationTally])
    layers_time: DurationTally = field(default_factory=DurationTally)

    def add_proof(self, proof: ProofSummary) -> None:
        """Count a proof that has ended."""
        took = proof.took or Took(0, "unknown")
        if proof.aborted_reason is None:
            self.complete += 1
            self.proof_time.add_duration(took)
            self._add_stages(proof, took)
        else:
            self.aborted += 1
            self.aborted_time.add_duration(took)
        self.layers_done += proof.layers_done
        self.layers_ended += proof.layers_ended
        self.layers_without_end += proof.layers_without_end
        self.rounds += proof.rounds
        self.reported_ms += proof.reported_ms
        self.measured_ns += proof.measured_ns

    def _add_stages(self, proof: ProofSummary, whole: Took) -> None:
        for name, took in proof.stages:
            if whole.is_known:
                self.stages.setdefault(name, DurationTally()).add_duration(took)
            elif name == "layers":
                self.layers_time.add_duration(took)

    @property
    def all_timed(self) -> bool:
        """Whether the durations of all proofs that ended are known."""
        return self.proof_time.timed + self.aborted_time.timed == self.complete + self.aborted
