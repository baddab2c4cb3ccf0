"""What the GPUs did during an interval, derived from the GpuTelemetry events that fell inside."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from proofstream import GpuReading, GpuTelemetry
from proofstream_otel.values.semconv import Attr

MAX_SAMPLES = 16384
"""Samples kept: four and a half hours of one each second."""


class _Sample(msgspec.Struct, frozen=True):
    time_unix_nano: int
    energy_j: dict[str, float]
    memory_bytes: int | None
    utilization: float | None


class GpuSamples:
    """Keeps the latest samples, in order of time."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._samples: list[_Sample] = []

    def take(self, time_unix_nano: int, event: GpuTelemetry) -> None:
        """Take a sample; one that is older than the last is left out."""
        if self._times and time_unix_nano <= self._times[-1]:
            return
        self._times.append(time_unix_nano)
        self._samples.append(_summed(time_unix_nano, event.devices))
        if len(self._times) >= 2 * MAX_SAMPLES:
            del self._times[:MAX_SAMPLES], self._samples[:MAX_SAMPLES]

    def during(self, start_unix_nano: int, end_unix_nano: int) -> dict[str, Any]:
        """Attributes for an interval; none if no sample fell inside.

        The energy is that from the last sample up to the start until the last one up to the end: each edge is off by
        one sampling period at most. Without a sample up to the start it begins with the first one inside. With a single
        sample inside there is none: an edge could be longer than the interval.
        """
        if not self._times:
            return {}
        first, after = bisect_left(self._times, start_unix_nano), bisect_right(self._times, end_unix_nano)
        inside = self._samples[first:after]
        if not inside:
            return {}
        return {
            Attr.GPU_ENERGY: _energy(self._samples[max(0, first - 1) : after]) if len(inside) > 1 else None,
            Attr.GPU_PEAK_MEMORY: max(_known(s.memory_bytes for s in inside), default=None),
            Attr.GPU_MEAN_UTILIZATION: _mean(_known(s.utilization for s in inside)),
            Attr.GPU_SAMPLES: len(inside),
        }


def _energy(samples: Sequence[_Sample]) -> float | None:
    """What the counters of all GPUs rose by; where one fell, as when a driver is loaded anew, it begins again."""
    latest: dict[str, float] = {}
    drawn: dict[str, float] = {}
    for sample in samples:
        for device_id, energy_j in sample.energy_j.items():
            if device_id in latest:
                drawn[device_id] = drawn.get(device_id, 0.0) + max(0.0, energy_j - latest[device_id])
            latest[device_id] = energy_j
    return sum(drawn.values()) if drawn else None


def _summed(time_unix_nano: int, devices: list[GpuReading]) -> _Sample:
    """All GPUs together. A MIG instance is a part of one that is there, too, but may be all that can be asked."""
    whole = [device for device in devices if device.parent_id is None]
    memory = _known(device.memory_used_bytes for device in whole) or _known(d.memory_used_bytes for d in devices)
    return _Sample(
        time_unix_nano=time_unix_nano,
        energy_j={device.id: device.energy_j for device in whole if device.energy_j is not None},
        memory_bytes=sum(memory) if memory else None,
        utilization=_mean(_known(device.utilization for device in whole)),
    )


def _known(values: Iterable[float | None]) -> list[Any]:
    return [value for value in values if value is not None]


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None
