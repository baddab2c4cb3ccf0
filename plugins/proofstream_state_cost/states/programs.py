"""State programs: what moves recurrent state around a speculative verify, and into and out of snapshots, in bytes."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from proofstream_state_cost.states.u64 import product, total
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit, StateKind, is_moved


class Place(enum.Enum):
    """Where one sequence's unit of a recurrent state is."""

    LIVE = "live"
    CHECKPOINT = "checkpoint"
    ACCEPTED_STEP = "accepted_step"
    RING = "ring"
    PREFIX = "prefix"


class Op(enum.Enum):
    """What a node does: copy bytes as they are, write zeros, or write each element in the other place's dtype."""

    COPY = "copy"
    ZERO = "zero"
    CONVERT = "convert"


class Program(enum.Enum):
    """The state programs, in their order; the value is the name in node ids and events.

    `verify_checkpoint` runs before a verify, `verify_rollback` after one that accepted nothing, `commit_accepted` after
    one that accepted a prefix, and `slot_zero` when a slot is given to a new sequence. The other four move snapshots.
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
    def op(self) -> Op:
        """What each of its nodes does."""
        return _MOVES[self].op

    @property
    def from_(self) -> Place | None:
        """Where each node reads; None if it only writes zeros."""
        return _MOVES[self].from_

    @property
    def to(self) -> Place:
        """Where each node writes."""
        return _MOVES[self].to

    @property
    def snapshot(self) -> StateKind | None:
        """The kind of snapshot without which a state has no node in it; None if every state has one."""
        return _SNAPSHOTS.get(self)


@dataclass(frozen=True, slots=True)
class _Move:
    """What one node of a program does."""

    op: Op
    from_: Place | None
    to: Place


_MOVES: Final = {
    Program.VERIFY_CHECKPOINT: _Move(Op.COPY, Place.LIVE, Place.CHECKPOINT),
    Program.VERIFY_ROLLBACK: _Move(Op.COPY, Place.CHECKPOINT, Place.LIVE),
    Program.COMMIT_ACCEPTED: _Move(Op.COPY, Place.ACCEPTED_STEP, Place.LIVE),
    Program.SLOT_ZERO: _Move(Op.ZERO, None, Place.LIVE),
    Program.RING_SAVE: _Move(Op.COPY, Place.LIVE, Place.RING),
    Program.RING_RESTORE: _Move(Op.COPY, Place.RING, Place.LIVE),
    Program.PREFIX_SAVE: _Move(Op.CONVERT, Place.LIVE, Place.PREFIX),
    Program.PREFIX_RESTORE: _Move(Op.CONVERT, Place.PREFIX, Place.LIVE),
}

_SNAPSHOTS: Final = {
    Program.RING_SAVE: StateKind.RING_SNAPSHOT,
    Program.RING_RESTORE: StateKind.RING_SNAPSHOT,
    Program.PREFIX_SAVE: StateKind.PREFIX_SNAPSHOT,
    Program.PREFIX_RESTORE: StateKind.PREFIX_SNAPSHOT,
}

VERIFY_PROGRAMS: Final = (
    Program.VERIFY_CHECKPOINT,
    Program.VERIFY_ROLLBACK,
    Program.COMMIT_ACCEPTED,
    Program.SLOT_ZERO,
)
"""The programs that need no snapshots: they have a node for each recurrent state, and all cost the same."""

ALL: Final = tuple(Program)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step of a program.

    Attributes:
        id: Program and state: `verify_rollback.l4.mamba.conv`.
        state: The index of the state in its circuit.
        op: What it does.
        from_: Where it reads; None if it only writes zeros.
        to: Where it writes.
        bytes: What it writes for one sequence.
        cache: The index of the snapshot that it reads or writes; None if it touches none.
    """

    id: str
    state: int
    op: Op
    from_: Place | None
    to: Place
    bytes: int
    cache: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedProgram:
    """A program of one circuit and what it writes for one sequence.

    Attributes:
        program: Which one.
        nodes: Its steps, in the order of the states.
        bytes: Their sum.
    """

    program: Program
    nodes: tuple[Node, ...]
    bytes: int

    @property
    def op(self) -> Op:
        """What each of its nodes does."""
        return self.program.op


def price(
    circuit: StateCircuit, formats: Mapping[str, Dtype], programs: Sequence[Program] = ALL
) -> tuple[PricedProgram, ...]:
    """Size programs from the states' declarations.

    A state without the snapshot that a program moves has no node in it; so a program may be empty, and cost nothing.

    Args:
        circuit: Whose states.
        formats: The dtype of each format key; only those of states that have a node are needed.
        programs: Which ones, in which order.

    Raises:
        MissingFormat: There is no dtype for a key; it names the first such state.
        Overflow: A node or a sum is above 2^64 - 1; it names the node.
    """
    return tuple(_price(circuit, formats, program) for program in programs)


def _price(circuit: StateCircuit, formats: Mapping[str, Dtype], program: Program) -> PricedProgram:
    nodes = tuple(_nodes(circuit, formats, program))
    return PricedProgram(program=program, nodes=nodes, bytes=total((f"node {node.id}", node.bytes) for node in nodes))


def _nodes(circuit: StateCircuit, formats: Mapping[str, Dtype], program: Program) -> Iterator[Node]:
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
        written = product(state.elements, size, subject=f"node {node_id}")
        yield Node(id=node_id, state=index, op=op, from_=from_, to=to, bytes=written, cache=cache)


def _element_size(program: Program, live: Dtype, snapshot: Dtype) -> int:
    """Bytes written for each element that goes to a snapshot or comes from one.

    A copy moves the live state's bytes as they are, as far as both places have room; a conversion writes elements of
    the dtype that its destination has.
    """
    if program.op is Op.COPY:
        return min(live.size, snapshot.size)
    return live.size if program.to is Place.LIVE else snapshot.size
