"""GPUs as metrics: measured figures under OpenTelemetry's names, reported ones under our own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from proofstream import GpuReading, GpuSnapshot, GpuStatus, GpuTelemetry, ReportedDevices
from proofstream_otel.metrics.label_values import MAX_VALUES, Labels
from proofstream_otel.metrics.meter import Meter, Number
from proofstream_otel.values.semconv import Label, Metric, Metrics

SILENT_AFTER_S = 60.0
"""Series of a device end when it has been silent for this long."""

IDLE_AFTER_S = 10.0
"""A device that has been silent for this long makes room for another one, if there are too many."""

MAX_DEVICES = MAX_VALUES
"""The most devices that are followed, measured and reported ones each."""

_MAX_REASONS = 16
_HZ_PER_MHZ = 1e6
_STATES = {"ok": "ok", "degraded": "degraded", "lost": "failed"}

_Value = tuple[Metric, Labels, Number]


class _Device:
    """The series of one device."""

    def __init__(self) -> None:
        self.heard_at = 0.0
        self.reasons: dict[str, None] = {}
        self.shown: list[tuple[Metric, Labels]] = []


class GpuMetrics:
    """Follows GpuTelemetry and GpuStatus.

    Args:
        meter: Where measurements go.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, meter: Meter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._meter = meter
        self._clock = clock
        self._devices: dict[str, _Device] = {}
        self._reported = ReportedFigures(meter)

    def record_devices(self, event: GpuTelemetry | GpuStatus) -> None:
        """Record measured or reported figures."""
        if isinstance(event, GpuStatus):
            self._reported.record_status(event)
            return
        for reading in event.devices:
            self._show(reading)

    def flush(self) -> None:
        """End the series of devices that have gone silent."""
        now = self._clock()
        for device_id, device in list(self._devices.items()):
            if now - device.heard_at > SILENT_AFTER_S:
                self._hide(device)
                del self._devices[device_id]

    def forget_reported(self) -> None:
        """End the series of reported figures, since no prover is active."""
        self._reported.forget()

    def _show(self, reading: GpuReading) -> None:
        device = self._devices.pop(reading.id, None)
        if device is None:
            if len(self._devices) >= MAX_DEVICES and not self._make_room():
                return
            device = _Device()
        self._devices[reading.id] = device  # the one heard of last comes last
        device.heard_at = self._clock()
        for reason in reading.throttle_reasons or ():
            if len(device.reasons) < _MAX_REASONS:
                device.reasons[reason] = None
        values = list(_values_of(reading, list(device.reasons)))
        now_shown = [(metric, labels) for metric, labels, _ in values]
        for series in device.shown:
            if series not in now_shown:
                self._meter.end_series(*series)
        for metric, labels, value in values:
            self._meter.set_value(metric, value, labels)
        device.shown = now_shown

    def _make_room(self) -> bool:
        """Hide the device that has been silent for longest. Return False if even that one is not idle."""
        device_id, device = next(iter(self._devices.items()))
        if self._clock() - device.heard_at <= IDLE_AFTER_S:
            return False  # if more devices report than are followed, they must not push out each other
        self._hide(device)
        del self._devices[device_id]
        return True

    def _hide(self, device: _Device) -> None:
        for series in device.shown:
            self._meter.end_series(*series)


class ReportedFigures:
    """Provers' figures of devices, without the known placeholders."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        # The filter of each device; the device heard of last comes last.
        self._filters: dict[int, ReportedDevices] = {}

    def record_status(self, event: GpuStatus) -> None:
        """Record a status."""
        for device in event.devices[:MAX_DEVICES]:
            known = self._filters.pop(device.device_id, None)
            if known is None and len(self._filters) >= MAX_DEVICES:
                self._forget_device(next(iter(self._filters)))
            self._filters[device.device_id] = known or ReportedDevices()
            self._record_device(event, device)

    def forget(self) -> None:
        """End all series."""
        for device_id in list(self._filters):
            self._forget_device(device_id)

    def _forget_device(self, device_id: int) -> None:
        del self._filters[device_id]
        for metric in (Metrics.REPORTED_UTILIZATION, Metrics.REPORTED_FREE_MEMORY):
            self._meter.end_series(metric, {Label.DEVICE: str(device_id)})

    def _record_device(self, event: GpuStatus, device: GpuSnapshot) -> None:
        labels = {Label.DEVICE: str(device.device_id)}
        known = self._filters[device.device_id]
        figures: dict[Metric, Number | None] = {
            Metrics.REPORTED_UTILIZATION: known.utilization(event, device),
            Metrics.REPORTED_FREE_MEMORY: known.free_memory_bytes(device),
        }
        for metric, figure in figures.items():
            if figure is None:
                self._meter.end_series(metric, labels)
            else:
                self._meter.set_value(metric, figure, labels)


def _values_of(reading: GpuReading, reasons: list[str]) -> Iterator[_Value]:
    """Yield the figures of a reading; a missing one makes no series."""
    named = {Label.HW_ID: reading.id, **_given({Label.HW_NAME: reading.name})}
    parented = {**named, **_given({Label.HW_PARENT: reading.parent_id})}
    hardware = {**parented, Label.HW_TYPE: "gpu"}
    state = _STATES.get(reading.state, "degraded")
    for known in dict.fromkeys(_STATES.values()):
        yield Metrics.STATUS, {**hardware, Label.HW_STATE: known}, int(known == state)
    if reading.state == "lost":
        return
    gpu = {**parented, **_given({Label.HW_VENDOR: reading.vendor, Label.HW_DRIVER: reading.driver_version})}
    used, total = reading.memory_used_bytes, reading.memory_total_bytes
    figures: list[tuple[Metric, Labels, Number | None]] = [
        (Metrics.GPU_UTILIZATION, gpu, reading.utilization),
        (Metrics.GPU_MEMORY_CONTROLLER, gpu, reading.memory_controller_utilization),
        (Metrics.GPU_MEMORY_USAGE, gpu, used),
        (Metrics.GPU_MEMORY_LIMIT, gpu, total),
        (Metrics.GPU_MEMORY_UTILIZATION, gpu, used / total if used is not None and total else None),
        (Metrics.POWER, hardware, reading.power_w),
        (Metrics.TEMPERATURE, parented, reading.temperature_celsius),
        (Metrics.ENERGY, hardware, reading.energy_j),
        (Metrics.ERRORS, {**hardware, Label.ERROR_TYPE: "corrected"}, reading.errors_corrected),
        (Metrics.ERRORS, {**hardware, Label.ERROR_TYPE: "uncorrected"}, reading.errors_uncorrected),
        (Metrics.ERRORS, {**hardware, Label.ERROR_TYPE: "xid"}, reading.errors_xid),
        (Metrics.GPU_PCIE, {**named, Label.DIRECTION: "transmit"}, reading.pcie_tx_bytes_per_s),
        (Metrics.GPU_PCIE, {**named, Label.DIRECTION: "receive"}, reading.pcie_rx_bytes_per_s),
        (Metrics.GPU_CLOCK, {**named, Label.CLOCK: "sm"}, _hertz(reading.clock_sm_mhz)),
        (Metrics.GPU_CLOCK, {**named, Label.CLOCK: "memory"}, _hertz(reading.clock_memory_mhz)),
    ]
    for metric, labels, value in figures:
        if value is not None:
            yield metric, labels, value
    if reading.throttle_reasons is not None:
        for reason in reasons:
            yield Metrics.GPU_THROTTLED, {**named, Label.THROTTLE: reason}, int(reason in reading.throttle_reasons)


def _given(labels: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if value is not None}


def _hertz(mhz: float | None) -> float | None:
    return None if mhz is None else mhz * _HZ_PER_MHZ
