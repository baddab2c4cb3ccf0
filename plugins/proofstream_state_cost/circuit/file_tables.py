"""The tables of a circuit file and their keys."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from proofstream_state_cost.circuit.shapes import is_dim_name
from proofstream_state_cost.states.u64 import is_u64

_LONGEST_TEXT = 2000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=100)]
"""The name of a block, of a layer kind, or of a state within its block; ids are made of them."""

Entry = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+(@\S+)?$", max_length=200)]
"""A block, and in the drafting head also the module that holds its weights: `block@module`."""

Text = Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]


def _dim_name(name: str) -> str:
    if not is_dim_name(name):
        raise ValueError("shapes cannot use this name: a dim consists of lower-case letters, digits and _")
    return name


def _u64(number: int) -> int:
    if not is_u64(number):
        raise ValueError("it is not between 0 and 2^64 - 1")
    return number


class FileTable(BaseModel):
    """A table of the file. Other keys are refused, and values are not converted to another type."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True, strict=True)


class StateTable(FileTable):
    """One state of a block.

    Attributes:
        id: Its name within the block.
        kind: Its kind.
        lifetime: How long a unit lives. The kind alone decides, and older files leave it out.
        format: A dtype, or `{key}`.
        shape: The elements of one unit, as a shape expression.
        of: Instead of a shape: the state of the same block that this snapshot copies.
        verify: The intermediates that a speculative verify keeps; required for recurrent states.
    """

    id: Name
    kind: Text
    lifetime: Text | None = None
    format: Text
    shape: Text | None = None
    of: Text | None = None
    verify: Text | None = None


class BlockTable(FileTable):
    """One block, which is a part of a layer. A block that keeps no state lists none."""

    state: list[StateTable] = []


class LayersTable(FileTable):
    """A stretch of layers. A word stands for one layer of that kind.

    Attributes:
        kind: A layer kind, or several in a row.
        count: How often the row is repeated.
    """

    kind: list[Name] = Field(min_length=1)
    count: int = 1

    @model_validator(mode="before")
    @classmethod
    def _from_word(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @field_validator("kind", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("count")
    @classmethod
    def _some(cls, value: int) -> int:
        if value < 1:
            raise ValueError("a count is 1 or more")
        return value


class CircuitTable(FileTable):
    """The whole file.

    Attributes:
        name: The model's name.
        notes: Assumptions, one sentence each; shown with every number.
        dims: The model's dimensions, which shapes name.
        block: The blocks, by name.
        layer_kinds: The blocks of each kind of layer, in their order.
        layers: The kind of each layer, from layer 0.
        prologue: Blocks before the layers.
        epilogue: Blocks after them.
        draft: Blocks of the model's own drafting head, written `block` or `block@module`.
    """

    name: Text
    notes: list[Text] = []
    dims: dict[Annotated[str, AfterValidator(_dim_name)], Annotated[int, AfterValidator(_u64)]] = {}
    block: dict[Name, BlockTable] = {}
    layer_kinds: dict[Name, list[Name]] = {}
    layers: list[LayersTable] = []
    prologue: list[Name] = []
    epilogue: list[Name] = []
    draft: list[Entry] = []

    @model_validator(mode="after")
    def _places(self) -> CircuitTable:
        if not {"layers", "prologue", "epilogue", "draft"} & self.model_fields_set:
            raise ValueError("the model's blocks are not given: add layers, prologue, epilogue or draft")
        return self
