"""What a person can configure of state costs: the command's options and the bus's, which are one table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from proofstream import read_table
from proofstream_state_cost.states.state_circuit import Dtype

MAX_SLOTS = 2**16
"""No engine holds more sequences at once; a plan with verify slots lists each of them."""

MAX_VERIFY_STEPS = 2**16
MAX_RATE = Decimal(10**9)
_MAX_U64 = 2**64 - 1
_NEEDS = "{} needs {}: a KV cache has blocks times the tokens in one"
_FORM = "KEY=DTYPE, such as ssm_h_storage=f32"


def _no_truth(value: object) -> object:
    """Refuse true and false, which would count as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")
    return value


_Count = Annotated[int, BeforeValidator(_no_truth)]


class Settings(BaseModel):
    """The table `state-cost`.

    Attributes:
        file: On the bus: the state circuit, or the model's `config.json`, that proofs and runs are priced by.
        convention: How the states of a `config.json` are counted; a state circuit declares its own.
        conv_columns: How many columns of a convolution's window of K are stored, `K` or `K-1`; by default as the
            convention has it.
        conv_dtype: What windows are stored as, a dtype or `{key}`; by default as the convention has it.
        h_dtype: The same of temporal states.
        speculative_tokens: How many tokens an engine speculates, where its windows have columns for them.
        snapshots: Whether each state of a `config.json` also has copies in a ring and in a prefix cache, as in Metrale.
        formats: A dtype for each format key that states read.
        slots: The plan: how many sequences have a slot, one for padding included where the engine has one.
        verify_steps: The plan: how many rows one speculative verify takes, K.
        kv_blocks: The plan: how many blocks the KV cache has.
        kv_block_size: The plan: how many tokens a block holds.
        rate: How many verifies a second each sequence runs.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    file: str | None = Field(default=None, min_length=1)
    convention: str | None = Field(default=None, min_length=1)
    conv_columns: str | None = None
    conv_dtype: str | None = None
    h_dtype: str | None = None
    speculative_tokens: _Count | None = Field(default=None, ge=0, le=MAX_VERIFY_STEPS)
    snapshots: bool = False
    formats: dict[str, Dtype] = Field(default_factory=dict[str, Dtype])
    slots: _Count | None = Field(default=None, ge=1, le=MAX_SLOTS)
    verify_steps: _Count | None = Field(default=None, ge=1, le=MAX_VERIFY_STEPS)
    kv_blocks: _Count | None = Field(default=None, ge=0, le=_MAX_U64)
    kv_block_size: _Count | None = Field(default=None, ge=1, le=_MAX_U64)
    rate: Annotated[Decimal, BeforeValidator(_no_truth)] | None = Field(default=None, allow_inf_nan=False)

    @field_validator("formats", mode="before")
    @classmethod
    def _read_formats(cls, value: object) -> object:
        if isinstance(value, str):
            return _pairs(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, list | tuple):
            return _pairs(cast("Iterable[object]", value))
        return value

    @field_validator("rate")
    @classmethod
    def _believable(cls, value: Decimal | None) -> Decimal | None:
        if value is not None and not 1 / MAX_RATE <= value <= MAX_RATE:
            raise ValueError("input should be between 10^-9 and 10^9 verifies a second")
        return value

    @model_validator(mode="after")
    def _both_or_none(self) -> Settings:
        if self.kv_blocks is not None and self.kv_block_size is None:
            raise ValueError(_NEEDS.format("kv_blocks (--kv-blocks)", "kv_block_size (--kv-block-size)"))
        if self.kv_block_size is not None and self.kv_blocks is None:
            raise ValueError(_NEEDS.format("kv_block_size (--kv-block-size)", "kv_blocks (--kv-blocks)"))
        return self

    @property
    def wants_plan(self) -> bool:
        """Whether anything of the plan was given."""
        return any(value is not None for value in (self.slots, self.verify_steps, self.kv_blocks))


def _pairs(words: Iterable[object]) -> dict[str, str]:
    """Formats by key from words of the form KEY=DTYPE."""
    formats: dict[str, str] = {}
    for word in words:
        key, equals, dtype = word.partition("=") if isinstance(word, str) else ("", "", "")
        key, dtype = key.strip().removeprefix("{").removesuffix("}"), dtype.strip()
        if not (key and equals and dtype):
            raise ValueError(f"{word!r} is not of the form {_FORM}")
        if key in formats:
            raise ValueError(f"the key {key!r} is given twice: {formats[key]} and {dtype}")
        formats[key] = dtype
    return formats


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown, or its value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="state-cost")
