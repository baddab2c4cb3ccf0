"""NVML's traps, one by one, through nvidia-ml-py and ctypes to a C library that has them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from proofstream import GpuReading
from proofstream_gpu.driver import DriverUnavailable
from proofstream_gpu.figures import to_reading
from proofstream_gpu.nvml import Nvml
from proofstream_gpu.watch import Watch

OpenWatch = Callable[..., Watch]
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, UNKNOWN = "!3", "!4", "!13", "!15", "!999"


def readings(watch: Watch) -> dict[str, GpuReading]:
    return {reading.id: reading for reading in watch.sample().devices}


def only(watch: Watch) -> GpuReading:
    (reading,) = watch.sample().devices
    return reading


def test_a_healthy_gpu(machine: Any, open_watch: OpenWatch) -> None:
    reading = only(open_watch())

    assert (reading.id, reading.parent_id, reading.index) == ("GPU-00000000", None, 0)
    assert (reading.name, reading.vendor, reading.driver_version) == ("Fake GPU", "NVIDIA", "580.00")
    assert reading.state == "ok"
    assert reading.unsupported == ()
    assert (reading.utilization, reading.memory_controller_utilization) == (0.5, 0.25)
    assert (reading.clock_sm_mhz, reading.clock_memory_mhz) == (1980.0, 2619.0)
    assert (reading.temperature_celsius, reading.errors_corrected, reading.errors_uncorrected) == (41.0, 3, 0)


def test_power_and_energy_and_pcie_come_in_thousandths_and_thousands(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(_0__power=701_250, _0__energy=98_765_432_100, _0__pcie_tx=12, _0__pcie_rx=34)
    reading = only(open_watch())

    assert (reading.power_w, reading.energy_j) == (701.25, 98_765_432.1)
    assert (reading.pcie_tx_bytes_per_s, reading.pcie_rx_bytes_per_s) == (12_000.0, 34_000.0)


def test_utilization_that_is_not_supported_is_absent_and_not_zero(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(_0__utilization=NOT_SUPPORTED)
    reading = only(open_watch())

    assert reading.utilization is None
    assert reading.memory_controller_utilization is None
    assert reading.unsupported == ("memory_controller_utilization", "utilization")
    assert (reading.state, reading.power_w) == ("ok", 250.5)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("power", "power_w"),
        ("energy", "energy_j"),
        ("corrected", "errors_corrected"),
        ("uncorrected", "errors_uncorrected"),
        ("pcie_tx", "pcie_tx_bytes_per_s"),
        ("pcie_rx", "pcie_rx_bytes_per_s"),
        ("clock_sm", "clock_sm_mhz"),
        ("clock_memory", "clock_memory_mhz"),
        ("clock_events", "throttle_reasons"),
    ],
)
@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, UNKNOWN])
def test_a_figure_that_fails_affects_no_other(
    machine: Any, open_watch: OpenWatch, key: str, field: str, code: str
) -> None:
    machine.set(**{f"_0__{key}": code})
    reading = only(open_watch())

    assert getattr(reading, field) is None
    assert reading.unsupported == ((field,) if code in (NOT_SUPPORTED, FUNCTION_NOT_FOUND) else ())
    assert reading.state == ("degraded" if code == UNKNOWN else "ok")
    assert (reading.utilization, reading.memory_used_bytes) == (0.5, 7_800_000)


def test_what_the_driver_holds_for_itself_is_not_used_memory(machine: Any, open_watch: OpenWatch) -> None:
    reading = only(open_watch())

    assert (reading.memory_used_bytes, reading.memory_reserved_bytes) == (7_800_000, 904_200_000)
    assert (reading.memory_total_bytes, reading.memory_source) == (80_000_000_000, "v2")
    assert machine.count("memory") == 0


@pytest.mark.parametrize("code", [FUNCTION_NOT_FOUND, NOT_SUPPORTED, "!25"])
def test_an_older_memory_query_says_that_it_is_one(machine: Any, open_watch: OpenWatch, code: str) -> None:
    machine.set(_0__memory=code)
    reading = only(open_watch())

    assert (reading.memory_used_bytes, reading.memory_reserved_bytes) == (912_000_000, None)
    assert (reading.memory_source, reading.unsupported) == ("v1", ())


def test_memory_that_we_may_not_read_is_absent(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    machine.set(_0__memory=NO_PERMISSION)
    watch = open_watch()
    watch.sample()
    watch.sample()
    reading = only(watch)

    assert (reading.memory_used_bytes, reading.memory_total_bytes, reading.memory_source) == (None, None, None)
    assert (reading.state, reading.unsupported) == ("ok", ())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "does not let us read" in said[0]
    assert said[0].endswith("memory_used_bytes, memory_total_bytes")


@pytest.mark.parametrize("name", ["[N/A]", "N/A", ""])
def test_a_name_that_says_nothing_is_none(machine: Any, open_watch: OpenWatch, name: str) -> None:
    machine.set(_0__name=name, driver=NOT_SUPPORTED)
    reading = only(open_watch())

    assert (reading.name, reading.driver_version) == (None, None)
    assert (reading.state, reading.power_w) == ("ok", 250.5)


def test_a_name_that_is_not_text_is_none(machine: Any, open_watch: OpenWatch) -> None:
    machine.script.write_bytes(b"0.name=\xff\xfe\n")

    assert only(open_watch()).name is None


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("power", 4_294_967_295, "power_w"),
        ("power", 3_000_000_000, "power_w"),
        ("energy", 9223372036854775794, "energy_j"),
        ("energy", 18446744073709551615, "energy_j"),
        ("corrected", 9223372036854775794, "errors_corrected"),
        ("memory", 9223372036854775794, "memory_used_bytes"),
        ("utilization", 4_294_967_295, "utilization"),
        ("clock_sm", 2147483634, "clock_sm_mhz"),
    ],
)
def test_garbage_is_dropped_and_counted(machine: Any, open_watch: OpenWatch, key: str, value: int, field: str) -> None:
    machine.set(**{f"_0__{key}": value})
    watch = open_watch()
    watch.sample()
    watch.sample()
    reading = only(watch)

    assert getattr(reading, field) is None
    assert reading.state == "ok"
    assert watch.counters()["dropped_values"] == 3


def test_temperature_of_a_driver_that_only_knows_the_new_question(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(_0__temperature=FUNCTION_NOT_FOUND)

    assert only(open_watch()).temperature_celsius == 44.0


def test_why_the_clocks_are_held(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(_0__clock_events=0x4 | 0x20 | 0x800)

    assert only(open_watch()).throttle_reasons == ("sw_power_cap", "sw_thermal_slowdown", "bit_11")


# MIG


def test_mig_instances_are_asked_by_their_own_handles(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(
        _0__mig=1,
        _0__utilization=NOT_SUPPORTED,
        _0__memory=NO_PERMISSION,
        _0__mig1__there=1,
        _0__mig4__there=1,
        _0__mig1__utilization="!2",
        _0__mig4__utilization=NOT_SUPPORTED,
        _0__mig1__memory=1000,
        _0__mig4__memory=4000,
        _0__mig1__name="Fake GPU MIG 1g.10gb",
    )
    found = readings(open_watch())

    assert list(found) == ["GPU-00000000", "MIG-00000000-1", "MIG-00000000-4"]
    gpu, first, second = found.values()
    assert (gpu.utilization, gpu.memory_used_bytes, gpu.power_w) == (None, None, 250.5)
    assert (first.parent_id, first.index, first.name) == ("GPU-00000000", 1, "Fake GPU MIG 1g.10gb")
    assert [first.memory_used_bytes, second.memory_used_bytes] == [1000, 4000]
    assert [one.unsupported for one in (first, second)] == [("memory_controller_utilization", "utilization")] * 2
    assert {one.state for one in found.values()} == {"ok"}


def test_what_is_the_whole_gpus_is_not_counted_once_more_on_its_instances(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(_0__mig=1, _0__mig0__there=1)
    _, instance = readings(open_watch()).values()

    shared = ("power_w", "energy_j", "temperature_celsius", "errors_corrected", "errors_xid", "pcie_tx_bytes_per_s")
    assert [getattr(instance, name) for name in shared] == [None] * len(shared)
    assert instance.unsupported == ()


def test_a_gpu_with_mig_switched_off_has_no_instances(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(_0__mig=0, _0__mig0__there=1)

    assert list(readings(open_watch())) == ["GPU-00000000"]


# One bad GPU


def test_a_gpu_that_cannot_be_opened_hides_no_other(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(count=3, _1__handle=GPU_IS_LOST)
    watch = open_watch()

    assert list(readings(watch)) == ["GPU-00000000", "GPU-00000002"]
    assert [record.getMessage() for record in caplog.records] == ["a device cannot be watched: GPU 1: GPU is lost"]


def test_a_gpu_without_a_name_of_its_own_hides_no_other(machine: Any, open_watch: OpenWatch) -> None:
    machine.set(count=2, _0__uuid=UNKNOWN)

    assert list(readings(open_watch())) == ["GPU-00000001"]


# Critical errors


def test_critical_errors_are_counted_and_named(
    machine: Any, open_watch: OpenWatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine.set(count=2)
    watch = open_watch()
    assert [one.errors_xid for one in readings(watch).values()] == [0, 0]

    machine.set(xid__0="1:79", xid__1="1:31")
    assert [one.errors_xid for one in readings(watch).values()] == [0, 2]
    assert [one.errors_xid for one in readings(watch).values()] == [0, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "GPU 1 (GPU-00000001): critical error XID 79",
        "GPU 1 (GPU-00000001): critical error XID 31",
    ]
    assert watch.counters()["xid_errors"] == 2


@pytest.mark.parametrize("key", ["events", "_0__events"])
def test_a_driver_that_does_not_report_critical_errors(machine: Any, open_watch: OpenWatch, key: str) -> None:
    machine.set(**{key: NOT_SUPPORTED})
    reading = only(open_watch())

    assert reading.errors_xid is None
    assert reading.unsupported == ("errors_xid",)


# Initialising


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"init": "!9"}, "the NVIDIA driver is not loaded"),
        ({"init": UNKNOWN}, "the NVIDIA driver could not be initialised: Unknown Error"),
        ({"init": "!18"}, "the NVIDIA driver could not be initialised: RM has detected an NVML/RM version mismatch"),
        ({"init": "!777"}, "the NVIDIA driver could not be initialised: Some Other Error"),
        ({"count": UNKNOWN}, "the NVIDIA driver does not count its GPUs: Unknown Error"),
        ({"count": 0}, "the NVIDIA driver lists no GPU"),
        ({"_0__handle": NO_PERMISSION}, "no GPU can be watched: GPU 0: Insufficient Permissions"),
    ],
)
def test_a_driver_that_does_not_work(
    machine: Any, open_watch: OpenWatch, facts: dict[str, object], reason: str
) -> None:
    machine.set(**facts)
    with pytest.raises(DriverUnavailable) as raised:
        open_watch()

    assert str(raised.value) == reason
    assert machine.count("shutdown") == (0 if "init" in facts else 1)


def test_initialised_once_and_shut_down_once(machine: Any, open_watch: OpenWatch) -> None:
    watch = open_watch()
    for _ in range(5):
        watch.sample()
    watch.close()
    watch.close()

    assert (machine.count("init"), machine.count("shutdown")) == (1, 1)
    assert machine.count("events_free") == 1
    assert machine.calls[-1][1] == "shutdown"


def test_two_uses_in_one_process_do_not_end_each_other(machine: Any, open_watch: OpenWatch) -> None:
    first, second = open_watch(), open_watch()
    first.close()

    assert only(second).state == "ok"


def test_a_shutdown_by_other_code_is_noticed(machine: Any, open_watch: OpenWatch, clock: Any) -> None:
    pynvml: Any = sys.modules["pynvml"]
    watch = open_watch(retry_s=5.0)
    pynvml.nvmlShutdown()
    assert only(watch).state == "lost"

    clock.now += 5.0
    assert only(watch).state == "ok"


# Fork


def in_child(work: Callable[[], int]) -> int:
    """Run in a forked child and return its exit status, which must come soon."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there may be threads, that is what it is about
        pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    timer = threading.Timer(20.0, os.kill, (pid, 9))
    timer.start()
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        timer.cancel()


def test_a_forked_child_leaves_the_parents_driver_alone(machine: Any, open_watch: OpenWatch) -> None:
    watch = open_watch()
    watch.sample()

    def child() -> int:
        states = {reading.state for reading in watch.sample().devices}
        watch.close()
        return 7 if states == {"lost"} else 1

    assert in_child(child) == 7
    assert {pid for pid, _ in machine.calls} == {os.getpid()}
    assert only(watch).state == "ok"


def test_a_forked_child_may_open_its_own_even_if_the_fork_caught_a_lock(machine: Any, open_watch: OpenWatch) -> None:
    open_watch().sample()
    pynvml: Any = sys.modules["pynvml"]

    def child() -> int:
        driver = Nvml()
        driver.open()
        (found,) = driver.discover()
        reading = to_reading(found.identity, driver.read(found), xid_errors=0).reading
        driver.close()
        return 7 if reading.power_w == 250.5 else 1

    with pynvml.libLoadLock:
        assert in_child(child) == 7
    assert next(name for pid, name in machine.calls if pid != os.getpid()) == "init"


# An old driver, for real: the names are not in its library

OLD = """
import logging
from proofstream_gpu.nvml import Nvml
from proofstream_gpu.watch import Watch
watch = Watch(Nvml(), log=logging.getLogger())
watch.open()
(reading,) = watch.sample().devices
print(reading.state, reading.memory_source, reading.memory_used_bytes, reading.temperature_celsius,
      reading.throttle_reasons, reading.energy_j, reading.unsupported)
watch.close()
"""


def test_an_old_driver_lacks_names(away: Any) -> None:
    environ = {**os.environ, **away.environ(away.old_library)}
    away.set(_0__clock_events=8)
    ran = subprocess.run(
        [sys.executable, "-c", OLD], check=False, env=environ, capture_output=True, text=True, timeout=60
    )

    assert ran.stderr == ""
    assert ran.stdout == "ok v1 912000000 41.0 ('hw_slowdown',) None ('energy_j',)\n"
