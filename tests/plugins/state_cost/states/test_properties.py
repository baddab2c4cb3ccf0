"""Properties of every circuit: programs add up, agree, grow with each dimension, and do not depend on an order."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import prod
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proofstream import StateDeclaration
from proofstream_state_cost.circuit.file import parse_circuit
from proofstream_state_cost.circuit.shapes import measure_axes, parse_shape
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.states.errors import Overflow
from proofstream_state_cost.states.plan import KvCache, PlanInputs, SpeculativeVerify, make_plan
from proofstream_state_cost.states.programs import VERIFY_PROGRAMS, StateProgram, price_programs
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit
from proofstream_state_cost.states.u64 import U64_MAX, u64_product, u64_sum

WORDS = st.sampled_from([dtype.value for dtype in Dtype])
FORMATS = st.fixed_dictionaries({key: st.sampled_from(Dtype) for key in ("a", "b")})
FORMAT_WORDS = WORDS | st.sampled_from(["{a}", "{b}"])
ELEMENTS = st.integers(0, 2**40)
COUNTS = st.integers(0, 9) | st.integers(0, U64_MAX)
DIMS = ("heads", "head_dim", "groups", "width", "kernel")


def copy_of(state: StateDeclaration, kind: str, word: str) -> StateDeclaration:
    return msgspec.structs.replace(
        state, id=f"{state.id}_{kind}", kind=kind, format=word, verify=msgspec.UNSET, of=state.id
    )


def outcome(work_out: Callable[[], int]) -> int | str:
    """Return a number, or the subject of the error raised instead."""
    try:
        return work_out()
    except Overflow as error:
        return error.subject


@st.composite
def declarations(draw: st.DrawFn, elements: st.SearchStrategy[int] = ELEMENTS) -> list[StateDeclaration]:
    """Draw states of some layers, with snapshots of some of them."""
    states: list[StateDeclaration] = []
    for layer in range(draw(st.integers(0, 4))):
        section = draw(st.sampled_from(["main", "main", "draft"]))
        kind = draw(st.sampled_from(["recurrent", "recurrent", "paged_kv", "verify_table"]))
        verify: dict[str, Any] = (
            {"verify": draw(st.sampled_from(["h_steps", "conv_steps"]))} if kind == "recurrent" else {}
        )
        state = StateDeclaration(
            id=f"l{layer}.m.h", kind=kind, section=section, format=draw(FORMAT_WORDS), elements=draw(elements), **verify
        )
        states.append(state)
        if kind == "recurrent":
            kinds = draw(st.sets(st.sampled_from(["ring_snapshot", "prefix_snapshot"])))
            states.extend(copy_of(state, kind, draw(FORMAT_WORDS)) for kind in sorted(kinds))
    return states


CIRCUITS = declarations().map(lambda states: circuit_from_declarations("any", states))


def costs(circuit: StateCircuit, formats: dict[str, Dtype]) -> dict[StateProgram, int]:
    return {priced.program: priced.bytes for priced in price_programs(circuit, formats)}


@given(CIRCUITS, FORMATS)
def test_a_program_costs_the_sum_of_its_nodes(circuit: StateCircuit, formats: dict[str, Dtype]) -> None:
    for priced in price_programs(circuit, formats):
        assert priced.bytes == sum(node.bytes for node in priced.nodes)
        assert [node.state for node in priced.nodes] == sorted({node.state for node in priced.nodes})
        for node in priced.nodes:
            assert node.id == f"{priced.program.value}.{circuit.states[node.state].id}"


@given(CIRCUITS, FORMATS)
def test_the_programs_around_a_verify_cost_the_same(circuit: StateCircuit, formats: dict[str, Dtype]) -> None:
    totals = {priced.bytes for priced in price_programs(circuit, formats, VERIFY_PROGRAMS)}
    assert totals == {sum(state.unit_bytes(formats) for state in circuit.recurrent_states)}


@given(CIRCUITS, FORMATS)
def test_one_slot_without_verify_and_caches_holds_what_the_programs_move(
    circuit: StateCircuit, formats: dict[str, Dtype]
) -> None:
    plan = make_plan(circuit, PlanInputs(formats=formats))
    main = sum(term.bytes for term in plan.terms if circuit.states[term.state].section.value == "main")
    assert main == price_programs(circuit, formats, [StateProgram.SLOT_ZERO])[0].bytes


@given(CIRCUITS, FORMATS)
def test_a_snapshot_moves_no_more_than_its_larger_side_and_a_ring_gives_back_what_it_took(
    circuit: StateCircuit, formats: dict[str, Dtype]
) -> None:
    priced = costs(circuit, formats)
    assert priced[StateProgram.RING_SAVE] == priced[StateProgram.RING_RESTORE] <= priced[StateProgram.SLOT_ZERO]
    assert priced[StateProgram.PREFIX_RESTORE] <= priced[StateProgram.SLOT_ZERO]
    assert priced[StateProgram.PREFIX_SAVE] <= sum(
        state.unit_bytes(formats) for state in circuit.states if state.kind.value == "prefix_snapshot"
    )


@given(declarations(), FORMATS, st.randoms(use_true_random=False))
def test_the_order_of_the_states_changes_no_total(
    states: list[StateDeclaration], formats: dict[str, Dtype], random: Any
) -> None:
    shuffled = list(states)
    random.shuffle(shuffled)
    first, second = circuit_from_declarations("any", states), circuit_from_declarations("any", shuffled)
    assert costs(first, formats) == costs(second, formats)
    inputs = PlanInputs(
        formats=formats, slots=3, verify=SpeculativeVerify.of_width(4, slots=2), kv=KvCache(blocks=5, block_size=16),
        draft_kv=KvCache(blocks=7, block_size=16),
    )  # fmt: skip
    assert make_plan(first, inputs).bytes == make_plan(second, inputs).bytes
    assert first.recurrent_layers == second.recurrent_layers


@given(declarations(elements=st.integers(0, U64_MAX)), FORMATS)
def test_a_number_is_exact_or_an_error_names_a_node(states: list[StateDeclaration], formats: dict[str, Dtype]) -> None:
    circuit = circuit_from_declarations("any", states)
    exact = sum(state.elements * state.dtype(formats).size for state in circuit.recurrent_states)
    found = outcome(lambda: price_programs(circuit, formats, [StateProgram.SLOT_ZERO])[0].bytes)
    if exact > U64_MAX:
        assert found in {f"node slot_zero.{state.id}" for state in circuit.recurrent_states}
    else:
        assert found == exact


@given(
    declarations(elements=st.integers(0, 2**30)),
    FORMATS,
    st.builds(
        PlanInputs,
        formats=st.just({}),
        slots=COUNTS,
        verify=st.none()
        | st.builds(SpeculativeVerify, h_steps=st.lists(COUNTS, max_size=4).map(tuple), conv_steps=COUNTS),
        kv=st.none() | st.builds(KvCache, blocks=COUNTS, block_size=COUNTS),
    ),
)
def test_a_plan_is_exact_or_an_error_names_a_state(
    states: list[StateDeclaration], formats: dict[str, Dtype], inputs: PlanInputs
) -> None:
    circuit = circuit_from_declarations("any", states)
    inputs = PlanInputs(formats=formats, slots=inputs.slots, verify=inputs.verify, kv=inputs.kv)
    found = outcome(lambda: make_plan(circuit, inputs).bytes)
    if isinstance(found, str):
        assert found.rpartition("state ")[2] in {state.id for state in circuit.states}
    else:
        terms = make_plan(circuit, inputs).terms
        assert found == sum(term.units * circuit.states[term.state].unit_bytes(formats) for term in terms) <= U64_MAX


def sized(dims: dict[str, int]) -> StateCircuit:
    """Return a hybrid of two layers whose shapes name all dims."""
    block = {
        "state": [
            {"id": "h", "kind": "recurrent", "format": "{a}", "shape": "heads x head_dim x width", "verify": "h_steps"},
            {
                "id": "conv", "kind": "recurrent", "format": "f32", "shape": "heads*head_dim+groups*width*2 x kernel",
                "verify": "conv_steps",
            },
            {"id": "ring", "kind": "ring_snapshot", "format": "f32", "of": "h"},
            {"id": "prefix", "kind": "prefix_snapshot", "format": "f32", "of": "conv"},
        ]
    }  # fmt: skip
    file = {"name": "sized", "dims": dims, "block": {"m": block}, "layer_kinds": {"m": ["m"]}, "layers": ["m", "m"]}
    return parse_circuit(json.dumps(file), format="json", name="sized")


@given(
    st.fixed_dictionaries({dim: st.integers(0, 500) for dim in DIMS}), st.sampled_from(DIMS), st.integers(1, 9), FORMATS
)
def test_costs_never_fall_when_a_dimension_grows(
    dims: dict[str, int], dim: str, more: int, formats: dict[str, Dtype]
) -> None:
    small, large = costs(sized(dims), formats), costs(sized(dims | {dim: dims[dim] + more}), formats)
    assert all(small[program] <= large[program] for program in StateProgram)
    if all(dims.values()):
        assert all(small[program] < large[program] for program in VERIFY_PROGRAMS)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=6))
def test_a_product_is_exact_or_an_error(factors: list[int]) -> None:
    exact, intermediate = 1, 0
    for factor in factors:
        exact *= factor
        intermediate = max(intermediate, exact)
    found = outcome(lambda: u64_product(*factors, subject="it"))
    assert found == ("it" if intermediate > U64_MAX else exact)


@given(st.lists(st.integers(0, U64_MAX), max_size=6))
def test_a_sum_is_exact_or_an_error(terms: list[int]) -> None:
    found = outcome(lambda: u64_sum(("it", term) for term in terms))
    assert found == ("it" if sum(terms) > U64_MAX else sum(terms))


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,3}", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, 1000), min_size=1), st.data())
def test_a_shape_follows_arithmetic(dims: dict[str, int], data: st.DataObject) -> None:
    factor = st.sampled_from(sorted(dims)) | st.integers(1, 1000).map(str)
    axis = st.lists(st.lists(factor, min_size=1, max_size=3), min_size=1, max_size=3)
    axes = data.draw(st.lists(axis, min_size=1, max_size=4))
    plus, times = (data.draw(st.sampled_from([sign, f" {sign}\t", f"{sign}  "])) for sign in "+*")
    text = " x ".join(plus.join(times.join(term) for term in terms) for terms in axes)
    expected = [
        sum(prod(dims[word] if word in dims else int(word) for word in term) for term in terms) for terms in axes
    ]
    assert list(measure_axes(parse_shape(text), dims)) == expected
