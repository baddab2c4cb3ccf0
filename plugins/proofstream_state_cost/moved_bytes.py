"""What the state programs that ran have written: counted runs times derived bytes, exact or refused."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from proofstream import StateBytes, StateBytesMoved, StateProgramRun
from proofstream_state_cost.states.costing import Costs, ProgramCost
from proofstream_state_cost.states.u64 import U64_MAX


@dataclass(slots=True)
class _Sum:
    """Runs of one program; bytes follow from sequences."""

    runs: int = 0
    sequences: int = 0
    timed_sequences: int = 0
    timed_ns: int = 0

    def plus(self, run: StateProgramRun) -> _Sum:
        # A duration of zero is a clock too coarse to tell, not an infinite bandwidth.
        timed_ns = 0 if run.duration_ns is msgspec.UNSET else run.duration_ns
        timed_sequences = run.sequences if timed_ns else 0
        return _Sum(
            self.runs + 1,
            self.sequences + run.sequences,
            self.timed_sequences + timed_sequences,
            self.timed_ns + timed_ns,
        )

    def fits(self, cost: ProgramCost) -> bool:
        return max(self.sequences, self.timed_ns, self.sequences * cost.bytes) <= U64_MAX


class Tally:
    """Adds up runs until they are taken.

    A total that would pass 2^64 - 1 is taken apart into several events; one run that does so by itself is refused.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[Costs, str], _Sum] = {}
        self._full: list[StateBytesMoved] = []

    def add(self, costs: Costs, run: StateProgramRun) -> bool:
        """Count a run of a program that is one of `costs`; False if its bytes have no exact number."""
        cost = costs.programs[run.program]
        alone = _Sum().plus(run)
        if not alone.fits(cost):
            return False
        key = costs, run.program
        before = self._sums.get(key, _Sum())
        together = before.plus(run)
        if not together.fits(cost):
            self._full.append(_moved(costs, cost, before))
            together = alone
        self._sums[key] = together
        return True

    def take(self) -> list[StateBytesMoved]:
        """What was counted since the last time, an event for each program."""
        rest = [_moved(costs, costs.programs[program], total) for (costs, program), total in self._sums.items()]
        moved = [*self._full, *rest]
        self._sums.clear()
        self._full.clear()
        return moved


def _moved(costs: Costs, cost: ProgramCost, total: _Sum) -> StateBytesMoved:
    return StateBytesMoved(
        circuit=costs.name,
        convention=costs.convention,
        program=cost.name,
        runs=total.runs,
        sequences=total.sequences,
        bytes=total.sequences * cost.bytes,
        states=[
            StateBytes(group=each.group, kind=each.kind, states=each.states, bytes=total.sequences * each.bytes)
            for each in cost.groups
        ],
        timed_bytes=total.timed_sequences * cost.bytes,
        timed_ns=total.timed_ns,
    )
