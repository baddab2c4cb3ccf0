"""State circuits: the states that a model keeps between tokens, declared one by one."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proofstream import safe_text
from proofstream_state_cost.states.errors import BadState, MissingFormat
from proofstream_state_cost.states.u64 import is_u64, u64_product


class Dtype(enum.Enum):
    """The type of one stored element. The scales of fp8 are kept elsewhere and are not counted."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _SIZES[self]


_SIZES: Final = {Dtype.F32: 4, Dtype.F16: 2, Dtype.BF16: 2, Dtype.FP8: 1}


class Lifetime(enum.Enum):
    """How long a unit of state lives."""

    MODEL = "model"
    SEQUENCE = "sequence"
    VERIFY = "verify"
    SNAPSHOT = "snapshot"


class Section(enum.Enum):
    """The part of the circuit that a state belongs to: the model itself, or its own drafting head."""

    MAIN = "main"
    DRAFT = "draft"


class VerifyRule(enum.Enum):
    """The number of intermediates of a recurrent state that a speculative verify keeps; see `SpeculativeVerify`."""

    H_STEPS = "h_steps"
    CONV_STEPS = "conv_steps"


class StateKind(enum.Enum):
    """The kind of a state. A unit is one sequence's state for `recurrent`, one side of one token for `paged_kv`."""

    RECURRENT = "recurrent"
    PAGED_KV = "paged_kv"
    PREFIX_SNAPSHOT = "prefix_snapshot"
    RING_SNAPSHOT = "ring_snapshot"
    CARRY_STASH = "carry_stash"
    CARRY_TABLE = "carry_table"
    VERIFY_TABLE = "verify_table"
    ACCEPT_STASH = "accept_stash"
    HIDDEN_CAPTURE = "hidden_capture"
    PROMPT_LOOKUP_INDEX = "prompt_lookup_index"
    TOKEN_TREE_MASK = "token_tree_mask"  # noqa: S105 - no secret
    DRAFT_TOKENS = "draft_tokens"

    @property
    def lifetime(self) -> Lifetime:
        """The only lifetime that a state of this kind can have."""
        return _LIFETIMES[self]

    @property
    def is_snapshot(self) -> bool:
        """Whether a state of this kind may be a copy `of` another state."""
        return self in (StateKind.PREFIX_SNAPSHOT, StateKind.RING_SNAPSHOT)


_LIFETIMES: Final = {
    StateKind.RECURRENT: Lifetime.SEQUENCE,
    StateKind.PAGED_KV: Lifetime.MODEL,
    StateKind.PREFIX_SNAPSHOT: Lifetime.SNAPSHOT,
    StateKind.RING_SNAPSHOT: Lifetime.SNAPSHOT,
    StateKind.CARRY_STASH: Lifetime.VERIFY,
    StateKind.CARRY_TABLE: Lifetime.MODEL,
    StateKind.VERIFY_TABLE: Lifetime.MODEL,
    StateKind.ACCEPT_STASH: Lifetime.VERIFY,
    StateKind.HIDDEN_CAPTURE: Lifetime.SEQUENCE,
    StateKind.PROMPT_LOOKUP_INDEX: Lifetime.SEQUENCE,
    StateKind.TOKEN_TREE_MASK: Lifetime.VERIFY,
    StateKind.DRAFT_TOKENS: Lifetime.VERIFY,
}

_KEY: Final = re.compile(r"\{([^\s{}=]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFormat:
    """The stored type of a state's elements: a fixed dtype, or a key whose dtype is chosen when the model runs.

    Attributes:
        dtype: The dtype, or None.
        key: The key, where there is no dtype.
    """

    dtype: Dtype | None = None
    key: str | None = None

    def __str__(self) -> str:
        return self.dtype.value if self.dtype is not None else f"{{{self.key}}}"


def parse_format(word: str) -> StateFormat:
    """Read a format: `f32`, `f16`, `bf16`, `fp8` or `{key}`.

    Raises:
        BadState: The word is neither a dtype nor a key.
    """
    match = _KEY.fullmatch(word)
    if match is not None and word.isprintable():
        return StateFormat(key=match[1])
    try:
        return StateFormat(dtype=Dtype(word))
    except ValueError:
        known = ", ".join(dtype.value for dtype in Dtype)
        raise BadState(f"format {word!r} is neither a dtype nor a {{key}}; the dtypes are {known}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitState:
    """One declared state.

    Attributes:
        id: Unique in its circuit: `l4.mamba.conv`.
        local: Its name within its block: `conv`.
        block: The block that declares it: `mamba`.
        layer: The number of the block's layer; None outside the layers.
        section: The model itself, or its drafting head.
        kind: Its kind.
        format: The stored type of its elements.
        elements: Elements of one unit.
        verify: The intermediates that a speculative verify keeps; only for recurrent states.
        of: The id of the state that it copies; only for snapshots.
        shape: The elements as factors, for the reader: `64 x 64 x 128`.

    Raises:
        BadState: The fields contradict one another.
    """

    id: str
    local: str
    block: str
    layer: int | None
    section: Section
    kind: StateKind
    format: StateFormat
    elements: int
    verify: VerifyRule | None = None
    of: str | None = None
    shape: str | None = None

    def __post_init__(self) -> None:
        reason = _contradiction(self)
        if reason is not None:
            raise BadState(f"state {safe_text(self.id)}: {reason}")

    @property
    def lifetime(self) -> Lifetime:
        """How long a unit lives. The kind alone decides."""
        return self.kind.lifetime

    @property
    def group(self) -> str:
        """Block and local name, which the states of all layers share: `mamba.conv`."""
        return f"{self.block}.{self.local}" if self.block else self.local

    def unit_bytes(self, formats: Mapping[str, Dtype]) -> int:
        """Return the bytes of one unit, with these dtypes for the format keys.

        Raises:
            MissingFormat: No dtype is given for its key.
            Overflow: The bytes exceed 2^64 - 1.
        """
        return u64_product(self.elements, self.dtype(formats).size, subject=f"state {self.id}")

    def dtype(self, formats: Mapping[str, Dtype]) -> Dtype:
        """Return the dtype of its elements.

        Raises:
            MissingFormat: No dtype is given for its key.
        """
        if self.format.dtype is not None:
            return self.format.dtype
        key = self.format.key or ""
        dtype = formats.get(key)
        if dtype is None:
            raise MissingFormat(self.id, key)
        return dtype


def _contradiction(state: CircuitState) -> str | None:
    """Return why a state contradicts itself, or None."""
    kind = state.kind.value
    if not state.id or not all(map(str.isprintable, (state.id, state.local, state.block))):
        return "ids and names must be printable text"
    if not is_u64(state.elements):
        return f"{state.elements} elements are not between 0 and 2^64 - 1"
    if state.layer is not None and not is_u64(state.layer):
        return f"layer {state.layer} is not between 0 and 2^64 - 1"
    if state.verify is not None and state.kind is not StateKind.RECURRENT:
        return f"a {kind} state keeps no verify intermediates, so verify = {state.verify.value!r} has no meaning"
    if state.of is not None and not state.kind.is_snapshot:
        return f"a {kind} state cannot copy another state, so of = {state.of!r} has no meaning"
    if state.of is None and state.kind is StateKind.RING_SNAPSHOT:
        return "a ring_snapshot is a copy of another state: of must name it"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCircuit:
    """The states of a model, in the order in which programs and plans refer to them.

    Attributes:
        name: The model's name.
        states: All states, including drafting head and KV. A state's index here is its index everywhere.
        assumptions: The assumptions behind these states, one sentence each, for the reader of the numbers.

    Raises:
        BadState: Two states have the same id, or a snapshot does not fit the state that it copies.
    """

    name: str
    states: tuple[CircuitState, ...]
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        by_id: dict[str, CircuitState] = {}
        for state in self.states:
            if state.id in by_id:
                raise BadState(f"state {state.id}: two states have this id")
            by_id[state.id] = state
        for state in self.states:
            if state.of is not None:
                _check_copy(state, by_id.get(state.of))
        _check_one_copy_each(self.states)

    @property
    def recurrent_layers(self) -> int:
        """The number of layers that keep recurrent state, without the drafting head."""
        return len(self.recurrent_layer_ids)

    @property
    def recurrent_layer_ids(self) -> tuple[int, ...]:
        """The layers that keep recurrent state, in ascending order."""
        layers = {state.layer for state in self.recurrent_states if state.layer is not None}
        return tuple(sorted(layers))

    @property
    def recurrent_states(self) -> tuple[CircuitState, ...]:
        """The states that programs move: the recurrent ones, without the drafting head's."""
        return tuple(state for state in self.states if is_moved(state))


def is_moved(state: CircuitState) -> bool:
    """Return whether state programs move this state: it is recurrent, and not the drafting head's."""
    return state.kind is StateKind.RECURRENT and state.section is Section.MAIN


def _check_copy(state: CircuitState, source: CircuitState | None) -> None:
    """Raise if a snapshot does not fit the state that it copies."""
    if source is None:
        raise BadState(f"state {state.id}: it is a copy of {safe_text(state.of or '')}, which does not exist")
    if source.kind is not StateKind.RECURRENT:
        raise BadState(f"state {state.id}: it is a copy of {source.id}, which is a {source.kind.value}, not recurrent")
    if (source.section, source.layer) != (state.section, state.layer):
        raise BadState(f"state {state.id}: it is a copy of {source.id}, which is in another layer or section")
    if source.elements != state.elements:
        sizes = f"{state.elements} and {source.elements} elements"
        raise BadState(f"state {state.id}: it is a copy of {source.id}, and they have {sizes}")


def _check_one_copy_each(states: tuple[CircuitState, ...]) -> None:
    """Raise if a state has two snapshots of one kind: a program would not know which one to save to."""
    copies: dict[tuple[str, StateKind], str] = {}
    for state in states:
        if state.of is None:
            continue
        other = copies.setdefault((state.of, state.kind), state.id)
        if other != state.id:
            raise BadState(f"state {state.id}: {other} already is a {state.kind.value} of {state.of}")
