"""The state plan: how much memory an engine holds for the states of a circuit."""

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
    """What units of a state are held for."""

    LIVE = "live"
    STEPS = "steps"
    CHECKPOINT = "checkpoint"
    BLOCKS = "blocks"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeVerify:
    """A speculative verify.

    Attributes:
        h_steps: The intermediates of an `h_steps` state, for each verify slot; the padding one is the last.
        conv_steps: The intermediates of a `conv_steps` state in each verify slot.
    """

    h_steps: tuple[int, ...]
    conv_steps: int

    @classmethod
    def of_width(cls, width: int, *, slots: int) -> SpeculativeVerify:
        """A verify of `width` rows in each of `slots` slots: it keeps one `h` less, since the last row's is not needed.

        Raises:
            BadInputs: The width is 0, or a number is no unsigned 64-bit integer.
        """
        if not is_u64(width) or width == 0 or not is_u64(slots):
            raise BadInputs(f"a verify of {width} rows in {slots} slots is none")
        return cls(h_steps=(width - 1,) * slots, conv_steps=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """A paged KV cache: `blocks` of `block_size` tokens each."""

    blocks: int
    block_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What an engine is set up for.

    Attributes:
        formats: The dtype of each format key; a plan needs those of all states.
        slots: Sequences at once, the padding one included.
        verify: The speculative verify, if there is one.
        kv: The model's KV cache; without it, its KV sides are left out of the plan.
        draft_kv: The drafting head's KV cache, likewise.

    Raises:
        BadInputs: A number is no unsigned 64-bit integer.
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
    """What is held of one state for one reason.

    Attributes:
        state: The index of the state in its circuit.
        state_id: Its id.
        holding: The reason.
        units: How many units.
        bytes: Of all of them.
        lifetime: How long they live.
    """

    state: int
    state_id: str
    holding: Holding
    units: int
    bytes: int
    lifetime: Lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePlan:
    """All terms, in the order of the states and then of the holdings, and their sum in bytes."""

    terms: tuple[PlanTerm, ...]
    bytes: int


def make_plan(circuit: StateCircuit, inputs: PlanInputs) -> StatePlan:
    """Size what an engine holds. Snapshots, stashes and tables are held by others and are not in it.

    Raises:
        MissingFormat: There is no dtype for a key, be it that of a state which the plan leaves out; it names the first.
        BadInputs: There is a verify, and a recurrent state declares no rule for its intermediates.
        Overflow: A state's size or the sum is above 2^64 - 1; it names the state.
    """
    verify = None if inputs.verify is None else _VerifyUnits.of(inputs.verify)
    terms = tuple(term for index, state in enumerate(circuit.states) for term in _terms(index, state, inputs, verify))
    return StatePlan(terms=terms, bytes=u64_sum((f"the plan at state {term.state_id}", term.bytes) for term in terms))


@dataclass(frozen=True, slots=True)
class _VerifyUnits:
    """A verify's units, which are the same for all states: there may be many of both states and slots.

    Attributes:
        slots: The verify slots.
        h_steps: The intermediates of an `h_steps` state over all slots; it may be above 2^64 - 1.
        conv_steps: Those of a `conv_steps` state in each slot.
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
    """The reasons for which a state is held, and the units for each."""
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
    """Units that hold a verify's intermediates of a recurrent state."""
    subject = f"state {state.id}"
    match state.verify:
        case VerifyRule.H_STEPS:
            return u64_sum([(subject, verify.h_steps)])
        case VerifyRule.CONV_STEPS:
            return u64_product(verify.conv_steps, verify.slots, subject=subject)
        case None:
            raise BadInputs(f"state plan: recurrent {subject} declares no verify intermediates")
