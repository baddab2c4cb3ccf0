"""Reads the widths of Mamba mixers: inner width, heads and groups, which configurations give in several ways."""

from __future__ import annotations

from typing import Final

from proofstream_state_cost.config.keys import ConfigKeys
from proofstream_state_cost.config.recurrent_model import Mixer

_GROUP_KEYS: Final = ("n_groups", "mamba_n_groups", "mamba_ngroups", "mamba_num_groups", "ngroups")


def mamba1_mixer(inner: tuple[int, ...], *, state: int, kernel: int) -> Mixer:
    """Make a Mamba-1 mixer. Its convolution runs over the inner width alone.

    Args:
        inner: The inner width, or the heads that it is split into and their width.
        state: The width of the state.
        kernel: The columns of the convolution.
    """
    channels = 1
    for factor in inner:
        channels *= factor
    return Mixer(block="mamba", h=(*inner, state), conv_channels=channels, conv_kernel=kernel)


def mamba2_mixer(h: tuple[int, int, int], *, inner: int, groups: int, kernel: int) -> Mixer:
    """Make a Mamba-2 mixer. Its convolution runs over the inner width and over B and C of each group.

    Args:
        h: Heads, their width, and the width of the state.
        inner: The inner width.
        groups: The number of groups of heads that share B and C.
        kernel: The columns of the convolution.
    """
    return Mixer(block="mamba", h=h, conv_channels=inner + 2 * groups * h[2], conv_kernel=kernel)


def expanded_if_there(keys: ConfigKeys, *expand: str) -> int | None:
    """Return `expand x hidden_size`, or None if either is missing.

    Raises:
        ModelConfigError: One is not a number from 1 on.
    """
    factor, hidden = keys.optional_count(*expand), keys.optional_count("hidden_size")
    return factor * hidden if factor is not None and hidden is not None else None


def expanded(keys: ConfigKeys, *expand: str) -> int:
    """Return `expand x hidden_size`.

    Raises:
        ModelConfigError: One is missing, or not a number from 1 on.
    """
    return keys.count(*expand) * keys.count("hidden_size")


def inner_of_heads(keys: ConfigKeys, heads: int, dim: int, *, names: str, expand: str) -> int:
    """Return the inner width as heads times their width, which `expand x hidden_size` must not contradict.

    Args:
        keys: The configuration.
        heads: The number of heads.
        dim: Their width.
        names: The keys of both, for messages.
        expand: The key of the factor.

    Raises:
        ModelConfigError: The two products contradict each other.
    """
    inner, product = heads * dim, expanded_if_there(keys, expand)
    if product is None:
        keys.assume(f"{expand} or hidden_size is missing: {names} = {inner} is assumed to be the inner width")
    elif product != inner:
        raise keys.error(f"{names} is {inner} and {expand} x hidden_size is {product}: they contradict")
    return inner


def head_dim_of(keys: ConfigKeys, inner: int, heads: int, *, inner_name: str, heads_name: str) -> int:
    """Divide the inner width by the number of heads, or by their width.

    Raises:
        ModelConfigError: The division leaves a remainder.
    """
    if inner % heads:
        raise keys.error(f"{inner_name} is {inner}, not a multiple of {heads_name}, {heads}")
    return inner // heads


def groups(keys: ConfigKeys, *names: str, default: int, heads: int) -> int:
    """Return the number of groups. If the file does not give it, the class's default is assumed and noted.

    Args:
        keys: The configuration.
        names: The keys that this family reads.
        default: The class's default.
        heads: The number of heads that share the groups.

    Raises:
        ModelConfigError: The number is not 1 or more, does not divide the heads, or stands under another family's key.
    """
    value = keys.optional_count(*names)
    if value is None:
        for key in _GROUP_KEYS:
            if key not in names and keys.has(key):
                raise keys.missing(*names, because=f"{keys.name(key)} is present, which this model_type does not read")
        value = default
        keys.assume(f"{keys.names(names)} is missing: {default} is assumed, the class's default")
    return check_groups(keys, value, keys.names(names), heads)


def check_groups(keys: ConfigKeys, value: int, name: str, heads: int) -> int:
    """Return the number of groups if it divides the heads.

    Raises:
        ModelConfigError: It does not divide them.
    """
    if heads % value:
        raise keys.error(f"{name} is {value}, which does not divide the {heads} heads")
    return value
