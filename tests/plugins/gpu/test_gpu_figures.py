"""From the driver's answers to a reading: units, bounds and blank values. No driver is involved."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream import GpuReading
from proofstream_gpu.figures import (
    CLOCK_EVENTS,
    Identity,
    Mapped,
    NoAnswer,
    RawMemory,
    RawReading,
    clock_events,
    is_blank,
    to_reading,
)

IDENTITY = Identity(id="GPU-1", parent_id=None, index=0, name="H200", vendor="NVIDIA", driver_version="580")
MEMORY = RawMemory(version="v2", used=10, total=100, reserved=5)
GOOD: dict[str, Any] = {
    "memory": MEMORY,
    "utilization_percent": 97,
    "memory_controller_percent": 40,
    "power_mw": 250_500,
    "energy_mj": 1_234_567,
    "temperature_c": 41,
    "ecc_corrected": 3,
    "ecc_uncorrected": 0,
    "pcie_tx_kb_per_s": 1500,
    "pcie_rx_kb_per_s": 2500,
    "clock_sm_mhz": 1980,
    "clock_memory_mhz": 2619,
    "clock_event_bits": 0b101,
}
FIGURES = {
    "utilization_percent": "utilization",
    "memory_controller_percent": "memory_controller_utilization",
    "power_mw": "power_w",
    "energy_mj": "energy_j",
    "temperature_c": "temperature_celsius",
    "ecc_corrected": "errors_corrected",
    "ecc_uncorrected": "errors_uncorrected",
    "pcie_tx_kb_per_s": "pcie_tx_bytes_per_s",
    "pcie_rx_kb_per_s": "pcie_rx_bytes_per_s",
    "clock_sm_mhz": "clock_sm_mhz",
    "clock_memory_mhz": "clock_memory_mhz",
    "clock_event_bits": "throttle_reasons",
}


def mapped(*, xid_errors: Any = 2, **answers: Any) -> Mapped:
    return to_reading(IDENTITY, RawReading(**{**GOOD, **answers}), xid_errors=xid_errors)


def test_each_figure_in_its_unit() -> None:
    assert mapped().reading == GpuReading(
        id="GPU-1",
        index=0,
        name="H200",
        vendor="NVIDIA",
        driver_version="580",
        state="ok",
        utilization=0.97,
        memory_controller_utilization=0.4,
        memory_used_bytes=10,
        memory_reserved_bytes=5,
        memory_total_bytes=100,
        memory_source="v2",
        power_w=250.5,
        energy_j=1234.567,
        temperature_celsius=41.0,
        errors_corrected=3,
        errors_uncorrected=0,
        errors_xid=2,
        pcie_tx_bytes_per_s=1_500_000.0,
        pcie_rx_bytes_per_s=2_500_000.0,
        clock_sm_mhz=1980.0,
        clock_memory_mhz=2619.0,
        throttle_reasons=["gpu_idle", "sw_power_cap"],
        unsupported=[],
    )


@pytest.mark.parametrize(("raw", "field"), FIGURES.items())
@pytest.mark.parametrize("why", [NoAnswer.UNSUPPORTED, NoAnswer.DENIED, NoAnswer.FAILED, NoAnswer.NOT_ASKED])
def test_what_is_not_answered_is_none_and_costs_no_other_figure(raw: str, field: str, why: NoAnswer) -> None:
    result = mapped(**{raw: why})

    assert getattr(result.reading, field) is None
    assert result.reading.unsupported == ((field,) if why is NoAnswer.UNSUPPORTED else ())
    assert result.denied == ((field,) if why is NoAnswer.DENIED else ())
    assert result.dropped == ()
    assert result.reading.state == ("degraded" if why is NoAnswer.FAILED else "ok")
    others = [name for name in FIGURES.values() if name != field]
    assert all(getattr(result.reading, name) == getattr(mapped().reading, name) for name in others)


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({"power_mw": 0xFFFF_FFFF}, "power_w"),
        ({"power_mw": 4_294_000_000}, "power_w"),
        ({"power_mw": 0x7FFF_FFF2}, "power_w"),
        ({"energy_mj": 9223372036854775794}, "energy_j"),
        ({"energy_mj": 2**64 - 1}, "energy_j"),
        ({"utilization_percent": 101}, "utilization"),
        ({"temperature_c": 255}, "temperature_celsius"),
        ({"temperature_c": -1}, "temperature_celsius"),
        ({"ecc_corrected": 9223372036854775794}, "errors_corrected"),
        ({"pcie_rx_kb_per_s": 0xFFFF_FFFF}, "pcie_rx_bytes_per_s"),
        ({"clock_sm_mhz": 0xFFFF_FFFF}, "clock_sm_mhz"),
        ({"clock_event_bits": 2**64 - 1}, "throttle_reasons"),
        ({"memory": RawMemory(version="v2", used=2**63 - 14, total=100, reserved=5)}, "memory_used_bytes"),
        ({"memory": RawMemory(version="v2", used=10, total=100, reserved=101)}, "memory_reserved_bytes"),
    ],
)
def test_implausible_values_are_dropped_and_counted(answers: dict[str, Any], field: str) -> None:
    result = mapped(**answers)

    assert getattr(result.reading, field) is None
    assert result.dropped == (field,)
    assert result.reading.state == "ok"
    assert result.reading.unsupported == ()


@pytest.mark.parametrize("total", [0, 9223372036854775794])
def test_without_a_total_there_is_no_memory(total: int) -> None:
    result = mapped(memory=RawMemory(version="v1", used=0, total=total, reserved=None))

    assert (result.reading.memory_used_bytes, result.reading.memory_total_bytes) == (None, None)
    assert result.reading.memory_source is None
    assert result.dropped == ("memory_used_bytes", "memory_total_bytes")


def test_a_zero_that_was_answered_stays_zero() -> None:
    reading = mapped(utilization_percent=0, power_mw=0, energy_mj=0, ecc_corrected=0, clock_event_bits=0).reading

    assert (reading.utilization, reading.power_w, reading.energy_j) == (0.0, 0.0, 0.0)
    assert (reading.errors_corrected, reading.throttle_reasons) == (0, ())


def test_two_gigabytes_of_memory_are_not_a_blank() -> None:
    memory = RawMemory(version="v1", used=0x7FFF_FFF2, total=0xFFFF_FFFF, reserved=None)
    reading = mapped(memory=memory).reading

    assert (reading.memory_used_bytes, reading.memory_total_bytes) == (0x7FFF_FFF2, 0xFFFF_FFFF)


@pytest.mark.parametrize("raw", [*FIGURES, "memory"])
def test_one_answer_that_the_device_is_lost_is_enough(raw: str) -> None:
    result = mapped(**{raw: NoAnswer.LOST})

    assert result.is_lost
    assert result.reading == GpuReading(
        id="GPU-1", index=0, name="H200", vendor="NVIDIA", driver_version="580", state="lost"
    )


def test_a_device_that_fails_everywhere_is_lost_and_one_that_lacks_everything_is_not() -> None:
    failing = dict.fromkeys(GOOD, NoAnswer.FAILED)
    lacking = dict.fromkeys(GOOD, NoAnswer.UNSUPPORTED)

    assert mapped(**failing).is_lost
    assert mapped(**lacking, xid_errors=NoAnswer.UNSUPPORTED).reading.state == "ok"
    assert mapped(**{**failing, "temperature_c": 40}).reading.state == "degraded"


def test_every_known_bit_has_a_name_and_others_a_number() -> None:
    assert clock_events(2 ** len(CLOCK_EVENTS) - 1) == list(CLOCK_EVENTS)
    assert clock_events(1 << 40) == ["bit_40"]


@pytest.mark.parametrize(
    ("value", "bits", "blank"),
    [
        (2**31 - 17, 32, False),
        (2**31 - 16, 32, True),
        (2**31, 32, False),
        (2**32 - 1, 32, True),
        (2**32 - 1, 64, False),
        (2**63 - 17, 64, False),
        (2**63, 64, False),
    ],
)
def test_blanks_depend_on_the_width(value: int, bits: int, blank: bool) -> None:
    assert is_blank(value, bits) is blank


ANSWERS = st.one_of(st.sampled_from(NoAnswer), st.integers(-(2**31), 2**64 - 1), st.integers(0, 200))
MEMORIES = st.one_of(
    st.sampled_from(NoAnswer),
    st.builds(
        RawMemory,
        version=st.sampled_from(["v1", "v2"]),
        used=st.integers(0, 2**64 - 1),
        total=st.integers(0, 2**64 - 1),
        reserved=st.none() | st.integers(0, 2**64 - 1),
    ),
)
FIELDS = {field.name: MEMORIES if field.name == "memory" else ANSWERS for field in dataclasses.fields(RawReading)}


@given(raw=st.builds(RawReading, **FIELDS), xid_errors=ANSWERS)
def test_whatever_the_driver_answers_the_reading_is_plausible(raw: RawReading, xid_errors: Any) -> None:
    reading = to_reading(IDENTITY, raw, xid_errors=xid_errors).reading

    assert msgspec.convert(msgspec.to_builtins(reading), GpuReading) == reading
    for name in ("utilization", "memory_controller_utilization"):
        value = getattr(reading, name)
        assert value is None or 0 <= value <= 1
    assert reading.power_w is None or 0 <= reading.power_w <= 5000
    assert reading.energy_j is None or (reading.energy_j >= 0 and math.isfinite(reading.energy_j))
    if reading.memory_used_bytes is not None:
        assert reading.memory_total_bytes is not None
        assert reading.memory_used_bytes <= reading.memory_total_bytes
    assert all(getattr(reading, name) is None for name in reading.unsupported)
