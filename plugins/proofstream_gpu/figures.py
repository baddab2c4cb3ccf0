"""What the driver answered, and what of it can be believed: units, values that stand for none, bounds, the state.

Everything here is pure. Units are converted in this module alone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from proofstream import GpuReading

MAX_POWER_W = 5_000.0
"""More than any single device draws; some drivers answer with garbage."""

_MAX_CELSIUS = 150.0
_MAX_CLOCK_MHZ = 20_000.0
_MAX_PCIE_BYTES_PER_S = 1e12
# Values that stand for "none": all bits set, and the ones near the largest signed number that management tools use.
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
"""The driver's reasons to hold clocks down, by bit."""


class NoAnswer(enum.Enum):
    """Why a question was not answered."""

    UNSUPPORTED = "unsupported"
    """The device does not have that."""
    DENIED = "denied"
    """We may not know."""
    FAILED = "failed"
    """Something went wrong."""
    LOST = "lost"
    """The device does not answer any more."""
    NOT_ASKED = "not asked"
    """It is a matter of the whole GPU and not of its part, or nobody wants to know."""


Answer: TypeAlias = int | NoAnswer


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """Which device it is; the fields are those of `GpuReading`."""

    id: str
    parent_id: str | None
    index: int
    name: str | None
    vendor: str
    driver_version: str | None

    @property
    def label(self) -> str:
        """The device in messages."""
        return f"GPU {self.index} ({self.id})" if self.parent_id is None else f"MIG instance {self.index} ({self.id})"


@dataclass(frozen=True, kw_only=True, slots=True)
class RawMemory:
    """The memory's figures in bytes; `version` is that of the query, and v1 knows no `reserved`."""

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
    """A reading, and what did not make it there.

    Attributes:
        reading: The reading.
        dropped: Fields whose value could not be believed.
        denied: Fields that we are not allowed to know.
    """

    reading: GpuReading
    dropped: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Whether the device does not answer any more."""
        return self.reading.state == "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rule:
    """How a raw answer becomes a field: a count as it is, else by `times / per` to a float; believed up to `most`."""

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
    """The answers of one device, sorted into what is believed and what is not."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.dropped: list[str] = []
        self.refused: dict[NoAnswer, list[str]] = {why: [] for why in NoAnswer}

    def put(self, field: str, answer: Answer, rule: _Rule) -> None:
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

    def put_memory(self, memory: RawMemory | NoAnswer) -> None:
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
    """Whether a number of that width is one of those that stand for none."""
    first, last, all_set = _BLANKS[bits]
    return value < 0 or first <= value <= last or value == all_set


def clock_events(bits: int) -> list[str]:
    """The reasons to hold clocks down, in words; a bit that is not known is named by its number."""
    return list(_words(bits))


def _words(bits: int) -> Iterator[str]:
    for bit in range(bits.bit_length()):
        if bits >> bit & 1:
            yield CLOCK_EVENTS[bit] if bit < len(CLOCK_EVENTS) else f"bit_{bit}"


def lost_reading(identity: Identity) -> GpuReading:
    """The reading of a device that does not answer any more."""
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
    """Make a reading of the driver's answers.

    Args:
        identity: Which device it is.
        raw: What the driver answered.
        xid_errors: How many critical errors were counted for it.
    """
    answers = _Sorted()
    for rule in _RULES:
        answers.put(rule.field, getattr(raw, rule.raw), rule)
    answers.put_memory(raw.memory)
    state = answers.state
    if state == "lost":
        return Mapped(reading=lost_reading(identity))
    # Counted by ourselves, it says nothing about whether the device answers.
    answers.put("errors_xid", xid_errors, _Rule(field="errors_xid", raw="", is_count=True, bits=64))
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
