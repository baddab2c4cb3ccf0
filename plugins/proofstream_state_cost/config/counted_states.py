"""Counts a model's recurrent states under a convention, as a state circuit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from proofstream_state_cost.config.conventions import Convention, ConventionError
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentModel
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
)
from proofstream_state_cost.states.u64 import u64_product

_SNAPSHOTS: Final = (("ring", StateKind.RING_SNAPSHOT), ("prefix", StateKind.PREFIX_SNAPSHOT))
_SNAPSHOT_FORMAT: Final = StateFormat(dtype=Dtype.F32)


@dataclass(frozen=True, slots=True)
class _Part:
    """One state of each recurrent layer."""

    local: str
    format: StateFormat
    shape: tuple[int, ...]
    verify: VerifyRule


def count_states(model: RecurrentModel, convention: Convention, *, snapshots: bool = False) -> StateCircuit:
    """Declare a model's recurrent states, layer by layer, `h` before `conv`. The circuit has the model type's name.

    Args:
        model: The model.
        convention: How the states are stored.
        snapshots: Whether each state also has a copy in a ring and one in a prefix cache, both in single precision, as
            Metrale keeps them.

    Returns:
        The circuit with all assumptions. It has no states if no layer keeps any.

    Raises:
        ConventionError: The convention does not apply to the model's family.
        Overflow: A state has more than 2^64 - 1 elements; the error names the state.
    """
    reason = convention.why_not(model)
    if reason is not None:
        raise ConventionError(reason)
    if model.mixer is None:
        return StateCircuit(name=model.model_type, states=(), assumptions=model.assumptions)
    parts = tuple(_parts(model, model.mixer, convention))
    states = tuple(
        state
        for layer in model.recurrent_layer_ids
        for state in _states(layer, model.mixer.block, parts, snapshots=snapshots)
    )
    return StateCircuit(
        name=model.model_type, states=states, assumptions=(*model.assumptions, *convention.notes(model))
    )


def describe_counting(model: RecurrentModel, convention: Convention) -> str:
    """Describe in one line what is counted: a layer's states, their dtypes, a window's columns, and how many layers.

    Raises:
        ConventionError: The convention does not apply to the model's family.
    """
    reason = convention.why_not(model)
    if reason is not None:
        raise ConventionError(reason)
    if model.mixer is None:
        return "no layer keeps recurrent state"
    said = [f"{part.local} {_factors(part.shape)} {part.format}" for part in _parts(model, model.mixer, convention)]
    if model.mixer.conv_kernel is not None:
        said[-1] += f" ({convention.window(model)} columns of K={model.mixer.conv_kernel})"
    return f"{' and '.join(said)} in each of {len(model.recurrent_layer_ids)} layers; one sequence, TP=1"


def _parts(model: RecurrentModel, mixer: Mixer, convention: Convention) -> Iterator[_Part]:
    if mixer.h is not None:
        yield _Part("h", convention.h(model).format, mixer.h, VerifyRule.H_STEPS)
    if mixer.conv_channels is not None and mixer.conv_kernel is not None:
        window = (mixer.conv_channels, convention.window_columns(model, mixer.conv_kernel))
        yield _Part("conv", convention.conv(model).format, window, VerifyRule.CONV_STEPS)


def _states(layer: int, block: str, parts: tuple[_Part, ...], *, snapshots: bool) -> Iterator[CircuitState]:
    prefix = f"l{layer}.{block}"
    elements = {part.local: u64_product(*part.shape, subject=f"state {prefix}.{part.local}") for part in parts}
    for part in parts:
        yield CircuitState(
            id=f"{prefix}.{part.local}",
            local=part.local,
            block=block,
            layer=layer,
            section=Section.MAIN,
            kind=StateKind.RECURRENT,
            format=part.format,
            elements=elements[part.local],
            verify=part.verify,
            shape=_factors(part.shape),
        )
    for cache, kind in _SNAPSHOTS if snapshots else ():
        for part in parts:
            yield CircuitState(
                id=f"{prefix}.{cache}_{part.local}",
                local=f"{cache}_{part.local}",
                block=block,
                layer=layer,
                section=Section.MAIN,
                kind=kind,
                format=_SNAPSHOT_FORMAT,
                elements=elements[part.local],
                of=f"{prefix}.{part.local}",
                shape=_factors(part.shape),
            )


def _factors(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
