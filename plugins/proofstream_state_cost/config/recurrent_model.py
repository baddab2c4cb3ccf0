"""A model's recurrent state as its configuration describes it, whatever the engine that stores it."""

from __future__ import annotations

from dataclasses import dataclass

from proofstream_state_cost.states.state_circuit import Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """The part of a layer that keeps recurrent state. All recurrent layers of a model have the same one.

    Attributes:
        block: Its name in states' ids: `gdn`, `mamba`, `kda`, `lightning`, `short_conv` or `rg_lru`.
        h: The temporal state of one sequence, as factors of its number of elements; None without one.
        conv_channels: Channels of its short convolution; None without one.
        conv_kernel: Columns that the convolution reads at once, K; None without one.
    """

    block: str
    h: tuple[int, ...] | None
    conv_channels: int | None = None
    conv_kernel: int | None = None


@dataclass(frozen=True, slots=True)
class RecurrentLayers:
    """The number of layers, and those that keep recurrent state: ascending, from 0."""

    count: int
    recurrent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentModel:
    """The recurrent state of a model, as its configuration describes it.

    Attributes:
        model_type: As in the file, outside any nested table; `mamba_ssm` for files without one.
        family: The family whose rules were applied: `nemotron_h`, `qwen3_5`, `kimi_linear`.
        layers: The layers that keep it, without those of a drafting head.
        mixer: The mixer of those layers; None if no layer keeps state.
        dtype: The model's dtype.
        ssm_cache_dtype: `mamba_ssm_cache_dtype`, if the file gives it.
        ssm_dtype: `mamba_ssm_dtype`, if the file gives it.
        assumptions: How points that the file leaves open were settled, one sentence each.
    """

    model_type: str
    family: str
    layers: RecurrentLayers
    mixer: Mixer | None
    dtype: Dtype
    ssm_cache_dtype: Dtype | None = None
    ssm_dtype: Dtype | None = None
    assumptions: tuple[str, ...] = ()

    @property
    def recurrent_layer_ids(self) -> tuple[int, ...]:
        """The layers that keep recurrent state, ascending."""
        return self.layers.recurrent
