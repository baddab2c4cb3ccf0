"""Hybrids: models with Mamba-2 and attention, in different layers or side by side in the same one."""

from __future__ import annotations

from typing import Final

from proofstream_state_cost.config.keys import MAX_LAYERS, ConfigKeys, shown
from proofstream_state_cost.config.layer_lists import ATTENTION_WORDS, MAMBA_WORDS, agree, all_layers, layers_of, listed
from proofstream_state_cost.config.mamba_widths import (
    expanded,
    expanded_if_there,
    groups,
    head_dim_of,
    inner_of_heads,
    mamba2_mixer,
)
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentLayers

_NEMOTRON_OTHERS: Final = ATTENTION_WORDS | {"mlp", "moe"}
_FALCON_WORDS: Final = MAMBA_WORDS | ATTENTION_WORDS | {"hybrid"}
_PATTERN: Final = "hybrid_override_pattern"


def nemotron_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `nemotron_h`: a pattern with a letter for each layer, or a list of words. Its length is the layer count."""
    words = listed(keys, count=None, recurrent=MAMBA_WORDS, others=_NEMOTRON_OTHERS)
    pattern = _pattern(keys)
    if words is None and pattern is None:
        raise keys.missing(_PATTERN, "layers_block_type", because="the class would make up four layers")
    if words is not None and pattern is not None:
        agree(keys, words, (_PATTERN, pattern))
    key, layers = words or (_PATTERN, pattern)
    assert layers is not None
    given = keys.peek("num_hidden_layers")
    if given is not None and given != layers.count:
        keys.assume(f"num_hidden_layers {given} is not used: {key} has {layers.count} layers, and decides")
    return layers


def _pattern(keys: ConfigKeys) -> RecurrentLayers | None:
    letters = keys.word(_PATTERN)
    if letters is None:
        return None
    strange = sorted(set(letters) - set("M*-E"))
    if strange:
        raise keys.error(f"{_PATTERN} has {shown(strange[0])} in it; known are M, *, - and E")
    if not 1 <= len(letters) <= MAX_LAYERS:
        raise keys.error(f"{_PATTERN} has {len(letters)} letters, not between 1 and {MAX_LAYERS}")
    return layers_of(len(letters), (layer for layer, letter in enumerate(letters) if letter == "M"))


def nemotron(keys: ConfigKeys) -> Mixer:
    """Read `nemotron_h`: `expand` is never used, and `n_group` belongs to the experts."""
    heads, dim = keys.count("mamba_num_heads"), keys.count("mamba_head_dim")
    inner = heads * dim
    expand, hidden = keys.peek("expand"), keys.peek("hidden_size")
    if expand is not None and hidden is not None and expand * hidden != inner:
        widths = f"mamba_num_heads x mamba_head_dim = {inner}, not expand x hidden_size = {expand * hidden}"
        keys.assume(f"the inner width is {widths}")
    return mamba2_mixer(
        (heads, dim, keys.count("ssm_state_size", "mamba_state_dim")),
        inner=inner,
        groups=groups(keys, "n_groups", "mamba_num_groups", default=8, heads=heads),
        kernel=keys.count("conv_kernel"),
    )


def granite_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `granitemoehybrid`: a list of words. Some models of this type have no recurrent layer."""
    words = listed(keys, count=keys.layers(), recurrent=MAMBA_WORDS, others=ATTENTION_WORDS)
    if words is None:
        raise keys.missing("layer_types", because="the class would make every layer recurrent")
    return words[1]


def bamba_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `bamba`: all layers except `attn_layer_indices`, or a list of words."""
    count = keys.layers()
    words = listed(keys, count=count, recurrent=MAMBA_WORDS, others=ATTENTION_WORDS)
    attention = keys.indices("attn_layer_indices", end=count)
    if attention is None:
        if words is None:
            raise keys.missing("attn_layer_indices", because="the class would make every layer recurrent")
        return words[1]
    layers = layers_of(count, set(range(count)) - attention)
    if words is not None:
        agree(keys, words, ("attn_layer_indices", layers))
    return layers


def falcon_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `falcon_h1`: all layers, since attention and Mamba-2 run side by side in each."""
    return all_layers(keys, words=_FALCON_WORDS)


def granite(keys: ConfigKeys) -> Mixer:
    """Read `granitemoehybrid` and `bamba`, which have the same keys."""
    heads, dim = keys.count("mamba_n_heads"), _given_dim(keys)
    if dim is None:
        inner = expanded(keys, "mamba_expand")
    else:
        inner = inner_of_heads(keys, heads, dim, names="mamba_n_heads x mamba_d_head", expand="mamba_expand")
    return _mixer(keys, heads, dim, inner)


def falcon(keys: ConfigKeys) -> Mixer:
    """Read `falcon_h1`: `mamba_d_ssm` is the inner width, unless it is null: then `mamba_expand x hidden_size` is."""
    return _mixer(keys, keys.count("mamba_n_heads"), _given_dim(keys), _falcon_inner(keys))


def _falcon_inner(keys: ConfigKeys) -> int:
    inner = keys.optional_count("mamba_d_ssm")
    if inner is None:
        if "mamba_d_ssm" not in keys:
            raise keys.missing("mamba_d_ssm", because="the class has 1024, and null means mamba_expand x hidden_size")
        return expanded(keys, "mamba_expand")
    product = expanded_if_there(keys, "mamba_expand")
    if product is not None and product != inner:
        keys.assume(f"mamba_d_ssm {inner} is the inner width, not mamba_expand x hidden_size = {product}")
    return inner


def _given_dim(keys: ConfigKeys) -> int | None:
    """Return the heads' width; None for `auto` and for a missing key, which mean the same."""
    return None if keys.get("mamba_d_head") == "auto" else keys.optional_count("mamba_d_head")


def _mixer(keys: ConfigKeys, heads: int, given: int | None, inner: int) -> Mixer:
    dim = head_dim_of(keys, inner, heads, inner_name="the inner width", heads_name="mamba_n_heads")
    if given is None:
        keys.assume(f"mamba_d_head is missing or auto: {inner} / {heads} = {dim} is assumed")
    elif given != dim:
        raise keys.error(
            f"mamba_n_heads x mamba_d_head is {heads * given} and the inner width is {inner}: they contradict"
        )
    return mamba2_mixer(
        (heads, dim, keys.count("mamba_d_state", because="the class's 256 fits few published models")),
        inner=inner,
        groups=groups(keys, "mamba_n_groups", default=1, heads=heads),
        kernel=keys.count("mamba_d_conv"),
    )
