"""The settings of state costs: one table holds the options of the command and those of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from proofstream import read_table
from proofstream_state_cost.states.state_circuit import Dtype
from proofstream_state_cost.states.u64 import U64_MAX

MAX_SLOTS = 2**16
"""No engine holds more sequences at once. The limit bounds a plan, which lists each verify slot."""

MAX_VERIFY_STEPS = 2**16
MAX_RATE = Decimal(10**9)
_NEEDS = "{} needs {}: a KV cache has blocks times the tokens in one"
_FORM = "KEY=DTYPE, such as ssm_h_storage=f32"


def _refuse_bool(value: object) -> object:
    """Refuse true and false, which Python takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError(f"a number is needed, not {str(value).lower()}")
    return value


_Count = Annotated[int, BeforeValidator(_refuse_bool)]


class Settings(BaseModel):
    """The table `state-cost`.

    Attributes:
        file: In a run: the state circuit, or the model's `config.json`, that prices proofs and runs.
        convention: How the states of a `config.json` are counted; a state circuit declares its own.
        conv_columns: Stored columns of a convolution's window of K, `K` or `K-1`; by default as the convention says.
        conv_dtype: The dtype of stored windows, or `{key}`; by default as the convention says.
        h_dtype: The dtype of stored temporal states, likewise.
        speculative_tokens: Tokens that an engine speculates, where its windows have columns for them.
        snapshots: Whether each state of a `config.json` also has copies in a ring and in a prefix cache, as in Metrale.
        formats: The dtype of each format key that states read.
        slots: For the plan: sequences with a slot, including the padding sequence if the engine has one.
        verify_steps: For the plan: rows of one speculative verify, K.
        kv_blocks: For the plan: blocks of the KV cache.
        kv_block_size: For the plan: tokens in each block.
        rate: Verifies a second of each sequence.
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
    kv_blocks: _Count | None = Field(default=None, ge=0, le=U64_MAX)
    kv_block_size: _Count | None = Field(default=None, ge=1, le=U64_MAX)
    rate: Annotated[Decimal, BeforeValidator(_refuse_bool)] | None = Field(default=None, allow_inf_nan=False)

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
        """Whether any setting of the plan was given."""
        return any(value is not None for value in (self.slots, self.verify_steps, self.kv_blocks))


def _pairs(words: Iterable[object]) -> dict[str, str]:
    """Return formats by key from words of the form KEY=DTYPE."""
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
        ConfigError: A key is unknown or its value is not acceptable; the message is one line that says which and why.
    """
    return read_table(Settings, table, name="state-cost")
