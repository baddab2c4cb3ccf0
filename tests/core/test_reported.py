"""Figures of devices that producers fill in are told from those that say something."""

from __future__ import annotations

import pytest

from proofstream import GpuSnapshot, GpuStatus, ReportedDevices, gpu_snapshot


def status(device: GpuSnapshot, done: int, total: int) -> GpuStatus:
    return GpuStatus(devices=[device], matmul_done=0, matmul_total=0, layers_done=done, layers_total=total)


@pytest.mark.parametrize(
    ("utilization", "done", "total", "shown"),
    [(0.25, 1, 4, None), (0.25, 2, 4, 0.25), (1 / 3, 1, 3, None), (0.0, 0, 0, 0.0), (None, 1, 4, None)],
)
def test_a_share_of_layers_is_no_utilization(
    utilization: float | None, done: int, total: int, shown: float | None
) -> None:
    device = gpu_snapshot(device_id=0, device_name="gpu", utilization=utilization)
    assert ReportedDevices().utilization(status(device, done, total), device) == shown


def test_free_memory_counts_once_it_changes_and_for_each_device_by_itself() -> None:
    devices = ReportedDevices()

    def free(device_id: int, amount: int | None) -> int | None:
        return devices.free_memory_bytes(gpu_snapshot(device_id=device_id, device_name="gpu", free_memory_bytes=amount))

    assert [free(0, 80), free(0, 80), free(0, 70), free(0, 80), free(0, None)] == [None, None, 70, 80, None]
    assert free(1, 80) is None
    devices.forget()
    assert free(0, 60) is None
