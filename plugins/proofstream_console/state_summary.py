"""What state programs cost and have moved: the last few state circuits, each with its programs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from proofstream import StateBytesMoved, StateProgramCost
from proofstream_console.formats import clip

MAX_CIRCUITS = 3
"""State circuits that are remembered: the last ones that anything was heard of."""

MAX_PROGRAMS = 16
"""Programs of a circuit that are remembered."""


@dataclass(slots=True)
class StateProgramSummary:
    """One program; all figures are derived, the time is reported.

    Attributes:
        bytes: What one run writes for one sequence; None if it was not said.
        runs: Runs that were told of.
        sequences: Over all those runs.
        moved_bytes: What they wrote.
        timed_bytes: What those of them wrote whose duration is known.
        timed_ns: How long these took.
    """

    bytes: int | None = None
    runs: int = 0
    sequences: int = 0
    moved_bytes: int = 0
    timed_bytes: int = 0
    timed_ns: int = 0

    def move(self, event: StateBytesMoved) -> None:
        """Take in what runs have moved."""
        self.runs += event.runs
        self.sequences += event.sequences
        self.moved_bytes += event.bytes
        self.timed_bytes += event.timed_bytes
        self.timed_ns += event.timed_ns

    def add(self, other: StateProgramSummary) -> None:
        """Take in another program's runs."""
        self.runs += other.runs
        self.sequences += other.sequences
        self.moved_bytes += other.moved_bytes
        self.timed_bytes += other.timed_bytes
        self.timed_ns += other.timed_ns

    @property
    def bytes_per_s(self) -> float | None:
        """The bandwidth achieved, over all runs whose duration is known; None if there are none."""
        return self.timed_bytes * 1e9 / self.timed_ns if self.timed_ns else None


@dataclass(slots=True)
class StateCircuitSummary:
    """One state circuit under one convention; `recurrent_layers` is None if it was not said."""

    name: str
    convention: str
    recurrent_layers: int | None = None
    programs: dict[str, StateProgramSummary] = field(default_factory=dict[str, StateProgramSummary])

    def program(self, name: str) -> StateProgramSummary | None:
        """A program, taken in if there is room; else None."""
        found = self.programs.get(name)
        if found is None and len(self.programs) < MAX_PROGRAMS:
            found = self.programs[name] = StateProgramSummary()
        return found

    @property
    def total(self) -> StateProgramSummary:
        """The runs of all programs together."""
        total = StateProgramSummary()
        for program in self.programs.values():
            total.add(program)
        return total

    @property
    def costs(self) -> dict[int, list[str]]:
        """The programs by what one run of them writes, in the order in which they were told of."""
        costs: dict[int, list[str]] = {}
        for name, program in self.programs.items():
            if program.bytes is not None:
                costs.setdefault(program.bytes, []).append(name)
        return costs


class StateSummary:
    """What is known of all of them."""

    def __init__(self) -> None:
        self._circuits: OrderedDict[tuple[str, str], StateCircuitSummary] = OrderedDict()
        self.forgotten = 0

    @property
    def circuits(self) -> list[StateCircuitSummary]:
        """The state circuits, the one first that was last heard of."""
        return list(reversed(self._circuits.values()))

    def price(self, event: StateProgramCost) -> None:
        """Remember what a program costs."""
        circuit = self._circuit(event)
        circuit.recurrent_layers = event.recurrent_layers
        program = circuit.program(clip(event.program))
        if program is not None:
            program.bytes = event.bytes

    def move(self, event: StateBytesMoved) -> None:
        """Remember what a program's runs have moved."""
        program = self._circuit(event).program(clip(event.program))
        if program is not None:
            program.move(event)

    def _circuit(self, event: StateProgramCost | StateBytesMoved) -> StateCircuitSummary:
        key = clip(event.circuit), clip(event.convention)
        circuit = self._circuits.get(key)
        if circuit is None:
            circuit = self._circuits[key] = StateCircuitSummary(*key)
            if len(self._circuits) > MAX_CIRCUITS:
                self._circuits.popitem(last=False)
                self.forgotten += 1
        self._circuits.move_to_end(key)
        return circuit
