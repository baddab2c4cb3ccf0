"""Sums over a run: events, sessions and proofs, and durations."""

from __future__ import annotations

from dataclasses import dataclass, field

from proofstream_console.proof_summary import ProofSummary


@dataclass(slots=True)
class DurationTally:
    """Intervals of one kind: how many ended, their total duration and the longest, in nanoseconds."""

    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0

    def add_duration(self, duration_ns: int) -> None:
        """Count an interval."""
        self.count += 1
        self.total_ns += duration_ns
        self.longest_ns = max(self.longest_ns, duration_ns)

    @property
    def mean_ns(self) -> int:
        """The mean duration."""
        return self.total_ns // self.count if self.count else 0


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
        proof_time: Of the complete proofs.
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

    def add_proof(self, proof: ProofSummary) -> None:
        """Count a proof that has ended."""
        if proof.aborted_reason is None:
            self.complete += 1
            self.proof_time.add_duration(proof.duration_ns or 0)
            if proof.layers_done:
                self.after_layers.add_duration(proof.after_layers_ns)
        else:
            self.aborted += 1
        self.layers_done += proof.layers_done
        self.layers_ended += proof.layers_ended
        self.layers_without_end += proof.layers_without_end
        self.rounds += proof.rounds
        self.reported_ms += proof.reported_ms
        self.measured_ns += proof.measured_ns
