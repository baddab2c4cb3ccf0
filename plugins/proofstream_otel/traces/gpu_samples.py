"""Derives memory and utilization of the GPUs in an interval from the GpuTelemetry events inside it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from proofstream import GpuReading, GpuTelemetry
from proofstream_otel.values.semconv import Attr

MAX_SAMPLES = 16384
"""Samples kept: four and a half hours at one per second."""


_MAX_DEVICES = 256
"""Devices of one event that count. A machine has fewer; an untrusted producer may name any number."""


class _Sample(msgspec.Struct, frozen=True):
    time_unix_nano: int
    memory_bytes: int | None
    utilization: float | None


class GpuSamples:
    """Keeps the latest samples, in order of time."""

    def __init__(self) -> None:
        self._times: list[int] = []
        self._samples: list[_Sample] = []

    @property
    def has_samples(self) -> bool:
        """Whether there are any."""
        return bool(self._times)

    def add_sample(self, time_unix_nano: int, event: GpuTelemetry) -> None:
        """Add a sample; ignore it if it is older than the last one."""
        if self._times and time_unix_nano <= self._times[-1]:
            return
        self._times.append(time_unix_nano)
        self._samples.append(_summed(time_unix_nano, event.devices[:_MAX_DEVICES]))
        # Drop half at once, so that the cost of moving the rest is spread over many samples.
        if len(self._times) >= 2 * MAX_SAMPLES:
            del self._times[:MAX_SAMPLES], self._samples[:MAX_SAMPLES]

    def attributes_of(self, start_unix_nano: int, end_unix_nano: int) -> dict[str, Any]:
        """Return attributes for an interval; an empty dictionary if no sample is inside."""
        if not self._times:
            return {}
        first, after = bisect_left(self._times, start_unix_nano), bisect_right(self._times, end_unix_nano)
        inside = self._samples[first:after]
        if not inside:
            return {}
        return {
            Attr.GPU_PEAK_MEMORY: max(_known(s.memory_bytes for s in inside), default=None),
            Attr.GPU_MEAN_UTILIZATION: _mean(_known(s.utilization for s in inside)),
            Attr.GPU_SAMPLES: len(inside),
        }


def _summed(time_unix_nano: int, devices: Sequence[GpuReading]) -> _Sample:
    """Sum over all GPUs. Count a MIG instance only if its GPU, of which it is a part, reports no memory."""
    whole = [device for device in devices if device.parent_id is None]
    memory = _known(device.memory_used_bytes for device in whole) or _known(d.memory_used_bytes for d in devices)
    return _Sample(
        time_unix_nano=time_unix_nano,
        memory_bytes=sum(memory) if memory else None,
        utilization=_mean(_known(device.utilization for device in whole)),
    )


def _known(values: Iterable[float | None]) -> list[Any]:
    return [value for value in values if value is not None]


def _mean(values: list[Any]) -> float | None:
    return sum(values) / len(values) if values else None
