"""What a model's configuration says about its recurrent state, before anybody decides how an engine stores it."""

from __future__ import annotations

from dataclasses import dataclass

from proofstream_state_cost.states.state_circuit import Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """The part of a layer that keeps recurrent state. All recurrent layers of a model have the same one.

    Attributes:
        block: What it is called in states' ids: `gdn`, `mamba`, `kda`, `lightning`, `short_conv` or `rg_lru`.
        h: The temporal state of one sequence, as factors of its number of elements; None if it keeps none.
        conv_channels: How many channels its short convolution has; None if it has none.
        conv_kernel: How many columns the convolution takes at once, K; None if it has none.
    """

    block: str
    h: tuple[int, ...] | None
    conv_channels: int | None = None
    conv_kernel: int | None = None


@dataclass(frozen=True, slots=True)
class RecurrentLayers:
    """How many layers there are, and which of them keep recurrent state: ascending, from 0."""

    count: int
    recurrent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentModel:
    """The recurrent state of a model, as its configuration describes it.

    Attributes:
        model_type: As in the file; of a nested configuration, that of the whole. `mamba_ssm` where the file has none.
        family: Which rules were applied: `nemotron_h`, `qwen3_5`, `kimi_linear`.
        layers: Which layers keep it. The layers of a drafting head are not among them.
        mixer: What keeps it; None if no layer does.
        dtype: The model's dtype.
        ssm_cache_dtype: What the file gives as `mamba_ssm_cache_dtype`, if anything.
        ssm_dtype: What the file gives as `mamba_ssm_dtype`, if anything.
        assumptions: What the file left open and how it was settled, one sentence each.
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
        """Which layers keep recurrent state."""
        return self.layers.recurrent
