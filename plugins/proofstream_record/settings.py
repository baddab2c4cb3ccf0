"""The settings of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from proofstream import Check, read_table


def _file_name(path: Path | None) -> Path | None:
    if path is not None and path.name in ("", "-"):
        raise ValueError("it must name a file")
    try:
        return path and path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from None


class Settings(Struct, frozen=True, kw_only=True):
    """The table `record`.

    Attributes:
        path: The file to write, compressed if its name ends in `.gz` or `.zst`. If it exists, the recording gets a
            fresh name beside it. None: nothing is recorded.
        overwrite: True to replace an existing file. Off by default, because a recorded proof may have taken hours.
        max_bytes: The size at which the recording ends; later events are counted as lost. None: no limit.
    """

    path: Annotated[Path | None, Check(_file_name)] = None
    overwrite: bool = False
    max_bytes: Annotated[int, Meta(ge=1)] | None = None


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown, or its value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="record")
