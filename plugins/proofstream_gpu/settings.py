"""The settings of GPU telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from proofstream import Prepare, read_table

_DAY_S = 24 * 3600.0
_LONGEST_INTERVAL_S = 30.0
"""Consumers drop a GPU that is silent for a minute, so samples must come more often."""

_Interval: TypeAlias = Annotated[float, Meta(ge=0.1, le=_LONGEST_INTERVAL_S)]
_Time: TypeAlias = Annotated[float, Meta(ge=0.1, le=_DAY_S)]


def _names(value: object) -> object:
    if isinstance(value, int):
        return (str(value),)
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


class Settings(Struct, frozen=True, kw_only=True):
    """The table `gpu`.

    Attributes:
        enabled: True to sample the GPUs.
        interval_s: Seconds between two samples while a proof runs.
        idle_interval_s: Seconds between two samples while no proof runs.
        devices: The GPUs to sample, as numbers, UUIDs or beginnings of UUIDs; empty for all.
        pcie: True to ask for PCIe throughput. The driver takes 20 ms for each answer.
        retry_s: Seconds until the first retry for a lost GPU; each wait is twice the last, up to 60 times this value.
        hung_after_s: Seconds after which the GPUs of a driver that does not respond count as lost.
        probe_timeout_s: Seconds in which the driver must answer if the user asked for the plugin.
    """

    enabled: bool = True
    interval_s: _Interval = 1.0
    idle_interval_s: _Interval = 10.0
    devices: Annotated[tuple[str, ...], Prepare(_names)] = ()
    pcie: bool = True
    retry_s: _Time = 5.0
    hung_after_s: _Time = 15.0
    probe_timeout_s: _Time = 8.0


def read_settings(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown, or its value is not acceptable; one line says which and why.
    """
    return read_table(Settings, table, name="gpu")
