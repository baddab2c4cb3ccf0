"""What state programs cost and have moved: the last few state circuits, each with its programs."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from proofstream import StateBytesMoved, StateProgramCost
from proofstream_console.formats import MAX_NAMED, clip

MAX_CIRCUITS = 3
"""State circuits that are remembered: those that events named last."""


@dataclass(slots=True)
class StateProgramSummary:
    """One program. All bytes are derived; the time is reported.

    Attributes:
        bytes: What one run writes for one sequence; None if it is not known.
        runs: Runs so far.
        sequences: Over all those runs.
        moved_bytes: What they wrote.
        timed_bytes: What the runs with a known duration wrote.
        timed_ns: How long those took.
    """

    bytes: int | None = None
    runs: int = 0
    sequences: int = 0
    moved_bytes: int = 0
    timed_bytes: int = 0
    timed_ns: int = 0

    def add_runs(self, event: StateBytesMoved) -> None:
        """Add what runs have moved."""
        self.runs += event.runs
        self.sequences += event.sequences
        self.moved_bytes += event.bytes
        self.timed_bytes += event.timed_bytes
        self.timed_ns += event.timed_ns

    @property
    def bytes_per_s(self) -> int | None:
        """The bandwidth over all runs with a known duration; None without any."""
        return self.timed_bytes * 10**9 // self.timed_ns if self.timed_ns else None


@dataclass(slots=True)
class StateCircuitSummary:
    """One state circuit under one convention.

    Attributes:
        name: Its name.
        convention: How its states are counted.
        recurrent_layers: How many it has; None if it is not known.
        programs: Its programs by name.
        total: The runs of all programs together.
    """

    name: str
    convention: str
    recurrent_layers: int | None = None
    programs: dict[str, StateProgramSummary] = field(default_factory=dict[str, StateProgramSummary])
    total: StateProgramSummary = field(default_factory=StateProgramSummary)

    def program(self, name: str) -> StateProgramSummary | None:
        """Return a program, added if there is room; else None."""
        found = self.programs.get(name)
        if found is None and len(self.programs) < MAX_NAMED:
            found = self.programs[name] = StateProgramSummary()
        return found

    @property
    def costs(self) -> dict[int, list[str]]:
        """The programs by what one run of them writes, in the order in which events named them."""
        costs: dict[int, list[str]] = {}
        for name, program in self.programs.items():
            if program.bytes is not None:
                costs.setdefault(program.bytes, []).append(name)
        return costs


class StateSummary:
    """The state circuits, and how many more were forgotten."""

    def __init__(self) -> None:
        self._circuits: OrderedDict[tuple[str, str], StateCircuitSummary] = OrderedDict()
        self.forgotten = 0

    @property
    def circuits(self) -> list[StateCircuitSummary]:
        """The state circuits, the most recently named first."""
        return list(reversed(self._circuits.values()))

    def add_cost(self, event: StateProgramCost) -> None:
        """Remember what a program costs."""
        circuit = self._circuit(event)
        circuit.recurrent_layers = event.recurrent_layers
        program = circuit.program(clip(event.program))
        if program is not None:
            program.bytes = event.bytes

    def add_runs(self, event: StateBytesMoved) -> None:
        """Remember what a program's runs have moved."""
        circuit = self._circuit(event)
        program = circuit.program(clip(event.program)) or circuit.programs.setdefault("others", StateProgramSummary())
        program.add_runs(event)
        circuit.total.add_runs(event)

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
