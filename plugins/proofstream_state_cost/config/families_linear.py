"""Linear attention: gated delta nets, Kimi delta attention and lightning attention."""

from __future__ import annotations

from typing import Final

from proofstream_state_cost.config.keys import ConfigKeys
from proofstream_state_cost.config.layer_lists import (
    ATTENTION_WORDS,
    LINEAR_WORDS,
    agree,
    layers_of,
    listed,
    one_based_or_not,
)
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentLayers

_KDA_OTHERS: Final = ATTENTION_WORDS | {"indexed_attention", "deepseek_sparse_attention"}
"""Words for the layers of GLM that are not linear: of transformers, and of the published file."""


def gdn_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read gated delta nets: a list of words, or else all layers but each `full_attention_interval`-th."""
    count = keys.layers()
    words = listed(keys, count=count, recurrent=LINEAR_WORDS, others=ATTENTION_WORDS)
    interval = keys.optional_count("full_attention_interval")
    if interval is None:
        if words is None:
            raise keys.missing("layer_types", "full_attention_interval")
        return words[1]
    layers = _all_but_each(count, interval)
    if words is None or words[1] == layers:
        return layers
    keys.assume(f"full_attention_interval {interval} is not used: {words[0]} has other layers, and decides")
    return words[1]


def _all_but_each(count: int, interval: int) -> RecurrentLayers:
    return layers_of(count, (layer for layer in range(count) if (layer + 1) % interval))


def gdn(keys: ConfigKeys) -> Mixer:
    """Read gated delta nets: one convolution over queries, keys and values."""
    key_heads, key_dim = keys.count("linear_num_key_heads"), keys.count("linear_key_head_dim")
    heads, dim = keys.count("linear_num_value_heads"), keys.count("linear_value_head_dim")
    if heads % key_heads:
        raise keys.error(f"linear_num_value_heads is {heads}, not a multiple of linear_num_key_heads, {key_heads}")
    return Mixer(
        block="gdn",
        h=(heads, key_dim, dim),
        conv_channels=2 * key_heads * key_dim + heads * dim,
        conv_kernel=keys.count("linear_conv_kernel_dim"),
    )


def kimi_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `kimi_linear` and `glm5_next`: two lists of numbers in `linear_attn_config`, a list of words, or both."""
    count = keys.layers()
    words = listed(keys, count=count, recurrent=LINEAR_WORDS, others=_KDA_OTHERS)
    inner = keys.table("linear_attn_config")
    if inner is None:
        if words is None:
            raise keys.missing("linear_attn_config")
        return words[1]
    return one_based_or_not(inner, count=count, prefer=words)


def kimi(keys: ConfigKeys) -> Mixer:
    """Read `kimi_linear` and `glm5_next`: the heads in `linear_attn_config`; those outside it are the attention's."""
    inner = keys.table("linear_attn_config")
    if inner is None:
        raise keys.missing("linear_attn_config")
    return _kda(inner.count("num_heads"), inner.count("head_dim"), kernel=inner.count("short_conv_kernel_size"))


def _kda(heads: int, dim: int, *, kernel: int) -> Mixer:
    return Mixer(block="kda", h=(heads, dim, dim), conv_channels=3 * heads * dim, conv_kernel=kernel)


def bailing_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `bailing_hybrid`: a list of words, or else all layers but each `layer_group_size`-th."""
    count = keys.layers()
    words = listed(keys, count=count, recurrent=LINEAR_WORDS, others=ATTENTION_WORDS)
    size = keys.optional_count("layer_group_size")
    if size is None:
        if words is None:
            raise keys.missing("layer_group_size", "layer_types")
        return words[1]
    if words is not None:
        if words[1] != _all_but_each(count, size):
            keys.assume(f"layer_group_size {size} is not used: {words[0]} has other layers, and decides")
        return words[1]
    if count % size:
        raise keys.error(
            f"num_hidden_layers {count} is not a multiple of layer_group_size {size}, and readers disagree about the"
            " layers after the last group",
            hint="add layer_types",
        )
    return _all_but_each(count, size)


def bailing(keys: ConfigKeys) -> Mixer:
    """Read `bailing_hybrid`: `head_dim` of the published file; a loaded configuration reports another."""
    heads, dim = keys.count("num_attention_heads"), keys.count("head_dim")
    if dim == keys.peek("qk_rope_head_dim"):
        raise keys.error(
            f"head_dim and qk_rope_head_dim are both {dim}: transformers writes the width of rope into head_dim when"
            " it saves such a configuration",
            hint="use the config.json that the model was published with",
        )
    return _kda(heads, dim, kernel=keys.count("short_conv_kernel_size"))


def lightning_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read MiniMax's own files: `attn_type_list` has 0 for lightning attention and 1 for any other."""
    count = keys.layers()
    words = listed(keys, count=count, recurrent=LINEAR_WORDS, others=ATTENTION_WORDS)
    types = _attention_types(keys, count)
    if words is None and types is None:
        raise keys.missing("attn_type_list", "layer_types")
    if words is not None and types is not None:
        agree(keys, words, ("attn_type_list", types))
    layers = types or (words[1] if words is not None else None)
    assert layers is not None
    return layers


def minimax_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `minimax`, whose class ignores `attn_type_list`: without `layer_types` it would alternate."""
    if not keys.has("layer_types") and not keys.has("layers_block_type"):
        raise keys.error(
            "layer_types is missing: the class ignores attn_type_list, and would make every second layer recurrent",
            hint="add layer_types; MiniMax's own files have the model_type minimax_text_01 or minimax_m1",
        )
    return lightning_layers(keys)


def _attention_types(keys: ConfigKeys, count: int) -> RecurrentLayers | None:
    types = keys.flags("attn_type_list")
    if types is None:
        return None
    if len(types) != count:
        raise keys.error(f"attn_type_list has {len(types)} entries, and num_hidden_layers is {count}")
    return layers_of(count, (layer for layer, other in enumerate(types) if not other))


def lightning(keys: ConfigKeys) -> Mixer:
    """Read lightning attention: no convolution. Published files have a `head_dim` of their own."""
    heads, dim = keys.count("num_attention_heads"), keys.count("head_dim")
    return Mixer(block="lightning", h=(heads, dim, dim))
