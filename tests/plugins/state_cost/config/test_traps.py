"""The traps of published configurations: none may lead to a wrong number unnoticed."""

from __future__ import annotations

from typing import Any, Final, cast

import pytest

from proofstream_state_cost.config.keys import ModelConfigError
from proofstream_state_cost.config.model_config import parse_model_config, read_model_config
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentModel

_MAMBA: Final[dict[str, Any]] = {
    "model_type": "mamba",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "expand": 2,
    "intermediate_size": 16,
    "state_size": 4,
    "conv_kernel": 4,
}
_MAMBA2: Final[dict[str, Any]] = {
    "model_type": "mamba2",
    "num_hidden_layers": 2,
    "hidden_size": 8,
    "expand": 2,
    "num_heads": 8,
    "head_dim": 2,
    "state_size": 4,
    "n_groups": 2,
    "conv_kernel": 4,
}
_NEMOTRON: Final[dict[str, Any]] = {
    "model_type": "nemotron_h",
    "num_hidden_layers": 5,
    "hybrid_override_pattern": "M-M*E",
    "hidden_size": 8,
    "mamba_num_heads": 8,
    "mamba_head_dim": 4,
    "ssm_state_size": 16,
    "n_groups": 2,
    "conv_kernel": 4,
}
_GRANITE: Final[dict[str, Any]] = {
    "model_type": "granitemoehybrid",
    "num_hidden_layers": 3,
    "layer_types": ["mamba", "attention", "mamba"],
    "hidden_size": 8,
    "mamba_expand": 2,
    "mamba_n_heads": 4,
    "mamba_d_head": 4,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
}
_BAMBA: Final[dict[str, Any]] = {
    **{key: value for key, value in _GRANITE.items() if key != "layer_types"},
    "model_type": "bamba",
    "attn_layer_indices": [1],
}
_FALCON: Final[dict[str, Any]] = {
    **{key: value for key, value in _GRANITE.items() if key != "layer_types"},
    "model_type": "falcon_h1",
    "mamba_d_ssm": 12,
    "mamba_n_heads": 3,
}
_ZAMBA2: Final[dict[str, Any]] = {
    "model_type": "zamba2",
    "num_hidden_layers": 3,
    "layers_block_type": ["mamba", "hybrid", "mamba"],
    "hidden_size": 8,
    "mamba_expand": 2,
    "n_mamba_heads": 4,
    "mamba_d_state": 16,
    "mamba_ngroups": 1,
    "mamba_d_conv": 4,
}
_GDN: Final[dict[str, Any]] = {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 4,
    "full_attention_interval": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
_KIMI: Final[dict[str, Any]] = {
    "model_type": "kimi_linear",
    "num_hidden_layers": 4,
    "head_dim": 72,
    "linear_attn_config": {
        "kda_layers": [1, 2, 3],
        "full_attn_layers": [4],
        "num_heads": 2,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
}
_BAILING: Final[dict[str, Any]] = {
    "model_type": "bailing_hybrid",
    "num_hidden_layers": 4,
    "layer_group_size": 2,
    "num_attention_heads": 2,
    "head_dim": 128,
    "qk_rope_head_dim": 64,
    "short_conv_kernel_size": 4,
}
_MINIMAX: Final[dict[str, Any]] = {
    "model_type": "minimax",
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "head_dim": 8,
    "attn_type_list": [0, 0, 0, 1],
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}
_LFM2: Final[dict[str, Any]] = {
    "model_type": "lfm2",
    "num_hidden_layers": 3,
    "layer_types": ["conv", "full_attention", "conv"],
    "hidden_size": 8,
    "conv_L_cache": 3,
}


def named(value: Any) -> str | None:
    """Return a parameter's name in the id of a test."""
    return cast("dict[str, str]", value)["model_type"] if isinstance(value, dict) else None


def read(base: dict[str, Any], *without: str, **changes: Any) -> RecurrentModel:
    kept = {key: value for key, value in base.items() if key not in without}
    return parse_model_config({**kept, **changes})


def mixer(base: dict[str, Any], *without: str, **changes: Any) -> Mixer:
    found = read(base, *without, **changes).mixer
    assert found is not None
    return found


def refusal(base: dict[str, Any], *without: str, **changes: Any) -> str:
    with pytest.raises(ModelConfigError) as caught:
        read(base, *without, **changes)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"config.json: model_type {changes.get('model_type', base['model_type'])}: ")
    return message.split(": ", 2)[2]


# 1. `expand` is wrong.


def test_expand_of_nemotron_is_never_used() -> None:
    assert mixer(_NEMOTRON, expand=2) == mixer(_NEMOTRON) == mixer(_NEMOTRON, expand=[])
    assert mixer(_NEMOTRON).conv_channels == 8 * 4 + 2 * 2 * 16
    values: list[Any] = [[], True, "2"]
    for nonsense in values:
        assert read(_NEMOTRON, expand=nonsense).assumptions == read(_NEMOTRON).assumptions
    assert "the inner width is mamba_num_heads x mamba_head_dim = 32, not expand x hidden_size = 16" in (
        read(_NEMOTRON, expand=2).assumptions
    )


def test_mamba_d_ssm_wins_over_expand() -> None:
    assert mixer(_FALCON) == Mixer(block="mamba", h=(3, 4, 16), conv_channels=12 + 2 * 16, conv_kernel=4)
    assert any("mamba_d_ssm 12" in sentence for sentence in read(_FALCON).assumptions)


def test_mamba_d_ssm_may_be_null_but_not_missing() -> None:
    assert mixer(_FALCON, mamba_d_ssm=None, mamba_n_heads=4).conv_channels == 16 + 2 * 16
    assert refusal(_FALCON, "mamba_d_ssm").startswith("mamba_d_ssm is missing")


def test_a_published_intermediate_size_wins_over_expand() -> None:
    wide = read(_MAMBA, intermediate_size=128)
    assert wide.mixer == Mixer(block="mamba", h=(128, 4), conv_channels=128, conv_kernel=4)
    assert "intermediate_size 128 is taken, not expand x hidden_size = 16" in wide.assumptions
    assert mixer(_MAMBA, "intermediate_size").h == (16, 4)
    assert refusal(_MAMBA, "intermediate_size", "expand").startswith("intermediate_size is missing")


def test_expand_of_mamba2_must_fit_the_heads() -> None:
    assert refusal(_MAMBA2, expand=3) == ("num_heads x head_dim is 16 and expand x hidden_size is 24: they contradict")
    assert mixer(_MAMBA2, "expand") == mixer(_MAMBA2)
    assert any(
        sentence.startswith("expand or hidden_size is missing") for sentence in read(_MAMBA2, "expand").assumptions
    )


# 2. The names of the groups.


@pytest.mark.parametrize(
    ("base", "key", "default"),
    [
        (_MAMBA2, "n_groups", 8),
        (_NEMOTRON, "n_groups", 8),
        (_GRANITE, "mamba_n_groups", 1),
        (_BAMBA, "mamba_n_groups", 1),
        (_FALCON, "mamba_n_groups", 1),
        (_ZAMBA2, "mamba_ngroups", 1),
    ],
    ids=named,
)
def test_missing_groups_are_the_class_default_and_noted(base: dict[str, Any], key: str, default: int) -> None:
    lacking = read(base, key)
    assert lacking.mixer == mixer(base, **{key: default})
    (told,) = [sentence for sentence in lacking.assumptions if key in sentence]
    assert told.endswith(f"{key} is missing: {default} is assumed, the class's default") or "mamba_num_groups" in told


def test_nano_copies_have_other_names_for_groups_and_state() -> None:
    copy = {"mamba_num_groups": 2, "mamba_state_dim": 16}
    assert mixer(_NEMOTRON, "n_groups", "ssm_state_size", **copy) == mixer(_NEMOTRON)
    assert mixer(_NEMOTRON, **copy) == mixer(_NEMOTRON)
    assert refusal(_NEMOTRON, mamba_num_groups=4) == "n_groups is 2 and mamba_num_groups is 4: they contradict"
    assert refusal(_NEMOTRON, mamba_state_dim=4) == "ssm_state_size is 16 and mamba_state_dim is 4: they contradict"


def test_the_groups_of_experts_are_not_those_of_the_state() -> None:
    assert mixer(_NEMOTRON, n_group=1) == mixer(_NEMOTRON)
    assert read(_NEMOTRON, "n_groups", n_group=2).mixer == mixer(_NEMOTRON, n_groups=8)


def test_groups_under_another_family_s_key_are_refused() -> None:
    assert "mamba_n_groups is present, which this model_type does not read" in refusal(
        _MAMBA2, "n_groups", mamba_n_groups=2
    )


# 3. Defaults that fit no published model.


@pytest.mark.parametrize("base", [_GRANITE, _BAMBA, _FALCON], ids=named)
def test_no_default_for_the_width_of_the_state(base: dict[str, Any]) -> None:
    assert refusal(base, "mamba_d_state").startswith("mamba_d_state is missing: ")


def test_no_default_for_the_heads_of_zamba2() -> None:
    assert refusal(_ZAMBA2, "n_mamba_heads").startswith("n_mamba_heads is missing: ")


@pytest.mark.parametrize(
    ("base", "key", "because"),
    [
        (_NEMOTRON, "hybrid_override_pattern", "make up four layers"),
        (_GRANITE, "layer_types", "every layer recurrent"),
        (_BAMBA, "attn_layer_indices", "every layer recurrent"),
        (_LFM2, "layer_types", "no layer recurrent"),
        (_MINIMAX, "layer_types", "every second layer recurrent"),
        (_GDN, "full_attention_interval", "is missing"),
        (_BAILING, "layer_group_size", "is missing"),
        (_KIMI, "linear_attn_config", "is missing"),
    ],
    ids=named,
)
def test_no_default_for_the_layers(base: dict[str, Any], key: str, because: str) -> None:
    for message in (refusal(base, key), refusal(base, **{key: None})):
        assert key in message
        assert because in message.replace("is null", "is missing")


# 4. The pattern of nemotron_h decides.


def test_the_pattern_overrides_the_number_of_layers() -> None:
    model = read(_NEMOTRON, num_hidden_layers=52)
    assert (model.layers.count, model.recurrent_layer_ids) == (5, (0, 2))
    assert "num_hidden_layers 52 is not used: hybrid_override_pattern has 5 layers, and decides" in model.assumptions
    assert read(_NEMOTRON, "num_hidden_layers").layers == model.layers


def test_the_list_of_nemotron_overrides_it_too_and_must_fit_the_pattern() -> None:
    words = ["mamba", "mlp", "linear_attention", "full_attention", "moe"]
    for key in ("layers_block_type", "layer_types"):
        assert read(_NEMOTRON, "hybrid_override_pattern", **{key: words}).layers == read(_NEMOTRON).layers
        assert read(_NEMOTRON, **{key: words}).layers == read(_NEMOTRON).layers
        assert refusal(_NEMOTRON, **{key: words[:4]}) == (f"{key} has 4 layers and hybrid_override_pattern 5")
        assert refusal(_NEMOTRON, **{key: ["mlp", *words[1:]]}).endswith(
            "layer 0 is recurrent only in hybrid_override_pattern"
        )


def test_unknown_letters_are_refused() -> None:
    assert refusal(_NEMOTRON, hybrid_override_pattern="M-X*") == (
        'hybrid_override_pattern has "X" in it; known are M, *, - and E'
    )
    assert refusal(_NEMOTRON, hybrid_override_pattern="") == (
        "hybrid_override_pattern has 0 letters, not between 1 and 65536"
    )


# 5. Old and new words for the layers.


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (_GRANITE, ["linear_attention", "full_attention", "linear_attention"]),
        (_BAMBA, ["mamba", "attention", "mamba"]),
        (_BAMBA, ["linear_attention", "full_attention", "linear_attention"]),
        (_ZAMBA2, ["linear_attention", "hybrid", "linear_attention"]),
    ],
)
def test_old_and_new_words_are_the_same(base: dict[str, Any], words: list[str]) -> None:
    for key in ("layer_types", "layers_block_type"):
        assert read(base, "layer_types", "layers_block_type", **{key: words}).layers == read(base).layers


def test_glm_calls_its_other_layers_by_three_names() -> None:
    for word in ("full_attention", "indexed_attention", "deepseek_sparse_attention"):
        text = {**_KIMI, "model_type": "glm5_next_text", "layer_types": ["linear_attention"] * 3 + [word]}
        assert parse_model_config({"model_type": "glm5_next", "text_config": text}).layers == read(_KIMI).layers
    assert "indexed_attention" in refusal(_GDN, layer_types=["indexed_attention"] * 4)


def test_unknown_words_and_wrong_lengths_are_refused() -> None:
    assert refusal(_GRANITE, layer_types=["mamba", "mamba", "retention"]) == (
        'layer_types has the unknown word "retention"; known are attention, full_attention, linear_attention, mamba'
    )
    assert refusal(_GRANITE, layer_types=["mamba"] * 2) == "layer_types has 2 entries, and num_hidden_layers is 3"
    assert refusal(_MAMBA, layer_types=["mamba", "attention"]).startswith(
        'layer_types has the unknown word "attention"'
    )
    assert refusal(_GRANITE, layer_types="mamba") == 'layer_types is "mamba", not a list'
    assert refusal(_GRANITE, layer_types=["mamba", 1, "mamba"]) == "layer_types has 1 in it, which is not a word"


def test_two_lists_that_differ_are_refused() -> None:
    message = refusal(_GRANITE, layers_block_type=["mamba"] * 3)
    assert message == (
        "layer_types and layers_block_type contradict each other: layer 1 is recurrent only in layers_block_type"
    )
    assert "attn_layer_indices contradict" in refusal(_BAMBA, layer_types=["mamba"] * 3)


# 6. The class minimax ignores attn_type_list.


def test_minimax_needs_layer_types_and_minimax_text_01_does_not() -> None:
    assert "the class ignores attn_type_list" in refusal(_MINIMAX, "layer_types")
    for model_type in ("minimax_text_01", "minimax_m1"):
        own = read(_MINIMAX, "layer_types", model_type=model_type)
        assert own.layers == read(_MINIMAX).layers == read(_MINIMAX, "attn_type_list").layers
        assert own.mixer == Mixer(block="lightning", h=(2, 8, 8))


def test_lists_of_minimax_that_differ_are_refused() -> None:
    assert "layer_types and attn_type_list contradict each other" in refusal(_MINIMAX, attn_type_list=[0, 1, 0, 1])
    assert refusal(_MINIMAX, attn_type_list=[0]) == "attn_type_list has 1 entries, and num_hidden_layers is 4"
    assert refusal(_MINIMAX, attn_type_list=[0, 2, 0, 1]) == ("attn_type_list has 2 in it, which is neither 0 nor 1")
    assert "neither 0 nor 1" in refusal(_MINIMAX, attn_type_list=[0, False, 0, 1])


def test_the_width_of_lightning_heads_does_not_come_from_the_hidden_width() -> None:
    assert refusal(_MINIMAX, "head_dim", hidden_size=12) == "head_dim is missing"


# 7. Nested configurations.


def nested(outer: str, **text: Any) -> dict[str, Any]:
    return {"model_type": outer, "text_config": {**_GDN, **text}}


def test_keys_beside_text_config_are_ignored() -> None:
    wrong = {**nested("qwen3_5"), "num_hidden_layers": 99, "linear_num_value_heads": 1}
    assert parse_model_config(wrong).mixer == read(_GDN).mixer
    assert parse_model_config(wrong).layers == read(_GDN).layers
    assert parse_model_config(wrong).model_type == "qwen3_5"


@pytest.mark.parametrize("model_type", ["qwen3_5", "qwen3_5_moe", "glm5_next", "lfm2_vl"])
def test_a_flat_file_with_a_nested_type_is_refused(model_type: str) -> None:
    with pytest.raises(ModelConfigError, match="text_config is missing") as caught:
        read(_GDN, model_type=model_type)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("a flat file has the model_type ")


@pytest.mark.parametrize("model_type", ["qwen3_5_text", "qwen3_5_moe_text"])
def test_text_only_copies_are_flat(model_type: str) -> None:
    assert read(_GDN, model_type=model_type).mixer == read(_GDN).mixer
    assert "text_config is present" in refusal(_GDN, model_type=model_type, text_config={})


def test_the_inner_type_must_fit() -> None:
    with pytest.raises(ModelConfigError, match='its model_type is "qwen3_5_moe_text", not qwen3_5_text'):
        parse_model_config(nested("qwen3_5", model_type="qwen3_5_moe_text"))
    silent = parse_model_config(nested("qwen3_5", model_type=None))
    assert "text_config.model_type is missing: qwen3_5_text is assumed" in silent.assumptions
    with pytest.raises(ModelConfigError, match="text_config is 3, not a table"):
        parse_model_config({"model_type": "qwen3_5", "text_config": 3})


def test_lfm2_vl_is_lfm2_inside() -> None:
    assert parse_model_config({"model_type": "lfm2_vl", "text_config": _LFM2}).mixer == read(_LFM2).mixer


def test_mamba_ssm_dtype_is_in_text_config_and_may_be_missing() -> None:
    assert parse_model_config(nested("qwen3_5")).ssm_dtype is None
    given = parse_model_config(nested("qwen3_5", mamba_ssm_dtype="float32")).ssm_dtype
    assert given is not None
    assert given.value == "f32"
    outside = {**nested("qwen3_5"), "mamba_ssm_dtype": "float32"}
    assert parse_model_config(outside).ssm_dtype is None


# 8. The layers of KDA begin at 1, or at 0.


def kda(**changes: Any) -> dict[str, Any]:
    return {"linear_attn_config": {**_KIMI["linear_attn_config"], **changes}}


def test_the_heads_are_those_of_the_inner_table() -> None:
    assert mixer(_KIMI) == Mixer(block="kda", h=(2, 128, 128), conv_channels=3 * 2 * 128, conv_kernel=4)
    assert refusal(_KIMI, **kda(head_dim=None)) == "linear_attn_config.head_dim is null"


@pytest.mark.parametrize(
    ("kda_layers", "full_attn_layers"),
    [([1, 2, 3], [4]), ([0, 1, 2], [3]), ([0, 1, 2], [4]), ([3, 1, 2], [4])],
    ids=["from 1", "from 0", "one list from 0, the other from 1", "in any order"],
)
def test_lists_that_cover_all_layers_tell_where_they_begin(kda_layers: list[int], full_attn_layers: list[int]) -> None:
    layers = read(_KIMI, **kda(kda_layers=kda_layers, full_attn_layers=full_attn_layers)).recurrent_layer_ids
    assert layers == (0, 1, 2)


@pytest.mark.parametrize(
    ("kda_layers", "full_attn_layers"),
    [([1, 2], [4]), ([1, 2, 3], [3, 4]), ([0, 1, 4], [2, 3]), ([], [1]), ([1, 2, 3], [])],
    ids=["a layer lacks", "a layer twice", "both bases at once", "nearly nothing", "one list is empty"],
)
def test_lists_that_do_not_cover_all_layers_are_refused(kda_layers: list[int], full_attn_layers: list[int]) -> None:
    message = refusal(_KIMI, **kda(kda_layers=kda_layers, full_attn_layers=full_attn_layers))
    assert message == (
        "linear_attn_config.kda_layers and full_attn_layers do not name each of 4 layers once, "
        "whether their numbers begin at 0 or at 1"
    )


def test_one_list_is_enough_if_it_fits_only_one_way() -> None:
    assert read(_KIMI, **kda(full_attn_layers=None, kda_layers=[0, 1])).recurrent_layer_ids == (0, 1)
    assert read(_KIMI, **kda(full_attn_layers=None, kda_layers=[1, 4])).recurrent_layer_ids == (0, 3)
    assert "could begin at 0 or at 1" in refusal(_KIMI, **kda(full_attn_layers=None, kda_layers=[1, 2]))
    told = kda(full_attn_layers=None, kda_layers=[1, 2], kda_layer_index_base=0)
    assert read(_KIMI, **told).recurrent_layer_ids == (1, 2)


def test_a_given_base_must_fit() -> None:
    assert read(_KIMI, **kda(kda_layer_index_base=1)).recurrent_layer_ids == (0, 1, 2)
    assert "do not name each" in refusal(_KIMI, **kda(kda_layer_index_base=0))
    assert "neither 0 nor 1" in refusal(_KIMI, **kda(kda_layer_index_base=2))


def test_a_list_of_words_must_fit_the_lists_of_kda_or_replace_them() -> None:
    words = ["linear_attention"] * 3 + ["full_attention"]
    assert read(_KIMI, layer_types=words).layers == read(_KIMI).layers
    assert read(_KIMI, layer_types=words, **kda(kda_layers=None, full_attn_layers=None)).layers == read(_KIMI).layers
    assert "contradicts layer_types" in refusal(_KIMI, layer_types=words[::-1])
    assert refusal(_KIMI, **kda(kda_layers=None)) == "linear_attn_config.kda_layers is null"
    assert refusal(_KIMI, "linear_attn_config", layer_types=words) == "linear_attn_config is missing"


@pytest.mark.parametrize("layers", [[1, 2, 9], [1, 2, True], [1, 2, 2], [1, 2, -1], [1, 2, "3"]])
def test_numbers_of_missing_layers_are_refused(layers: list[Any]) -> None:
    assert "linear_attn_config.kda_layers has " in refusal(_KIMI, **kda(kda_layers=layers))


# 9. head_dim of bailing_hybrid.


def test_bailing_is_read_from_the_published_file() -> None:
    assert mixer(_BAILING).h == (2, 128, 128)
    assert read(_BAILING).recurrent_layer_ids == (0, 2)
    assert "transformers writes the width of rope into head_dim" in refusal(_BAILING, head_dim=64)


def test_groups_of_layers_of_bailing() -> None:
    words = ["linear_attention", "full_attention"] * 2
    assert read(_BAILING, "layer_group_size", layer_types=words).layers == read(_BAILING).layers
    assert "not a multiple of layer_group_size" in refusal(_BAILING, num_hidden_layers=5)
    other = read(_BAILING, layer_types=words[::-1])
    assert other.recurrent_layer_ids == (1, 3)
    assert "layer_group_size 2 is not used: layer_types has other layers, and decides" in other.assumptions


# 10. Older files of Zamba2.


def test_older_files_of_zamba2_are_read_with_a_note() -> None:
    old = {
        "model_type": "zamba2",
        "num_hidden_layers": 3,
        "layers_block_type": ["m", "g", "m"],
        "hidden_size": 8,
        "expansion_factor": 2,
        "mamba_headdim": 4,
        "state_size": 16,
        "conv_dimension": 4,
    }
    model = parse_model_config(old)
    assert (model.layers, model.mixer) == (read(_ZAMBA2).layers, mixer(_ZAMBA2))
    assert any("older keys" in sentence for sentence in model.assumptions)
    for key, value in (("state_size", 8), ("expansion_factor", 4), ("conv_dimension", 3)):
        assert "they contradict" in refusal(_ZAMBA2, **{key: value})
    assert refusal(_ZAMBA2, mamba_headdim=8) == (
        "n_mamba_heads x mamba_headdim is 32 and mamba_expand x hidden_size is 16: they contradict"
    )
    assert mixer(_ZAMBA2, mamba_headdim=4) == mixer(_ZAMBA2)


# 11. Files of the mamba_ssm package.


def original(**changes: Any) -> dict[str, Any]:
    return {"d_model": 64, "n_layer": 2, "ssm_cfg": {"layer": "Mamba2"}, "vocab_size": 50277, **changes}


def test_original_mamba2_files_have_the_defaults_of_the_layer() -> None:
    model = parse_model_config(original())
    assert model.mixer == Mixer(block="mamba", h=(2, 64, 128), conv_channels=128 + 2 * 128, conv_kernel=4)
    assert model.recurrent_layer_ids == (0, 1)
    said = " ".join(model.assumptions)
    for key, value in (("d_state", 128), ("headdim", 64), ("ngroups", 1), ("expand", 2), ("d_conv", 4)):
        assert f"ssm_cfg.{key} is missing: {value} is assumed, the layer class's default" in said


def test_original_files_may_override_the_defaults() -> None:
    given = {"layer": "Mamba2", "d_state": 8, "headdim": 16, "ngroups": 2, "expand": 1, "d_conv": 3, "d_ssm": 32}
    model = parse_model_config(original(ssm_cfg=given, attn_layer_idx=[1], n_layer=3))
    assert model.mixer == Mixer(block="mamba", h=(2, 16, 8), conv_channels=32 + 2 * 2 * 8, conv_kernel=3)
    assert model.recurrent_layer_ids == (0, 2)


def test_original_files_without_a_layer_are_mamba1() -> None:
    model = parse_model_config(original(ssm_cfg={}))
    assert model.mixer == Mixer(block="mamba", h=(128, 16), conv_channels=128, conv_kernel=4)
    assert "ssm_cfg.layer is missing: Mamba1 is assumed, the package's default" in model.assumptions
    with pytest.raises(ModelConfigError, match=r'ssm_cfg\.layer is "Mamba3"; known are Mamba1 and Mamba2'):
        parse_model_config(original(ssm_cfg={"layer": "Mamba3"}))


# 12. Models without recurrent layers.


def test_no_recurrent_layer_is_an_answer() -> None:
    model = read(_GRANITE, layer_types=["attention"] * 3)
    assert (model.recurrent_layer_ids, model.mixer, model.layers.count) == ((), None, 3)
    assert read(_GDN, full_attention_interval=1).recurrent_layer_ids == ()
    assert read(_BAMBA, attn_layer_indices=[0, 1, 2]).mixer is None


# 13. Heads that are `auto`, and Infinity.


@pytest.mark.parametrize("base", [_GRANITE, _BAMBA, _FALCON], ids=named)
def test_the_width_of_heads_may_be_auto_or_missing(base: dict[str, Any]) -> None:
    for model in (read(base, mamba_d_head="auto"), read(base, "mamba_d_head"), read(base, mamba_d_head=None)):
        assert model.mixer == mixer(base)
        assert any(sentence.startswith("mamba_d_head is missing or auto") for sentence in model.assumptions)
    assert "they contradict" in refusal(base, mamba_d_head=8)
    assert "not a multiple" in refusal(base, "mamba_d_head", mamba_n_heads=5)
    assert refusal(base, mamba_d_head="wide") == 'mamba_d_head is "wide", not a whole number'


def test_infinity_and_nan_are_read() -> None:
    text = """{"model_type": "mamba2", "num_hidden_layers": 1, "num_heads": 2, "head_dim": 4, "state_size": 4,
        "n_groups": 1, "conv_kernel": 4, "time_step_limit": [0.0, Infinity], "a": NaN, "b": -Infinity}"""
    assert read_model_config(text).mixer == Mixer(block="mamba", h=(2, 4, 4), conv_channels=16, conv_kernel=4)
    with pytest.raises(ModelConfigError, match="conv_kernel is Infinity, not a whole number"):
        read_model_config(text.replace('"conv_kernel": 4', '"conv_kernel": Infinity'))


# 14. Mamba-1 and Mamba-2 have different convolutions.


def test_the_convolution_of_mamba1_runs_over_the_inner_width_alone() -> None:
    assert mixer(_MAMBA).conv_channels == 16
    assert mixer(_MAMBA2).conv_channels == 16 + 2 * 2 * 4


# 15. Layers of drafting heads.


@pytest.mark.parametrize("key", ["num_nextn_predict_layers", "mtp_num_hidden_layers"])
def test_layers_of_drafting_heads_are_left_out_with_a_note(key: str) -> None:
    model = read(_GDN, **{key: 1})
    assert model.layers == read(_GDN).layers
    (told,) = [sentence for sentence in model.assumptions if key in sentence]
    assert "is left out" in told
    assert not [sentence for sentence in read(_GDN, **{key: 0}).assumptions if key in sentence]


# Lists that replace one another, and lists that cannot.


def test_a_list_of_words_replaces_the_layers_of_attention() -> None:
    words = ["mamba", "attention", "mamba"]
    assert read(_BAMBA, "attn_layer_indices", layer_types=words).layers == read(_BAMBA).layers


def test_the_lists_of_lfm2_must_fit() -> None:
    assert read(_LFM2, full_attn_idxs=[1]).layers == read(_LFM2).layers
    assert refusal(_LFM2, full_attn_idxs=[2]) == (
        "layer_types and full_attn_idxs contradict each other: layer 1 is recurrent only in full_attn_idxs"
    )


def test_minimax_s_own_files_need_one_of_the_lists() -> None:
    assert refusal(_MINIMAX, "layer_types", "attn_type_list", model_type="minimax_m1") == (
        "attn_type_list or layer_types is missing"
    )


def test_linear_attn_config_must_be_a_table() -> None:
    assert refusal(_KIMI, linear_attn_config=[1]) == "linear_attn_config is [1], not a table"
