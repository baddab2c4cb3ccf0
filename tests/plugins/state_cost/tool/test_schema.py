"""The schema of the command's JSON, and the documents that it describes.

The checker here knows the part of JSON Schema 2020-12 that the schema uses; any other keyword in it is a failure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream_state_cost.config.conventions import PRESETS
from proofstream_state_cost.settings import Settings, read_settings
from proofstream_state_cost.states.plan import Holding
from proofstream_state_cost.states.programs import NodeOp, StateProgram, UnitPlace
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
)
from proofstream_state_cost.tool.cost_document import cost_document
from proofstream_state_cost.tool.priced_circuit import CountedCircuit, price_circuit
from proofstream_state_cost.tool.state_file import read_state_file

DATA = Path(__file__).parents[3] / "data" / "state"
CIRCUIT = DATA / "qwen3.8-27b.toml"
SCHEMA: dict[str, Any] = json.loads(
    resources.files("proofstream_state_cost").joinpath("state-cost.schema.json").read_text()
)
Check = Callable[[Any, Any, Any, str], Iterator[str]]
TEXTS = {"$schema", "title", "description", "$defs"}
TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def errors(value: Any, schema: Any, where: str = "$") -> Iterator[str]:
    of_type = list(CHECKS["type"](value, schema["type"], schema, where)) if "type" in schema else []
    if of_type:
        yield from of_type  # the other keywords say nothing of a value of another type
        return
    for keyword, argument in schema.items():
        if keyword not in TEXTS:
            yield from CHECKS[keyword](value, argument, schema, where)


def _simple(holds: Callable[[Any, Any], bool], message: str) -> Check:
    def check(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
        if not holds(value, argument):
            yield f"{where}: {value!r} {message} {argument!r}"

    return check


def _ref(value: Any, argument: str, schema: Any, where: str) -> Iterator[str]:
    yield from errors(value, SCHEMA["$defs"][argument.removeprefix("#/$defs/")], where)


def _any_of(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    found = [list(errors(value, each, where)) for each in argument]
    if all(found):
        yield from found[0]


def _required(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    yield from (f"{where}: there is no {key}" for key in argument if key not in value)


def _dependent(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    for key, needed in argument.items():
        if key in value:
            yield from _required(value, needed, schema, where)


def _properties(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    for key, each in argument.items():
        if key in value:
            yield from errors(value[key], each, f"{where}.{key}")


def _additional(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    for key in value.keys() - schema.get("properties", {}).keys():
        if argument is False:
            yield f"{where}: there is no such key as {key}"
        else:
            yield from errors(value[key], argument, f"{where}.{key}")


def _names(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    for key in value:
        yield from errors(key, argument, f"{where} has a key")


def _items(value: Any, argument: Any, schema: Any, where: str) -> Iterator[str]:
    for index, each in enumerate(value):
        yield from errors(each, argument, f"{where}[{index}]")


CHECKS: dict[str, Check] = {
    "type": _simple(lambda value, name: TYPES[name](value), "is no"),
    "enum": _simple(lambda value, words: value in words, "is none of"),
    "minimum": _simple(lambda value, least: value >= least, "is less than"),
    "maximum": _simple(lambda value, most: value <= most, "is more than"),
    "exclusiveMinimum": _simple(lambda value, bound: value > bound, "is not more than"),
    "$ref": _ref,
    "anyOf": _any_of,
    "required": _required,
    "dependentRequired": _dependent,
    "properties": _properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "items": _items,
}


def document(path: Path, **table: Any) -> dict[str, Any]:
    settings = read_settings(table)
    (counted,) = read_state_file(str(path), settings).counted
    made: dict[str, Any] = json.loads(json.dumps(cost_document(price_circuit(counted, settings), settings)))
    return made


def models() -> list[Any]:
    found: list[Any] = json.loads((DATA / "golden.json").read_text())["models"]
    return found


WORDS = {"ssm_h_storage": "f32", "kv_cache_dtype": "bf16"}
TABLES: list[dict[str, Any]] = [
    {"formats": {"ssm_h_storage": "f16"}},
    {"formats": WORDS, "slots": 3},
    {"formats": WORDS, "slots": 3, "verify_steps": 5, "rate": "0.3"},
    {"formats": WORDS, "kv_blocks": 7, "kv_block_size": 16, "rate": 40},
]


@pytest.mark.parametrize("table", TABLES)
def test_the_document_of_a_circuit(table: dict[str, Any]) -> None:
    made = document(CIRCUIT, **table)
    assert list(errors(made, SCHEMA)) == []
    assert ("plan" in made) is bool({"slots", "verify_steps", "kv_blocks"} & table.keys())
    assert ("rate" in made) is ("rate" in table)


@pytest.mark.parametrize("model", models(), ids=lambda model: model["name"])
def test_the_documents_of_models(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": model["model_type"], **model["config"]}))
    known = [each.convention for each in read_state_file(str(path), Settings()).counted]
    assert {"metrale", "transformers"} <= set(known) <= set(PRESETS)
    for convention in known:
        snapshots = convention == "metrale"
        made = document(path, convention=convention, snapshots=snapshots, slots=2, verify_steps=4, rate=40)
        assert list(errors(made, SCHEMA)) == []
        assert made["recurrent_layers"] == model["recurrent_layers"]


def test_numbers_are_consistent() -> None:
    made = document(CIRCUIT, formats=WORDS, slots=3, verify_steps=5, rate="0.3")
    states = made["states"]
    for name, program in made["programs"].items():
        assert program["bytes"] == sum(node["bytes"] for node in program["nodes"])
        for node in program["nodes"]:
            state = states[node["state"]]
            assert node["id"] == f"{name}.{state['id']}"
            assert node["bytes"] == state["bytes"]
            assert state["moved"]
    assert {states[term["state"]]["id"] for term in made["plan"]["terms"]} == {s["id"] for s in states if s["moved"]}
    assert made["bytes_per_second"]["verify_checkpoint"] == 158859264 * 3 / 10
    assert made["rate"] == 0.3


def test_a_node_has_places_unless_it_zeroes() -> None:
    programs = document(CIRCUIT, formats=WORDS)["programs"]
    places = {
        name: {(n["op"], n.get("from"), n.get("to")) for n in program["nodes"]} for name, program in programs.items()
    }
    assert places == {
        "verify_checkpoint": {("copy", "live", "checkpoint")},
        "verify_rollback": {("copy", "checkpoint", "live")},
        "commit_accepted": {("copy", "accepted_step", "live")},
        "slot_zero": {("zero", None, None)},
    }


def test_a_dtype_that_is_neither_given_nor_needed_is_null() -> None:
    by_id = {state["id"]: state for state in document(CIRCUIT, formats={"ssm_h_storage": "f32"})["states"]}
    assert (by_id["l3.attn.k"]["dtype"], by_id["l3.attn.k"]["bytes"]) == (None, None)
    assert by_id["l3.attn.k"]["format"] == "{kv_cache_dtype}"
    assert (by_id["l0.gdn.h"]["dtype"], by_id["l0.gdn.h"]["layer"]) == ("f32", 0)


SIZES = st.one_of(st.integers(0, 10), st.integers(0, 2**58))
STATES = st.lists(
    st.tuples(st.sampled_from(list(StateKind)), st.sampled_from(list(Section)), st.sampled_from(list(Dtype)), SIZES),
    max_size=6,
)


@given(STATES, st.decimals("1e-9", "1e9"))
def test_the_document_of_any_circuit(shapes: list[tuple[StateKind, Section, Dtype, int]], rate: Any) -> None:
    states = tuple(
        CircuitState(
            id=f"s{index}",
            local=f"s{index}",
            block="",
            layer=None,
            section=section,
            kind=kind,
            format=StateFormat(dtype=dtype),
            elements=elements,
            verify=VerifyRule.H_STEPS if kind is StateKind.RECURRENT else None,
            of=None,
        )
        for index, (kind, section, dtype, elements) in enumerate(shapes)
        if kind is not StateKind.RING_SNAPSHOT  # one of nothing is refused
    )
    counted = CountedCircuit(
        circuit=StateCircuit(name="any", states=states), convention="declared", counts="", formats={}
    )
    settings = Settings(slots=1, rate=rate)
    made = json.loads(json.dumps(cost_document(price_circuit(counted, settings), settings)))
    assert list(errors(made, SCHEMA)) == []
    recurrent = [s for s in made["states"] if (s["kind"], s["section"]) == ("recurrent", "main")]
    assert made["bytes_per_sequence"] == sum(state["bytes"] for state in recurrent)


def test_the_words_of_the_schema_are_those_of_the_model() -> None:
    defs = SCHEMA["$defs"]
    assert defs["dtype"]["enum"] == [each.value for each in Dtype]
    assert defs["place"]["enum"] == [each.value for each in UnitPlace]
    assert defs["node"]["properties"]["op"]["enum"] == [each.value for each in NodeOp]
    assert defs["state"]["properties"]["kind"]["enum"] == [each.value for each in StateKind]
    assert defs["state"]["properties"]["section"]["enum"] == [each.value for each in Section]
    assert defs["term"]["properties"]["holding"]["enum"] == [each.value for each in Holding]
    assert SCHEMA["properties"]["programs"]["propertyNames"]["enum"] == [each.value for each in StateProgram]


BREAKS: dict[str, Callable[[Any], object]] = {
    "a key is gone": lambda made: made.pop("convention"),
    "a key of ours": lambda made: made.update(hello=1),
    "a number that is none": lambda made: made["states"][0].update(bytes="12"),
    "a number below zero": lambda made: made["states"][0].update(elements=-1),
    "a number too large": lambda made: made.update(bytes_per_sequence=2**64),
    "truth for a number": lambda made: made.update(recurrent_layers=True),
    "no such dtype": lambda made: made["states"][0].update(dtype="f64"),
    "no such place": lambda made: made["programs"]["verify_checkpoint"]["nodes"][0].update(to="disk"),
    "no such program": lambda made: made["programs"].update(other={"bytes": 0, "nodes": []}),
    "half a move": lambda made: made["programs"]["verify_checkpoint"]["nodes"][0].pop("from"),
    "a rate alone": lambda made: made.pop("bytes_per_second"),
    "no such holding": lambda made: made["plan"]["terms"][0].update(holding="dead"),
}


@pytest.mark.parametrize("what", BREAKS)
def test_the_schema_refuses_what_is_broken(what: str) -> None:
    made = document(CIRCUIT, formats=WORDS, slots=3, rate=40)
    BREAKS[what](made)
    assert len(list(errors(made, SCHEMA))) == 1
