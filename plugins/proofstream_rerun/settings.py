"""The settings of the rerun plugin: the configuration table `rerun`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from proofstream import Prepare, read_table

if TYPE_CHECKING:
    from proofstream_rerun.connections import Connection

_MEMORY = r"[0-9]+(\.[0-9]+)?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB|%)"
"""Amounts of memory that Rerun can parse."""

Memory: TypeAlias = Annotated[str, Meta(pattern=rf"^{_MEMORY}$")]


def _as_several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class Settings(Struct, frozen=True, kw_only=True):
    """The table `rerun`.

    Attributes:
        connections: Where recordings go. If the file that ``file:PATH`` names exists, and for each proof after the
            first, a fresh file is created beside it.
        overwrite: Whether the first proof replaces the file that ``file:PATH`` names, if that is a regular file.
        application_id: The name under which the viewer lists the recordings and remembers the layout of its views.
        server_memory: How much the server of ``serve`` keeps for viewers that connect late; it drops the oldest first.
        viewer_memory: How much the viewer of ``spawn`` may use; it drops the oldest first.
        viewer: The program that ``spawn`` starts; by default the viewer that comes with Rerun's SDK.
        resend_mib: How many MiB are kept for viewers that are slow, disconnected or not started yet.
    """

    connections: Annotated[tuple[str, ...], Prepare(_as_several)] = ()
    overwrite: bool = False
    application_id: Annotated[str, Meta(min_length=1)] = "proofstream"
    server_memory: Memory = "256MiB"
    viewer_memory: Memory = "2GiB"
    viewer: Path | None = None
    resend_mib: Annotated[int, Meta(ge=1, le=16 * 1024)] = 64

    def parsed_connections(self) -> tuple[Connection, ...]:
        """Parse the connections.

        Raises:
            ConfigError: A connection is malformed, or two of them name the same place.
        """
        if not self.connections:
            return ()
        from proofstream_rerun.connections import parse_connections

        return parse_connections(self.connections)


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or a value is invalid; the message says which and why.
    """
    return read_table(Settings, table, name="rerun")
