"""What a producer reports of devices, told from the placeholders that producers are known to fill in."""

from __future__ import annotations

from proofstream.events import GpuSnapshot, GpuStatus

_ALMOST_EQUAL = 1e-6


class ReportedDevices:
    """Figures of devices that are no placeholders; docs/events.md names those. One for each flow of statuses."""

    def __init__(self) -> None:
        self._first_free: dict[int, int] = {}
        self._changing: set[int] = set()

    def utilization(self, status: GpuStatus, device: GpuSnapshot) -> float | None:
        """The device's utilization, from 0 to 1 if the producer is right; None if it is the share of layers done."""
        utilization = device.utilization
        if utilization is None or not status.layers_total:
            return utilization
        is_share = abs(utilization - status.layers_done / status.layers_total) < _ALMOST_EQUAL
        return None if is_share else utilization

    def free_memory_bytes(self, device: GpuSnapshot) -> int | None:
        """The device's free memory in bytes; None until it changes, since what never does is the total, or nothing."""
        free = device.free_memory_bytes
        if free is None:
            return None
        if free != self._first_free.setdefault(device.device_id, free):
            self._changing.add(device.device_id)
        return free if device.device_id in self._changing else None

    def forget(self) -> None:
        """Begin anew."""
        self._first_free.clear()
        self._changing.clear()
