"""The costs of one circuit's state programs under one convention, as one value for the command and the bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proofstream import StateBytes
from proofstream_state_cost.states.programs import VERIFY_PROGRAMS, PricedProgram, price_programs
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit
from proofstream_state_cost.states.u64 import u64_sum

DECLARED = "declared"
"""The convention of a state circuit: its states are as it declares them, and nothing is assumed."""


@dataclass(frozen=True, eq=False, kw_only=True, slots=True)
class ProgramCost:
    """The bytes that one run of a state program writes for one sequence.

    Attributes:
        priced: The program, its nodes and their sum.
        groups: The sum by block and local name, in the order of the states.
    """

    priced: PricedProgram
    groups: tuple[StateBytes, ...]

    @property
    def name(self) -> str:
        """The program's name: `verify_checkpoint`."""
        return self.priced.program.value

    @property
    def bytes(self) -> int:
        """Bytes written, of all states."""
        return self.priced.bytes


@dataclass(frozen=True, eq=False, kw_only=True, slots=True, weakref_slot=True)
class CircuitCosts:
    """The costs of all programs of a state circuit under a convention. Compared by identity, so it can be a key.

    Attributes:
        circuit: The states.
        convention: The convention under which the states are counted.
        formats: The dtype of each format key that was given.
        programs: By name and in their order: the four around a verify, and those of snapshots that move anything.
    """

    circuit: StateCircuit
    convention: str
    formats: Mapping[str, Dtype]
    programs: dict[str, ProgramCost]

    @property
    def name(self) -> str:
        """The circuit's name."""
        return self.circuit.name

    @property
    def totals(self) -> dict[str, int]:
        """The bytes that each program writes for one sequence."""
        return {name: cost.bytes for name, cost in self.programs.items()}

    @property
    def live_bytes(self) -> int:
        """Bytes of one sequence's recurrent state, which are those that `slot_zero` writes."""
        return self.programs["slot_zero"].bytes


def cost_circuit(circuit: StateCircuit, formats: Mapping[str, Dtype], *, convention: str) -> CircuitCosts:
    """Size every program of a circuit.

    Args:
        circuit: The states.
        formats: The dtype of each format key that a moved state reads; others are not needed.
        convention: How these states are counted.

    Raises:
        MissingFormat: A key has no dtype; the error names the first such state.
        Overflow: A node or a sum is above 2^64 - 1; the error names the node.
    """
    priced = [each for each in price_programs(circuit, formats) if each.nodes or each.program in VERIFY_PROGRAMS]
    programs = {each.program.value: ProgramCost(priced=each, groups=_groups(circuit, each)) for each in priced}
    return CircuitCosts(circuit=circuit, convention=convention, formats=formats, programs=programs)


def unread_keys(circuit: StateCircuit, formats: Mapping[str, Dtype]) -> list[str]:
    """Return the format keys that were given although no state reads them."""
    read = {state.format.key for state in circuit.states}
    return [key for key in formats if key not in read]


def _groups(circuit: StateCircuit, priced: PricedProgram) -> tuple[StateBytes, ...]:
    members: dict[tuple[str, str], list[int]] = {}
    for node in priced.nodes:
        state = circuit.states[node.state]
        members.setdefault((state.group, state.kind.value), []).append(node.bytes)
    return tuple(
        StateBytes(group=group, kind=kind, states=len(sizes), bytes=u64_sum((group, size) for size in sizes))
        for (group, kind), sizes in members.items()
    )
