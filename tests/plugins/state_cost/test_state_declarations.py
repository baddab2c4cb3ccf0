"""States as `CircuitCompiled` declares them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proofstream import Catalog, CircuitCompiled, LineDecoder, StateDeclaration, encode_event
from proofstream_state_cost.circuit.file import parse_circuit
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.states.errors import BadState
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
)

DATA = Path(__file__).parents[2] / "data" / "state"


def declared(state_id: str, **fields: Any) -> StateDeclaration:
    given: dict[str, Any] = {"kind": "recurrent", "section": "main", "format": "f32", "elements": 100} | fields
    return StateDeclaration(id=state_id, **given)


def read(*declarations: StateDeclaration) -> StateCircuit:
    return circuit_from_declarations("some", declarations)


def test_a_full_declaration_is_used_unchanged() -> None:
    declaration = StateDeclaration(
        id="whatever", kind="recurrent", section="draft", format="{ssm_h_storage}", elements=7, local="conv",
        block="kda", layer=3, verify="conv_steps", lifetime="sequence",
    )  # fmt: skip
    assert read(declaration).states == (
        CircuitState(
            id="whatever", local="conv", block="kda", layer=3, section=Section.DRAFT, kind=StateKind.RECURRENT,
            format=StateFormat(key="ssm_h_storage"), elements=7, verify=VerifyRule.CONV_STEPS,
        ),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state_id", "layer", "block", "local"),
    [
        ("l4.mamba.conv", 4, "mamba", "conv"),
        ("l0.h", 0, "", "h"),
        ("draft.attn.k", None, "attn", "k"),
        ("head.prefix_hidden", None, "head", "prefix_hidden"),
        ("l12.moe.experts.h", 12, "moe.experts", "h"),
        ("h", None, "", "h"),
        ("layer4.h", None, "layer4", "h"),
        ("l99999999999999999999.m.h", None, "l99999999999999999999.m", "h"),
        ("..", None, "", ".."),
    ],
)
def test_a_declaration_s_id_fills_gaps(state_id: str, layer: int | None, block: str, local: str) -> None:
    [state] = read(declared(state_id)).states
    assert (state.id, state.layer, state.block, state.local) == (state_id, layer, block, local)


def test_a_declaration_wins_over_its_id() -> None:
    [state] = read(declared("l4.mamba.conv", layer=5, block="kda", local="c")).states
    assert (state.layer, state.block, state.local) == (5, "kda", "c")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "recurring"}, "kind 'recurring' is unknown; known are recurrent, paged_kv, prefix_snapshot, "),
        ({"section": "tail"}, "section 'tail' is unknown; known are main, draft"),
        ({"format": "fp4"}, "format 'fp4' is neither a dtype nor a {key}"),
        ({"format": "{}"}, "format '{}' is neither a dtype nor a {key}"),
        ({"verify": "steps"}, "verify 'steps' is unknown; known are h_steps, conv_steps"),
        ({"kind": "paged_kv", "verify": "h_steps"}, "a paged_kv state keeps no verify intermediates"),
        ({"lifetime": "forever"}, "lifetime 'forever' is unknown; known are model, sequence, verify, snapshot"),
        ({"lifetime": "verify"}, "a recurrent state has the lifetime 'sequence', not 'verify'"),
        ({"kind": "paged_kv", "lifetime": "sequence"}, "a paged_kv state has the lifetime 'model', not 'sequence'"),
        ({"of": "l0.m.x"}, "a recurrent state cannot copy another state"),
        ({"kind": "ring_snapshot", "of": "l0.m.x"}, "it is a copy of l0.m.x, which does not exist"),
        ({"kind": "ring_snapshot"}, "a ring_snapshot is a copy of another state: of must name it"),
        ({"elements": 2**64}, "elements are not between 0 and 2^64 - 1"),
    ],
)
def test_a_wrong_declaration_is_refused_by_its_id(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadState) as caught:
        read(declared("l0.m.h"), declared("l1.m.h", **fields))
    assert str(caught.value).startswith("state l1.m.h: ")
    assert reason in str(caught.value)


def test_two_states_of_one_id_are_refused() -> None:
    with pytest.raises(BadState, match=r"state l0\.m\.h: two states have this id"):
        read(declared("l0.m.h"), declared("l0.m.h"))


def test_a_strange_id_keeps_the_message_in_one_line() -> None:
    with pytest.raises(BadState) as caught:
        read(declared("l0\n.m.h", kind="x"))
    assert "\n" not in str(caught.value)


def test_a_snapshot_is_tied_to_its_state_by_the_whole_id() -> None:
    circuit = read(
        declared("l0.m.h", format="{h}"), declared("l0.m.ring", kind="ring_snapshot", lifetime="snapshot", of="l0.m.h")
    )
    assert circuit.states[1].of == "l0.m.h"
    assert circuit.states[0].dtype({"h": Dtype.FP8}) is Dtype.FP8


def declaration_of(state: CircuitState) -> StateDeclaration:
    """Return a declaration as a producer would write it, with all fields."""
    return StateDeclaration(
        id=state.id, local=state.local, block=state.block, kind=state.kind.value, section=state.section.value,
        format=str(state.format), elements=state.elements, lifetime=state.lifetime.value,
        layer=msgspec.UNSET if state.layer is None else state.layer,
        verify=msgspec.UNSET if state.verify is None else state.verify.value,
        of=msgspec.UNSET if state.of is None else state.of,
    )  # fmt: skip


def test_a_circuit_survives_the_wire() -> None:
    circuit = parse_circuit((DATA / "qwen3.8-27b.toml").read_text("utf-8"), format="toml", name="qwen")
    event = CircuitCompiled(
        total_layers=0, input_shape=(1, 1), output_shape=(1, 1), nodes=[], has_simd=False, simd_num_blocks=0,
        states=list(map(declaration_of, circuit.states)),
    )  # fmt: skip
    decoded = LineDecoder(Catalog()).decode(encode_event(event))
    assert isinstance(decoded.event, CircuitCompiled)
    assert isinstance(decoded.event.states, tuple)
    again = circuit_from_declarations(circuit.name, decoded.event.states)
    assert again.states == tuple(replace(state, shape=None) for state in circuit.states)
    assert again.recurrent_layers == circuit.recurrent_layers == 48
