"""Conventions: what each one counts, how parts are replaced, and where a convention does not apply."""

from __future__ import annotations

from typing import Any

import pytest

from proofstream_state_cost.config.conventions import (
    PRESETS,
    Convention,
    ConventionError,
    choose_convention,
    extrapolated,
)
from proofstream_state_cost.config.counted_states import count_states, describe_counting
from proofstream_state_cost.config.families import FAMILIES
from proofstream_state_cost.config.model_config import parse_model_config
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentLayers, RecurrentModel
from proofstream_state_cost.states.errors import Overflow
from proofstream_state_cost.states.programs import StateProgram, price_programs
from proofstream_state_cost.states.state_circuit import Dtype, StateKind, VerifyRule


def model(family: str = "mamba2", **changes: Any) -> RecurrentModel:
    fields: dict[str, Any] = {
        "model_type": family,
        "family": family,
        "layers": RecurrentLayers(3, (0, 2)),
        "mixer": Mixer(block="mamba", h=(2, 4, 8), conv_channels=16, conv_kernel=4),
        "dtype": Dtype.BF16,
    }
    return RecurrentModel(**{**fields, **changes})


def formats(found: RecurrentModel, convention: Convention) -> dict[str, str]:
    return {state.local: str(state.format) for state in count_states(found, convention).states}


def elements(found: RecurrentModel, convention: Convention) -> dict[str, int]:
    return {state.local: state.elements for state in count_states(found, convention).states}


def test_states_stand_in_the_order_of_layers_with_h_first() -> None:
    circuit = count_states(model(), PRESETS["metrale"])
    assert [(state.id, state.verify, state.shape) for state in circuit.states] == [
        ("l0.mamba.h", VerifyRule.H_STEPS, "2 x 4 x 8"),
        ("l0.mamba.conv", VerifyRule.CONV_STEPS, "16 x 4"),
        ("l2.mamba.h", VerifyRule.H_STEPS, "2 x 4 x 8"),
        ("l2.mamba.conv", VerifyRule.CONV_STEPS, "16 x 4"),
    ]
    assert {state.kind for state in circuit.states} == {StateKind.RECURRENT}
    assert circuit.name == "mamba2"


@pytest.mark.parametrize(
    ("name", "h", "conv", "columns"),
    [
        ("metrale", "{ssm_h_storage}", "f32", 4),
        ("transformers", "f32", "bf16", 4),
        ("vllm", "bf16", "bf16", 3),
        ("sglang", "f32", "bf16", 3),
    ],
)
def test_the_counts_of_each_preset(name: str, h: str, conv: str, columns: int) -> None:
    assert formats(model(), PRESETS[name]) == {"h": h, "conv": conv}
    assert elements(model(), PRESETS[name]) == {"h": 64, "conv": 16 * columns}


def test_the_presets_stand_in_their_order() -> None:
    assert list(PRESETS) == ["metrale", "transformers", "vllm", "sglang"]


def test_only_metrale_has_a_key_and_a_dtype_for_it() -> None:
    assert {name: dict(preset.formats) for name, preset in PRESETS.items()} == {
        "metrale": {"ssm_h_storage": Dtype.F32},
        "transformers": {},
        "vllm": {},
        "sglang": {},
    }


@pytest.mark.parametrize(
    ("found", "h"),
    [
        (model("kimi_linear"), "f32"),
        (model("glm5_next"), "f32"),
        (model("bailing_hybrid"), "f32"),
        (model("nemotron_h"), "f32"),
        (model("nemotron_h", ssm_cache_dtype=Dtype.F16), "f16"),
        (model("nemotron_h", ssm_dtype=Dtype.F16), "f32"),
        (model("qwen3_5", ssm_dtype=Dtype.F32), "f32"),
        (model("qwen3_5"), "bf16"),
        (model("qwen3_next", ssm_dtype=Dtype.F32), "bf16"),
        (model("mamba2", dtype=Dtype.F16), "f16"),
    ],
)
def test_h_of_vllm(found: RecurrentModel, h: str) -> None:
    assert formats(found, PRESETS["vllm"])["h"] == h


def test_vllm_without_mamba_ssm_dtype_notes_the_assumed_dtype() -> None:
    told = "mamba_ssm_dtype is missing: vLLM then stores h in the model's dtype"
    assert told in count_states(model("qwen3_5"), PRESETS["vllm"]).assumptions
    assert told not in count_states(model("qwen3_5", ssm_dtype=Dtype.F32), PRESETS["vllm"]).assumptions


def test_vllm_runs_a_float32_model_in_bfloat16_with_a_note() -> None:
    found = model(dtype=Dtype.F32)
    assert formats(found, PRESETS["vllm"]) == {"h": "bf16", "conv": "bf16"}
    assert any("float32, which vLLM runs in bfloat16" in note for note in PRESETS["vllm"].notes(found))
    assert formats(found, PRESETS["transformers"]) == {"h": "f32", "conv": "f32"}


def test_h_of_the_others() -> None:
    assert formats(model("minimax"), PRESETS["transformers"])["h"] == "bf16"
    assert formats(model("qwen3_5", ssm_dtype=Dtype.F16), PRESETS["sglang"])["h"] == "f16"
    assert formats(model(dtype=Dtype.F16), PRESETS["sglang"])["conv"] == "bf16"


def test_transformers_keeps_one_column_less_of_recurrent_gemma() -> None:
    gemma = model("recurrent_gemma", mixer=Mixer(block="rg_lru", h=(8,), conv_channels=8, conv_kernel=4))
    assert elements(gemma, PRESETS["transformers"]) == {"h": 8, "conv": 24}
    assert elements(gemma, PRESETS["metrale"]) == {"h": 8, "conv": 32}
    assert elements(gemma, choose_convention("transformers", conv_columns="K")) == {"h": 8, "conv": 32}


def test_a_mixer_may_lack_either_state() -> None:
    short = model("lfm2", mixer=Mixer(block="short_conv", h=None, conv_channels=8, conv_kernel=3))
    assert [state.id for state in count_states(short, PRESETS["vllm"]).states] == [
        "l0.short_conv.conv",
        "l2.short_conv.conv",
    ]
    lightning = model("minimax", mixer=Mixer(block="lightning", h=(2, 8, 8)))
    assert [state.local for state in count_states(lightning, PRESETS["vllm"]).states] == ["h", "h"]
    assert "columns" not in describe_counting(lightning, PRESETS["vllm"])


def test_no_recurrent_layer_is_a_circuit_without_states() -> None:
    empty = model(layers=RecurrentLayers(3, ()), mixer=None, assumptions=("said",))
    for preset in PRESETS.values():
        circuit = count_states(empty, preset)
        assert (circuit.states, circuit.recurrent_layers, circuit.assumptions) == ((), 0, ("said",))
        assert [program.bytes for program in price_programs(circuit, {})] == [0] * 8
        assert describe_counting(empty, preset) == "no layer keeps recurrent state"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("metrale", "h 2 x 4 x 8 {ssm_h_storage} and conv 16 x 4 f32 (K columns of K=4)"),
        ("transformers", "h 2 x 4 x 8 f32 and conv 16 x 4 bf16 (K columns of K=4)"),
        ("vllm", "h 2 x 4 x 8 bf16 and conv 16 x 3 bf16 (K-1 columns of K=4)"),
        ("sglang", "h 2 x 4 x 8 f32 and conv 16 x 3 bf16 (K-1 columns of K=4)"),
    ],
)
def test_the_counting_is_described_in_one_line(name: str, line: str) -> None:
    assert describe_counting(model(), PRESETS[name]) == f"{line} in each of 2 layers; one sequence, TP=1"


def test_omissions_are_noted() -> None:
    assert any("attention pages" in note for note in count_states(model(), PRESETS["vllm"]).assumptions)
    assert any("SGLANG_MAMBA_CONV_DTYPE" in note for note in PRESETS["sglang"].notes(model()))
    assert any("GPU kernels" in note for note in PRESETS["transformers"].notes(model()))
    assert PRESETS["metrale"].notes(model("nemotron_h")) == ()


def test_a_rule_that_is_carried_over_is_noted() -> None:
    assert extrapolated(model("lfm2"))
    assert not extrapolated(model("nemotron_h"))
    assert PRESETS["metrale"].notes(model("lfm2")) == ("Metrale declares no block for lfm2: its rule is carried over",)
    assert PRESETS["metrale"].notes(model("glm5_next")) == ()
    assert "vLLM has dropped bamba: what its formula gives is shown" in PRESETS["vllm"].notes(model("bamba"))
    for name, engine in (("vllm", "vLLM 0.33"), ("sglang", "sglang 0.5.23")):
        told = f"no model of glm5_next was measured with {engine}: its rule is carried over"
        assert PRESETS[name].notes(model("glm5_next"))[0] == told
    assert PRESETS["transformers"].notes(model("olmo_hybrid"))[0] == (
        "no model of olmo_hybrid was measured with transformers 5.24: its rule is carried over"
    )


@pytest.mark.parametrize(
    ("name", "family"), [("vllm", "recurrent_gemma"), ("sglang", "recurrent_gemma"), ("sglang", "jamba")]
)
def test_a_convention_that_does_not_apply_is_refused(name: str, family: str) -> None:
    preset = PRESETS[name]
    reason = preset.why_not(model(family))
    assert reason == f"{preset.engine} has no figures for {family}, so that the convention {name} does not apply"
    with pytest.raises(ConventionError) as caught:
        count_states(model(family), preset)
    assert str(caught.value) == reason
    with pytest.raises(ConventionError):
        describe_counting(model(family), preset)
    assert PRESETS["transformers"].why_not(model(family)) is None


def test_families_that_conventions_name_exist() -> None:
    names = {family.name for family in FAMILIES.values()}
    for preset in PRESETS.values():
        assert set(preset.unknown) | set(preset.columns_of) <= names
    for family in ("kimi_linear", "glm5_next", "bailing_hybrid", "nemotron_h", "qwen3_5", "minimax", "olmo_hybrid"):
        assert family in names


# Replacing parts.


@pytest.mark.parametrize(("word", "columns"), [("K", 4), ("k-1", 3), ("kernel", 4), ("Kernel-1", 3)])
def test_columns_have_two_spellings(word: str, columns: int) -> None:
    own = choose_convention("transformers", conv_columns=word)
    assert elements(model(), own)["conv"] == 16 * columns
    assert own.name == f"transformers+conv-columns={'K' if columns == 4 else 'K-1'}"


def test_a_replaced_part_is_in_the_name() -> None:
    one = choose_convention("vllm", h_dtype="f32")
    assert one.name == "vllm+h-dtype=f32"
    assert formats(model(), one) == {"h": "f32", "conv": "bf16"}
    all_three = choose_convention("metrale", conv_columns="K-1", conv_dtype="fp8", h_dtype="{pool}")
    assert all_three.name == "metrale+conv-columns=K-1,conv-dtype=fp8,h-dtype={pool}"
    assert formats(model(), all_three) == {"h": "{pool}", "conv": "fp8"}
    assert choose_convention("vllm") is PRESETS["vllm"]


def test_replacing_a_dtype_removes_its_assumptions() -> None:
    assert (
        count_states(model("qwen3_5"), choose_convention("vllm", h_dtype="f32")).assumptions == PRESETS["vllm"].caveats
    )


def test_caveats_about_h_need_an_h_whose_dtype_the_convention_decides() -> None:
    said = "h was measured without GPU kernels, which may store it in another dtype"
    without = Mixer(block="short_conv", h=None, conv_channels=16, conv_kernel=3)
    assert said in count_states(model(), PRESETS["transformers"]).assumptions
    assert said not in count_states(model("lfm2", mixer=without), PRESETS["transformers"]).assumptions
    assert said not in count_states(model(), choose_convention("transformers", h_dtype="f16")).assumptions


def test_three_parts_make_a_convention_of_their_own() -> None:
    own = choose_convention(conv_columns="K", conv_dtype="f16", h_dtype="f32")
    assert (own.name, formats(model(), own)) == ("custom", {"h": "f32", "conv": "f16"})
    assert own.why_not(model("recurrent_gemma")) is None


def test_speculative_tokens_are_columns_of_vllm() -> None:
    more = choose_convention("vllm", speculative_tokens=2)
    assert more.name == "vllm+speculative-tokens=2"
    assert elements(model(), more)["conv"] == 16 * 5
    assert "(K-1+2 columns of K=4)" in describe_counting(model(), more)
    assert elements(model(), choose_convention("vllm", speculative_tokens=1))["conv"] == 16 * 4
    assert choose_convention("vllm", speculative_tokens=0) is PRESETS["vllm"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tgi"}, "unknown convention 'tgi'; known are metrale, transformers, vllm, sglang"),
        ({"conv_columns": "K"}, "a convention needs a name or all of its parts; missing: conv-dtype, h-dtype"),
        ({"name": "vllm", "conv_columns": "K-2"}, "conv-columns is 'K-2'; known are K and K-1"),
        (
            {"name": "vllm", "h_dtype": "fp4"},
            "h-dtype: format 'fp4' is neither a dtype nor a {key}; the dtypes are f32, f16, bf16, fp8",
        ),
        ({"name": "metrale", "speculative_tokens": 1}, "only vLLM keeps columns for speculative tokens"),
        ({"speculative_tokens": 1}, "only vLLM keeps columns for speculative tokens"),
    ],
)
def test_impossible_conventions_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConventionError) as caught:
        choose_convention(**arguments)
    assert str(caught.value) == message


# Snapshots and sizes.


def test_snapshots_follow_the_states_of_their_layer() -> None:
    circuit = count_states(model(layers=RecurrentLayers(1, (0,))), PRESETS["metrale"], snapshots=True)
    assert [(state.id, state.of, str(state.format), state.elements) for state in circuit.states[2:]] == [
        ("l0.mamba.ring_h", "l0.mamba.h", "f32", 64),
        ("l0.mamba.ring_conv", "l0.mamba.conv", "f32", 64),
        ("l0.mamba.prefix_h", "l0.mamba.h", "f32", 64),
        ("l0.mamba.prefix_conv", "l0.mamba.conv", "f32", 64),
    ]
    (save,) = price_programs(circuit, {"ssm_h_storage": Dtype.F16}, [StateProgram.RING_SAVE])
    assert save.bytes == 64 * 2 + 64 * 4


def test_a_state_that_is_too_large_is_named() -> None:
    wide = {
        "model_type": "mamba",
        "num_hidden_layers": 1,
        "intermediate_size": 2**63,
        "state_size": 2,
        "conv_kernel": 1,
    }
    with pytest.raises(Overflow, match=r"^state l0\.mamba\.h overflows: "):
        count_states(parse_model_config(wide), PRESETS["vllm"])
    with pytest.raises(Overflow, match=r"^state l0\.mamba\.conv overflows: "):
        count_states(parse_model_config({**wide, "state_size": 1, "conv_kernel": 2}), PRESETS["metrale"])


def test_channels_above_64_bits_are_refused_even_without_stored_columns() -> None:
    gdn = {
        "model_type": "qwen3_next",
        "num_hidden_layers": 1,
        "layer_types": ["linear_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 2**62,
        "linear_value_head_dim": 1,
        "linear_conv_kernel_dim": 1,
    }
    with pytest.raises(Overflow, match=r"^state l0\.gdn\.conv overflows: 18446744073709551618 is more than"):
        count_states(parse_model_config(gdn), PRESETS["vllm"])


def test_a_window_of_one_column_keeps_none_before_it() -> None:
    one = {"model_type": "mamba", "num_hidden_layers": 1, "intermediate_size": 8, "state_size": 2, "conv_kernel": 1}
    assert elements(parse_model_config(one), PRESETS["vllm"]) == {"h": 16, "conv": 0}
