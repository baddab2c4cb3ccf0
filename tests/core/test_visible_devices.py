"""Which GPUs a prover uses, by its own numbers and by its environment."""

from __future__ import annotations

from typing import Any

import pytest

from proofstream.events import GpuReading
from proofstream.visible_devices import MAX_DEVICES, KnownGpus, device_environment

VISIBLE = "process.environment_variable.CUDA_VISIBLE_DEVICES"
ORDER = "process.environment_variable.CUDA_DEVICE_ORDER"


def gpu(device_id: str, index: int | None, **facts: Any) -> GpuReading:
    return GpuReading(id=device_id, index=index, state="ok", **facts)


def machine(*readings: GpuReading) -> KnownGpus:
    gpus = KnownGpus()
    for reading in readings:
        assert gpus.learn_from(reading)
    return gpus


FOUR = machine(*(gpu(f"GPU-{name}{name}", index, name="H200") for index, name in enumerate("abcd")))
MIXED = machine(gpu("GPU-aa", 0, name="H200"), gpu("GPU-bb", 1, name="L4"))
WITH_MIG = machine(
    gpu("GPU-aa", 0), gpu("GPU-bb", 1), gpu("MIG-11", 0, parent_id="GPU-bb"), gpu("MIG-12", 1, parent_id="GPU-bb")
)


def chosen(gpus: KnownGpus, *numbers: int, visible: str | None = None, order: str | None = None) -> tuple[Any, ...]:
    given = {VISIBLE: visible, ORDER: order}
    found = gpus.choose(numbers, {key: value for key, value in given.items() if value is not None})
    return (found.by, sorted(found.ids), *found.unwatched)


def test_nothing_known_is_every_gpu() -> None:
    assert chosen(FOUR) == ("all", ["GPU-aa", "GPU-bb", "GPU-cc", "GPU-dd"])
    assert chosen(WITH_MIG) == ("all", ["GPU-aa", "GPU-bb"])


def test_a_layers_device_is_the_drivers_where_nothing_says_otherwise() -> None:
    assert chosen(FOUR, 2, 1) == ("gpu_device", ["GPU-bb", "GPU-cc"])


def test_a_layers_device_counts_among_those_that_cuda_shows() -> None:
    assert chosen(FOUR, 0, visible="3,1") == ("gpu_device", ["GPU-dd"])
    assert chosen(FOUR, 1, visible="GPU-d,GPU-b") == ("gpu_device", ["GPU-bb"])


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        ("1", ["GPU-bb"]),
        (" 3 , 0 ", ["GPU-aa", "GPU-dd"]),
        ("GPU-cc", ["GPU-cc"]),
        ("GPU-c", ["GPU-cc"]),
        ("2,2", ["GPU-cc"]),
        ("0,-1,2", ["GPU-aa"]),  # CUDA ignores what follows
        ("0,x,2", ["GPU-aa"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
    ],
)
def test_what_cuda_shows(visible: str, ids: list[str]) -> None:
    assert chosen(FOUR, visible=visible) == ("visible_devices", ids)


@pytest.mark.parametrize("visible", ["MIG-11", "MIG-12,MIG-11", "MIG-GPU-bb/7/0", "GPU-b"])
def test_a_part_of_a_gpu_draws_the_power_of_its_gpu(visible: str) -> None:
    assert chosen(WITH_MIG, visible=visible) == ("visible_devices", ["GPU-bb"])


def test_numbers_say_nothing_where_cuda_may_count_otherwise() -> None:
    both = ("all", ["GPU-aa", "GPU-bb"])
    assert chosen(MIXED, visible="1") == both
    assert chosen(MIXED, 1) == both
    assert chosen(WITH_MIG, visible="0") == both
    assert chosen(MIXED, visible="1", order="PCI_BUS_ID") == ("visible_devices", ["GPU-bb"])
    assert chosen(MIXED, visible="GPU-bb") == ("visible_devices", ["GPU-bb"])
    assert chosen(MIXED, 0, visible="GPU-bb") == ("gpu_device", ["GPU-bb"])


def test_devices_that_are_not_watched_are_named() -> None:
    assert chosen(FOUR, visible="0,7") == ("visible_devices", ["GPU-aa"], "GPU 7")
    assert chosen(FOUR, visible="GPU-zz") == ("visible_devices", [], "GPU-zz")
    assert chosen(FOUR, 5) == ("gpu_device", [], "device 5")
    assert chosen(FOUR, 1, visible="2") == ("gpu_device", [], "device 1")
    assert chosen(WITH_MIG, visible="MIG-1") == ("visible_devices", ["GPU-bb"])  # two parts of one GPU


def test_the_number_of_devices_is_bounded() -> None:
    gpus = KnownGpus()
    for number in range(MAX_DEVICES):
        assert gpus.learn_from(gpu(f"GPU-{number}", number))
        assert gpus.learn_from(gpu(f"MIG-{number}", number, parent_id="GPU-0"))
    assert not gpus.learn_from(gpu("GPU-more", None))
    assert not gpus.learn_from(gpu("MIG-more", None, parent_id="GPU-0"))
    assert gpus.learn_from(gpu("GPU-7", 9))
    assert len(gpus.choose((), {VISIBLE: ",".join(f"GPU-x{number}" for number in range(9999))}).unwatched) == 256
    assert len(gpus.choose((), {VISIBLE: "GPU-" + "x" * 9999}).unwatched[0]) < 100


def test_only_the_variables_about_devices_are_told() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PASSWORD": "secret"}
    assert device_environment(environ) == {VISIBLE: "0", ORDER: "PCI_BUS_ID"}
    assert device_environment({}) == {}
