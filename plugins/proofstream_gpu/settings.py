"""What a person can configure of GPU telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proofstream import read_table

_DAY_S = 24 * 3600.0
_LONGEST_INTERVAL_S = 30.0
"""A GPU that is not heard of for a minute is taken for gone by those who listen."""


class Settings(BaseModel):
    """The table `gpu`.

    Attributes:
        enabled: Whether the GPUs are watched at all.
        interval_s: Seconds between two samples while a proof runs.
        idle_interval_s: Seconds between two samples while none does.
        devices: Which GPUs are watched: numbers, UUIDs or how a UUID begins; all if there is none.
        pcie: Whether PCIe throughput is asked for: the driver takes 20 ms for each answer.
        retry_s: Seconds until a lost GPU is looked for again; each time it takes twice as long, up to 60 times.
        hung_after_s: Seconds after which a driver that does not return is taken for lost.
        probe_timeout_s: Seconds in which the driver must be there if the plugin was asked for.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = True
    interval_s: float = Field(default=1.0, ge=0.1, le=_LONGEST_INTERVAL_S)
    idle_interval_s: float = Field(default=10.0, ge=0.1, le=_LONGEST_INTERVAL_S)
    devices: tuple[str, ...] = ()
    pcie: bool = True
    retry_s: float = Field(default=5.0, ge=0.1, le=_DAY_S)
    hung_after_s: float = Field(default=15.0, ge=0.1, le=_DAY_S)
    probe_timeout_s: float = Field(default=8.0, ge=0.1, le=_DAY_S)

    @field_validator("devices", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, int):
            return (str(value),)
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown, or its value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="gpu")
