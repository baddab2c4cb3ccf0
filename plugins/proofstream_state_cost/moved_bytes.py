"""What the state programs that ran have written: counted runs times derived bytes, exact or refused."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from proofstream import StateBytes, StateBytesMoved, StateProgramRun
from proofstream_state_cost.states.costing import CircuitCosts, ProgramCost
from proofstream_state_cost.states.u64 import U64_MAX


@dataclass(slots=True)
class _RunSum:
    """Runs of one program; bytes follow from sequences."""

    runs: int = 0
    sequences: int = 0
    timed_sequences: int = 0
    timed_ns: int = 0

    def plus(self, run: StateProgramRun) -> _RunSum:
        # A duration of zero is a clock too coarse to tell, not an infinite bandwidth.
        timed_ns = 0 if run.duration_ns is msgspec.UNSET else run.duration_ns
        timed_sequences = run.sequences if timed_ns else 0
        return _RunSum(
            self.runs + 1,
            self.sequences + run.sequences,
            self.timed_sequences + timed_sequences,
            self.timed_ns + timed_ns,
        )

    def fits(self, cost: ProgramCost) -> bool:
        return max(self.sequences, self.timed_ns, self.sequences * cost.bytes) <= U64_MAX


class MovedBytes:
    """Adds up runs until they are taken.

    A total that would pass 2^64 - 1 is taken apart into several events; one run that does so by itself is refused.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[CircuitCosts, str], _RunSum] = {}
        self._full: list[StateBytesMoved] = []

    def add(self, costs: CircuitCosts, run: StateProgramRun) -> bool:
        """Count a run of a program that is one of `costs`; False if its bytes have no exact number."""
        cost = costs.programs[run.program]
        alone = _RunSum().plus(run)
        if not alone.fits(cost):
            return False
        key = costs, run.program
        before = self._sums.get(key, _RunSum())
        together = before.plus(run)
        if not together.fits(cost):
            self._full.append(_moved(costs, cost, before))
            together = alone
        self._sums[key] = together
        return True

    def take(self) -> list[StateBytesMoved]:
        """What was counted since the last time, an event for each program."""
        rest = [_moved(costs, costs.programs[program], u64_sum) for (costs, program), u64_sum in self._sums.items()]
        moved = [*self._full, *rest]
        self._sums.clear()
        self._full.clear()
        return moved


def _moved(costs: CircuitCosts, cost: ProgramCost, u64_sum: _RunSum) -> StateBytesMoved:
    return StateBytesMoved(
        circuit=costs.name,
        convention=costs.convention,
        program=cost.name,
        runs=u64_sum.runs,
        sequences=u64_sum.sequences,
        bytes=u64_sum.sequences * cost.bytes,
        states=[
            StateBytes(group=each.group, kind=each.kind, states=each.states, bytes=u64_sum.sequences * each.bytes)
            for each in cost.groups
        ],
        timed_bytes=u64_sum.timed_sequences * cost.bytes,
        timed_ns=u64_sum.timed_ns,
    )
