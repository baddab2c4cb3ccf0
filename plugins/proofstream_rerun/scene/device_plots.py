"""The plots of devices: measured figures, and separately the figures that the producer reports."""

from __future__ import annotations

from proofstream import GpuReading, GpuSnapshot, GpuStatus, GpuTelemetry, ReportedDevices, safe_text
from proofstream_rerun.picture import palette
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.marks import Look, Numbers

MAX_DEVICES = 16
"""The most measured devices that are drawn, and the most reported ones."""

_KEPT = 512
"""How many values of one plot are kept for the snapshot."""
_GIB = 2**30
_MAX_ID = 200


class DevicePlots:
    """Draws the devices of one recording."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._measured: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._reported: dict[int, str] = {}
        self._figures = ReportedDevices()
        self.undrawn: int = 0

    def plot_telemetry(self, event: GpuTelemetry) -> None:
        """Plot the measured figures of each device."""
        self.undrawn += max(0, len(event.devices) - MAX_DEVICES)
        for reading in event.devices[:MAX_DEVICES]:
            name = self._name_of(reading)
            if name is None:
                self.undrawn += 1
            else:
                self._draw_reading(name, reading)

    def plot_status(self, event: GpuStatus) -> None:
        """Plot the producer's figures of each device, without known placeholders."""
        self.undrawn += max(0, len(event.devices) - MAX_DEVICES)
        for snapshot in event.devices[:MAX_DEVICES]:
            known = snapshot.device_id in self._reported
            if not known and len(self._reported) >= MAX_DEVICES:
                self.undrawn += 1
                continue
            if not known:
                self._introduce(snapshot)
            self._draw_report(event, snapshot)

    def _introduce(self, snapshot: GpuSnapshot) -> None:
        number = snapshot.device_id
        self._reported[number] = f"gpu_{number}"
        text = f"device {number}: {safe_text(snapshot.device_name, 80)} (reported)"
        self._canvas.add_log_line("logs/gpu", text, "INFO")

    def _draw_report(self, event: GpuStatus, snapshot: GpuSnapshot) -> None:
        number = snapshot.device_id
        name = self._reported[number]
        utilization, free = self._figures.utilization(event, snapshot), self._figures.free_memory_bytes(snapshot)
        if utilization is not None:
            self._plot(f"gpu/reported/utilization/{name}", utilization, f"{name} (reported)", number)
        if free is not None:
            self._plot(f"gpu/reported/free_gib/{name}", free / _GIB, f"{name} free (reported)", number)

    def _name_of(self, reading: GpuReading) -> str | None:
        key = _key(reading.id)
        name = self._measured.get(key)
        if name is None and len(self._measured) < MAX_DEVICES:
            number = len(self._measured) if reading.index is None else reading.index
            name = f"gpu_{number}"
            if reading.parent_id is not None:
                name = f"{self._measured.get(_key(reading.parent_id), 'gpu')}_mig_{number}"
            if name in self._measured.values():
                name = f"{name}_{len(self._measured)}"
            self._measured[key] = name
        return name

    def _draw_reading(self, name: str, reading: GpuReading) -> None:
        color = list(self._measured.values()).index(name)
        state = safe_text(reading.state, 20)
        if self._states.get(name) != state:
            self._states[name] = state
            product = safe_text(reading.name or reading.id, 80)
            level = "INFO" if reading.state == "ok" else "WARN"
            text = f"{name}: {product} is {state} (measured)"
            self._canvas.add_log_line("logs/gpu", text, level)
        if reading.utilization is not None:
            self._plot(f"gpu/utilization/{name}", reading.utilization, f"{name} (measured)", color)
        if reading.memory_used_bytes is not None:
            self._plot(f"gpu/memory_gib/{name}", reading.memory_used_bytes / _GIB, f"{name} used (measured)", color)
        if reading.power_w is not None:
            self._plot(f"gpu/power_w/{name}", reading.power_w, f"{name} (measured)", color)

    def _plot(self, path: str, value: float, name: str, color: int) -> None:
        look = Look("lines", (name,), (palette.SERIES_COLORS[color % len(palette.SERIES_COLORS)],))
        self._canvas.add_row(path, Numbers((value,)), look, keep=_KEPT)


def _key(device_id: str) -> str:
    """Return the part of a device's id that tells devices apart. Producers choose ids, and how long they are."""
    return device_id[:_MAX_ID]
