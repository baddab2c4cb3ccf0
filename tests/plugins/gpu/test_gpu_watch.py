"""Devices that get lost and return, are selected, appear and disappear, over the C library."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from proofstream import GpuReading
from proofstream_gpu.driver import MAX_DEVICES, DriverUnavailable, FoundDevice
from proofstream_gpu.figures import Identity
from proofstream_gpu.nvml import Nvml
from proofstream_gpu.watch import Watch

OpenWatch = Callable[..., Watch]
GPU_IS_LOST = "!15"


class RenamingDriver(Nvml):
    """A driver whose devices have other ids in each generation."""

    generation = 0

    def open(self) -> None:
        return None

    def discover(self) -> list[FoundDevice]:
        return [
            FoundDevice(
                identity=Identity(
                    id=f"{self.generation}-{i}", parent_id=None, index=i, name=None, vendor="V", driver_version=None
                ),
                handle=None,
            )
            for i in range(200)
        ]


def states(watch: Watch) -> dict[str, str]:
    return {reading.id: reading.state for reading in watch.sample().devices}


@pytest.mark.parametrize("code", [GPU_IS_LOST, "!16", "!28", "!999"])
def test_a_lost_gpu_is_said_to_be_and_its_figures_end(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture, code: str
) -> None:
    machine.set(count=2)
    watch = open_watch()
    assert states(watch) == {"GPU-00000000": "ok", "GPU-00000001": "ok"}

    machine.set(_0__all=code)
    for _ in range(3):
        lost, good = watch.sample().devices
        assert lost == GpuReading(
            id="GPU-00000000", index=0, name="Fake GPU", vendor="NVIDIA", driver_version="580.00", state="lost"
        )
        assert (good.state, good.power_w) == ("ok", 250.5)

    assert watch.counters()["devices_lost"] == 1
    assert [record.getMessage() for record in caplog.records] == ["GPU 0 (GPU-00000000) is lost: it no longer answers"]


def test_it_is_looked_for_again_ever_less_often(machine: Any, open_watch: OpenWatch, clock: Any) -> None:
    machine.set(count=2)
    watch = open_watch(retry_s=5.0)
    machine.set(_0__all=GPU_IS_LOST)
    began = clock.now
    restarts: list[float] = []
    for _ in range(2000):
        before = machine.count("init")
        assert watch.sample().devices[-1].state == "ok"
        if machine.count("init") > before:
            restarts.append(clock.now - began)
        machine.calls_file.unlink()
        clock.now += 1.0

    assert restarts == [5.0, 15.0, 35.0, 75.0, 155.0, 315.0, 615.0, 915.0, 1215.0, 1515.0, 1815.0]
    assert watch.counters()["driver_restarts"] == len(restarts)


def test_a_second_lost_gpu_is_looked_for_on_its_own_schedule(machine: Any, open_watch: OpenWatch, clock: Any) -> None:
    machine.set(count=3)
    watch = open_watch(retry_s=5.0)
    machine.set(_0__all=GPU_IS_LOST)
    restarts: list[float] = []
    began = clock.now

    def second(until: float) -> str:
        state = ""
        while clock.now < began + until:
            before = watch.counters().get("driver_restarts", 0)
            first, state, third = (reading.state for reading in watch.sample().devices)
            assert (first, third) == ("lost", "ok")
            restarts.extend([clock.now - began] * (watch.counters().get("driver_restarts", 0) - before))
            clock.now += 1.0
        return state

    assert second(320) == "ok"
    machine.set(_1__all=GPU_IS_LOST)
    assert second(323) == "lost"
    machine.set(_1__all=None)
    assert second(326) == "ok"  # 5 s after it was lost, although the first one is looked for every 300 s
    assert second(1000) == "ok"
    assert restarts == [5.0, 15.0, 35.0, 75.0, 155.0, 315.0, 325.0, 615.0, 915.0]


def test_a_driver_with_too_many_devices_is_watched_in_part(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(count=4_000_000_000, **{f"_{number}__handle": GPU_IS_LOST for number in range(1, 101)})
    watch = open_watch()
    assert watch.counters()["devices"] == MAX_DEVICES - 100
    lines = [record.getMessage() for record in caplog.records]
    assert (len(lines), lines[-1]) == (17, "85 more devices cannot be watched")
    watch.look_again()
    assert len(caplog.records) == 17


def test_lost_devices_make_room_for_new_ones(caplog: pytest.LogCaptureFixture) -> None:
    driver = RenamingDriver()
    watch = Watch(driver, log=logging.getLogger("proofstream.test"))
    watch.open()
    for number in range(3):
        driver.generation = number
        watch.look_again()
        assert watch.counters()["devices"] <= MAX_DEVICES
    assert {reading.id[:2] for reading in watch.lost_readings()} == {"2-"}


def test_it_comes_back_with_fresh_handles(
    machine: Any, open_watch: OpenWatch, clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(count=2, xid__0="0:79")
    watch = open_watch(retry_s=5.0)
    machine.set(_0__all=GPU_IS_LOST)
    states(watch)
    machine.set(_0__all=None)
    assert states(watch)["GPU-00000000"] == "lost"

    clock.now += 5.0
    back = watch.sample().devices[0]
    assert (back.state, back.power_w, back.errors_xid) == ("ok", 250.5, 1)
    assert caplog.records[-1].getMessage() == "GPU 0 (GPU-00000000) answers again"
    assert (machine.count("init"), machine.count("shutdown")) == (2, 1)

    machine.set(_0__all=GPU_IS_LOST)
    states(watch)
    clock.now += 5.0  # the wait is the shortest one again
    machine.set(_0__all=None)
    assert states(watch)["GPU-00000000"] == "ok"
    assert watch.counters()["devices_lost"] == 2


def test_a_gpu_that_fell_off_the_bus_stays_lost_while_the_others_go_on(
    machine: Any, open_watch: OpenWatch, clock: Any
) -> None:
    machine.set(count=2)
    watch = open_watch(retry_s=5.0)
    machine.set(_1__all=GPU_IS_LOST)
    states(watch)
    machine.set(count=1)
    clock.now += 5.0

    assert states(watch) == {"GPU-00000000": "ok", "GPU-00000001": "lost"}


def test_a_driver_that_goes_away_loses_all_and_brings_them_back(
    machine: Any, open_watch: OpenWatch, clock: Any
) -> None:
    machine.set(count=2)
    watch = open_watch(retry_s=5.0)
    machine.set(_0__all=GPU_IS_LOST, init="!999")
    states(watch)
    clock.now += 5.0
    assert states(watch) == {"GPU-00000000": "lost", "GPU-00000001": "lost"}

    machine.set(_0__all=None, init=None)
    clock.now += 10.0
    assert states(watch) == {"GPU-00000000": "ok", "GPU-00000001": "ok"}


def test_mig_instances_appear_and_go_without_being_lost(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(_0__mig=1, _0__mig0__there=1)
    watch = open_watch()
    assert list(states(watch)) == ["GPU-00000000", "MIG-00000000-0"]

    machine.set(_0__mig0__there=None, _0__mig2__there=1)
    watch.look_again()
    assert states(watch) == {"GPU-00000000": "ok", "MIG-00000000-2": "ok"}
    assert caplog.records == []
    assert watch.counters()["devices"] == 2


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([], ["GPU-00000000", "GPU-00000001", "MIG-00000001-0"]),
        (["0"], ["GPU-00000000"]),
        (["1"], ["GPU-00000001", "MIG-00000001-0"]),
        (["GPU-00000001"], ["GPU-00000001", "MIG-00000001-0"]),
        (["MIG-00000001-0"], ["MIG-00000001-0"]),
        (["7", "GPU-00000000"], ["GPU-00000000"]),
    ],
)
def test_selected_devices_are_watched(machine: Any, open_watch: OpenWatch, wanted: list[str], found: list[str]) -> None:
    machine.set(count=2, _1__mig=1, _1__mig0__there=1)

    assert list(states(open_watch(devices=wanted))) == found


def test_selecting_missing_devices_is_an_error(machine: Any, open_watch: OpenWatch) -> None:
    with pytest.raises(DriverUnavailable) as raised:
        open_watch(devices=["5", "GPU-ffff"])

    assert str(raised.value) == ("gpu.devices: none of 5, GPU-ffff was found; found: GPU 0 (GPU-00000000)")


def test_counters_at_the_start(machine: Any, open_watch: OpenWatch) -> None:
    watch = open_watch()

    assert watch.counters() == {"devices": 1, "samples": 0, "dropped_values": 0}
    assert not any(name.startswith("lost_") for name in watch.counters())


def test_looking_again_while_the_driver_fails_changes_nothing(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    watch = open_watch()
    machine.set(count="!999")
    watch.look_again()

    assert states(watch) == {"GPU-00000000": "ok"}
    assert caplog.records == []
