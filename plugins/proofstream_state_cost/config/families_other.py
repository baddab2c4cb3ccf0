"""Short convolutions (LFM2) and gated linear recurrences (RecurrentGemma)."""

from __future__ import annotations

from typing import Final

from proofstream_state_cost.config.keys import ConfigKeys, shown
from proofstream_state_cost.config.layer_lists import ATTENTION_WORDS, agree, layers_of, listed
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentLayers

_CONV_WORDS: Final = frozenset({"conv"})
_CYCLES: Final = ("block_types", "_block_types")


def lfm2_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `lfm2` and `lfm2_moe`: a list of words, or all layers except `full_attn_idxs`."""
    count = keys.layers()
    words = listed(keys, count=count, recurrent=_CONV_WORDS, others=ATTENTION_WORDS)
    attention = keys.indices("full_attn_idxs", end=count)
    if attention is None:
        if words is None:
            raise keys.missing("layer_types", "full_attn_idxs", because="the class would make no layer recurrent")
        return words[1]
    layers = layers_of(count, set(range(count)) - attention)
    if words is not None:
        agree(keys, words, ("full_attn_idxs", layers))
    return layers


def lfm2(keys: ConfigKeys) -> Mixer:
    """Read `lfm2` and `lfm2_moe`: a convolution over the hidden width, and no temporal state."""
    channels, other = keys.count("hidden_size"), keys.optional_count("conv_dim")
    if other is not None and other != channels:
        raise keys.error(
            f"conv_dim (of vLLM) is {other} and hidden_size (of transformers) is {channels}: they contradict"
        )
    return Mixer(block="short_conv", h=None, conv_channels=channels, conv_kernel=keys.count("conv_L_cache"))


def recurrent_gemma_layers(keys: ConfigKeys) -> RecurrentLayers:
    """Read `recurrent_gemma`: a list of words that is repeated until all layers have one."""
    count = keys.layers()
    cycles = [(key, _cycle(keys, key, count)) for key in _CYCLES if keys.has(key)]
    if not cycles:
        raise keys.missing("block_types")
    for cycle in cycles[1:]:
        agree(keys, cycles[0], cycle)
    return cycles[0][1]


def _cycle(keys: ConfigKeys, key: str, count: int) -> RecurrentLayers:
    words = keys.words(key)
    if not words:
        raise keys.error(f"{key} is empty")
    for word in words:
        if word not in ("recurrent", "attention"):
            raise keys.error(f"{key} has {shown(word)} in it; known are attention and recurrent")
    return layers_of(count, (layer for layer in range(count) if words[layer % len(words)] == "recurrent"))


def recurrent_gemma(keys: ConfigKeys) -> Mixer:
    """Read `recurrent_gemma`: a vector, and a convolution of the same width."""
    width = keys.optional_count("lru_width")
    if width is None:
        width = keys.count("hidden_size")
        keys.assume(f"lru_width is missing: hidden_size = {width} is assumed, as the class does")
    return Mixer(block="rg_lru", h=(width,), conv_channels=width, conv_kernel=keys.count("conv1d_width"))
