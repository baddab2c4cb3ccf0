"""The devices as the producer reports them, without what is known to be filled in."""

from __future__ import annotations

import re
from dataclasses import dataclass

from proofstream import GpuStatus
from proofstream_console.text import clip

MAX_DEVICES = 16
"""Devices that are remembered."""

_NO_NAME = re.compile(r"(CPU( \(.*\))?|GPU-\d+)?", re.DOTALL)
_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class Device:
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


class Devices:
    """The latest word on each device that there is something to say about."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str | None, int], Device] = {}

    def take(self, status: GpuStatus) -> None:
        """Remember what is said. Sessions may number their devices alike, so that the name counts, too."""
        for snapshot in status.devices[:MAX_DEVICES]:
            device = Device(
                device_id=snapshot.device_id,
                name=None if _NO_NAME.fullmatch(snapshot.device_name) else clip(snapshot.device_name),
                memory_bytes=snapshot.free_memory_bytes or None,
                utilization=_real_utilization(snapshot.utilization, status),
            )
            key = (device.name, device.device_id)
            if device.is_known and (key in self._devices or len(self._devices) < MAX_DEVICES):
                self._devices[key] = device

    @property
    def known(self) -> list[Device]:
        """The devices, by number."""
        return sorted(self._devices.values(), key=lambda device: device.device_id)


def _real_utilization(utilization: float | None, status: GpuStatus) -> float | None:
    """What was reported, unless it is the walk's progress in disguise, as producers are known to send."""
    if utilization is None or not 0 <= utilization <= 1:
        return None
    if not status.layers_total:
        return utilization
    return None if abs(utilization - status.layers_done / status.layers_total) < _SAME else utilization
