"""Circuit files broken at random are refused in one line, or mean exactly what they say."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream import StateDeclaration
from proofstream_state_cost.circuit.file import parse_circuit
from proofstream_state_cost.circuit.shapes import measure_axes, parse_shape
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.states.errors import BadShape, BadState, CircuitFileError, Overflow, StateError
from proofstream_state_cost.states.plan import PlanInputs, make_plan
from proofstream_state_cost.states.programs import price_programs
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit
from proofstream_state_cost.states.u64 import U64_MAX

SMALL = (Path(__file__).parents[3] / "data" / "state" / "small.toml").read_text(encoding="utf-8")
TABLES: dict[str, Any] = tomllib.loads(SMALL)
FORMATS = {"ssm_h_storage": Dtype.F32, "kv_cache_dtype": Dtype.BF16}

SIGNS = [
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    '"',
    '"""',
    "'''",
    "=",
    ",",
    ".",
    "#",
    "\n",
    "\r\n",
    "\\",
    "\x00",
    "\x85",
    "\u2028",
]
NUMBERS = ["0", "-1", "1e9", "nan", "inf", "true", "18446744073709551615", "18446744073709551616", "9" * 30]
PARTS = [
    "x",
    " x ",
    "*",
    "+",
    "{}",
    "{a}",
    "of",
    "shape",
    "name",
    "kind",
    "recurrent",
    "ring_snapshot",
    "\ufeff",
    "\U0001f600",
]
LINES = ['of = "h"', 'verify = "h_steps"', "count = 3", "state = 1", "[dims]", "[block.mamba]", "[[block.mamba.state]]"]
FRAGMENTS = [*SIGNS, *NUMBERS, *PARTS, *LINES]


@st.composite
def mutated(draw: st.DrawFn, text: str) -> str:
    """Draw a text with some parts cut out, doubled or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 8, 40])))
        text = text[:start] + draw(st.sampled_from(["", text[start:end] * 2, *FRAGMENTS])) + text[end:]
    return text


WORDS = ["mamba", "attn", "h", "heads", "heads x 4", "f32", "conv_steps", "paged_kv", "snapshot", *FRAGMENTS]
KEYS = st.text(max_size=5) | st.sampled_from(["kind", "count"])
WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=9)
    | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=4,
)


def spots(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all values in a document."""
    inner: Any = value.items() if hasattr(value, "items") else enumerate(value) if hasattr(value, "append") else ()
    return [path, *(spot for key, child in inner for spot in spots(child, (*path, key)))]


SPOTS = spots(TABLES)[1:]


@st.composite
def altered(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the small circuit with some wild values, some keys removed and some added."""
    tables = copy.deepcopy(TABLES)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(SPOTS))
        table: Any = tables
        try:
            for key in path:
                table = table[key]
            match draw(st.sampled_from(["set", "drop", "add"])):
                case "set":
                    table[last] = draw(WILD)
                case "drop":
                    del table[last]
                case _:
                    table[draw(st.text(max_size=5))] = draw(WILD)
        except (KeyError, IndexError, TypeError):
            pass  # what was altered before has no such place any more
    return tables


def check(text: str, language: Literal["toml", "json"]) -> StateCircuit | None:
    """Read a text: one of our errors in one printable line, or a circuit whose numbers are whole and in range."""
    try:
        circuit = parse_circuit(text, format=language, name="fuzzed")
    except CircuitFileError as error:
        message = str(error)
        assert re.match(r"fuzzed(:\d+)?: .", message)
        assert "\n" not in message
        assert len(message) < 5000
        return None
    assert all(type(state.elements) is int and 0 <= state.elements <= U64_MAX for state in circuit.states)
    try:
        priced = price_programs(circuit, FORMATS)
        plan = make_plan(circuit, PlanInputs(formats=FORMATS))
    except StateError:
        return circuit
    assert all(
        type(number) is int and 0 <= number <= U64_MAX for number in [plan.bytes, *(each.bytes for each in priced)]
    )
    return circuit


@settings(max_examples=400)
@given(mutated(SMALL))
def test_broken_toml_is_refused_in_a_line_or_means_what_it_says(text: str) -> None:
    circuit = check(text, "toml")
    if circuit is not None:
        agree(circuit, tomllib.loads(text))


@settings(max_examples=300)
@given(mutated(json.dumps(TABLES, indent=1)))
def test_broken_json_is_refused_in_a_line_or_means_what_it_says(text: str) -> None:
    circuit = check(text, "json")
    if circuit is not None:
        agree(circuit, json.loads(text))


@settings(max_examples=400)
@given(altered())
def test_wild_values_are_refused_in_a_line_or_mean_what_they_say(tables: dict[str, Any]) -> None:
    circuit = check(json.dumps(tables), "json")
    if circuit is not None:
        agree(circuit, tables)


def agree(circuit: StateCircuit, tables: dict[str, Any]) -> None:
    """Compare with a second reading of the file, which assumes that the file is correct."""
    expected = [
        (f"{prefix}{block}.{state['id']}", state["kind"], state["format"], size_of(state, tables))
        for prefix, block in standing(tables)
        for state in tables["block"][block].get("state", [])
    ]
    found = [(state.id, state.kind.value, str(state.format), state.elements) for state in circuit.states]
    assert found == expected


def standing(tables: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the prefix of each block in ids, and the block's name."""
    yield from (("", block) for block in tables.get("prologue", []))
    for layer, kind in enumerate(layer_kinds(tables.get("layers", []))):
        yield from ((f"l{layer}.", block) for block in tables["layer_kinds"][kind])
    yield from (("", block) for block in tables.get("epilogue", []))
    yield from (("draft.", entry.split("@")[0]) for entry in tables.get("draft", []))


def size_of(state: dict[str, Any], tables: dict[str, Any]) -> int:
    return prod(arithmetic(axis, tables.get("dims", {})) for axis in shape_of(state, tables).split(" x "))


def shape_of(state: dict[str, Any], tables: dict[str, Any]) -> str:
    """Return the state's own shape, or the shape of the state that it copies, in the block that has both."""
    if state.get("of") is None:
        return str(state["shape"])
    siblings = next(block["state"] for block in tables["block"].values() if state in block.get("state", []))
    return str(next(each["shape"] for each in siblings if each["id"] == state["of"]))


def arithmetic(axis: str, dims: dict[str, int]) -> int:
    """Evaluate an axis with Python, which does not read numbers that begin with 0."""
    return int(eval(re.sub(r"\b0+(?=\d)", "", "".join(axis.split())), {"__builtins__": {}}, dims))


def layer_kinds(stretches: list[Any]) -> list[str]:
    kinds: list[str] = []
    for stretch in stretches:
        table: Any = {"kind": stretch} if isinstance(stretch, str) else stretch
        several: list[str] = [table["kind"]] if isinstance(table["kind"], str) else table["kind"]
        kinds += several * table.get("count", 1)
    return kinds


@given(st.text(max_size=200), st.sampled_from(["toml", "json"]))
def test_any_text_is_refused_in_a_line(text: str, language: Literal["toml", "json"]) -> None:
    circuit = check(text, language)
    assert circuit is None or circuit.states == ()


@given(st.text(alphabet="abx019 *+\t-", max_size=30))
def test_any_expression_is_refused_or_a_whole_number(text: str) -> None:
    dims = {"a": 3, "b": 2**40, "x": 5, "ab": 7}
    try:
        lengths = measure_axes(parse_shape(text), dims)
    except (BadShape, Overflow):
        return
    assert all(type(length) is int and 0 <= length <= U64_MAX for length in lengths)
    assert lengths == tuple(
        eval(re.sub(r"\b0+(?=\d)", "", "".join(axis.split())), {}, dims) for axis in text.split(" x ")
    )


@given(
    st.lists(
        st.builds(
            StateDeclaration,
            id=st.sampled_from(["l0.m.h", "l0.m.r", "h"]) | st.text(max_size=9),
            kind=st.sampled_from(["recurrent", "paged_kv", "ring_snapshot"]) | st.text(max_size=9),
            section=st.sampled_from(["main", "draft"]) | st.text(max_size=5),
            format=st.sampled_from(["f32", "{ssm_h_storage}", "{}"]) | st.text(max_size=9),
            elements=st.integers(0, U64_MAX),
            local=st.text(max_size=3),
            layer=st.integers(0, U64_MAX),
            of=st.sampled_from(["l0.m.h"]) | st.text(max_size=3),
        ),
        max_size=4,
    )
)
def test_any_declarations_are_refused_in_a_line_or_a_circuit(declarations: list[StateDeclaration]) -> None:
    message = ""
    try:
        circuit = circuit_from_declarations("fuzzed", declarations)
    except BadState as error:
        message = str(error)
    else:
        assert [state.elements for state in circuit.states] == [each.elements for each in declarations]
    assert "\n" not in message


NAMED = [spot for spot in SPOTS if isinstance(spot[-1], str)]


@pytest.mark.parametrize("spot", NAMED, ids=[".".join(map(str, spot)) for spot in NAMED])
def test_a_misspelt_key_is_never_ignored(spot: tuple[str | int, ...]) -> None:
    *path, key = spot
    tables = copy.deepcopy(TABLES)
    table: Any = tables
    for part in path:
        table = table[part]
    table[f"{key}_"] = table.pop(key)
    with pytest.raises(CircuitFileError):
        parse_circuit(json.dumps(tables), format="json", name="misspelt")
