"""Configurations: other documents, values of the wrong type, and open points."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from proofstream import ProofstreamError
from proofstream_state_cost.config.keys import MAX_LAYERS, ModelConfigError
from proofstream_state_cost.config.model_config import is_model_config, parse_model_config, read_model_config
from proofstream_state_cost.states.state_circuit import Dtype

_MAMBA: Final[dict[str, Any]] = {
    "model_type": "mamba",
    "num_hidden_layers": 2,
    "intermediate_size": 16,
    "state_size": 4,
    "conv_kernel": 4,
}
_QWEN: Final[dict[str, Any]] = {
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}


def refusal(document: object) -> ModelConfigError:
    with pytest.raises(ModelConfigError) as caught:
        parse_model_config(document, source="model/config.json")
    assert "\n" not in str(caught.value)
    return caught.value


def test_its_errors_are_those_of_the_package() -> None:
    assert issubclass(ModelConfigError, ProofstreamError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: invalid JSON: Expecting value"),
        ('{"a": 1,\n "b" 2}', "line 2: invalid JSON: Expecting ':' delimiter"),
        (
            '{"a": ' + "9" * 5000 + "}",
            "unreadable JSON: a number is too long, or it is nested too deep",
        ),
        ("[" * 200_000, "unreadable JSON: a number is too long, or it is nested too deep"),
        ("[]", "a model's configuration is a JSON object, and this is not one"),
        ("NaN", "a model's configuration is a JSON object, and this is not one"),
        ("{}", "model_type is missing"),
        ('{"model_type": null}', "model_type is null"),
        ('{"model_type": 3}', "model_type is 3, not a word"),
    ],
)
def test_other_documents_are_refused(text: str, message: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        read_model_config(text, source="c.json")
    assert str(caught.value) == f"c.json: {message}"


def test_a_byte_order_mark_does_no_harm() -> None:
    assert read_model_config("\ufeff" + json.dumps(_MAMBA)) == parse_model_config(_MAMBA)


def test_a_repeated_key_must_have_the_same_value() -> None:
    text = json.dumps(_MAMBA)
    same = text.replace("{", '{"state_size": 4, ', 1)
    assert read_model_config(same) == parse_model_config(_MAMBA)
    with pytest.raises(ModelConfigError, match=r'^config\.json: the key "state_size" stands twice, with different'):
        read_model_config(text.replace("{", '{"state_size": 8, ', 1))


def test_an_unknown_type_gets_the_known_ones() -> None:
    error = refusal({"model_type": "llama\n"})
    assert str(error).startswith(
        'model/config.json: model_type "llama\\n" is not known; known are bailing_hybrid, bamba, '
    )
    assert "qwen3_5, qwen3_5_moe, qwen3_5_moe_text, qwen3_5_text, qwen3_next" in str(error)
    assert error.hint == "a model without recurrent layers keeps no such state; a circuit file can describe any other"


def test_an_unknown_wrapper_of_a_known_type_gets_a_hint() -> None:
    error = refusal({"model_type": "omni", "text_config": {"model_type": "qwen3_5_text"}})
    assert error.hint == "its text_config has the known type qwen3_5_text: put that table into a file of its own"
    assert refusal({"model_type": "omni", "text_config": {"model_type": ["x"]}}).hint != error.hint


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (True, "true, not a whole number"),
        (4.0, "4.0, not a whole number"),
        (1.5, "1.5, not a whole number"),
        ("4", '"4", not a whole number'),
        ([4], "[4], not a whole number"),
        ({}, "{}, not a whole number"),
        (float("nan"), "NaN, not a whole number"),
        (0, "0, not between 1 and 2^64 - 1"),
        (-4, "-4, not between 1 and 2^64 - 1"),
        (2**64, "18446744073709551616, not between 1 and 2^64 - 1"),
        ("x" * 200, '"' + "x" * 58 + "…, not a whole number"),
    ],
)
@pytest.mark.parametrize("key", ["num_hidden_layers", "state_size", "conv_kernel", "intermediate_size"])
def test_values_that_are_not_numbers_are_refused(key: str, value: object, reason: str) -> None:
    assert str(refusal({**_MAMBA, key: value})) == f"model/config.json: model_type mamba: {key} is {reason}"


@pytest.mark.parametrize("key", ["num_hidden_layers", "state_size", "conv_kernel"])
def test_missing_and_null_are_refused_by_name(key: str) -> None:
    assert str(refusal({**_MAMBA, key: None})).endswith(f": {key} is null")
    assert str(refusal({k: v for k, v in _MAMBA.items() if k != key})).endswith(f": {key} is missing")


def test_too_many_layers_are_refused() -> None:
    assert len(parse_model_config({**_MAMBA, "num_hidden_layers": MAX_LAYERS}).recurrent_layer_ids) == MAX_LAYERS
    assert "no model has more than 65536 layers" in str(refusal({**_MAMBA, "num_hidden_layers": MAX_LAYERS + 1}))
    long = ["mamba"] * (MAX_LAYERS + 1)
    assert "layer_types has 65537 entries" in str(refusal({**_MAMBA, "layer_types": long}))
    pattern = {"model_type": "nemotron_h", "hybrid_override_pattern": "M" * (MAX_LAYERS + 1)}
    assert "has 65537 letters" in str(refusal(pattern))


@pytest.mark.parametrize(
    ("word", "dtype"),
    [("bfloat16", Dtype.BF16), ("float16", Dtype.F16), ("float32", Dtype.F32), ("torch.float16", Dtype.F16)],
)
@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
def test_the_dtype_has_two_names(key: str, word: str, dtype: Dtype) -> None:
    model = parse_model_config({**_MAMBA, key: word})
    assert (model.dtype, model.assumptions) == (dtype, ())


@pytest.mark.parametrize("value", [None, "auto"])
def test_a_missing_or_auto_dtype_is_assumed(value: object) -> None:
    model = parse_model_config({**_MAMBA, "dtype": value})
    assert (model.dtype, model.assumptions) == (Dtype.BF16, ("dtype is missing: bfloat16 is assumed",))


def test_unknown_or_contradicting_dtypes_are_refused() -> None:
    assert str(refusal({**_MAMBA, "dtype": "int8"})).endswith(
        'dtype is "int8"; known are bfloat16, float16 and float32'
    )
    assert str(refusal({**_MAMBA, "dtype": 16})).endswith("dtype is 16, not a word")
    both = {**_MAMBA, "dtype": "float32", "torch_dtype": "float16"}
    assert str(refusal(both)).endswith("dtype is f32 and torch_dtype is f16: they contradict")
    assert parse_model_config({**both, "torch_dtype": "float32"}).dtype is Dtype.F32


def test_the_dtype_of_a_nested_configuration_may_stand_on_either_level() -> None:
    inner = {"model_type": "qwen3_5", "text_config": {**_QWEN, "dtype": "float16"}}
    assert parse_model_config(inner).dtype is Dtype.F16
    assert parse_model_config({"model_type": "qwen3_5", "dtype": "float16", "text_config": _QWEN}).dtype is Dtype.F16
    assert parse_model_config({**inner, "torch_dtype": "float16"}).dtype is Dtype.F16
    assert str(refusal({**inner, "torch_dtype": "float32"})).endswith(
        "text_config.dtype is f16 and torch_dtype is f32: they contradict"
    )


@pytest.mark.parametrize("key", ["mamba_ssm_cache_dtype", "mamba_ssm_dtype"])
def test_dtypes_of_the_temporal_state(key: str) -> None:
    model = parse_model_config({**_MAMBA, key: "float16"})
    assert {"mamba_ssm_cache_dtype": model.ssm_cache_dtype, "mamba_ssm_dtype": model.ssm_dtype}[key] is Dtype.F16
    assert str(refusal({**_MAMBA, key: "auto"})).endswith("known are bfloat16, float16 and float32")


def test_errors_of_a_nested_configuration_say_so() -> None:
    inner = {key: value for key, value in _QWEN.items() if key != "linear_key_head_dim"}
    assert str(refusal({"model_type": "qwen3_5", "text_config": inner})) == (
        "model/config.json: model_type qwen3_5: text_config: linear_key_head_dim is missing"
    )


def test_heads_and_groups_that_do_not_divide_are_refused() -> None:
    odd = {**_QWEN, "model_type": "qwen3_next", "linear_num_value_heads": 3}
    assert str(refusal(odd)).endswith("linear_num_value_heads is 3, not a multiple of linear_num_key_heads, 2")
    mamba2 = {**_MAMBA, "model_type": "mamba2", "num_heads": 4, "head_dim": 4, "n_groups": 3}
    assert str(refusal(mamba2)).endswith("n_groups is 3, which does not divide the 4 heads")


def test_layers_of_jamba() -> None:
    jamba = {
        "model_type": "jamba",
        "num_hidden_layers": 8,
        "hidden_size": 8,
        "mamba_expand": 2,
        "mamba_d_state": 4,
        "mamba_d_conv": 4,
        "attn_layer_period": 4,
        "attn_layer_offset": 0,
    }
    assert parse_model_config(jamba).recurrent_layer_ids == (1, 2, 3, 5, 6, 7)
    assert str(refusal({**jamba, "attn_layer_offset": 4})).endswith(
        "attn_layer_offset is 4 and attn_layer_period is 4: they contradict"
    )
    assert str(refusal({**jamba, "layers_block_type": ["mamba"] * 8})).endswith(
        "layer 0 is recurrent only in layers_block_type"
    )
    assert str(refusal({**jamba, "attn_layer_offset": None})).endswith("attn_layer_offset is null")


def test_layers_of_recurrent_gemma() -> None:
    gemma = {
        "model_type": "recurrent_gemma",
        "num_hidden_layers": 4,
        "block_types": ["recurrent", "attention"],
        "hidden_size": 8,
        "lru_width": 12,
        "conv1d_width": 4,
    }
    model = parse_model_config(gemma)
    assert model.recurrent_layer_ids == (0, 2)
    assert model.mixer is not None
    assert (model.mixer.h, model.mixer.conv_channels) == ((12,), 12)
    lacking = parse_model_config({**gemma, "lru_width": None})
    assert lacking.mixer is not None
    assert lacking.mixer.h == (8,)
    assert "lru_width is missing: hidden_size = 8 is assumed, as the class does" in lacking.assumptions
    saved = {key: value for key, value in gemma.items() if key != "block_types"}
    assert parse_model_config({**saved, "_block_types": ["recurrent", "attention"]}).layers == model.layers
    assert str(refusal(saved)).endswith("block_types is missing")
    assert str(refusal({**gemma, "block_types": []})).endswith("block_types is empty")
    assert str(refusal({**gemma, "block_types": ["conv"]})).endswith(
        'block_types has "conv" in it; known are attention and recurrent'
    )
    assert "contradict each other" in str(refusal({**gemma, "_block_types": ["recurrent"]}))


def test_layers_of_gated_delta_nets() -> None:
    listed = {**_QWEN, "model_type": "olmo_hybrid", "full_attention_interval": 4}
    model = parse_model_config(listed)
    assert model.recurrent_layer_ids == (0,)
    assert "full_attention_interval 4 is not used: layer_types has other layers, and decides" in model.assumptions
    by_interval = {key: value for key, value in listed.items() if key != "layer_types"}
    assert parse_model_config(by_interval).recurrent_layer_ids == (0, 1)


def test_channels_of_lfm2_that_differ_between_readers_are_refused() -> None:
    lfm2: dict[str, Any] = {
        "model_type": "lfm2",
        "num_hidden_layers": 1,
        "full_attn_idxs": [],
        "hidden_size": 8,
        "conv_L_cache": 3,
    }
    assert parse_model_config({**lfm2, "conv_dim": 8}).mixer == parse_model_config(lfm2).mixer
    assert str(refusal({**lfm2, "conv_dim": 4})).endswith(
        "conv_dim (of vLLM) is 4 and hidden_size (of transformers) is 8: they contradict"
    )
    assert str(refusal({**lfm2, "full_attn_idxs": [1]})).endswith(
        "full_attn_idxs has 1 in it, which is not a number from 0 to 0"
    )


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"model_type": "unheard_of"}, True),
        ({"d_model": 8, "n_layer": 2, "ssm_cfg": {}}, True),
        ({"d_model": 8, "n_layer": 2, "ssm_cfg": 3}, False),
        ({"states": []}, False),
        ([], False),
        (None, False),
    ],
)
def test_configurations_are_told_from_circuits(document: object, answer: bool) -> None:
    assert is_model_config(document) is answer
