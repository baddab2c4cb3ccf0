"""Mamba: models in which every layer, or every layer without attention, is a selective state space."""

from __future__ import annotations

from typing import Final

from proofstream_state_cost.config.keys import ConfigKeys, shown
from proofstream_state_cost.config.layer_lists import ATTENTION_WORDS, MAMBA_WORDS, agree, all_layers, layers_of, listed
from proofstream_state_cost.config.mamba_widths import (
    check_groups,
    expanded,
    expanded_if_there,
    groups,
    head_dim_of,
    inner_of_heads,
    mamba1_mixer,
    mamba2_mixer,
)
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentLayers

_ZAMBA_WORDS: Final = MAMBA_WORDS | {"hybrid"}


def mamba_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `mamba`, `falcon_mamba` and `mamba2`: all layers."""
    return all_layers(keys, words=MAMBA_WORDS)


def mamba1(keys: ConfigKeys) -> Mixer:
    """Read `mamba` and `falcon_mamba`: `intermediate_size` wins over `expand x hidden_size`, up to 8 times it."""
    inner, product = keys.optional_count("intermediate_size"), expanded_if_there(keys, "expand")
    if inner is None:
        inner = product
    if inner is None:
        raise keys.missing("intermediate_size", because="and so is expand or hidden_size, whose product it would be")
    if product is not None and product != inner:
        keys.assume(f"intermediate_size {inner} is taken, not expand x hidden_size = {product}")
    return mamba1_mixer((inner,), state=keys.count("state_size"), kernel=keys.count("conv_kernel"))


def mamba2(keys: ConfigKeys) -> Mixer:
    """Read `mamba2`."""
    heads, dim = keys.count("num_heads"), keys.count("head_dim")
    inner = inner_of_heads(keys, heads, dim, names="num_heads x head_dim", expand="expand")
    return mamba2_mixer(
        (heads, dim, keys.count("state_size")),
        inner=inner,
        groups=groups(keys, "n_groups", default=8, heads=heads),
        kernel=keys.count("conv_kernel"),
    )


def zamba_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `zamba`: all layers, since a `hybrid` layer holds a Mamba mixer beside its attention."""
    return all_layers(keys, words=_ZAMBA_WORDS)


def zamba(keys: ConfigKeys) -> Mixer:
    """Read `zamba`: Mamba-1, with its inner width split into heads."""
    inner = expanded(keys, "mamba_expand")
    heads = keys.count("n_mamba_heads")
    dim = head_dim_of(keys, inner, heads, inner_name="mamba_expand x hidden_size", heads_name="n_mamba_heads")
    return mamba1_mixer((heads, dim), state=keys.count("mamba_d_state"), kernel=keys.count("mamba_d_conv"))


def zamba2_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `zamba2`: all layers, as in Zamba; older files have `m` and `g` for `mamba` and `hybrid`."""
    return all_layers(keys, words=_ZAMBA_WORDS | {"m", "g"})


def zamba2(keys: ConfigKeys) -> Mixer:
    """Read `zamba2`, also with the names of older files, which transformers 5 no longer reads."""
    old = [key for key in ("state_size", "mamba_headdim", "expansion_factor", "conv_dimension") if keys.has(key)]
    inner = expanded(keys, "mamba_expand", "expansion_factor")
    heads, dim = _zamba2_heads(keys, inner)
    mixer = mamba2_mixer(
        (heads, dim, keys.count("mamba_d_state", "state_size")),
        inner=inner,
        groups=groups(keys, "mamba_ngroups", default=1, heads=heads),
        kernel=keys.count("mamba_d_conv", "conv_dimension"),
    )
    if old and not keys.has("mamba_d_state"):
        keys.assume(f"the older keys {', '.join(old)} are read, which transformers 5.24 does not load")
    return mixer


def _zamba2_heads(keys: ConfigKeys, inner: int) -> tuple[int, int]:
    heads, dim = keys.optional_count("n_mamba_heads"), keys.optional_count("mamba_headdim")
    if heads is None and dim is None:
        raise keys.missing("n_mamba_heads", because="the class's 8 fits no published model")
    if heads is None:
        assert dim is not None
        return head_dim_of(keys, inner, dim, inner_name="mamba_expand x hidden_size", heads_name="mamba_headdim"), dim
    if dim is None:
        dim = head_dim_of(keys, inner, heads, inner_name="mamba_expand x hidden_size", heads_name="n_mamba_heads")
    if heads * dim != inner:
        raise keys.error(
            f"n_mamba_heads x mamba_headdim is {heads * dim} and mamba_expand x hidden_size is {inner}: they contradict"
        )
    return heads, dim


def jamba_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `jamba`: all layers but one in each `attn_layer_period`."""
    count = keys.layers()
    period, offset = keys.count("attn_layer_period"), keys.index("attn_layer_offset")
    if offset >= period:
        raise keys.error(f"attn_layer_offset is {offset} and attn_layer_period is {period}: they contradict")
    layers = layers_of(count, (layer for layer in range(count) if layer % period != offset))
    words = listed(keys, count=count, recurrent=MAMBA_WORDS, others=ATTENTION_WORDS)
    if words is not None:
        agree(keys, words, ("attn_layer_period", layers))
    return layers


def jamba(keys: ConfigKeys) -> Mixer:
    """Read `jamba`: Mamba-1."""
    inner = expanded(keys, "mamba_expand")
    return mamba1_mixer((inner,), state=keys.count("mamba_d_state"), kernel=keys.count("mamba_d_conv"))


def original_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read files of the `mamba_ssm` package: all layers except `attn_layer_idx`."""
    count = keys.layers("n_layer")
    attention = keys.indices("attn_layer_idx", end=count)
    if attention is None:
        keys.assume("attn_layer_idx is missing: every layer is assumed to be recurrent, as the package does")
        return layers_of(count, range(count))
    return layers_of(count, set(range(count)) - attention)


def original(keys: ConfigKeys) -> Mixer:
    """Read files of the `mamba_ssm` package: where `ssm_cfg` has no value, the layer class's default holds."""
    width, ssm = keys.count("d_model"), keys.table("ssm_cfg")
    assert ssm is not None, "files of this package are recognized by it"
    layer = ssm.word("layer")
    if layer not in (None, "Mamba1", "Mamba2"):
        raise keys.error(f"ssm_cfg.layer is {shown(layer)}; known are Mamba1 and Mamba2")
    if layer is None:
        keys.assume("ssm_cfg.layer is missing: Mamba1 is assumed, the package's default")
    inner = _or_default(ssm, "expand", 2) * width
    kernel = _or_default(ssm, "d_conv", 4)
    if layer != "Mamba2":
        return mamba1_mixer((inner,), state=_or_default(ssm, "d_state", 16), kernel=kernel)
    inner = ssm.optional_count("d_ssm") or inner
    dim = _or_default(ssm, "headdim", 64)
    heads = head_dim_of(keys, inner, dim, inner_name="the inner width", heads_name="ssm_cfg.headdim")
    in_groups = check_groups(ssm, _or_default(ssm, "ngroups", 1), "ngroups", heads)
    return mamba2_mixer((heads, dim, _or_default(ssm, "d_state", 128)), inner=inner, groups=in_groups, kernel=kernel)


def _or_default(ssm: ConfigKeys, key: str, default: int) -> int:
    value = ssm.optional_count(key)
    if value is None:
        ssm.assume(f"{ssm.name(key)} is missing: {default} is assumed, the layer class's default")
        return default
    return value
