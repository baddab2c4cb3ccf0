"""Reads which layers of a model keep recurrent state, in the several ways in which configurations say it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from proofstream_state_cost.config.keys import ConfigKeys, shown
from proofstream_state_cost.config.recurrent_model import RecurrentLayers

MAMBA_WORDS: Final = frozenset({"mamba", "linear_attention"})
"""transformers writes `linear_attention` where published files have `mamba`."""

LINEAR_WORDS: Final = frozenset({"linear_attention"})
ATTENTION_WORDS: Final = frozenset({"attention", "full_attention"})

_LISTS: Final = ("layer_types", "layers_block_type")


def all_layers(keys: ConfigKeys, *, words: Collection[str]) -> RecurrentLayers:
    """Read a model whose layers are all recurrent.

    Args:
        keys: The configuration.
        words: The words that a list of the layers may have, if the file has one.

    Raises:
        ModelConfigError: A list has another word, or another number of entries.
    """
    count = keys.layers()
    listed(keys, count=count, recurrent=words, others=())
    return layers_of(count, range(count))


def layers_of(count: int, recurrent: Iterable[int]) -> RecurrentLayers:
    """Make layers from the numbers of the recurrent ones."""
    return RecurrentLayers(count, tuple(sorted(recurrent)))


def listed(
    keys: ConfigKeys, *, count: int | None, recurrent: Collection[str], others: Collection[str]
) -> tuple[str, RecurrentLayers] | None:
    """Read the list with one word for each layer, under either of its names.

    Args:
        keys: The configuration.
        count: The number of layers; None if the list itself decides.
        recurrent: The words for a recurrent layer.
        others: The words for any other layer.

    Returns:
        The list's name and its layers, or None without a list.

    Raises:
        ModelConfigError: A word is unknown, the number of words is wrong, or the file has both lists and they differ.
    """
    found = [(key, words) for key in _LISTS if (words := keys.words(key)) is not None]
    read = [(key, _read(keys, key, words, recurrent=recurrent, others=others)) for key, words in found]
    for key, layers in read:
        if count is not None:
            _check_length(keys, key, layers.count, count)
        agree(keys, read[0], (key, layers))
    return read[0] if read else None


def _read(
    keys: ConfigKeys, key: str, words: tuple[str, ...], *, recurrent: Collection[str], others: Collection[str]
) -> RecurrentLayers:
    for word in words:
        if word not in recurrent and word not in others:
            known = ", ".join(sorted({*recurrent, *others}))
            raise keys.error(f"{keys.name(key)} has the unknown word {shown(word)}; known are {known}")
    return RecurrentLayers(len(words), tuple(index for index, word in enumerate(words) if word in recurrent))


def _check_length(keys: ConfigKeys, key: str, length: int, count: int) -> None:
    if length != count:
        raise keys.error(f"{keys.name(key)} has {length} entries, and num_hidden_layers is {count}")


def agree(keys: ConfigKeys, first: tuple[str, RecurrentLayers], second: tuple[str, RecurrentLayers]) -> None:
    """Refuse two descriptions of the layers that differ.

    Raises:
        ModelConfigError: The descriptions differ.
    """
    (key, layers), (other, others) = first, second
    if layers.count != others.count:
        raise keys.error(f"{keys.name(key)} has {layers.count} layers and {keys.name(other)} {others.count}")
    if layers != others:
        layer = min(set(layers.recurrent) ^ set(others.recurrent))
        only = keys.name(key if layer in layers.recurrent else other)
        raise keys.error(
            f"{keys.name(key)} and {keys.name(other)} contradict each other: layer {layer} is recurrent only in {only}"
        )


def one_based_or_not(keys: ConfigKeys, *, count: int, prefer: tuple[str, RecurrentLayers] | None) -> RecurrentLayers:
    """Read `kda_layers` and `full_attn_layers`, whose numbers begin at 0 in some files and at 1 in others.

    The right reading is the one in which every layer is in exactly one of the two lists.

    Args:
        keys: The table of both lists.
        count: The number of layers.
        prefer: The layers of another list, which must be one of the readings.

    Raises:
        ModelConfigError: No reading fits, or more than one does.
    """
    ways = _ways(keys, count)
    if prefer is not None:
        if ways and prefer[1] not in ways:
            raise keys.error(
                f"{keys.name('kda_layers')} contradicts {prefer[0]}, whether its numbers begin at 0 or at 1"
            )
        return prefer[1]
    if not ways:
        raise keys.missing("kda_layers")
    if len(ways) > 1:
        raise keys.error(
            f"{keys.name('kda_layers')} could begin at 0 or at 1, and full_attn_layers is missing, which would tell",
            hint="add kda_layer_index_base, or layer_types",
        )
    return ways.pop()


def _ways(keys: ConfigKeys, count: int) -> set[RecurrentLayers]:
    """Return all readings that fit; empty if the lists are missing."""
    recurrent = keys.indices("kda_layers", end=count + 1)
    if recurrent is None:
        return set()
    others = keys.indices("full_attn_layers", end=count + 1)
    every = frozenset(range(count))
    readings = {frozenset(layer - base for layer in recurrent) for base in _bases(keys)}
    fit = {reading for reading in readings if reading <= every}
    if others is not None:
        rests = [frozenset(layer - base for layer in others) for base in (0, 1)]
        fit = {reading for reading in fit if every - reading in rests}
    if not fit:
        lists = "kda_layers" if others is None else "kda_layers and full_attn_layers"
        raise keys.error(
            f"{keys.name(lists)} do not name each of {count} layers once, whether their numbers begin at 0 or at 1"
        )
    return {layers_of(count, reading) for reading in fit}


def _bases(keys: ConfigKeys) -> tuple[int, ...]:
    """Return the numbers that the list may begin at."""
    if not keys.has("kda_layer_index_base"):
        return (0, 1)
    base = keys.index("kda_layer_index_base")
    if base > 1:
        raise keys.error(f"{keys.name('kda_layer_index_base')} is {base}, neither 0 nor 1")
    return (base,)
