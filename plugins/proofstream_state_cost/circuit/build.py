"""Makes states from a circuit file's tables: one for each occurrence of a block that declares it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from proofstream_state_cost.circuit.file_tables import BlockTable, CircuitTable, StateTable
from proofstream_state_cost.circuit.shapes import count_elements, measure_axes, parse_shape
from proofstream_state_cost.circuit.toml_lines import KeyPath
from proofstream_state_cost.states.declared_words import check_lifetime, parse_kind, parse_verify
from proofstream_state_cost.states.errors import BadState, StateError
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
    parse_format,
)

MOST_LAYERS = 10_000
"""No model has more layers. A larger number is a mistake that would only cost time and memory."""

MOST_STATES = 100_000
"""No model has more states; likewise."""


class KeyPathError(StateError):
    """An error at one key of a circuit file.

    Attributes:
        path: The key's path.
    """

    def __init__(self, path: KeyPath, reason: str) -> None:
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """A state of a block, wherever the block occurs."""

    local: str
    kind: StateKind
    format: StateFormat
    elements: int
    shape: str
    verify: VerifyRule | None
    of: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Occurrence:
    """One occurrence of a block in the model."""

    block: str
    prefix: str
    layer: int | None = None
    section: Section = Section.MAIN


def build_circuit(table: CircuitTable) -> StateCircuit:
    """Instantiate the blocks: prologue, layers, epilogue, drafting head.

    Raises:
        KeyPathError: The tables do not fit together, or a size is above 2^64 - 1; the error says where.
        BadState: Two states would have the same id, or a state would have two snapshots of one kind.
    """
    blocks = {name: _declared(name, block, table.dims) for name, block in table.block.items()}
    states: list[CircuitState] = []
    used: set[str] = set()
    for occurrence in _occurrences(table):
        used.add(occurrence.block)
        states += (_state(declared, occurrence) for declared in blocks[occurrence.block])
        if len(states) > MOST_STATES:
            raise KeyPathError(("layers",), f"there are more than {MOST_STATES} states")
    unused = [f"block {name} is declared and stands nowhere" for name in blocks if blocks[name] and name not in used]
    return StateCircuit(name=table.name, states=tuple(states), assumptions=(*table.notes, *unused))


def _declared(name: str, block: BlockTable, dims: dict[str, int]) -> tuple[_Declared, ...]:
    by_id: dict[str, StateTable] = {}
    for index, state in enumerate(block.state):
        if state.id in by_id:
            raise KeyPathError(("block", name, "state", index, "id"), "the block has two states of that id")
        by_id[state.id] = state
    return tuple(
        _declare(state, by_id, dims, ("block", name, "state", index)) for index, state in enumerate(block.state)
    )


def _declare(state: StateTable, siblings: dict[str, StateTable], dims: dict[str, int], path: KeyPath) -> _Declared:
    with _at(*path, "kind"):
        kind = parse_kind(state.kind)
    with _at(*path, "format"):
        stored_as = parse_format(state.format)
    with _at(*path, "verify"):
        verify = _verify(kind, state.verify)
    with _at(*path, "lifetime"):
        check_lifetime(kind, state.lifetime)
    with _at(*path, "shape" if state.of is None else "of"):
        shape = _shape(kind, state, siblings)
    with _at(*path, "shape"):
        lengths = measure_axes(parse_shape(shape), dims)
        count = count_elements(lengths, text=shape)
    return _Declared(
        local=state.id,
        kind=kind,
        format=stored_as,
        elements=count,
        shape=" x ".join(map(str, lengths)),
        verify=verify,
        of=state.of,
    )


@contextmanager
def _at(*path: str | int) -> Generator[None]:
    """Add the path to errors raised inside."""
    try:
        yield
    except StateError as error:
        raise KeyPathError(path, str(error)) from error


def _verify(kind: StateKind, word: str | None) -> VerifyRule | None:
    rule = parse_verify(word)
    if kind is StateKind.RECURRENT and rule is None:
        raise BadState("a recurrent state must say which intermediates a verify keeps: verify = h_steps or conv_steps")
    if kind is not StateKind.RECURRENT and rule is not None:
        raise BadState(f"a {kind.value} state keeps no verify intermediates, so verify has no meaning")
    return rule


def _shape(kind: StateKind, state: StateTable, siblings: dict[str, StateTable]) -> str:
    """Return the shape expression of a state: its own, or the shape of the state that it copies."""
    if state.of is not None:
        return _shape_of_original(kind, state, siblings.get(state.of))
    if kind is StateKind.RING_SNAPSHOT:
        raise BadState("a ring_snapshot has no shape of its own: of must name the state that it copies")
    if state.shape is None:
        raise BadState("it has no shape")
    return state.shape


def _shape_of_original(kind: StateKind, copy: StateTable, original: StateTable | None) -> str:
    if copy.shape is not None:
        raise BadState("it has both shape and of, but a copy has the shape of its original")
    if not kind.is_snapshot:
        raise BadState(f"a {kind.value} state cannot copy another state, so of has no meaning")
    if original is None:
        raise BadState(f"the block has no state {copy.of!r} to copy")
    if original.of is not None:
        raise BadState(f"{copy.of} is a copy itself")
    if original.shape is None:
        raise BadState(f"{copy.of} has no shape")
    return original.shape


def _occurrences(table: CircuitTable) -> Iterator[_Occurrence]:
    """Yield the blocks of the model in the order in which their states are counted."""
    _check_blocks(table)
    yield from (_Occurrence(block=block, prefix=block) for block in table.prologue)
    for layer, kind in enumerate(_layers(table)):
        yield from (
            _Occurrence(block=block, prefix=f"l{layer}.{block}", layer=layer) for block in table.layer_kinds[kind]
        )
    yield from (_Occurrence(block=block, prefix=block) for block in table.epilogue)
    for entry in table.draft:
        block = _block_of(entry)
        yield _Occurrence(block=block, prefix=f"draft.{block}", section=Section.DRAFT)


def _layers(table: CircuitTable) -> Iterator[str]:
    """Yield the kind of each layer."""
    if sum(stretch.count * len(stretch.kind) for stretch in table.layers) > MOST_LAYERS:
        raise KeyPathError(("layers",), f"there are more than {MOST_LAYERS} layers")
    for index, stretch in enumerate(table.layers):
        for kind in stretch.kind:
            if kind not in table.layer_kinds:
                raise KeyPathError(("layers", index), f"unknown layer kind {kind!r}; layer_kinds does not declare it")
        yield from stretch.kind * stretch.count


def _check_blocks(table: CircuitTable) -> None:
    """Raise if an undeclared block is named, even by a layer kind that no layer has."""
    lists: dict[KeyPath, list[str]] = {("layer_kinds", kind): blocks for kind, blocks in table.layer_kinds.items()}
    lists |= {
        ("prologue",): table.prologue,
        ("epilogue",): table.epilogue,
        ("draft",): list(map(_block_of, table.draft)),
    }
    for path, blocks in lists.items():
        for block in blocks:
            if block not in table.block:
                raise KeyPathError(
                    path, f"unknown block {block!r}; a block without states is declared as [block.{block}]"
                )


def _block_of(entry: str) -> str:
    """Return the block of an entry `block@module`. The module says where its weights are; ids leave it out."""
    return entry.partition("@")[0]


def _state(declared: _Declared, at: _Occurrence) -> CircuitState:
    return CircuitState(
        id=f"{at.prefix}.{declared.local}",
        local=declared.local,
        block=at.block,
        layer=at.layer,
        section=at.section,
        kind=declared.kind,
        format=declared.format,
        elements=declared.elements,
        verify=declared.verify,
        of=None if declared.of is None else f"{at.prefix}.{declared.of}",
        shape=declared.shape,
    )
