"""States and circuits: their properties, and contradictions that are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofstream_state_cost.states.errors import BadState, MissingFormat, Overflow
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Lifetime,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
    parse_format,
)

H = CircuitState(
    id="l4.mamba.h",
    local="h",
    block="mamba",
    layer=4,
    section=Section.MAIN,
    kind=StateKind.RECURRENT,
    format=StateFormat(key="ssm_h_storage"),
    elements=100,
    verify=VerifyRule.H_STEPS,
)
RING = replace(H, id="l4.mamba.ring_h", local="ring_h", kind=StateKind.RING_SNAPSHOT, verify=None, of="l4.mamba.h")


@pytest.mark.parametrize(("word", "size"), [("f32", 4), ("f16", 2), ("bf16", 2), ("fp8", 1)])
def test_a_dtype_has_its_size(word: str, size: int) -> None:
    assert Dtype(word).size == size
    assert parse_format(word) == StateFormat(dtype=Dtype(word))
    assert str(parse_format(word)) == word


def test_a_format_may_be_a_key() -> None:
    assert parse_format("{ssm_h_storage}") == StateFormat(key="ssm_h_storage")
    assert str(parse_format("{ssm_h_storage}")) == "{ssm_h_storage}"


@pytest.mark.parametrize(
    "word", ["", "{}", "fp4", "F32", "{a b}", "{a", "a}", "{{a}}", "{a=b}", "{\x00}", " f32", "u32"]
)
def test_other_formats_are_refused(word: str) -> None:
    with pytest.raises(BadState, match=r"is neither a dtype nor a {key}; the dtypes are f32, f16, bf16, fp8"):
        parse_format(word)


LIFETIMES = {
    "recurrent": "sequence",
    "paged_kv": "model",
    "prefix_snapshot": "snapshot",
    "ring_snapshot": "snapshot",
    "carry_stash": "verify",
    "carry_table": "model",
    "verify_table": "model",
    "accept_stash": "verify",
    "hidden_capture": "sequence",
    "prompt_lookup_index": "sequence",
    "token_tree_mask": "verify",
    "draft_tokens": "verify",
}


def test_every_kind_has_one_lifetime() -> None:
    assert {kind.value: kind.lifetime.value for kind in StateKind} == LIFETIMES
    assert [kind.value for kind in StateKind if kind.is_snapshot] == ["prefix_snapshot", "ring_snapshot"]


def test_a_state_knows_its_lifetime_its_group_and_the_bytes_of_a_unit() -> None:
    assert H.lifetime is Lifetime.SEQUENCE
    assert H.group == "mamba.h"
    assert H.unit_bytes({"ssm_h_storage": Dtype.F16, "other": Dtype.F32}) == 200
    assert replace(H, block="").group == "h"


def test_a_key_without_a_dtype_names_the_state_and_the_key() -> None:
    with pytest.raises(MissingFormat) as caught:
        H.unit_bytes({"other": Dtype.F32})
    assert (caught.value.state_id, caught.value.key) == ("l4.mamba.h", "ssm_h_storage")
    assert str(caught.value) == "state l4.mamba.h: no dtype is given for its format {ssm_h_storage}"
    assert caught.value.hint == "give one, as in ssm_h_storage=bf16"


def test_an_error_about_a_unit_beyond_64_bits_names_the_state() -> None:
    with pytest.raises(Overflow) as caught:
        replace(H, elements=2**62).unit_bytes({"ssm_h_storage": Dtype.F32})
    assert str(caught.value) == "state l4.mamba.h overflows: 4611686018427387904 x 4 is more than 2^64 - 1"
    assert caught.value.subject == "state l4.mamba.h"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"elements": -1}, "-1 elements are not between 0 and 2^64 - 1"),
        ({"elements": 2**64}, "18446744073709551616 elements are not between"),
        ({"elements": True}, "True elements are not between"),
        ({"elements": 1.5}, "1.5 elements are not between"),
        ({"layer": -1}, "layer -1 is not between"),
        ({"id": ""}, "ids and names must be printable text"),
        ({"local": "h\x1b[0m"}, "ids and names must be printable text"),
        ({"kind": StateKind.PAGED_KV}, "a paged_kv state keeps no verify intermediates"),
        ({"of": "l4.mamba.x"}, "a recurrent state cannot copy another state"),
        ({"kind": StateKind.RING_SNAPSHOT, "verify": None}, "a ring_snapshot is a copy of another state"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadState) as caught:
        replace(H, **changes)
    assert reason in str(caught.value)


def test_a_strange_id_does_not_break_the_line_of_a_message() -> None:
    with pytest.raises(BadState) as caught:
        replace(H, id="l4\nmamba")
    assert "\n" not in str(caught.value)


def test_a_circuit_counts_the_layers_of_the_model_itself_that_keep_recurrent_state() -> None:
    states = (
        replace(H, id="head.h", layer=None),
        replace(H, id="l9.mamba.h", layer=9),
        H,
        replace(H, id="l4.mamba.conv", local="conv"),
        replace(H, id="draft.mamba.h", layer=7, section=Section.DRAFT),
        replace(H, id="l5.attn.k", layer=5, kind=StateKind.PAGED_KV, verify=None),
        RING,
    )
    circuit = StateCircuit(name="some", states=states)
    assert circuit.recurrent_layer_ids == (4, 9)
    assert circuit.recurrent_layers == 2
    assert [state.id for state in circuit.recurrent_states] == ["head.h", "l9.mamba.h", "l4.mamba.h", "l4.mamba.conv"]


def test_no_recurrent_layer_is_an_answer() -> None:
    circuit = StateCircuit(name="none", states=())
    assert (circuit.recurrent_layers, circuit.recurrent_states) == (0, ())


PREFIX_OF_RING = replace(RING, id="l4.mamba.p", kind=StateKind.PREFIX_SNAPSHOT, of="l4.mamba.ring_h")


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ((H, H), "state l4.mamba.h: two states have this id"),
        ((H, replace(H, elements=5)), "state l4.mamba.h: two states have this id"),
        ((RING,), "state l4.mamba.ring_h: it is a copy of l4.mamba.h, which does not exist"),
        ((H, RING, PREFIX_OF_RING), "is a copy of l4.mamba.ring_h, which is a ring_snapshot, not recurrent"),
        ((H, replace(RING, section=Section.DRAFT)), "is a copy of l4.mamba.h, which is in another layer or section"),
        ((H, replace(RING, layer=5)), "is a copy of l4.mamba.h, which is in another layer or section"),
        ((H, replace(RING, elements=99)), "is a copy of l4.mamba.h, and they have 99 and 100 elements"),
        (
            (H, RING, replace(RING, id="l4.mamba.b")),
            "state l4.mamba.b: l4.mamba.ring_h already is a ring_snapshot of l4.mamba.h",
        ),
    ],
)
def test_states_that_contradict_one_another_are_refused(states: tuple[CircuitState, ...], reason: str) -> None:
    with pytest.raises(BadState) as caught:
        StateCircuit(name="some", states=states)
    assert reason in str(caught.value)
