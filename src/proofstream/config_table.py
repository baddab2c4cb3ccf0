"""Reads a configuration table into a pydantic model, with one-line messages for mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from proofstream.errors import ConfigError, did_you_mean
from proofstream.text import LONGEST_LINE, safe_text

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

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


def read_table(model: type[Model], table: Mapping[str, Any], *, name: str = "") -> Model:
    """Validate a configuration table.

    Args:
        model: The pydantic model of the keys. With ``extra="forbid"``, misspelt keys are found.
        table: The configured values.
        name: The plugin's name, which the user writes before each key.

    Returns:
        An instance of `model`.

    Raises:
        ConfigError: A key is unknown or a value is invalid. The message names the first one and says why, in one line.
    """
    # Imported late so that `import proofstream` stays light. The caller has already loaded it to define `model`.
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
