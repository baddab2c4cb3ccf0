"""State programs: nodes, places and bytes, against the cases of the golden file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proofstream import StateDeclaration
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.states.errors import MissingFormat, Overflow
from proofstream_state_cost.states.programs import (
    ALL_PROGRAMS,
    VERIFY_PROGRAMS,
    NodeOp,
    StateProgram,
    UnitPlace,
    price_programs,
)
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit

GOLDEN = json.loads((Path(__file__).parents[3] / "data" / "state" / "golden.json").read_text(encoding="utf-8"))
RULES: dict[str, dict[str, Any]] = {case["id"]: case for case in GOLDEN["rule_cases"]}


def declared(state_id: str, elements: int, **fields: Any) -> StateDeclaration:
    given: dict[str, Any] = {"kind": "recurrent", "section": "main", "format": "{h}"} | fields
    return StateDeclaration(id=state_id, elements=elements, **given)


def circuit_of(*states: StateDeclaration) -> StateCircuit:
    return circuit_from_declarations("some", states)


def from_case(states: list[dict[str, Any]]) -> StateCircuit:
    return circuit_of(*(StateDeclaration(**state) for state in states))


def formats_of(words: dict[str, str]) -> dict[str, Dtype]:
    return {key: Dtype(word) for key, word in words.items()}


def costs(circuit: StateCircuit, formats: dict[str, str]) -> dict[str, int]:
    return {priced.program.value: priced.bytes for priced in price_programs(circuit, formats_of(formats))}


VERIFY_NAMES = ["verify_checkpoint", "verify_rollback", "commit_accepted", "slot_zero"]


def test_the_programs_stand_in_their_order_with_their_ops_and_places() -> None:
    said = [(p.value, p.op.value, p.from_ and p.from_.value, p.to.value) for p in StateProgram]
    assert said == [
        ("verify_checkpoint", "copy", "live", "checkpoint"),
        ("verify_rollback", "copy", "checkpoint", "live"),
        ("commit_accepted", "copy", "accepted_step", "live"),
        ("slot_zero", "zero", None, "live"),
        ("ring_save", "copy", "live", "ring"),
        ("ring_restore", "copy", "ring", "live"),
        ("prefix_save", "convert", "live", "prefix"),
        ("prefix_restore", "convert", "prefix", "live"),
    ]
    assert [program.value for program in VERIFY_PROGRAMS] == VERIFY_NAMES
    assert tuple(StateProgram) == ALL_PROGRAMS


def test_upstream_every_recurrent_state_of_the_model_itself_has_a_node() -> None:
    case = RULES["upstream-ops-1"]
    circuit = from_case(case["states"])
    for program in price_programs(circuit, {"h": Dtype.F32}, VERIFY_PROGRAMS):
        name = program.program.value
        assert [node.id for node in program.nodes] == [
            node_id.replace("<program>", name) for node_id in case["node_ids_per_program"]
        ]
        assert [node.state for node in program.nodes] == case["node_state_indices"]
        assert {node.op for node in program.nodes} == {program.op}
        assert {node.cache for node in program.nodes} == {None}


@pytest.mark.parametrize("check", RULES["upstream-ops-1"]["checks"])
def test_upstream_a_program_costs_one_unit_of_each(check: dict[str, Any]) -> None:
    circuit = from_case(RULES["upstream-ops-1"]["states"])
    if "error" in check:
        for program in VERIFY_PROGRAMS:
            with pytest.raises(MissingFormat) as caught:
                price_programs(circuit, {}, [program])
            assert f"missing format, state {caught.value.state_id}, key {caught.value.key}" == check["error"]
    else:
        priced = costs(circuit, check["formats"])
        assert [priced[name] for name in VERIFY_NAMES] == [check["every_program_bytes"]] * 4


ONE_STATE = ("derived-overflow-unit", "derived-overflow-unit-ok", "derived-overflow-dtype")


@pytest.mark.parametrize("case", [RULES[case_id] for case_id in ONE_STATE], ids=ONE_STATE)
def test_derived_one_unit_at_the_edge_of_64_bits(case: dict[str, Any]) -> None:
    circuit = circuit_of(declared("l0.m.h", case["elements"]))
    for program in VERIFY_PROGRAMS:
        if "error" in case:
            with pytest.raises(Overflow) as caught:
                price_programs(circuit, formats_of(case["formats"]), [program])
            assert caught.value.subject == f"node {program.value}.l0.m.h"
        else:
            assert price_programs(circuit, formats_of(case["formats"]), [program])[0].bytes == case["bytes"]


def test_derived_a_sum_beyond_64_bits_names_the_node_that_exceeds_it() -> None:
    case = RULES["derived-overflow-sum"]
    circuit = circuit_of(*(declared(f"l{layer}.m.h", elements) for layer, elements in enumerate(case["elements"])))
    with pytest.raises(Overflow) as caught:
        costs(circuit, case["formats"])
    assert caught.value.subject == "node verify_checkpoint.l1.m.h"
    assert str(caught.value).endswith("overflows: 18446744073709551612 + 4 is more than 2^64 - 1")


KNOWN = ("derived-empty", "derived-fixed-no-key", "derived-fp8")


@pytest.mark.parametrize("case", [RULES[case_id] for case_id in KNOWN], ids=KNOWN)
def test_derived_every_program_costs_the_same(case: dict[str, Any]) -> None:
    priced = costs(from_case(case["states"]), case["formats"])
    assert [priced[name] for name in VERIFY_NAMES] == [case["every_program_bytes"]] * 4


def test_derived_without_recurrent_state_programs_are_empty_and_need_no_key() -> None:
    case = RULES["derived-only-kv-or-draft"]
    circuit = circuit_of(
        declared("l0.attn.k", 8, kind="paged_kv"), declared("draft.gdn.h", 7, section="draft"),
        declared("l0.attn.stash", 9, kind="carry_stash"),
    )  # fmt: skip
    for program in price_programs(circuit, {}):
        assert (program.nodes, program.bytes) == ((), case["every_program_bytes"])


def snapshot_circuit(case: dict[str, Any], kind: str, cache: str) -> StateCircuit:
    state = case["state"]
    return circuit_of(
        declared("l0.m.cached", state["elements"], kind=kind, format=cache, of="l0.m.h"),
        declared("l0.m.h", state["elements"], format=state["dtype"]),
        declared("l0.m.conv", 10, format="f32"),
    )


LATER = [("later-ring-f16", "ring"), ("later-prefix-f16", "prefix")]


@pytest.mark.parametrize(("case_id", "what"), LATER)
def test_later_a_snapshot_is_saved_and_restored(case_id: str, what: str) -> None:
    case = RULES[case_id]
    circuit = snapshot_circuit(case, f"{what}_snapshot", case[f"{what}_cache_dtype"])
    priced = {program.program: program for program in price_programs(circuit, {})}
    for name in (f"{what}_save", f"{what}_restore"):
        program = priced[StateProgram(name)]
        assert program.bytes == case[name]
        [node] = program.nodes
        assert (node.id, node.state, node.cache) == (f"{name}.l0.m.h", 1, 0)
        places = (node.from_, node.to) if name.endswith("save") else (node.to, node.from_)
        assert places == (UnitPlace.LIVE, UnitPlace(what))
        assert node.op is (NodeOp.COPY if what == "ring" else NodeOp.CONVERT)
    other = "prefix" if what == "ring" else "ring"
    assert priced[StateProgram(f"{other}_save")].nodes == ()


@pytest.mark.parametrize(
    ("live", "cache", "ring", "prefix_save", "prefix_restore"),
    [
        ("f32", "f16", 200, 200, 400),
        ("bf16", "f16", 200, 200, 200),
        ("fp8", "f32", 100, 400, 100),
        ("f32", "fp8", 100, 100, 400),
    ],
)
def test_the_smaller_dtype_sizes_a_copy_and_the_destination_a_conversion(
    live: str, cache: str, ring: int, prefix_save: int, prefix_restore: int
) -> None:
    circuit = circuit_of(
        declared("l0.m.h", 100, format=live),
        declared("l0.m.ring", 100, kind="ring_snapshot", format=cache, of="l0.m.h"),
        declared("l0.m.prefix", 100, kind="prefix_snapshot", format=cache, of="l0.m.h"),
        declared("head.hidden", 999, kind="prefix_snapshot", format=cache),
    )
    priced = costs(circuit, {})
    assert (priced["ring_save"], priced["ring_restore"]) == (ring, ring)
    assert (priced["prefix_save"], priced["prefix_restore"]) == (prefix_save, prefix_restore)


def test_a_snapshot_of_the_drafting_head_is_in_no_program() -> None:
    circuit = circuit_of(
        declared("draft.m.h", 7, section="draft"),
        declared("draft.m.ring", 7, section="draft", kind="ring_snapshot", of="draft.m.h"),
    )
    assert all(program.nodes == () for program in price_programs(circuit, {}))


def test_the_key_of_a_snapshot_is_needed_only_if_it_is_moved() -> None:
    circuit = circuit_of(
        declared("l0.m.h", 100, format="f32"),
        declared("l0.m.ring", 100, kind="ring_snapshot", format="{r}", of="l0.m.h"),
    )
    assert price_programs(circuit, {}, VERIFY_PROGRAMS)[0].bytes == 400
    with pytest.raises(MissingFormat) as caught:
        price_programs(circuit, {})
    assert (caught.value.state_id, caught.value.key) == ("l0.m.ring", "r")


def test_programs_are_priced_in_the_order_that_was_asked_for() -> None:
    asked = [StateProgram.SLOT_ZERO, StateProgram.VERIFY_CHECKPOINT]
    priced = price_programs(circuit_of(declared("l0.m.h", 1)), {"h": Dtype.F32}, asked)
    assert [program.program for program in priced] == asked
    assert (priced[0].nodes[0].from_, priced[0].nodes[0].to) == (None, UnitPlace.LIVE)


def test_every_rule_case_of_the_golden_file_is_tested_here_or_with_the_plan() -> None:
    here = {
        "upstream-ops-1",
        "derived-overflow-sum",
        "derived-only-kv-or-draft",
        *ONE_STATE,
        *KNOWN,
        *(case_id for case_id, _ in LATER),
    }
    assert set(RULES) == here | {"upstream-plan-1"}
