"""Circuit files: the states that they declare, and the lines that messages name."""

from __future__ import annotations

import enum
import json
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from proofstream_state_cost.circuit.file import parse_circuit
from proofstream_state_cost.circuit.file_tables import BlockTable, CircuitTable, LayersTable, StateTable
from proofstream_state_cost.states.errors import CircuitFileError
from proofstream_state_cost.states.plan import Holding
from proofstream_state_cost.states.programs import StateProgram, price_programs
from proofstream_state_cost.states.state_circuit import Dtype, Lifetime, Section, StateCircuit, StateKind, VerifyRule

ROOT = Path(__file__).parents[4]
GOLDEN = json.loads((ROOT / "tests" / "data" / "state" / "golden.json").read_text(encoding="utf-8"))
MODELS: dict[str, dict[str, Any]] = {model["name"]: model for model in GOLDEN["models"]}
EXAMPLES = sorted((ROOT / "examples" / "circuits").glob("*.toml"))

SMALL = (ROOT / "tests" / "data" / "state" / "small.toml").read_text(encoding="utf-8")


def parse(text: str, language: Literal["toml", "json"] = "toml") -> StateCircuit:
    return parse_circuit(text, format=language, name="small")


def refusal(text: str, language: Literal["toml", "json"] = "toml") -> str:
    with pytest.raises(CircuitFileError) as caught:
        parse(text, language)
    message = str(caught.value)
    assert "\n" not in message
    return message


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


IDS = [
    "embed.table",
    "l0.mamba.h", "l0.mamba.conv", "l0.mamba.ring",
    "l1.attn.k",
    "l2.mamba.h", "l2.mamba.conv", "l2.mamba.ring",
    "l3.attn.k",
    "l4.mamba.h", "l4.mamba.conv", "l4.mamba.ring",
    "head.prefix_hidden",
    "draft.attn.k",
]  # fmt: skip


def test_states_stand_in_the_order_prologue_layers_epilogue_draft() -> None:
    circuit = parse(SMALL)
    assert circuit.name == "small"
    assert [state.id for state in circuit.states] == IDS
    assert circuit.recurrent_layer_ids == (0, 2, 4)
    assert [state.id for state in circuit.states if state.section is Section.DRAFT] == ["draft.attn.k"]
    assert circuit.assumptions == ()


def test_a_state_has_all_that_the_file_says() -> None:
    by_id = {state.id: state for state in parse(SMALL).states}
    conv = by_id["l4.mamba.conv"]
    assert (conv.local, conv.block, conv.layer, conv.group) == ("conv", "mamba", 4, "mamba.conv")
    assert (conv.elements, conv.shape, str(conv.format)) == (384, "96 x 4", "f32")
    ring = by_id["l4.mamba.ring"]
    assert (ring.of, ring.elements, ring.shape) == ("l4.mamba.h", 512, "4 x 8 x 16")
    assert (by_id["embed.table"].layer, by_id["draft.attn.k"].layer) == (None, None)


def test_json_says_the_same() -> None:
    assert parse(json.dumps(tomllib.loads(SMALL)), "json") == parse(SMALL)


def test_a_single_block_is_sized_without_a_layer() -> None:
    text = """
    name = "gdn"
    prologue = ["gdn"]
    [[block.gdn.state]]
    id = "h"
    kind = "recurrent"
    format = "f32"
    shape = "48 x 128 x 128"
    verify = "h_steps"
    """
    circuit = parse(text)
    assert [(state.id, state.elements) for state in circuit.states] == [("gdn.h", 786432)]
    assert circuit.recurrent_layers == 0


def test_a_dim_of_zero_gives_no_elements() -> None:
    circuit = parse(SMALL.replace("kernel = 4", "kernel = 0"))
    assert {state.elements for state in circuit.states if state.local == "conv"} == {0}


def test_a_model_without_recurrent_layers_is_an_answer() -> None:
    assert parse('name = "plain"\nlayers = []').states == ()


def test_notes_and_unused_blocks_become_assumptions() -> None:
    text = SMALL.replace('draft = ["attn@mtp.0"]', 'notes = ["one", "two"]').replace(
        'full = ["attn", "moe"]', "full = []"
    )
    assert parse(text).assumptions == ("one", "two", "block attn is declared and stands nowhere")


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_has_the_measured_bytes_of_its_model(path: Path) -> None:
    circuit = parse(path.read_text("utf-8"))
    [model] = [model for name, model in MODELS.items() if name.split(" (")[0] == circuit.name]
    assert circuit.recurrent_layer_ids == tuple(model["recurrent_layer_ids"])
    for word in ("f32", "f16", "bf16"):
        expected = model["metrale_state_programs_bytes"][f"ssm_h_storage_{word}"]
        formats = {"ssm_h_storage": Dtype(word), "kv_cache_dtype": Dtype.BF16}
        for program in price_programs(circuit, formats):
            if program.nodes:
                assert program.bytes == expected[program.program.value]


def test_an_example_has_snapshots() -> None:
    assert [path.name for path in EXAMPLES] == ["nemotron-3-nano-30b-a3b.toml", "qwen3.8-27b.toml"]
    formats = {"ssm_h_storage": Dtype.F16}
    sizes = {p.program: p.bytes for p in price_programs(parse(EXAMPLES[1].read_text("utf-8")), formats)}
    assert sizes[StateProgram.PREFIX_SAVE] > sizes[StateProgram.RING_SAVE] == sizes[StateProgram.SLOT_ZERO] > 0


DOCS = (ROOT / "docs" / "state-circuits.md").read_text(encoding="utf-8")


def test_the_example_of_the_docs_is_a_circuit_file() -> None:
    circuit = parse(DOCS.partition("```toml\n")[2].partition("```")[0])
    assert (len(circuit.states), circuit.recurrent_layers) == (24 * 3 + 9 * 2 + 2, 24)
    [priced] = price_programs(circuit, {"ssm_h_storage": Dtype.F32}, [StateProgram.SLOT_ZERO])
    assert (
        priced.bytes == MODELS["Qwen/Qwen3.5-4B"]["conventions"]["metrale_f32_kernel_columns"]["total_bytes_per_slot"]
    )


@pytest.mark.parametrize("words", [StateKind, Lifetime, Dtype, VerifyRule, StateProgram, Holding])
def test_the_docs_name_every_word(words: type[enum.Enum]) -> None:
    assert [word.value for word in words if not re.search(rf"\b{word.value}\b", DOCS)] == []


@pytest.mark.parametrize("table", [CircuitTable, StateTable, LayersTable, BlockTable])
def test_the_docs_name_every_key(table: type[BaseModel]) -> None:
    assert [key for key in table.model_fields if not re.search(rf"\b{key}\b", DOCS)] == []


def test_a_message_is_short_however_many_dims_there_are() -> None:
    dims = "".join(f"d{i} = 1\n" for i in range(5000))
    with pytest.raises(CircuitFileError, match=r"the dims are d0, d1, .* and 4970 more"):
        parse(
            f'name = "x"\nprologue = ["b"]\n[dims]\n{dims}[[block.b.state]]\nid = "k"\nkind = "paged_kv"\n'
            'format = "f32"\nshape = "e"'
        )


def test_lines_are_found_past_long_strings_dotted_keys_and_inline_tables() -> None:
    text = '''
name = """
[[block.fake.state]]
dims = 5 \\"""
"""
notes = [
  \'\'\'
  [dims]
  kernel = 9
  \'\'\', "a # no comment", 'b [', """c ["""
]
layers = ["k"]
"layer_kinds"."k" = ["b"]
block.b.state = [
    { id = "h", kind = "recurrent", format = "f32", shape = "q x 2", verify = "h_steps" },
]
[dims] # [[block.b.state]]
q = 1
"kernel" = -1
'''
    assert refusal(text) == f"small:{line_of(text, chr(34) + 'kernel')}: dims, kernel: it is not between 0 and 2^64 - 1"
    text = text.replace("-1", "1").replace("q x 2", "r x 2")
    assert refusal(text).startswith(
        f"small:{line_of(text, 'block.b.state = [')}: block b, state h, shape: unknown dim 'r'"
    )
    text = text.replace("r x 2", "q x 2")
    assert [state.elements for state in parse(text).states] == [2]


def test_lines_are_those_of_an_editor_with_any_line_ends() -> None:
    text = SMALL.replace("kernel = 4", "kernel = -4").replace("\n", "\r\n")
    assert refusal(text).startswith(f"small:{line_of(text, 'kernel = -4')}: ")


def test_json_has_the_same_tables() -> None:
    assert parse_circuit(json.dumps(tomllib.loads(SMALL)), format="json", name="small") == parse(SMALL)
