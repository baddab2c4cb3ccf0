"""Turns the driver's answers into readings: converts units, drops implausible values, decides the device's state.

Everything here is pure. Only this module converts units.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from proofstream import GpuReading

MAX_POWER_W = 5_000.0
"""More than any single device draws. Some drivers return garbage."""

_MAX_CELSIUS = 150.0
_MAX_CLOCK_MHZ = 20_000.0
_MAX_PCIE_BYTES_PER_S = 1e12
# Values that mean "no value", by width in bits: all bits set, and those near the largest signed number that management
# tools use.
_BLANKS = {32: (0x7FFF_FFF0, 0x7FFF_FFFF, 0xFFFF_FFFF), 64: (2**63 - 16, 2**63 - 1, 2**64 - 1)}

CLOCK_EVENTS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
    "board_limit",
    "reliability",
)
"""The driver's reasons for throttling clocks, by bit."""


class NoAnswer(enum.Enum):
    """Why a question was not answered."""

    UNSUPPORTED = "unsupported"
    """The device does not have this figure."""
    DENIED = "denied"
    """Permission is missing."""
    FAILED = "failed"
    """The query failed."""
    LOST = "lost"
    """The device no longer answers."""
    NOT_ASKED = "not asked"
    """The figure belongs to the whole GPU and not to its instance, or it is switched off."""


Answer: TypeAlias = int | NoAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The identity of a device; `GpuReading` describes the fields."""

    id: str
    parent_id: str | None
    index: int
    name: str | None
    vendor: str
    driver_version: str | None

    @property
    def label(self) -> str:
        """The device's name in messages."""
        return f"GPU {self.index} ({self.id})" if self.parent_id is None else f"MIG instance {self.index} ({self.id})"


@dataclass(frozen=True, kw_only=True, slots=True)
class RawMemory:
    """The memory's figures in bytes; `version` is the query's version, and v1 has no `reserved`."""

    version: str
    used: int
    total: int
    reserved: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RawReading:
    """The driver's answers, in its own units."""

    memory: RawMemory | NoAnswer
    utilization_percent: Answer
    memory_controller_percent: Answer
    power_mw: Answer
    energy_mj: Answer
    temperature_c: Answer
    ecc_corrected: Answer
    ecc_uncorrected: Answer
    pcie_tx_kb_per_s: Answer
    pcie_rx_kb_per_s: Answer
    clock_sm_mhz: Answer
    clock_memory_mhz: Answer
    clock_event_bits: Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapped:
    """A reading, and the fields that it lacks.

    Attributes:
        reading: The reading.
        dropped: Fields with implausible values.
        denied: Fields that we have no permission to read.
    """

    reading: GpuReading
    dropped: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    @property
    def is_lost(self) -> bool:
        """True if the device no longer answers."""
        return self.reading.state == "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """How a raw answer becomes a field: a count stays, others become floats times `times / per`, up to `most`."""

    field: str
    raw: str
    times: int = 1
    per: int = 1
    is_count: bool = False
    most: float = float("inf")
    bits: int = 32


_RULES = (
    _Rule(field="utilization", raw="utilization_percent", per=100, most=1.0),
    _Rule(field="memory_controller_utilization", raw="memory_controller_percent", per=100, most=1.0),
    _Rule(field="power_w", raw="power_mw", per=1000, most=MAX_POWER_W),
    _Rule(field="energy_j", raw="energy_mj", per=1000, bits=64),
    _Rule(field="temperature_celsius", raw="temperature_c", most=_MAX_CELSIUS),
    _Rule(field="errors_corrected", raw="ecc_corrected", is_count=True, bits=64),
    _Rule(field="errors_uncorrected", raw="ecc_uncorrected", is_count=True, bits=64),
    _Rule(field="pcie_tx_bytes_per_s", raw="pcie_tx_kb_per_s", times=1000, most=_MAX_PCIE_BYTES_PER_S),
    _Rule(field="pcie_rx_bytes_per_s", raw="pcie_rx_kb_per_s", times=1000, most=_MAX_PCIE_BYTES_PER_S),
    _Rule(field="clock_sm_mhz", raw="clock_sm_mhz", most=_MAX_CLOCK_MHZ),
    _Rule(field="clock_memory_mhz", raw="clock_memory_mhz", most=_MAX_CLOCK_MHZ),
    _Rule(field="throttle_reasons", raw="clock_event_bits", is_count=True, bits=64),
)


class _Sorted:
    """The answers of one device, sorted into plausible fields, implausible fields and refusals."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.dropped: list[str] = []
        self.refused: dict[NoAnswer, list[str]] = {why: [] for why in NoAnswer}

    def sort_answer(self, field: str, answer: Answer, rule: _Rule) -> None:
        if isinstance(answer, NoAnswer):
            self.refused[answer].append(field)
        elif is_blank(answer, rule.bits):
            self.dropped.append(field)
        else:
            value = answer if rule.is_count else answer * rule.times / rule.per
            if value <= rule.most:
                self.fields[field] = value
            else:
                self.dropped.append(field)

    def sort_memory(self, memory: RawMemory | NoAnswer) -> None:
        if isinstance(memory, NoAnswer):
            self.refused[memory] += ["memory_used_bytes", "memory_total_bytes"]
            return
        if memory.total == 0 or is_blank(memory.total, 64):
            self.dropped += ["memory_used_bytes", "memory_total_bytes"]
            return
        self.fields |= {"memory_total_bytes": memory.total, "memory_source": memory.version}
        for field, value in (("memory_used_bytes", memory.used), ("memory_reserved_bytes", memory.reserved)):
            if value is not None and value <= memory.total:
                self.fields[field] = value
            elif value is not None:
                self.dropped.append(field)

    @property
    def state(self) -> str:
        if self.refused[NoAnswer.LOST] or (self.refused[NoAnswer.FAILED] and not self.fields):
            return "lost"
        return "degraded" if self.refused[NoAnswer.FAILED] else "ok"


def is_blank(value: int, bits: int) -> bool:
    """Return whether a number of `bits` bits is one that means "no value"."""
    first, last, all_set = _BLANKS[bits]
    return value < 0 or first <= value <= last or value == all_set


def clock_events(bits: int) -> list[str]:
    """Name the reasons for throttling clocks; an unknown bit is named by its number."""
    return list(_words(bits))


def _words(bits: int) -> Iterator[str]:
    for bit in range(bits.bit_length()):
        if bits >> bit & 1:
            yield CLOCK_EVENTS[bit] if bit < len(CLOCK_EVENTS) else f"bit_{bit}"


def lost_reading(identity: Identity) -> GpuReading:
    """Make the reading of a device that no longer answers."""
    return GpuReading(
        id=identity.id,
        parent_id=identity.parent_id,
        index=identity.index,
        name=identity.name,
        vendor=identity.vendor,
        driver_version=identity.driver_version,
        state="lost",
    )


def to_reading(identity: Identity, raw: RawReading, *, xid_errors: Answer) -> Mapped:
    """Make a reading from the driver's answers.

    Args:
        identity: The device.
        raw: The driver's answers.
        xid_errors: Number of critical errors counted for the device.
    """
    answers = _Sorted()
    for rule in _RULES:
        answers.sort_answer(rule.field, getattr(raw, rule.raw), rule)
    answers.sort_memory(raw.memory)
    state = answers.state
    if state == "lost":
        return Mapped(reading=lost_reading(identity))
    # Added after the state, because we count XID errors ourselves: they do not show that the device answers.
    answers.sort_answer("errors_xid", xid_errors, _Rule(field="errors_xid", raw="", is_count=True, bits=64))
    if "throttle_reasons" in answers.fields:
        answers.fields["throttle_reasons"] = clock_events(answers.fields["throttle_reasons"])
    return Mapped(
        reading=GpuReading(
            id=identity.id,
            parent_id=identity.parent_id,
            index=identity.index,
            name=identity.name,
            vendor=identity.vendor,
            driver_version=identity.driver_version,
            state=state,
            unsupported=sorted(answers.refused[NoAnswer.UNSUPPORTED]),
            **answers.fields,
        ),
        dropped=tuple(answers.dropped),
        denied=tuple(answers.refused[NoAnswer.DENIED]),
    )
