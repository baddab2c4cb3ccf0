"""The user's settings of the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from proofstream import read_table

Mode: TypeAlias = Literal["auto", "live", "plain"]


class Settings(Struct, frozen=True, kw_only=True):
    """The table `console`.

    Attributes:
        enabled: Whether anything is shown.
        mode: `live`, a view that is redrawn in place; `plain`, lines as things happen; `auto`, live if standard error
            is a terminal, unless NO_COLOR is set. If no terminal can draw it, `live` is plain, too.
        refresh_s: The fewest seconds between two drawings of the live view.
        max_layers: Lines for active layers in the live view.
        max_proofs: Proofs in the live view, and in the closing table.
        slowest: Lines for the slowest layers, in the closing table and in a large live view.
        progress_s: In plain mode, seconds until an open proof is mentioned again.
        log_lines_per_s: Lines of the producer's log that are shown per second, on average; the others are counted.
    """

    enabled: bool = True
    mode: Mode = "auto"
    refresh_s: Annotated[float, Meta(ge=0.02, le=10)] = 0.2
    max_layers: Annotated[int, Meta(ge=1, le=100)] = 8
    max_proofs: Annotated[int, Meta(ge=1, le=100)] = 20
    slowest: Annotated[int, Meta(ge=0, le=100)] = 5
    progress_s: Annotated[float, Meta(ge=0.1, le=86_400)] = 10
    log_lines_per_s: Annotated[float, Meta(ge=0, le=10_000)] = 10


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or its value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="console")
