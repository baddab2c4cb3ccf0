"""The state plan: units and bytes that an engine holds, against the cases of the golden file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from proofstream import StateDeclaration
from proofstream_state_cost.circuit.file import parse_circuit
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.states.errors import BadInputs, MissingFormat, Overflow
from proofstream_state_cost.states.plan import Holding, KvCache, PlanInputs, SpeculativeVerify, StatePlan, make_plan
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit

DATA = Path(__file__).parents[3] / "data" / "state"
GOLDEN = json.loads((DATA / "golden.json").read_text(encoding="utf-8"))
[PUBLISHED] = GOLDEN["plan_cases"]
[UPSTREAM] = [case for case in GOLDEN["rule_cases"] if case["id"] == "upstream-plan-1"]
MIB = 2**20


def declared(state_id: str, elements: int, **fields: Any) -> StateDeclaration:
    given: dict[str, Any] = {"kind": "recurrent", "section": "main", "format": "{h}"} | fields
    return StateDeclaration(id=state_id, elements=elements, **given)


def circuit_of(*states: StateDeclaration) -> StateCircuit:
    return circuit_from_declarations("some", states)


def inputs_of(case: dict[str, Any]) -> PlanInputs:
    """Return a case's inputs; the published plan gives only the product of blocks and block size."""
    caches = {
        name: KvCache(blocks=cache["blocks_times_block_size"] // 16, block_size=16)
        if "blocks_times_block_size" in cache
        else KvCache(**cache)
        for name, cache in case.items()
        if name in ("kv", "draft_kv")
    }
    verify = SpeculativeVerify(h_steps=tuple(case["verify"]["h_steps"]), conv_steps=case["verify"]["conv_steps"])
    formats = {key: Dtype(word) for key, word in case["formats"].items()}
    return PlanInputs(formats=formats, slots=case["slots"], verify=verify, **caches)


def by_group(circuit: StateCircuit, plan: StatePlan) -> dict[str, int]:
    """Return bytes by group and holding; the drafting head's groups have a prefix."""
    sums: dict[str, int] = {}
    for term in plan.terms:
        state = circuit.states[term.state]
        name = f"{'draft.' if state.section.value == 'draft' else ''}{state.group} {term.holding.value}"
        sums[name] = sums.get(name, 0) + term.bytes
    return sums


@pytest.fixture(scope="module")
def qwen() -> StateCircuit:
    return parse_circuit((DATA / "qwen3.8-27b.toml").read_text("utf-8"), format="toml", name="qwen")


def test_the_circuit_file_declares_the_states_of_the_published_plan(qwen: StateCircuit) -> None:
    declarations = PUBLISHED["decls"]
    counted: dict[tuple[str, int], int] = {}
    for state in qwen.states:
        name = f"{'draft_' if state.section.value == 'draft' else ''}{state.block}.{state.local}"
        counted[name, state.elements] = counted.get((name, state.elements), 0) + 1
    assert counted == {
        (f"{block}.{key.removesuffix('_elements')}", elements): declaration["layers"]
        for block, declaration in declarations.items()
        for key, elements in declaration.items()
        if key != "layers"
    }


def test_the_published_plan_is_reproduced(qwen: StateCircuit) -> None:
    plan = make_plan(qwen, inputs_of(PUBLISHED["inputs"]))
    sums = by_group(qwen, plan)
    assert {name: sums[name] for name in PUBLISHED["expected_bytes"]} == PUBLISHED["expected_bytes"]
    published = dict(PUBLISHED["expected_MiB"])
    total = published.pop("states total (recurrent pool, KV)")
    assert {name: round(size / MIB, 1) for name, size in sums.items()} == published
    assert plan.bytes == sum(sums.values())
    # 6183.75 MiB, published with one decimal as 6183.8.
    assert (plan.bytes, total) == (6_484_131_840, 6183.8)
    assert round(plan.bytes / MIB, 1) == total


def upstream() -> tuple[StateCircuit, PlanInputs]:
    states = [{"kind": "recurrent", "section": "main"} | state for state in UPSTREAM["states"]]
    return circuit_of(*(StateDeclaration(**state) for state in states)), inputs_of(UPSTREAM["inputs"])


def test_the_terms_asserted_upstream() -> None:
    plan = make_plan(*upstream())
    said = {f"{term.state_id.rpartition('.')[2]}_{term.holding.value}": [term.units, term.bytes] for term in plan.terms}
    expected = UPSTREAM["expected"]
    assert len(plan.terms) == expected["n_terms"]
    assert said == {name: value for name, value in expected.items() if isinstance(value, list)}
    assert plan.bytes == sum(size for _, size in said.values())


def test_terms_stand_in_the_order_of_the_states_and_then_live_steps_checkpoint() -> None:
    plan = make_plan(*upstream())
    assert [(term.state, term.holding.value, term.lifetime.value) for term in plan.terms] == [
        (0, "live", "sequence"),
        (0, "steps", "verify"),
        (0, "checkpoint", "verify"),
        (1, "live", "sequence"),
        (1, "steps", "verify"),
        (1, "checkpoint", "verify"),
        (2, "blocks", "model"),
    ]


def test_without_verify_and_caches_only_the_live_state_is_held() -> None:
    circuit, inputs = upstream()
    plan = make_plan(circuit, PlanInputs(formats=inputs.formats, slots=inputs.slots))
    assert plan.bytes == UPSTREAM["expected"]["no_spec_no_kv_total"]
    assert [term.holding.value for term in plan.terms] == ["live", "live"]


def test_a_recurrent_state_of_the_drafting_head_is_held_and_each_kv_goes_by_its_own_cache() -> None:
    circuit = circuit_of(
        declared("l0.attn.k", 8, kind="paged_kv", format="fp8"),
        declared("draft.attn.k", 8, kind="paged_kv", section="draft", format="fp8"),
        declared("draft.gdn.h", 7, section="draft", format="fp8"),
        declared("l0.attn.table", 1000, kind="carry_table", format="fp8"),
    )
    main_only = make_plan(circuit, PlanInputs(kv=KvCache(blocks=3, block_size=2)))
    assert [(term.state_id, term.bytes) for term in main_only.terms] == [("l0.attn.k", 48), ("draft.gdn.h", 7)]
    draft_only = make_plan(circuit, PlanInputs(draft_kv=KvCache(blocks=3, block_size=5)))
    assert [(term.state_id, term.bytes) for term in draft_only.terms] == [("draft.attn.k", 120), ("draft.gdn.h", 7)]


def test_a_verify_of_a_width_keeps_one_h_less_than_it_has_rows() -> None:
    assert SpeculativeVerify.of_width(4, slots=2) == SpeculativeVerify(h_steps=(3, 3), conv_steps=4)
    assert SpeculativeVerify.of_width(1, slots=1) == SpeculativeVerify(h_steps=(0,), conv_steps=1)


@pytest.mark.parametrize(("width", "slots"), [(0, 1), (-1, 1), (4, -1), (2**64, 1), (True, 1)])
def test_an_impossible_verify_is_refused(width: int, slots: int) -> None:
    with pytest.raises(BadInputs, match=r"a verify of .* rows in .* slots is impossible"):
        SpeculativeVerify.of_width(width, slots=slots)


def test_no_slots_hold_nothing() -> None:
    plan = make_plan(circuit_of(declared("l0.m.h", 10)), PlanInputs(formats={"h": Dtype.F32}, slots=0))
    assert [(term.units, term.bytes) for term in plan.terms] == [(0, 0)]


def test_a_missing_format_names_the_first_state_even_if_the_plan_leaves_it_out() -> None:
    circuit = circuit_of(
        declared("l0.m.conv", 2**63, format="fp8"),
        declared("l0.attn.k", 2**63, kind="paged_kv", format="{kv}"),
        declared("l1.m.h", 1),
    )
    with pytest.raises(MissingFormat) as caught:
        make_plan(circuit, PlanInputs())
    assert (caught.value.state_id, caught.value.key) == ("l0.attn.k", "kv")


def test_a_verify_needs_a_rule_for_every_recurrent_state() -> None:
    circuit = circuit_of(declared("l0.m.h", 10))
    inputs = PlanInputs(formats={"h": Dtype.F32})
    assert make_plan(circuit, inputs).bytes == 40
    with pytest.raises(BadInputs) as caught:
        make_plan(circuit, PlanInputs(formats=inputs.formats, verify=SpeculativeVerify.of_width(2, slots=1)))
    assert str(caught.value) == "state plan: recurrent state l0.m.h declares no verify intermediates"


H = {"verify": "h_steps", "format": "fp8"}
CONV = {"verify": "conv_steps", "format": "fp8"}
KV = {"kind": "paged_kv", "format": "fp8"}
BIG = 2**63


@pytest.mark.parametrize(
    ("states", "inputs", "subject"),
    [
        ([declared("l0.m.h", 2**62, format="f32")], PlanInputs(slots=0), "state l0.m.h"),
        ([declared("l0.m.h", 2**62, **KV | {"format": "f32"})], PlanInputs(), "state l0.m.h"),
        ([declared("l0.m.h", 2**62, **H)], PlanInputs(slots=4), "state l0.m.h"),
        (
            [declared("l0.m.h", 0, **H)],
            PlanInputs(verify=SpeculativeVerify(h_steps=(BIG, BIG), conv_steps=1)),
            "state l0.m.h",
        ),
        (
            [declared("l0.m.h", 4, **H)],
            PlanInputs(verify=SpeculativeVerify(h_steps=(BIG,), conv_steps=1)),
            "state l0.m.h",
        ),
        (
            [declared("l0.m.c", 0, **CONV)],
            PlanInputs(verify=SpeculativeVerify(h_steps=(1, 1), conv_steps=BIG)),
            "state l0.m.c",
        ),
        (
            [declared("l0.m.c", 4, **CONV)],
            PlanInputs(verify=SpeculativeVerify(h_steps=(1,), conv_steps=BIG)),
            "state l0.m.c",
        ),
        ([declared("l0.a.k", 0, **KV)], PlanInputs(kv=KvCache(blocks=BIG, block_size=2)), "state l0.a.k"),
        ([declared("l0.a.k", 4, **KV)], PlanInputs(kv=KvCache(blocks=BIG, block_size=1)), "state l0.a.k"),
        ([declared("l0.m.h", BIG, **H), declared("l1.m.h", BIG, **H)], PlanInputs(), "the plan at state l1.m.h"),
        (
            [declared("l0.m.h", BIG, **H)],
            PlanInputs(verify=SpeculativeVerify(h_steps=(0,), conv_steps=0)),
            "the plan at state l0.m.h",
        ),
    ],
)
def test_more_than_64_bits_is_an_error_that_names_the_state(
    states: list[StateDeclaration], inputs: PlanInputs, subject: str
) -> None:
    with pytest.raises(Overflow) as caught:
        make_plan(circuit_of(*states), inputs)
    assert caught.value.subject == subject


class CountedSteps(tuple[int, ...]):
    """Steps that count how often they are iterated over."""

    __slots__ = ()
    walks: ClassVar[int] = 0

    def __iter__(self) -> Iterator[int]:
        CountedSteps.walks += 1
        return super().__iter__()


def test_many_slots_are_added_up_once_for_all_states() -> None:
    states = [declared(f"l{layer}.m.h", 4, **H) for layer in range(50)]
    steps = CountedSteps([3] * 100)
    plan = make_plan(circuit_of(*states), PlanInputs(verify=SpeculativeVerify(h_steps=steps, conv_steps=4)))

    assert {term.units for term in plan.terms if term.holding is Holding.STEPS} == {300}
    assert CountedSteps.walks < 10


def test_the_largest_plan_is_exact() -> None:
    circuit = circuit_of(declared("l0.m.h", BIG, **H), declared("l1.m.h", BIG - 1, **H))
    assert make_plan(circuit, PlanInputs()).bytes == 2**64 - 1


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"slots": -1}, "slots"),
        ({"slots": 2**64}, "slots"),
        ({"slots": True}, "slots"),
        ({"slots": 1.0}, "slots"),
        ({"verify": SpeculativeVerify(h_steps=(1, -1), conv_steps=1)}, "h_steps"),
        ({"verify": SpeculativeVerify(h_steps=(1,), conv_steps=-1)}, "conv_steps"),
        ({"kv": KvCache(blocks=-1, block_size=1)}, "kv blocks"),
        ({"draft_kv": KvCache(blocks=1, block_size=2**64)}, "draft_kv block_size"),
    ],
)
def test_inputs_beyond_64_bits_are_refused(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(BadInputs, match=f"state plan: {name} is .*, which is not between 0 and"):
        PlanInputs(**fields)
