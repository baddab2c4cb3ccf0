"""Conventions: how engines store the recurrent state that a model's configuration describes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from proofstream_state_cost.config.recurrent_model import RecurrentModel
from proofstream_state_cost.states.errors import BadState, StateError
from proofstream_state_cost.states.state_circuit import Dtype, StateFormat, parse_format

H_STORAGE: Final = "ssm_h_storage"
"""The format key of Metrale's temporal states."""

CUSTOM: Final = "custom"

_KDA: Final = frozenset({"kimi_linear", "glm5_next", "bailing_hybrid"})
_DECLARED_BY_METRALE: Final = frozenset({"nemotron_h", "qwen3_5", "glm5_next"})
_DROPPED_BY_VLLM: Final = frozenset({"bamba", "minimax"})
_NEVER_MEASURED: Final = frozenset({"glm5_next", "olmo_hybrid", "mamba_ssm"})


class ConventionError(StateError):
    """A convention is unknown, lacks a part, or does not apply to a model's family."""


class WindowColumns(Enum):
    """The stored columns of a convolution's window, out of the K that it reads at once."""

    K = "K"
    K_MINUS_1 = "K-1"

    def of(self, kernel: int) -> int:
        """Return the stored columns of a window of `kernel` columns."""
        return kernel if self is WindowColumns.K else kernel - 1


@dataclass(frozen=True, slots=True)
class StoredAs:
    """The stored type of a state's elements.

    Attributes:
        format: A dtype, or a format key.
        assumed: The assumption behind it, in a sentence; None without one.
    """

    format: StateFormat
    assumed: str | None = None


StorageRule = Callable[[RecurrentModel], StoredAs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How one engine stores the recurrent state of one sequence on one device.

    Attributes:
        name: Its name in output and events.
        engine: The engine and its version, or another origin.
        columns: The stored columns of a convolution's window.
        columns_of: The stored columns of families that differ.
        extra_columns: Further columns, for speculated tokens.
        h: The stored type of temporal states.
        conv: The stored type of windows.
        formats: The default dtypes of format keys.
        extends: Returns a note if the rule was carried over to a family without a measurement, else None.
        unknown: Families that the engine has no figures for.
        caveats: What its numbers leave out, a sentence each.
        h_caveats: Further caveats, for models that have temporal states.
    """

    name: str
    engine: str
    columns: WindowColumns
    h: StorageRule
    conv: StorageRule
    columns_of: Mapping[str, WindowColumns] = field(default_factory=dict[str, WindowColumns])
    extra_columns: int = 0
    formats: Mapping[str, Dtype] = field(default_factory=dict[str, Dtype])
    extends: Callable[[RecurrentModel], str | None] = lambda _: None
    unknown: Collection[str] = ()
    caveats: tuple[str, ...] = ()
    h_caveats: tuple[str, ...] = ()

    def window(self, model: RecurrentModel) -> str:
        """Return the stored columns of this model's windows, in terms of K."""
        columns = self.columns_of.get(model.family, self.columns).value
        return f"{columns}+{self.extra_columns}" if self.extra_columns else columns

    def window_columns(self, model: RecurrentModel, kernel: int) -> int:
        """Return the stored columns of this model's windows of `kernel` columns."""
        return self.columns_of.get(model.family, self.columns).of(kernel) + self.extra_columns

    def why_not(self, model: RecurrentModel) -> str | None:
        """Return why the convention does not apply to a model, or None if it does."""
        if model.family in self.unknown:
            return f"{self.engine} has no figures for {model.family}, so that the convention {self.name} does not apply"
        return None

    def notes(self, model: RecurrentModel) -> tuple[str, ...]:
        """Return notes for the reader of this model's numbers, a sentence each."""
        found = (self.h(model).assumed, self.conv(model).assumed, self.extends(model))
        has_h = model.mixer is not None and model.mixer.h is not None
        caveats = (*(self.h_caveats if has_h else ()), *self.caveats)
        return (*dict.fromkeys(sentence for sentence in found if sentence is not None), *caveats)


def extrapolated(model: RecurrentModel) -> bool:
    """Return whether Metrale declares no states of this family, so that its rule is carried over."""
    return model.family not in _DECLARED_BY_METRALE


def _metrale_extends(model: RecurrentModel) -> str | None:
    return f"Metrale declares no block for {model.family}: its rule is carried over" if extrapolated(model) else None


def _extends(engine: str) -> Callable[[RecurrentModel], str | None]:
    """Return a rule that notes that no model of a family was measured with this engine."""

    def sentence(model: RecurrentModel) -> str | None:
        if model.family not in _NEVER_MEASURED:
            return None
        return f"no model of {model.family} was measured with {engine}: its rule is carried over"

    return sentence


def _vllm_extends(model: RecurrentModel) -> str | None:
    if model.family in _DROPPED_BY_VLLM:
        return f"vLLM has dropped {model.family}: what its formula gives is shown"
    return _extends("vLLM 0.33")(model)


def _fixed(dtype: Dtype) -> StorageRule:
    stored = StoredAs(StateFormat(dtype=dtype))
    return lambda _: stored


def _model_dtype(model: RecurrentModel) -> StoredAs:
    return StoredAs(StateFormat(dtype=model.dtype))


def _transformers_h(model: RecurrentModel) -> StoredAs:
    """Return f32, which the torch path uses even in a 16-bit model; lightning attention has the model's dtype."""
    return _model_dtype(model) if model.family == "minimax" else StoredAs(StateFormat(dtype=Dtype.F32))


def _vllm_dtype(model: RecurrentModel) -> StoredAs:
    """Return the model's dtype, or bf16 for a float32 model, which vLLM runs in the dtype that the GPU prefers."""
    if model.dtype is not Dtype.F32:
        return _model_dtype(model)
    return StoredAs(
        StateFormat(dtype=Dtype.BF16), "the model is float32, which vLLM runs in bfloat16 unless its --dtype is given"
    )


def _vllm_h(model: RecurrentModel) -> StoredAs:
    """Return the model's dtype, except for the three families that have a rule of their own."""
    if model.family in _KDA:
        return StoredAs(StateFormat(dtype=Dtype.F32))
    if model.family == "nemotron_h":
        return StoredAs(StateFormat(dtype=model.ssm_cache_dtype or Dtype.F32))
    if model.family == "qwen3_5":
        if model.ssm_dtype is not None:
            return StoredAs(StateFormat(dtype=model.ssm_dtype))
        stored = _vllm_dtype(model)
        return replace(stored, assumed="mamba_ssm_dtype is missing: vLLM then stores h in the model's dtype")
    return _vllm_dtype(model)


def _sglang_h(model: RecurrentModel) -> StoredAs:
    return StoredAs(StateFormat(dtype=model.ssm_dtype or Dtype.F32))


METRALE: Final = Convention(
    name="metrale",
    engine="Metrale",
    columns=WindowColumns.K,
    h=lambda _: StoredAs(StateFormat(key=H_STORAGE)),
    conv=_fixed(Dtype.F32),
    extends=_metrale_extends,
    formats={H_STORAGE: Dtype.F32},
)
TRANSFORMERS: Final = Convention(
    name="transformers",
    engine="transformers 5.24",
    columns=WindowColumns.K,
    columns_of={"recurrent_gemma": WindowColumns.K_MINUS_1},
    h=_transformers_h,
    conv=_model_dtype,
    extends=_extends("transformers 5.24"),
    h_caveats=("h was measured without GPU kernels, which may store it in another dtype",),
)
VLLM: Final = Convention(
    name="vllm",
    engine="vLLM 0.33",
    columns=WindowColumns.K_MINUS_1,
    h=_vllm_h,
    conv=_vllm_dtype,
    extends=_vllm_extends,
    unknown={"recurrent_gemma"},
    caveats=("what pads a hybrid model's pages to the size of attention pages is not counted",),
)
SGLANG: Final = Convention(
    name="sglang",
    engine="sglang 0.5.23",
    columns=WindowColumns.K_MINUS_1,
    h=_sglang_h,
    conv=_fixed(Dtype.BF16),
    extends=_extends("sglang 0.5.23"),
    unknown={"bamba", "jamba", "minimax", "recurrent_gemma", "zamba", "zamba2"},
    caveats=("the dtypes are defaults: SGLANG_MAMBA_CONV_DTYPE and SGLANG_MAMBA_SSM_DTYPE change them",),
)

PRESETS: Final[Mapping[str, Convention]] = {
    convention.name: convention for convention in (METRALE, TRANSFORMERS, VLLM, SGLANG)
}
"""The named conventions, in the order in which they are shown."""


def choose_convention(
    name: str | None = None,
    *,
    conv_columns: str | None = None,
    conv_dtype: str | None = None,
    h_dtype: str | None = None,
    speculative_tokens: int = 0,
) -> Convention:
    """Return a preset, a preset with parts replaced, or a convention made of its three parts.

    Args:
        name: The preset; None requires all three parts.
        conv_columns: `K` or `kernel`, `K-1` or `kernel-1`.
        conv_dtype: The dtype of stored windows, or `{key}`.
        h_dtype: The dtype of stored temporal states, or `{key}`.
        speculative_tokens: Speculated tokens, for each of which vLLM keeps one more column.

    Raises:
        ConventionError: The preset is unknown, a part is missing, or a value is not one of these.
    """
    columns = None if conv_columns is None else _columns(conv_columns).value
    parts = {"conv-columns": columns, "conv-dtype": conv_dtype, "h-dtype": h_dtype}
    given = {part: value for part, value in parts.items() if value is not None}
    if speculative_tokens and name != VLLM.name:
        raise ConventionError(
            "only vLLM keeps columns for speculative tokens", hint=f"choose the convention {VLLM.name}"
        )
    convention = _base(name, parts)
    for part, value in given.items():
        convention = _REPLACE[part](convention, value)
    if given and name is not None:
        label = ",".join(f"{part}={value}" for part, value in given.items())
        convention = replace(convention, name=f"{name}+{label}")
    if speculative_tokens:
        name = f"{convention.name}+speculative-tokens={speculative_tokens}"
        convention = replace(convention, name=name, extra_columns=speculative_tokens)
    return convention


def _base(name: str | None, parts: Mapping[str, str | None]) -> Convention:
    if name is not None:
        if name not in PRESETS:
            raise ConventionError(f"unknown convention {name!r}; known are {', '.join(PRESETS)}")
        return PRESETS[name]
    lacking = [part for part, value in parts.items() if value is None]
    if lacking:
        raise ConventionError(
            f"a convention needs a name or all of its parts; missing: {', '.join(lacking)}",
            hint=f"the named conventions are {', '.join(PRESETS)}",
        )
    return Convention(
        name=CUSTOM, engine="no engine", columns=WindowColumns.K, h=_fixed(Dtype.F32), conv=_fixed(Dtype.F32)
    )


def _columns(value: str) -> WindowColumns:
    spelled = value.lower().replace("kernel", "k")
    for columns in WindowColumns:
        if columns.value.lower() == spelled:
            return columns
    raise ConventionError(f"conv-columns is {value!r}; known are K and K-1")


def _with_columns(convention: Convention, value: str) -> Convention:
    return replace(convention, columns=WindowColumns(value), columns_of={})


def _with_conv(convention: Convention, value: str) -> Convention:
    return replace(convention, conv=_given("conv-dtype", value))


def _with_h(convention: Convention, value: str) -> Convention:
    return replace(convention, h=_given("h-dtype", value), h_caveats=())


_REPLACE: Final[Mapping[str, Callable[[Convention, str], Convention]]] = {
    "conv-columns": _with_columns,
    "conv-dtype": _with_conv,
    "h-dtype": _with_h,
}


def _given(part: str, value: str) -> StorageRule:
    try:
        stored = StoredAs(parse_format(value))
    except BadState as error:
        raise ConventionError(f"{part}: {error}") from None
    return lambda _: stored
