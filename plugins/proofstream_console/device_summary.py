"""The devices: as they are measured, or else as the producer reports them, without what is known to be filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from proofstream import GpuReading, GpuStatus, GpuTelemetry
from proofstream_console.formats import clip, clip_optional

MAX_DEVICES = 16
"""Devices that are remembered."""

_NO_NAME = re.compile(r"(CPU( \(.*\))?|GPU-\d+)?", re.DOTALL)
_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One device; what is not known, or known to be filled in, is None.

    Attributes:
        device_id: The producer's number of it.
        name: Its name.
        memory_bytes: The producer calls it free memory, but producers are known to send the total.
        utilization: From 0 to 1.
    """

    device_id: int
    name: str | None
    memory_bytes: int | None
    utilization: float | None

    @property
    def is_known(self) -> bool:
        """Whether anything about it is worth showing."""
        return self.name is not None or self.memory_bytes is not None


@dataclass(slots=True)
class MeasuredDevice:
    """One GPU or MIG instance as its driver measures it; what is not known is None.

    Attributes:
        is_part: Whether it is a MIG instance.
        index: Its number.
        name: Its name.
        is_lost: Whether it does not answer any more.
        utilization: The latest, from 0 to 1.
        memory_used_bytes: The latest.
        memory_total_bytes: The latest.
        power_w: The latest, in watts.
        peak_memory_bytes: The most memory used while a proof ran.
    """

    is_part: bool
    index: int | None
    name: str | None
    is_lost: bool = False
    utilization: float | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    power_w: float | None = None
    peak_memory_bytes: int | None = None
    _busy_sum: float = 0.0
    _busy_count: int = 0

    def take(self, reading: GpuReading, *, proving: bool) -> None:
        """Remember the latest sample; those that were taken while a proof ran count for the whole."""
        self.is_lost = reading.state == "lost"
        self.utilization = reading.utilization
        self.memory_used_bytes = reading.memory_used_bytes
        self.memory_total_bytes = reading.memory_total_bytes or self.memory_total_bytes
        self.power_w = reading.power_w
        if proving and reading.utilization is not None:
            self._busy_sum += reading.utilization
            self._busy_count += 1
        if proving and reading.memory_used_bytes is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, reading.memory_used_bytes)

    @property
    def mean_utilization(self) -> float | None:
        """The mean over the samples that were taken while a proof ran."""
        return self._busy_sum / self._busy_count if self._busy_count else None


class DeviceSummary:
    """The latest word on each device that there is something to say about."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str | None, int], DeviceFigures] = {}
        self._measured: dict[str, MeasuredDevice] = {}

    def measure(self, telemetry: GpuTelemetry, *, proving: bool) -> None:
        """Remember what was measured, `proving` says whether a proof runs."""
        for reading in telemetry.devices[:MAX_DEVICES]:
            device_id = clip(reading.id)
            device = self._measured.get(device_id)
            if device is None:
                if len(self._measured) >= MAX_DEVICES:
                    continue
                device = self._measured[device_id] = MeasuredDevice(
                    is_part=reading.parent_id is not None, index=reading.index, name=clip_optional(reading.name)
                )
            device.take(reading, proving=proving)

    @property
    def measured(self) -> list[MeasuredDevice]:
        """The devices that are measured, in the order in which they were first seen."""
        return list(self._measured.values())

    def take(self, status: GpuStatus) -> None:
        """Remember what is said. Sessions may number their devices alike, so that the name counts, too."""
        for snapshot in status.devices[:MAX_DEVICES]:
            device = DeviceFigures(
                device_id=snapshot.device_id,
                name=None if _NO_NAME.fullmatch(snapshot.device_name) else clip(snapshot.device_name),
                memory_bytes=snapshot.free_memory_bytes or None,
                utilization=_real_utilization(snapshot.utilization, status),
            )
            key = (device.name, device.device_id)
            if device.is_known and (key in self._devices or len(self._devices) < MAX_DEVICES):
                self._devices[key] = device

    @property
    def known(self) -> list[DeviceFigures]:
        """The devices as reported, by number; none where they are measured, which is the better word."""
        return [] if self._measured else sorted(self._devices.values(), key=lambda device: device.device_id)


def _real_utilization(utilization: float | None, status: GpuStatus) -> float | None:
    """What was reported, unless it is the walk's progress in disguise, as producers are known to send."""
    if utilization is None or not 0 <= utilization <= 1:
        return None
    if not status.layers_total:
        return utilization
    return None if abs(utilization - status.layers_done / status.layers_total) < _SAME else utilization
