"""Counts the bytes that state programs moved: reported runs times derived bytes, exact or refused."""

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
        # A duration of zero comes from a clock that is too coarse; it does not mean infinite bandwidth.
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
    """Adds up runs until they are taken as events.

    A total that would exceed 2^64 - 1 is split over several events. A single run that exceeds it is refused.
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[CircuitCosts, str], _RunSum] = {}
        self._full: list[StateBytesMoved] = []

    def count_run(self, costs: CircuitCosts, run: StateProgramRun) -> bool:
        """Count a run. Returns False if its bytes exceed 2^64 - 1.

        Args:
            costs: What it is priced by; the run's program must be in it.
            run: The run.
        """
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

    def take_moved(self) -> list[StateBytesMoved]:
        """Return the runs counted since the last call, one event for each program, and start again from zero."""
        rest = [_moved(costs, costs.programs[program], runs) for (costs, program), runs in self._sums.items()]
        moved = [*self._full, *rest]
        self._sums.clear()
        self._full.clear()
        return moved


def _moved(costs: CircuitCosts, cost: ProgramCost, counted: _RunSum) -> StateBytesMoved:
    return StateBytesMoved(
        circuit=costs.name,
        convention=costs.convention,
        program=cost.name,
        runs=counted.runs,
        sequences=counted.sequences,
        bytes=counted.sequences * cost.bytes,
        states=[
            StateBytes(group=each.group, kind=each.kind, states=each.states, bytes=counted.sequences * each.bytes)
            for each in cost.groups
        ],
        timed_bytes=counted.timed_sequences * cost.bytes,
        timed_ns=counted.timed_ns,
    )
