"""The families of models whose configuration is supported, by `model_type`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from proofstream_state_cost.config import families_hybrid, families_linear, families_mamba, families_other
from proofstream_state_cost.config.keys import ConfigKeys
from proofstream_state_cost.config.recurrent_model import Mixer, RecurrentLayers


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """How one family's configuration is read.

    Attributes:
        name: Its name, by which conventions tell families apart.
        layers: Reads which layers are recurrent.
        mixer: Reads the mixer of those layers.
    """

    name: str
    layers: Callable[[ConfigKeys], RecurrentLayers]
    mixer: Callable[[ConfigKeys], Mixer]


_LFM2: Final = ModelFamily("lfm2", families_other.lfm2_layers, families_other.lfm2)
_MAMBA1: Final = ModelFamily("mamba", families_mamba.mamba_layers, families_mamba.mamba1)
_QWEN3_5: Final = ModelFamily("qwen3_5", families_linear.gdn_layers, families_linear.gdn)
_LIGHTNING: Final = ModelFamily("minimax", families_linear.lightning_layers, families_linear.lightning)

FAMILIES: Final[Mapping[str, ModelFamily]] = {
    "mamba": _MAMBA1,
    "falcon_mamba": _MAMBA1,
    "mamba2": ModelFamily("mamba2", families_mamba.mamba_layers, families_mamba.mamba2),
    "nemotron_h": ModelFamily("nemotron_h", families_hybrid.nemotron_layers, families_hybrid.nemotron),
    "granitemoehybrid": ModelFamily("granitemoehybrid", families_hybrid.granite_layers, families_hybrid.granite),
    "bamba": ModelFamily("bamba", families_hybrid.bamba_layers, families_hybrid.granite),
    "falcon_h1": ModelFamily("falcon_h1", families_hybrid.falcon_layers, families_hybrid.falcon),
    "zamba2": ModelFamily("zamba2", families_mamba.zamba2_layers, families_mamba.zamba2),
    "zamba": ModelFamily("zamba", families_mamba.zamba_layers, families_mamba.zamba),
    "jamba": ModelFamily("jamba", families_mamba.jamba_layers, families_mamba.jamba),
    "qwen3_next": ModelFamily("qwen3_next", families_linear.gdn_layers, families_linear.gdn),
    "qwen3_5_text": _QWEN3_5,
    "qwen3_5_moe_text": _QWEN3_5,
    "olmo_hybrid": ModelFamily("olmo_hybrid", families_linear.gdn_layers, families_linear.gdn),
    "kimi_linear": ModelFamily("kimi_linear", families_linear.kimi_layers, families_linear.kimi),
    "glm5_next_text": ModelFamily("glm5_next", families_linear.kimi_layers, families_linear.kimi),
    "bailing_hybrid": ModelFamily("bailing_hybrid", families_linear.bailing_layers, families_linear.bailing),
    "minimax_text_01": _LIGHTNING,
    "minimax_m1": _LIGHTNING,
    "minimax": ModelFamily("minimax", families_linear.minimax_layers, families_linear.lightning),
    "lfm2": _LFM2,
    "lfm2_moe": _LFM2,
    "recurrent_gemma": ModelFamily(
        "recurrent_gemma", families_other.recurrent_gemma_layers, families_other.recurrent_gemma
    ),
}
"""By the `model_type` of the table that has the keys."""

NESTED: Final[Mapping[str, tuple[str, ...]]] = {
    "qwen3_5": ("qwen3_5_text",),
    "qwen3_5_moe": ("qwen3_5_moe_text",),
    "glm5_next": ("glm5_next_text",),
    "lfm2_vl": ("lfm2", "lfm2_moe"),
}
"""Types that describe their language model in `text_config`, and the `model_type` that it may have there."""

ORIGINAL: Final = ModelFamily("mamba_ssm", families_mamba.original_layers, families_mamba.original)
"""Files of the `mamba_ssm` package, which have no `model_type`."""

KNOWN: Final = tuple(sorted({*FAMILIES, *NESTED}))
