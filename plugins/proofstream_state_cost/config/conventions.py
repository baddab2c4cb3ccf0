"""Conventions: how an engine stores the recurrent state that a model's configuration describes."""

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
    """There is no such convention, it lacks a part, or it says nothing of a model's family."""


class WindowColumns(Enum):
    """How many columns of a convolution's window are stored, of K that it takes at once."""

    K = "K"
    K_MINUS_1 = "K-1"

    def of(self, kernel: int) -> int:
        """The columns of a window of `kernel`."""
        return kernel if self is WindowColumns.K else kernel - 1


@dataclass(frozen=True, slots=True)
class StoredAs:
    """What a state's elements are stored as.

    Attributes:
        format: A dtype, or the key of one.
        assumed: What was taken for granted to come to it, in a sentence; None if nothing was.
    """

    format: StateFormat
    assumed: str | None = None


StorageRule = Callable[[RecurrentModel], StoredAs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How one engine stores recurrent state: of one sequence, on one device.

    Attributes:
        name: What it is called in output and events.
        engine: The engine and its version, or where else it comes from.
        columns: How many columns of a convolution's window are kept.
        columns_of: The families of which it keeps another number of columns.
        extra_columns: Columns kept besides, for tokens that are speculated.
        h: What temporal states are stored as.
        conv: What windows are stored as.
        formats: The dtypes of format keys, where nobody gives another.
        extends: What is said where its rule is applied to a family that nobody has seen it applied to; None elsewhere.
        unknown: Families of which nothing is known there.
        caveats: What its numbers leave out, a sentence each.
        h_caveats: The same of temporal states, for models that have them.
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
        """How many columns of a window are kept of this model, in terms of K."""
        columns = self.columns_of.get(model.family, self.columns).value
        return f"{columns}+{self.extra_columns}" if self.extra_columns else columns

    def window_columns(self, model: RecurrentModel, kernel: int) -> int:
        """How many columns of a window of `kernel` are kept of this model."""
        return self.columns_of.get(model.family, self.columns).of(kernel) + self.extra_columns

    def why_not(self, model: RecurrentModel) -> str | None:
        """Why it cannot be applied to a model, or None if it can."""
        if model.family in self.unknown:
            return f"{self.engine} has no figures for {model.family}, so that the convention {self.name} does not apply"
        return None

    def notes(self, model: RecurrentModel) -> tuple[str, ...]:
        """What the reader of a number of this model has to know, a sentence each."""
        found = (self.h(model).assumed, self.conv(model).assumed, self.extends(model))
        has_h = model.mixer is not None and model.mixer.h is not None
        caveats = (*(self.h_caveats if has_h else ()), *self.caveats)
        return (*dict.fromkeys(sentence for sentence in found if sentence is not None), *caveats)


def extrapolated(model: RecurrentModel) -> bool:
    """Whether Metrale itself declares no state of this family."""
    return model.family not in _DECLARED_BY_METRALE


def _metrale_extends(model: RecurrentModel) -> str | None:
    return f"Metrale declares no block for {model.family}: its rule is carried over" if extrapolated(model) else None


def _extends(engine: str) -> Callable[[RecurrentModel], str | None]:
    """The families of which no model was measured there."""

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
    """Single precision, which its torch path leaves even of a 16-bit model; lightning attention follows the model."""
    return _model_dtype(model) if model.family == "minimax" else StoredAs(StateFormat(dtype=Dtype.F32))


def _vllm_dtype(model: RecurrentModel) -> StoredAs:
    """The model's; vLLM runs what was published in single precision in the first dtype that the GPU prefers."""
    if model.dtype is not Dtype.F32:
        return _model_dtype(model)
    return StoredAs(
        StateFormat(dtype=Dtype.BF16), "the model is float32, which vLLM runs in bfloat16 unless its --dtype is given"
    )


def _vllm_h(model: RecurrentModel) -> StoredAs:
    """As the model, but for the three families that have a rule of their own."""
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
    """A preset, a preset with parts replaced, or a convention made of its three parts.

    Args:
        name: The preset; None needs all three parts.
        conv_columns: `K` or `kernel`, `K-1` or `kernel-1`.
        conv_dtype: What windows are stored as: a dtype's word, or `{key}`.
        h_dtype: The same of temporal states.
        speculative_tokens: Tokens for which vLLM keeps columns besides.

    Raises:
        ConventionError: There is no such preset, a part is missing, or its value is none of those.
    """
    columns = None if conv_columns is None else _columns(conv_columns).value
    parts = {"conv-columns": columns, "conv-dtype": conv_dtype, "h-dtype": h_dtype}
    given = {part: value for part, value in parts.items() if value is not None}
    if speculative_tokens and name != VLLM.name:
        raise ConventionError(
            "columns for speculative tokens are kept by vLLM only", hint=f"name it: the convention {VLLM.name}"
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
            raise ConventionError(f"there is no convention {name!r}; known are {', '.join(PRESETS)}")
        return PRESETS[name]
    lacking = [part for part, value in parts.items() if value is None]
    if lacking:
        raise ConventionError(
            f"a convention needs a name, or all of its parts: {' and '.join(lacking)} are not given",
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
