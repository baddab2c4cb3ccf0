"""The tables of the answer: they fit the terminal where they can, and never cut a number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream_state_cost.settings import Settings, read_settings
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
)
from proofstream_state_cost.tool import answer
from proofstream_state_cost.tool.priced_circuit import CountedCircuit, PricedCircuit, price_circuit
from proofstream_state_cost.tool.state_file import read_state_file

CIRCUIT = Path(__file__).parents[3] / "data" / "state" / "qwen3.8-27b.toml"
EVERYTHING: dict[str, Any] = {
    "formats": {"ssm_h_storage": "f32", "kv_cache_dtype": "bf16"},
    "slots": 2,
    "verify_steps": 4,
    "kv_blocks": 4380,
    "kv_block_size": 16,
    "rate": 40,
}


def state(name: str, elements: int, **fields: Any) -> CircuitState:
    defaults: dict[str, Any] = {
        "local": name.rpartition(".")[2],
        "block": "mix",
        "layer": 0,
        "section": Section.MAIN,
        "kind": StateKind.RECURRENT,
        "format": StateFormat(dtype=Dtype.F32),
        "verify": VerifyRule.H_STEPS,
    }
    return CircuitState(id=name, elements=elements, **{**defaults, **fields})


def case_of(
    *states: CircuitState, settings: Settings | None = None, name: str = "any", counts: str = ""
) -> PricedCircuit:
    circuit = StateCircuit(name=name, states=states)
    return price_circuit(
        CountedCircuit(circuit=circuit, convention="declared", counts=counts, formats={}), settings or Settings()
    )


def shown(case: PricedCircuit, settings: Settings | None = None, *, width: int = 100) -> str:
    return answer.render_text(
        answer.one_convention(case, settings or Settings(), width=width), width=width, colour=False
    )


def published(width: int) -> str:
    chosen = read_settings(EVERYTHING)
    (counted,) = read_state_file(str(CIRCUIT), chosen).counted
    return shown(price_circuit(counted, chosen), chosen, width=width)


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_a_real_model_fits_a_terminal(width: int) -> None:
    assert max(map(len, published(width).splitlines())) <= width


@pytest.mark.parametrize("width", [1, 20, 79, 80, 120])
def test_the_numbers_are_the_same_at_every_width(width: int) -> None:
    def numbers(text: str) -> list[str]:
        tables = text[text.index("group") : text.index("note")]
        return sorted(re.findall(r"\d[\d,.]*\d{2}\b", tables))

    assert numbers(published(width)) == numbers(published(500))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 2**61), min_size=1, max_size=3), st.integers(1, 130))
def test_no_number_is_cut(sizes: list[int], width: int) -> None:
    case = case_of(*(state(f"l0.mix.s{index}", size) for index, size in enumerate(sizes)))
    text = shown(case, width=width)
    assert "…" not in text
    for size in sizes:
        assert f" {4 * size:,} " in text
    assert f" {4 * sum(sizes):,} " in text


def test_states_of_one_group_and_several_sizes_are_told_apart() -> None:
    text = shown(case_of(state("l0.mix.h", 10), state("l1.mix.h", 10, layer=1), state("l2.mix.h", 30, layer=2)))
    assert re.search(r"^mix\.h +2 +10 +f32 +40 +80 +0\.00$", text, re.MULTILINE)
    assert re.search(r"^mix\.h +1 +30 +f32 +120 +120 +0\.00$", text, re.MULTILINE)
    assert "widest  l2.mix.h: 120 bytes = 30 elements x f32\n" in text
    assert "then    l0.mix.h, and 1 more: 40 bytes = 10 elements x f32\n" in text
    assert text.startswith("any: 3 recurrent layers, 200 bytes of recurrent state\n")


def test_unmoved_groups_are_named() -> None:
    draft = state("draft.mix.h", 5, section=Section.DRAFT, layer=None)
    kv = state("l0.attn.k", 5, kind=StateKind.PAGED_KV, verify=None, block="attn")
    ring = state("l0.mix.ring", 10, kind=StateKind.RING_SNAPSHOT, verify=None, of="l0.mix.h")
    text = shown(case_of(state("l0.mix.h", 10), draft, kv, ring))
    assert "note  no program moves draft mix.h, attn.k\n" in text
    assert re.search(r"^ring_save +copy live -> ring +40 +0\.00$", text, re.MULTILINE)
    assert text.startswith("any: 1 recurrent layer, 40 bytes of recurrent state\n")


def test_a_circuit_without_recurrent_state_may_still_have_a_plan() -> None:
    chosen = Settings(kv_blocks=3, kv_block_size=2)
    case = case_of(state("l0.attn.k", 5, kind=StateKind.PAGED_KV, verify=None, block="attn"), settings=chosen)
    text = shown(case, chosen)
    assert "No layer keeps recurrent state: the programs around a verify write nothing.\n" in text
    assert re.search(r"^attn\.k +blocks +1 +6 +120 +0\.00$", text, re.MULTILINE)
    assert "verify_checkpoint" not in text


def test_text_of_a_file_cannot_steer_the_terminal() -> None:
    text = shown(case_of(state("l0.mix.h", 1), name="\x1b[2J[red]x\n", counts="\x07\u202e[b]y"))
    assert text.splitlines()[0] == "␛[2J[red]x␊: 1 recurrent layer, 4 bytes of recurrent state"
    assert "declared: ␇\N{REPLACEMENT CHARACTER}[b]y\n" in text


def test_a_rate_that_is_not_a_whole_number() -> None:
    chosen = Settings.model_validate({"rate": "0.3"})
    text = shown(case_of(state("l0.mix.h", 1), settings=chosen), chosen)
    assert re.search(r"^at 0\.3 verifies/s +bytes/s +MiB/s$", text, re.MULTILINE)
    assert re.search(r"^verify_rollback +1\.2 +0\.00$", text, re.MULTILINE)
    assert re.search(r"^checkpoint, then one +2\.4 +0\.00$", text, re.MULTILINE)
