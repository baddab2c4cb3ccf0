"""Thirty public models: their layers, shapes and bytes agree with other programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import pytest

from proofstream_state_cost.config.conventions import PRESETS, ConventionError, extrapolated
from proofstream_state_cost.config.counted_states import count_states
from proofstream_state_cost.config.model_config import parse_model_config, read_model_config
from proofstream_state_cost.states.programs import StateProgram, price_programs
from proofstream_state_cost.states.state_circuit import Dtype, StateCircuit

_GOLDEN: Final = Path(__file__).parents[3] / "data" / "state" / "golden.json"
_MODELS: Final[list[dict[str, Any]]] = json.loads(_GOLDEN.read_text(encoding="utf-8"))["models"]
_OTHER: Final = [model for model in _MODELS if "config_json_other_published_form" in model]
_KEYS: Final = {
    "transformers": "transformers_5_24_0_bf16",
    "vllm": "vllm_0_33_0_bf16_tp1",
    "sglang": "sglang_0_5_23_tp1",
    "metrale": "metrale_f32_kernel_columns",
}
_PYTORCH: Final = {"float32": Dtype.F32, "bfloat16": Dtype.BF16, "float16": Dtype.F16}

each_model = pytest.mark.parametrize("model", _MODELS, ids=[model["name"] for model in _MODELS])


def document(model: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration as a file has it: the data keeps the type beside it."""
    return {"model_type": model["model_type"], **model["config"]}


def counted(model: dict[str, Any], convention: str, *, snapshots: bool = False) -> StateCircuit:
    return count_states(parse_model_config(document(model)), PRESETS[convention], snapshots=snapshots)


def first_layer(circuit: StateCircuit) -> dict[str, tuple[int, Dtype | None, str | None]]:
    """Return elements, dtype and shape of each state of the first recurrent layer; all layers have the same."""
    layers: dict[int, dict[str, tuple[int, Dtype | None, str | None]]] = {
        layer: {
            state.local: (state.elements, state.format.dtype, state.shape)
            for state in circuit.states
            if state.layer == layer
        }
        for layer in circuit.recurrent_layer_ids
    }
    assert len({tuple(sorted(layer.items())) for layer in layers.values()}) <= 1
    return next(iter(layers.values())) if layers else {}


def total(circuit: StateCircuit, convention: str) -> int:
    """Return the bytes of one sequence."""
    (zero,) = price_programs(circuit, PRESETS[convention].formats, [StateProgram.SLOT_ZERO])
    return zero.bytes


def test_there_are_thirty_models() -> None:
    assert len(_MODELS) == 30


@each_model
def test_the_recurrent_layers_and_their_states(model: dict[str, Any]) -> None:
    read = parse_model_config(document(model))
    assert read.layers.count == model["num_hidden_layers"]
    assert list(read.recurrent_layer_ids) == model["recurrent_layer_ids"]
    assert len(read.recurrent_layer_ids) == model["recurrent_layers"]
    expected = model["per_layer"]
    if not read.recurrent_layer_ids:
        assert read.mixer is None
        return
    assert read.mixer is not None
    h = read.mixer.h
    assert (None if h is None else list(h)) == expected["h_shape"]
    assert (read.mixer.conv_channels, read.mixer.conv_kernel) == (expected["conv_channels"], expected["conv_kernel"])


@each_model
def test_for_a_complete_file_only_the_dtype_is_assumed(model: dict[str, Any]) -> None:
    told = [sentence for sentence in parse_model_config(document(model)).assumptions if "is assumed" in sentence]
    assert told == ["dtype is missing: bfloat16 is assumed"]


@each_model
def test_as_transformers_allocates(model: dict[str, Any]) -> None:
    expected = model["conventions"][_KEYS["transformers"]]
    circuit = counted(model, "transformers")
    states = first_layer(circuit)
    assert states == {
        state["kind"]: (
            math.prod(state["shape"]),
            _PYTORCH[state["dtype"]],
            " x ".join(str(factor) for factor in state["shape"]),
        )
        for state in expected["states"]
    }
    for state in expected["states"]:
        elements, dtype, _ = states[state["kind"]]
        assert dtype is not None
        assert elements * dtype.size == state["bytes"]
    assert total(circuit, "transformers") == expected["total_bytes_per_slot"]
    assert expected["bytes_per_layer"] * model["recurrent_layers"] == expected["total_bytes_per_slot"]


@each_model
def test_as_vllm_allocates(model: dict[str, Any]) -> None:
    """Only elements can be compared, because vLLM transposes the axes."""
    expected = model["conventions"][_KEYS["vllm"]]
    if expected is None:
        with pytest.raises(ConventionError, match="has no figures for"):
            counted(model, "vllm")
        return
    circuit = counted(model, "vllm")
    found = {local: (elements, dtype) for local, (elements, dtype, _) in first_layer(circuit).items()}
    if model["recurrent_layers"]:
        assert found == {
            "h" if state["kind"] == "temporal" else "conv": (math.prod(state["shape"]), _PYTORCH[state["dtype"]])
            for state in expected["states"]
        }
    assert total(circuit, "vllm") == expected["total_bytes_per_slot"]


@each_model
def test_as_sglang_allocates(model: dict[str, Any]) -> None:
    expected = model["conventions"][_KEYS["sglang"]]
    if expected is None:
        with pytest.raises(ConventionError, match="has no figures for"):
            counted(model, "sglang")
        return
    circuit = counted(model, "sglang")
    found = {local: (elements, dtype) for local, (elements, dtype, _) in first_layer(circuit).items()}
    temporal = math.prod(expected["temporal"])
    wanted = {"conv": (sum(math.prod(part) for part in expected["conv"]), Dtype.BF16)}
    if temporal:
        wanted["h"] = (temporal, _PYTORCH[expected["temporal_dtype"].removeprefix("torch.")])
    assert found == (wanted if expected["layers"] else {})
    assert circuit.recurrent_layers == expected["layers"]
    assert total(circuit, "sglang") == expected["total_bytes"]


@each_model
def test_as_metrale_declares(model: dict[str, Any]) -> None:
    expected = model["conventions"][_KEYS["metrale"]]
    circuit = counted(model, "metrale")
    states = first_layer(circuit)
    assert states.get("h", (0,))[0] * 4 == expected["h_bytes"]
    assert states.get("conv", (0,))[0] * 4 == expected["conv_bytes"]
    assert total(circuit, "metrale") == expected["total_bytes_per_slot"]
    assert extrapolated(parse_model_config(document(model))) is expected["extrapolated"]
    assert {str(state.format) for state in circuit.states if state.local == "h"} <= {"{ssm_h_storage}"}


@each_model
@pytest.mark.parametrize("storage", ["f32", "f16", "bf16"])
def test_bytes_of_all_eight_programs(model: dict[str, Any], storage: str) -> None:
    circuit = counted(model, "metrale", snapshots=True)
    programs = price_programs(circuit, {"ssm_h_storage": Dtype(storage)})
    written = {program.program.value: program.bytes for program in programs}
    assert written == model["metrale_state_programs_bytes"][f"ssm_h_storage_{storage}"]


@pytest.mark.parametrize("model", _OTHER, ids=[model["name"] for model in _OTHER])
def test_other_published_forms_say_the_same(model: dict[str, Any]) -> None:
    other = read_model_config(json.dumps(model["config_json_other_published_form"]))
    one = parse_model_config(document(model))
    assert (other.layers, other.mixer, other.dtype) == (one.layers, one.mixer, one.dtype)


def test_every_other_form_is_among_them() -> None:
    assert len(_OTHER) == 3


@each_model
def test_ids_are_unique_and_in_the_order_of_the_layers(model: dict[str, Any]) -> None:
    circuit = counted(model, "transformers")
    layers = [state.layer for state in circuit.states]
    assert layers == sorted(layer for layer in layers if layer is not None)
    assert all(state.id == f"l{state.layer}.{state.block}.{state.local}" for state in circuit.states)
