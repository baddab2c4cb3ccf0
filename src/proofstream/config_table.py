"""Reads a configuration table into its model, with one-line messages for mistakes.

A model is a pydantic model, or a `msgspec.Struct`: see `plain_tables`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import msgspec

from proofstream.errors import ConfigError, did_you_mean
from proofstream.plain_tables import of_pydantic, pydantic_model, read_plainly
from proofstream.text import LONGEST_LINE, safe_text

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel | msgspec.Struct)
    TableModel: TypeAlias = type[BaseModel | msgspec.Struct]
    _Pydantic = TypeVar("_Pydantic", bound=BaseModel)

_UNKNOWN = "extra_forbidden"


class TableMistake(ConfigError):
    """A table is not what its model says.

    Attributes:
        key: The key that is wrong; None if only several together are.
        kind: What is wrong, in pydantic's word.
    """

    def __init__(self, message: str, *, key: str | None = None, kind: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.kind = kind

    @property
    def is_unknown(self) -> bool:
        """Whether the model has no such key."""
        return self.kind == _UNKNOWN


def keys_in(model: TableModel) -> Collection[str]:
    """Return the keys that a table has by its model."""
    return model.__struct_fields__ if issubclass(model, msgspec.Struct) else model.model_fields


def as_pydantic(model: TableModel) -> type[BaseModel]:
    """Return a model as pydantic has it."""
    return pydantic_model(model) if issubclass(model, msgspec.Struct) else model


def read_table(model: type[Model], table: Mapping[str, Any], *, name: str = "") -> Model:
    """Validate a configuration table.

    Args:
        model: The model of the keys: a `msgspec.Struct`, or a pydantic model. A struct finds misspelt keys, and so does
            a model with ``extra="forbid"``.
        table: The configured values.
        name: The plugin's name, which the user writes before each key.

    Returns:
        An instance of `model`.

    Raises:
        ConfigError: A key is unknown or a value is invalid. The message names the first one and says why, in one line.
    """
    if not issubclass(model, msgspec.Struct):
        return cast("Model", _validated(cast("type[BaseModel]", model), table, name))
    read = read_plainly(model, table)
    return of_pydantic(model, _validated(pydantic_model(model), table, name)) if read is None else read


def _validated(model: type[_Pydantic], table: Mapping[str, Any], name: str) -> _Pydantic:
    # Imported late so that a right table of a struct is read without it.
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(table))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = safe_text(".".join(str(part) for part in (name, *first["loc"]) if part != ""))
        key = str(first["loc"][0]) if first["loc"] else None
        if first["type"] == _UNKNOWN:
            known = ", ".join(sorted(model.model_fields))
            near = did_you_mean(str(first["loc"][-1]), model.model_fields)
            message = "there is no such key" + (near or (f"; known are {known}" if known else "; there are none"))
        else:
            message = first["msg"].removeprefix("Value error, ")
            message = safe_text(message[:1].lower() + message[1:], LONGEST_LINE)
        raise TableMistake(f"{where}: {message}" if where else message, key=key, kind=first["type"]) from None
