"""What a person can configure of the recordings for Rerun."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proofstream import read_table
from proofstream_rerun.connections import Connection, parse_connections

_MEMORY = r"[0-9]+(\.[0-9]+)?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB|%)"
"""Amounts as Rerun reads them."""

Memory = Annotated[str, Field(pattern=rf"^{_MEMORY}$")]


class Settings(BaseModel):
    """The table `rerun`.

    Attributes:
        connections: Where recordings go to. The file that ``file:PATH`` names is replaced if it is there; a second
            proof of the session goes to a new file beside it, and no file that is there is touched for it.
        application_id: What the viewer lists the recordings under, and remembers the layout of its views by.
        server_memory: How much the server of ``serve`` keeps for viewers that come late; the oldest goes first.
        viewer_memory: How much the viewer of ``spawn`` may use; the oldest goes first.
        viewer: The program that ``spawn`` starts; the viewer that comes with Rerun's SDK by default.
        resend_mib: How many MiB are kept for viewers that are slow, away or not there yet.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    connections: tuple[str, ...] = ()
    application_id: Annotated[str, Field(min_length=1)] = "proofstream"
    server_memory: Memory = "256MiB"
    viewer_memory: Memory = "2GiB"
    viewer: Path | None = None
    resend_mib: Annotated[int, Field(ge=1, le=16 * 1024)] = 64

    @field_validator("connections", mode="before")
    @classmethod
    def _as_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    def parsed_connections(self) -> tuple[Connection, ...]:
        """Where recordings go to.

        Raises:
            ConfigError: A connection says nothing that can be done, or two name the same place.
        """
        return parse_connections(self.connections)


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or a value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="rerun")
