"""Mistakes in circuit files: each message has the line, the block, the state and a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from proofstream_state_cost.circuit.file import parse_circuit
from proofstream_state_cost.states.errors import CircuitFileError
from proofstream_state_cost.states.state_circuit import StateCircuit, StateKind

SMALL = (Path(__file__).parents[3] / "data" / "state" / "small.toml").read_text(encoding="utf-8")


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


FIRST_H = 'id = "h"\nkind = "recurrent"'
CONV_SHAPE = "heads*head_dim+groups*state*2 x kernel"

MISTAKES: list[tuple[str, str, str, str]] = [
    # The replaced text, its replacement, a part of the line that the message names, and the reason.
    (FIRST_H, 'id = "h"\nkind = "recurring"', 'kind = "recurring"',
     "block mamba, state h, kind: kind 'recurring' is unknown; known are "
     + ", ".join(kind.value for kind in StateKind)),
    ("{ssm_h_storage}", "fp4", 'format = "fp4"',
     "block mamba, state h, format: format 'fp4' is neither a dtype nor a {key}; the dtypes are f32, f16, bf16, fp8"),
    ("{ssm_h_storage}", "{}", 'format = "{}"',
     "block mamba, state h, format: format '{}' is neither a dtype nor a {key}"),
    ('verify = "h_steps"', 'verify = "steps"', 'verify = "steps"',
     "block mamba, state h, verify: verify 'steps' is unknown; known are h_steps, conv_steps"),
    ('verify = "h_steps"\n', "", "[[block.mamba.state]]",
     "block mamba, state h, verify: a recurrent state must say which intermediates a verify keeps"),
    ('of = "h"', 'of = "h"\nverify = "h_steps"', 'verify = "h_steps"\n\n[[block.attn',
     "block mamba, state ring, verify: a ring_snapshot state keeps no verify intermediates"),
    ('lifetime = "sequence"', 'lifetime = "ever"', 'lifetime = "ever"',
     "block mamba, state h, lifetime: lifetime 'ever' is unknown; known are model, sequence, verify, snapshot"),
    ('lifetime = "sequence"', 'lifetime = "verify"', 'lifetime = "verify"',
     "block mamba, state h, lifetime: a recurrent state has the lifetime 'sequence', not 'verify'"),
    (CONV_SHAPE, "heads*(head_dim) x 4", 'shape = "heads*(',
     ("block mamba, state conv, shape: 'heads*(head_dim)' is not a shape expression: "
      "'(head_dim)' is neither a dim nor a")),
    (CONV_SHAPE, "heads x kernel-1", 'shape = "heads x kernel-1', "'kernel-1' is neither a dim nor a number"),
    (CONV_SHAPE, "heads xkernel", 'shape = "heads xk',
     "unknown dim 'headsxkernel' in the expression headsxkernel; the dims are groups, head_dim, heads, "),
    (CONV_SHAPE, "heads x 0", 'shape = "heads x 0', "'0' is not a shape expression: its numbers are 1 or more"),
    (CONV_SHAPE, "9223372036854775808*2 x kernel", 'shape = "9223372036854775808*2',
     "the expression 9223372036854775808*2 overflows: 9223372036854775808 x 2 is more than 2^64 - 1"),
    ("heads = 4\nh", "heads = 18446744073709551615\nh", 'shape = "heads x head_dim x state"',
     "block mamba, state h, shape: the shape heads x head_dim x state overflows: 18446744073709551615 x 8 is more"),
    (CONV_SHAPE, 'heads"\nof = "h', 'of = "h"', "block mamba, state conv, of: it has both shape and of"),
    (f'shape = "{CONV_SHAPE}"', 'of = "h"', 'of = "h"', "state conv, of: a recurrent state cannot copy another state"),
    (f'shape = "{CONV_SHAPE}"\n', "", '[[block.mamba.state]]\nid = "conv"', "state conv, shape: it has no shape"),
    ('of = "h"', "", '[[block.mamba.state]]\nid = "ring"',
     "block mamba, state ring, shape: a ring_snapshot has no shape of its own"),
    ('of = "h"', 'shape = "4"', 'shape = "4"',
     "block mamba, state ring, shape: a ring_snapshot has no shape of its own"),
    ('of = "h"', 'of = "x"', 'of = "x"', "state ring, of: the block has no state 'x' to copy"),
    ('of = "h"', 'of = "k"', 'of = "k"', "state ring, of: the block has no state 'k' to copy"),
    ('of = "h"', 'of = "ring"', 'of = "ring"', "state ring, of: ring is a copy itself"),
    ('id = "conv"', 'id = "h"', 'id = "h"\nkind = "recurrent"\nformat = "f32"', "the block has two states of that id"),
    ('id = "conv"', 'id = "h.x"', 'id = "h.x"',
     "block mamba, state h.x, id: a name consists of letters, digits, _ and -"),
    ('id = "conv"', "id = 5", "id = 5", "block mamba, state number 2, id: it is not a string"),
    ('id = "conv"', 'name = "conv"', 'name = "conv"',
     "block mamba, state number 2, name: unknown key; known are format, id, kind, lifetime, of, shape, v"),
    ('id = "conv"\n', "", '[[block.mamba.state]]\nkind', "block mamba, state number 2, id: it is missing"),
    ("kernel = 4", "kernel = -4", "kernel = -4", "dims, kernel: it is not between 0 and 2^64 - 1"),
    ("kernel = 4", f"kernel = {2**64}", "kernel = 1", "dims, kernel: it is not between 0 and 2^64 - 1"),
    ("kernel = 4", "kernel = 4.0", "kernel = 4.0", "dims, kernel: it is not a whole number"),
    ("kernel = 4", "kernel = true", "kernel = true", "dims, kernel: it is not a whole number"),
    ("kernel = 4", 'kernel = "4"', 'kernel = "4"', "dims, kernel: it is not a whole number"),
    ("kernel = 4", "kernel = inf", "kernel = inf", "dims, kernel: it is not a whole number"),
    ("kernel = 4", "kernel = 4\nKernel = 4", "Kernel = 4", "dims, Kernel: shapes cannot use this name"),
    ('"attn", "moe"]', '"atn", "moe"]', "full =", "layer kind full: unknown block 'atn'"),
    ("none = []", 'none = ["nothing"]', "none =", "layer kind none: unknown block 'nothing'; a block without states"),
    ('["embed"]', '["embd"]', "prologue", "prologue: unknown block 'embd'"),
    ("attn@mtp.0", "att@mtp.0", "draft", "draft: unknown block 'att'"),
    ("attn@mtp.0", "attn@", "draft", "draft, entry 1: a name consists of letters, digits, _ and -"),
    ('"none" }', '"non" }', "layers", "layers, entry 3: unknown layer kind 'non'; layer_kinds does not declare it"),
    ("count = 2", "count = 0", "layers", "layers, entry 2, count: a count is 1 or more"),
    ("count = 2", "count = 5000", "layers", "layers: there are more than 10000 layers"),
    ("count = 2", f"count = {10**30}", "layers", "layers: there are more than 10000 layers"),
    ("count = 2", "times = 2", "layers", "layers, entry 2, times: unknown key; known are count, kind"),
    ('["full", "mamba"]', "[]", "layers", "layers, entry 2, kind: list should have at least 1 item"),
    ('    "mamba",  # a word', "    7,", "layers", "layers, entry 1: it is not a table"),
    ("[block.moe]", "[block.moe]\nstates = []", "states = []",
     "block moe, states: unknown key; known are state"),
    ("[block.moe]", '[block."a b"]', '[block."a b"]', "block a b: a name consists of letters, digits, _ and -"),
    ("[block.moe]", '[block."a\\u0007b"]', '[block."a',
     "block a\N{SYMBOL FOR BELL}b: a name consists of letters, digits, _ and -"),
    ("[layer_kinds]", "[[layer_kinds]]", "[[layer_kinds]]", "layer_kinds: it is not a table"),
    ('name = "small"', 'nam = "small"', "nam", "nam: unknown key; known are block, dims, draft, epilogue,"),
    ('name = "small"', 'name = ""', "name", "name: string should have at least 1 character"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "where", "reason"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_line_its_block_its_state_and_its_reason(
    old: str, new: str, where: str, reason: str
) -> None:
    assert old in SMALL
    text = SMALL.replace(old, new, 1)
    message = refusal(text)
    assert reason in message
    assert message.startswith(f"small:{line_of(text, where)}: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "small"\n', "", "small: name: it is missing"),
        ('full = ["attn", "moe"]', 'full = ["attn", "attn"]', "small: state l1.attn.k: two states have this id"),
        (
            'epilogue = ["head"]',
            'epilogue = ["head", "embed"]',
            "small: state embed.table: two states have this id",
        ),
        (
            'of = "h"',
            'of = "h"\n[[block.mamba.state]]\nid = "again"\nkind = "ring_snapshot"\nformat = "f32"\nof = "h"',
            "small: state l0.mamba.again: l0.mamba.ring already is a ring_snapshot of l0.mamba.h",
        ),
    ],
)
def test_a_mistake_without_a_line_names_the_state_or_block(old: str, new: str, message: str) -> None:
    assert refusal(SMALL.replace(old, new, 1)) == message


def test_a_snapshot_is_of_recurrent_state() -> None:
    copy = '[[block.attn.state]]\nid = "p"\nkind = "prefix_snapshot"\nformat = "f32"\nof = "k"\n'
    assert refusal(SMALL + copy).endswith("it is a copy of l1.attn.k, which is a paged_kv, not recurrent")


def test_a_snapshot_cannot_have_the_shape_of_a_state_that_has_none() -> None:
    text = SMALL.replace('shape = "heads x head_dim x state"\n', "", 1)
    assert "block mamba, state h, shape: it has no shape" in refusal(text)
    text = SMALL.replace('shape = "kv_heads x head_dim"\n', "", 1).replace(
        "[[block.attn.state]]",
        '[[block.attn.state]]\nid = "p"\nkind = "prefix_snapshot"\nformat = "f32"\nof = "k"\n\n[[block.attn.state]]',
        1,
    )
    assert "block attn, state p, of: k has no shape" in refusal(text)


def test_a_file_that_places_no_block_is_refused() -> None:
    text = SMALL[SMALL.index("[layer_kinds]") :]
    assert refusal('name = "x"\n' + text) == (
        "small: the model's blocks are not given: add layers, prologue, epilogue or draft"
    )


def test_more_states_than_any_model_has_are_refused() -> None:
    states = "".join(
        f'[[block.b.state]]\nid = "s{i}"\nkind = "paged_kv"\nformat = "f32"\nshape = "1"\n' for i in range(11)
    )
    text = f'name = "x"\nlayers = [{{ kind = "k", count = 10000 }}]\nlayer_kinds.k = ["b"]\n{states}'
    assert refusal(text) == "small:2: layers: there are more than 100000 states"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"\nlayers = = []', "small:2: invalid TOML: Invalid value (column 10)"),
        ('name = "x"\nname = "y"\n', "small:2: invalid TOML: Cannot overwrite a value (column 11)"),
        ('name = "x', "small: invalid TOML: Unterminated string (at end of document)"),
        ("layers = " + "[" * 100_000, "small: unreadable TOML: "),
        ("[dims]\na = " + "9" * 5000, "small: unreadable TOML: "),
    ],
    ids=["syntax", "twice", "unterminated", "deep", "digits"],
)
def test_invalid_toml_is_refused_with_its_line(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "small:1: invalid JSON: Expecting value (column 1)"),
        ('{"name": "x",\n "layers": [}', "small:2: invalid JSON: Expecting value (column 13)"),
        ("[]", "small: a circuit file must hold one JSON object"),
        ('"name"', "small: a circuit file must hold one JSON object"),
        ('{"name": "x", "name": "y"}', "small: unreadable JSON: the key 'name' stands twice in one object"),
        ('{"name": "x", "dims": {"a": NaN}}', "small: unreadable JSON: NaN is not a JSON number"),
        ('{"name": "x", "dims": {"a": -Infinity}}', "small: unreadable JSON: -Infinity is not a JSON number"),
        ('{"a": ' + "[" * 100_000, "small: unreadable JSON: "),
        ('{"a": ' + "9" * 5000 + "}", "small: unreadable JSON: "),
        ('{"name": "x", "layers": [], "dims": {"a": 1e3}}', "small: dims, a: it is not a whole number"),
        ('{"name": "x", "layers": [], "dims": null}', "small: dims: it is not a table"),
        (
            '{"name": "x", "layers": [], "block": {"b": {"state": [3]}}}',
            "small: block b, state number 1: it is not a table",
        ),
        ('{"model_type": "mamba", "hidden_size": 768}', "small: model_type: unknown key; known are block, "),
    ],
    ids=range(13),
)
def test_invalid_json_and_other_documents_are_refused(text: str, message: str) -> None:
    assert refusal(text, "json").startswith(message)
