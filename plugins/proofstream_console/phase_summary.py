"""What is remembered of phases: those that run, sums of those that ended, and the one in which a proof died."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from proofstream import Interval, IntervalKind, Phase, Proof
from proofstream_console.durations import DurationTally, took
from proofstream_console.formats import clip

MAX_PHASES = 64
"""Names of phases that are summed up one by one; the rest are `others`."""

IN_PROOFS, AFTER_PROOFS, OUTSIDE = "in proofs", "after proofs", "outside"
"""Where a phase ended: inside an open proof, after its proof had completed, or outside of any."""


@dataclass(frozen=True, slots=True)
class FailedPhase:
    """A phase that ended without success: why, and how far it had come."""

    reason: str
    name: str
    done: int | None
    total: int | None


def failed_phase(phase: Phase) -> FailedPhase | None:
    """Return what is remembered of a phase that ended without success; None if it succeeded."""
    if phase.aborted_reason is None:
        return None
    return FailedPhase(clip(phase.aborted_reason), clip(phase.name), phase.done, phase.total)


@dataclass(slots=True)
class PhaseTally(DurationTally):
    """Phases of one name. `self_ns` is the part of their total in which nothing inside them ran."""

    self_ns: int = 0

    def add_phase(self, phase: Phase) -> None:
        """Count a phase that ended."""
        duration = took(phase)
        self.add_duration(duration)
        if duration.is_known:
            self.self_ns += phase.self_ns or 0


class PhaseTallies:
    """Sums of phases by where they ended and by name."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], PhaseTally] = {}

    def add_phase(self, phase: Phase) -> None:
        """Count a phase that ended, whether or not it is shown one by one elsewhere."""
        where = OUTSIDE if phase.proof is None else AFTER_PROOFS if phase.after_complete else IN_PROOFS
        key = where, clip(phase.name)
        if key not in self._tallies and len(self._tallies) >= MAX_PHASES:
            key = where, "others"
        self._tallies.setdefault(key, PhaseTally()).add_phase(phase)

    def __iter__(self) -> Iterator[tuple[str, str, PhaseTally]]:
        """Iterate over where, name and sums; those that took the most time first."""
        ordered = sorted(self._tallies.items(), key=lambda item: (-item[1].total_ns, -item[1].count))
        return ((where, name, tally) for (where, name), tally in ordered)

    def __len__(self) -> int:
        return len(self._tallies)


class OpenPhases:
    """The phases that run, in the order in which they began."""

    def __init__(self) -> None:
        self._phases: dict[Phase, None] = {}

    def add_phase(self, phase: Phase) -> None:
        """Add one that began."""
        self._phases[phase] = None

    def remove_phase(self, phase: Phase) -> None:
        """Remove one that ended."""
        self._phases.pop(phase, None)

    def outside(self) -> dict[Proof | None, list[Phase]]:
        """Return those that no open proof has, by the proof that they belong to."""
        found: dict[Proof | None, list[Phase]] = {}
        for phase in self._phases:
            if phase.proof is None or not phase.proof.is_open:
                found.setdefault(phase.proof, []).append(phase)
        return found


def running_parts(proof: Proof) -> list[Interval]:
    """Return what runs in a proof besides its layers, in the order in which it began: phases, weight openings, ..."""
    return list(reversed(list(proof.open_children)))


def path_of(part: Interval) -> list[Interval]:
    """Return what is around a part, outermost first, and the part itself; without layers and proofs."""
    path: list[Interval] = []
    around: Interval | None = part
    while around is not None and around.kind not in (IntervalKind.PROOF, IntervalKind.LAYER):
        path.append(around)
        around = around.parent
    return path[::-1]
