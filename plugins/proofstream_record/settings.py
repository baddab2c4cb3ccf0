"""What a person can configure of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proofstream import read_table


class Settings(BaseModel):
    """The table `record`.

    Attributes:
        path: The file to write; `.gz` and `.zst` at its end make it compressed. None: nothing is recorded.
        overwrite: Whether a recording that is there is replaced. Off by default: a proof may have taken hours.
        max_bytes: How large the file may grow; the recording ends there and what is missing is counted. None: no bound.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Path | None = None
    overwrite: bool = False
    max_bytes: Annotated[int, Field(ge=1)] | None = None

    @field_validator("path", mode="after")
    @classmethod
    def _names_a_file(cls, path: Path | None) -> Path | None:
        if path is not None and not path.name:
            raise ValueError("it must name a file")
        try:
            return path and path.expanduser()
        except RuntimeError as error:
            raise ValueError(f"{path}: {error}") from None


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown, or its value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="record")
