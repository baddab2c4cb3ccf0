"""The state plan: the memory that an engine holds for the states of a circuit."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from proofstream_state_cost.states.errors import BadInputs
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Lifetime,
    Section,
    StateCircuit,
    StateKind,
    VerifyRule,
)
from proofstream_state_cost.states.u64 import is_u64, u64_product, u64_sum


class Holding(enum.Enum):
    """The purpose for which an engine holds units of a state."""

    LIVE = "live"
    STEPS = "steps"
    CHECKPOINT = "checkpoint"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeVerify:
    """The intermediates that a speculative verify keeps.

    Attributes:
        h_steps: Intermediates of an `h_steps` state, for each verify slot; the padding slot is the last.
        conv_steps: Intermediates of a `conv_steps` state in each verify slot.
    """

    h_steps: tuple[int, ...]
    conv_steps: int

    @classmethod
    def of_width(cls, width: int, *, slots: int) -> SpeculativeVerify:
        """Make a verify of `width` rows in each of `slots` slots.

        It keeps one `h` less than it has rows, because the last row's is not needed.

        Raises:
            BadInputs: The width is 0, or a number is not an unsigned 64-bit integer.
        """
        if not is_u64(width) or width == 0 or not is_u64(slots):
            raise BadInputs(
                f"a verify of {width} rows in {slots} slots is impossible: rows are 1 or more, slots 0 or more, "
                "neither above 2^64 - 1"
            )
        return cls(h_steps=(width - 1,) * slots, conv_steps=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """A paged KV cache: `blocks` of `block_size` tokens each."""

    blocks: int
    block_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """The setup of an engine.

    Attributes:
        formats: The dtype of each format key; a plan needs those of all states, also of states that it leaves out.
        slots: Sequences at once, including the padding sequence.
        verify: The speculative verify, if the engine runs one.
        kv: The model's KV cache; without it the plan leaves out the KV sides.
        draft_kv: The drafting head's KV cache, likewise.

    Raises:
        BadInputs: A number is not an unsigned 64-bit integer.
    """

    formats: Mapping[str, Dtype] = field(default_factory=dict[str, Dtype])
    slots: int = 1
    verify: SpeculativeVerify | None = None
    kv: KvCache | None = None
    draft_kv: KvCache | None = None

    def __post_init__(self) -> None:
        for name, number in self._numbers():
            if not is_u64(number):
                raise BadInputs(f"state plan: {name} is {number}, which is not between 0 and 2^64 - 1")

    def _numbers(self) -> Iterator[tuple[str, int]]:
        yield "slots", self.slots
        if self.verify is not None:
            yield "conv_steps", self.verify.conv_steps
            for steps in self.verify.h_steps:
                yield "h_steps", steps
        for name, cache in (("kv", self.kv), ("draft_kv", self.draft_kv)):
            if cache is not None:
                yield f"{name} blocks", cache.blocks
                yield f"{name} block_size", cache.block_size


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerm:
    """The units of one state that are held for one purpose.

    Attributes:
        state: The index of the state in its circuit.
        state_id: Its id.
        holding: The purpose.
        units: Number of units.
        bytes: Bytes of all units.
        lifetime: How long the units live.
    """

    state: int
    state_id: str
    holding: Holding
    units: int
    bytes: int
    lifetime: Lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlan:
    """All terms, ordered by state and then by holding, and their sum in bytes."""

    terms: tuple[PlanTerm, ...]
    bytes: int


def make_plan(circuit: StateCircuit, inputs: PlanInputs) -> StatePlan:
    """Size the memory that an engine holds. Snapshots, stashes and tables live in slots of their own and are left out.

    Raises:
        MissingFormat: A key has no dtype, even if the plan leaves its state out; the error names the first such state.
        BadInputs: The engine runs a verify, and a recurrent state declares no rule for its intermediates.
        Overflow: A state's size or the sum is above 2^64 - 1; the error names the state.
    """
    verify = None if inputs.verify is None else _VerifyUnits.of(inputs.verify)
    terms = tuple(term for index, state in enumerate(circuit.states) for term in _terms(index, state, inputs, verify))
    return StatePlan(terms=terms, bytes=u64_sum((f"the plan at state {term.state_id}", term.bytes) for term in terms))


@dataclass(frozen=True, slots=True)
class _VerifyUnits:
    """A verify's units. They are the same for all states, so they are summed once: states and slots may both be many.

    Attributes:
        slots: The number of verify slots.
        h_steps: Intermediates of an `h_steps` state over all slots; may exceed 2^64 - 1.
        conv_steps: Intermediates of a `conv_steps` state in each slot.
    """

    slots: int
    h_steps: int
    conv_steps: int

    @classmethod
    def of(cls, verify: SpeculativeVerify) -> _VerifyUnits:
        return cls(len(verify.h_steps), sum(verify.h_steps), verify.conv_steps)


def _terms(index: int, state: CircuitState, inputs: PlanInputs, verify: _VerifyUnits | None) -> Iterator[PlanTerm]:
    unit_bytes = state.unit_bytes(inputs.formats)
    for holding, units in _holdings(state, inputs, verify):
        yield PlanTerm(
            state=index,
            state_id=state.id,
            holding=holding,
            units=units,
            bytes=u64_product(unit_bytes, units, subject=f"state {state.id}"),
            lifetime=Lifetime.VERIFY if holding in (Holding.STEPS, Holding.CHECKPOINT) else state.lifetime,
        )


def _holdings(state: CircuitState, inputs: PlanInputs, verify: _VerifyUnits | None) -> Iterator[tuple[Holding, int]]:
    """Yield the purposes for which a state is held, and the units for each."""
    if state.kind is StateKind.RECURRENT:
        yield Holding.LIVE, inputs.slots
        if verify is not None:
            yield Holding.STEPS, _steps(state, verify)
            yield Holding.CHECKPOINT, verify.slots
    elif state.kind is StateKind.PAGED_KV:
        cache = inputs.kv if state.section is Section.MAIN else inputs.draft_kv
        if cache is not None:
            yield Holding.BLOCKS, u64_product(cache.blocks, cache.block_size, subject=f"state {state.id}")


def _steps(state: CircuitState, verify: _VerifyUnits) -> int:
    """Return the units that hold a verify's intermediates of a recurrent state."""
    subject = f"state {state.id}"
    match state.verify:
        case VerifyRule.H_STEPS:
            return u64_sum([(subject, verify.h_steps)])
        case VerifyRule.CONV_STEPS:
            return u64_product(verify.conv_steps, verify.slots, subject=subject)
        case None:
            raise BadInputs(f"state plan: recurrent {subject} declares no verify intermediates")
