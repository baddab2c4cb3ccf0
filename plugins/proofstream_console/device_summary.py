"""The devices: as their driver measures them, or else as the producer reports them, without placeholders."""

from __future__ import annotations

import re
from dataclasses import dataclass

from proofstream import GpuReading, GpuStatus, GpuTelemetry, ReportedDevices
from proofstream_console.formats import MAX_NAMED, clip, clip_optional, index, plausible

MAX_DEVICES = MAX_NAMED
"""Devices that are remembered."""

MAX_FILTERED_SESSIONS = 1024
"""Open sessions whose reported devices are looked at."""

_MOST_BYTES = 2**50
_MOST_WATTS = 100_000
"""No device has more memory or draws more power. A producer's or a driver's larger figure is a mistake."""

_PLACEHOLDER_NAME = re.compile(r"(CPU( \(.*\))?|GPU-\d+)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One device as the producer reports it. Unknown figures and placeholders are None.

    Attributes:
        device_id: The producer's number of it.
        name: Its name.
        free_memory_bytes: The latest.
        utilization: The latest, from 0 to 1.
    """

    device_id: int
    name: str | None
    free_memory_bytes: int | None
    utilization: float | None

    @property
    def is_known(self) -> bool:
        """Whether anything about the device is worth showing. An idle device without a name is not."""
        return any((self.name, self.free_memory_bytes, self.utilization))


@dataclass(slots=True)
class MeasuredDevice:
    """One GPU or MIG instance as its driver measures it. Unknown figures are None.

    Attributes:
        is_part: Whether it is a MIG instance.
        index: Its number.
        name: Its name.
        is_lost: Whether it has stopped answering.
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

    def add_reading(self, reading: GpuReading, *, proving: bool) -> None:
        """Remember the latest sample. Samples taken while a proof runs also count for the whole run."""
        self.is_lost = reading.state == "lost"
        self.utilization = plausible(reading.utilization, 1)
        self.memory_used_bytes = plausible(reading.memory_used_bytes, _MOST_BYTES)
        self.memory_total_bytes = plausible(reading.memory_total_bytes, _MOST_BYTES) or self.memory_total_bytes
        self.power_w = plausible(reading.power_w, _MOST_WATTS)
        if proving and self.utilization is not None:
            self._busy_sum += self.utilization
            self._busy_count += 1
        if proving and self.memory_used_bytes is not None:
            self.peak_memory_bytes = max(self.peak_memory_bytes or 0, self.memory_used_bytes)

    @property
    def mean_utilization(self) -> float | None:
        """The mean over the samples that were taken while a proof ran."""
        return self._busy_sum / self._busy_count if self._busy_count else None


class DeviceSummary:
    """The latest figures of each device.

    Attributes:
        has_more: Whether there were more devices than are remembered.
    """

    def __init__(self) -> None:
        self._reported: dict[tuple[str | None, int], DeviceFigures] = {}
        self._filters: dict[str, dict[int, ReportedDevices]] = {}
        self._measured: dict[str, MeasuredDevice] = {}
        self.has_more = False

    def add_telemetry(self, telemetry: GpuTelemetry, *, proving: bool) -> None:
        """Remember measured figures. `proving` says whether a proof runs."""
        self.has_more |= len(telemetry.devices) > MAX_DEVICES
        for reading in telemetry.devices[:MAX_DEVICES]:
            device_id = clip(reading.id)
            device = self._measured.get(device_id)
            if device is None:
                if len(self._measured) >= MAX_DEVICES:
                    self.has_more = True
                    continue
                device = self._measured[device_id] = MeasuredDevice(
                    is_part=reading.parent_id is not None, index=reading.index, name=clip_optional(reading.name)
                )
            device.add_reading(reading, proving=proving)

    @property
    def measured(self) -> list[MeasuredDevice]:
        """The measured devices, in the order in which they were first seen."""
        return list(self._measured.values())

    def label(self, device_id: str) -> str:
        """Return a device's short name: `GPU 0`, or its id if its number is not known."""
        device = self._measured.get(device_id)
        return device_id if device is None or device.index is None else f"GPU {index(device.index)}"

    def add_status(self, session_id: str, status: GpuStatus) -> None:
        """Remember reported figures. A device's key includes its name, because sessions may number theirs alike."""
        filters = self._filters.get(session_id)
        if filters is None:
            if len(self._filters) >= MAX_FILTERED_SESSIONS:
                return
            filters = self._filters[session_id] = {}
        self.has_more |= len(status.devices) > MAX_DEVICES
        for snapshot in status.devices[:MAX_DEVICES]:
            real = filters.get(snapshot.device_id)
            if real is None:
                if len(filters) >= MAX_DEVICES:
                    self.has_more = True
                    continue
                real = filters[snapshot.device_id] = ReportedDevices()
            device = DeviceFigures(
                device_id=snapshot.device_id,
                name=None if _PLACEHOLDER_NAME.fullmatch(snapshot.device_name) else clip(snapshot.device_name),
                free_memory_bytes=plausible(real.free_memory_bytes(snapshot), _MOST_BYTES),
                utilization=real.utilization(status, snapshot),
            )
            key = (device.name, device.device_id)
            if device.is_known and (key in self._reported or len(self._reported) < MAX_DEVICES):
                self._reported[key] = device

    def close_session(self, session_id: str) -> None:
        """Forget what tells placeholders of a session that has ended."""
        self._filters.pop(session_id, None)

    @property
    def reported(self) -> list[DeviceFigures]:
        """The reported devices, by number; empty if devices are measured, because measured figures are better."""
        return [] if self._measured else sorted(self._reported.values(), key=lambda device: device.device_id)
