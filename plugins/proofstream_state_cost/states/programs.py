"""State programs: they move recurrent state around a speculative verify, and into and out of snapshots."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit, StateKind, is_moved
from proofstream_state_cost.states.u64 import u64_product, u64_sum


class UnitPlace(enum.Enum):
    """The place of one sequence's unit of a recurrent state."""

    LIVE = "live"
    CHECKPOINT = "checkpoint"
    ACCEPTED_STEP = "accepted_step"
    RING = "ring"
    PREFIX = "prefix"


class NodeOp(enum.Enum):
    """The operation of a node: copy bytes unchanged, write zeros, or write each element in the other place's dtype."""

    COPY = "copy"
    ZERO = "zero"
    CONVERT = "convert"


class StateProgram(enum.Enum):
    """The state programs, in their order. The value is the name in node ids and events.

    `verify_checkpoint` runs before a verify, `verify_rollback` after a verify that accepted nothing, `commit_accepted`
    after a verify that accepted a prefix, and `slot_zero` when a new sequence gets a slot. The other four move
    snapshots.
    """

    VERIFY_CHECKPOINT = "verify_checkpoint"
    VERIFY_ROLLBACK = "verify_rollback"
    COMMIT_ACCEPTED = "commit_accepted"
    SLOT_ZERO = "slot_zero"
    RING_SAVE = "ring_save"
    RING_RESTORE = "ring_restore"
    PREFIX_SAVE = "prefix_save"
    PREFIX_RESTORE = "prefix_restore"

    @property
    def op(self) -> NodeOp:
        """The operation of each node."""
        return _MOVES[self].op

    @property
    def from_(self) -> UnitPlace | None:
        """The place that each node reads; None if it only writes zeros."""
        return _MOVES[self].from_

    @property
    def to(self) -> UnitPlace:
        """The place that each node writes."""
        return _MOVES[self].to

    @property
    def snapshot(self) -> StateKind | None:
        """The kind of snapshot that a state needs to have a node in this program; None if every state has a node."""
        return _SNAPSHOTS.get(self)


@dataclass(frozen=True, slots=True)
class _Move:
    """The operation and the places of a program's nodes."""

    op: NodeOp
    from_: UnitPlace | None
    to: UnitPlace


_MOVES: Final = {
    StateProgram.VERIFY_CHECKPOINT: _Move(NodeOp.COPY, UnitPlace.LIVE, UnitPlace.CHECKPOINT),
    StateProgram.VERIFY_ROLLBACK: _Move(NodeOp.COPY, UnitPlace.CHECKPOINT, UnitPlace.LIVE),
    StateProgram.COMMIT_ACCEPTED: _Move(NodeOp.COPY, UnitPlace.ACCEPTED_STEP, UnitPlace.LIVE),
    StateProgram.SLOT_ZERO: _Move(NodeOp.ZERO, None, UnitPlace.LIVE),
    StateProgram.RING_SAVE: _Move(NodeOp.COPY, UnitPlace.LIVE, UnitPlace.RING),
    StateProgram.RING_RESTORE: _Move(NodeOp.COPY, UnitPlace.RING, UnitPlace.LIVE),
    StateProgram.PREFIX_SAVE: _Move(NodeOp.CONVERT, UnitPlace.LIVE, UnitPlace.PREFIX),
    StateProgram.PREFIX_RESTORE: _Move(NodeOp.CONVERT, UnitPlace.PREFIX, UnitPlace.LIVE),
}

_SNAPSHOTS: Final = {
    StateProgram.RING_SAVE: StateKind.RING_SNAPSHOT,
    StateProgram.RING_RESTORE: StateKind.RING_SNAPSHOT,
    StateProgram.PREFIX_SAVE: StateKind.PREFIX_SNAPSHOT,
    StateProgram.PREFIX_RESTORE: StateKind.PREFIX_SNAPSHOT,
}

VERIFY_PROGRAMS: Final = (
    StateProgram.VERIFY_CHECKPOINT,
    StateProgram.VERIFY_ROLLBACK,
    StateProgram.COMMIT_ACCEPTED,
    StateProgram.SLOT_ZERO,
)
"""The programs that need no snapshots. They have a node for each recurrent state, so they all cost the same."""

ALL_PROGRAMS: Final = tuple(StateProgram)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramNode:
    """One step of a program.

    Attributes:
        id: Program and state: `verify_rollback.l4.mamba.conv`.
        state: The index of the state in its circuit.
        op: The operation.
        from_: The place that it reads; None if it only writes zeros.
        to: The place that it writes.
        bytes: Bytes written for one sequence.
        cache: The index of the snapshot that it reads or writes, if any.
    """

    id: str
    state: int
    op: NodeOp
    from_: UnitPlace | None
    to: UnitPlace
    bytes: int
    cache: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedProgram:
    """A program of one circuit and the bytes that it writes for one sequence.

    Attributes:
        program: The program.
        nodes: Its steps, in the order of the states.
        bytes: Their sum.
    """

    program: StateProgram
    nodes: tuple[ProgramNode, ...]
    bytes: int

    @property
    def op(self) -> NodeOp:
        """The operation of each node."""
        return self.program.op


def price_programs(
    circuit: StateCircuit, formats: Mapping[str, Dtype], programs: Sequence[StateProgram] = ALL_PROGRAMS
) -> tuple[PricedProgram, ...]:
    """Size programs from the states' declarations.

    A state without the snapshot that a program moves has no node in that program. So a program may be empty and cost
    nothing.

    Args:
        circuit: The states.
        formats: The dtype of each format key that a node reads; others are not needed.
        programs: The programs to size, in this order.

    Raises:
        MissingFormat: A key has no dtype; the error names the first such state.
        Overflow: A node or a sum is above 2^64 - 1; the error names the node.
    """
    return tuple(_price(circuit, formats, program) for program in programs)


def _price(circuit: StateCircuit, formats: Mapping[str, Dtype], program: StateProgram) -> PricedProgram:
    nodes = tuple(_nodes(circuit, formats, program))
    return PricedProgram(program=program, nodes=nodes, bytes=u64_sum((f"node {node.id}", node.bytes) for node in nodes))


def _nodes(circuit: StateCircuit, formats: Mapping[str, Dtype], program: StateProgram) -> Iterator[ProgramNode]:
    op, from_, to, snapshot = program.op, program.from_, program.to, program.snapshot
    caches = {state.of: index for index, state in enumerate(circuit.states) if state.kind is snapshot}
    if snapshot is not None and not caches:
        return
    for index, state in enumerate(circuit.states):
        cache = caches.get(state.id)
        if not is_moved(state) or (snapshot is not None and cache is None):
            continue
        node_id = f"{program.value}.{state.id}"
        live = state.dtype(formats)
        size = live.size if cache is None else _element_size(program, live, circuit.states[cache].dtype(formats))
        written = u64_product(state.elements, size, subject=f"node {node_id}")
        yield ProgramNode(id=node_id, state=index, op=op, from_=from_, to=to, bytes=written, cache=cache)


def _element_size(program: StateProgram, live: Dtype, snapshot: Dtype) -> int:
    """Return the bytes written for each element that goes to or comes from a snapshot.

    A copy moves the live state's bytes unchanged, as far as both places have room. A conversion writes elements in the
    dtype of its destination.
    """
    if program.op is NodeOp.COPY:
        return min(live.size, snapshot.size)
    return live.size if program.to is UnitPlace.LIVE else snapshot.size
