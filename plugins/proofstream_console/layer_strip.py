"""The layers of a proof as a strip: one mark for each layer, or for several, in the order in which they began."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.text import Text

from proofstream import Interval
from proofstream_console.durations import took
from proofstream_console.formats import CROSS, DOT, LEVELS, LINE, RUNNING, kind_style

MAX_CELLS = 512
"""Cells that are remembered of one proof. When they are full, each takes in its neighbour."""

_LEVELS_PER_DECADE = 3
"""How much taller a mark is for ten times the time."""


@dataclass(slots=True)
class Cell:
    """Layers that began one after the other: the longest time known of one of them, its kind, and whether one died."""

    longest_ns: int = 0
    kind: str = ""
    aborted: bool = False

    def take_in(self, other: Cell) -> None:
        """Add the layers of another cell."""
        if other.longest_ns > self.longest_ns or not self.kind:
            self.longest_ns, self.kind = other.longest_ns, other.kind or self.kind
        self.aborted |= other.aborted


class LayerStrip:
    """The cells of one proof.

    Attributes:
        begun: How many layers began.
    """

    def __init__(self) -> None:
        self.begun = 0
        self._cells: list[Cell] = []
        self._per_cell = 1
        self._open: dict[Interval, int] = {}
        self._latest: Interval | None = None

    def begin_layer(self, layer: Interval) -> None:
        """Add a layer that began."""
        latest = self._latest
        if latest is not None and latest.superseded_unix_nano is not None and latest in self._open:
            # Most of those never get an end event.
            self._add_time(latest, latest.superseded_unix_nano - latest.start_unix_nano)
        self._latest = layer
        self._open[layer] = self.begun
        if self.begun // self._per_cell >= MAX_CELLS:
            self._cells = _merged(self._cells, 2)
            self._per_cell *= 2
        if self.begun % self._per_cell == 0:
            self._cells.append(Cell())
        self.begun += 1
        self._add_time(layer, 0)

    def end_layer(self, layer: Interval) -> None:
        """Add the time of a layer that ended."""
        if layer not in self._open:
            self.begin_layer(layer)
        duration = took(layer)
        self._add_time(layer, 0 if duration.source == "unknown" else duration.ns)
        self._cells[self._open.pop(layer) // self._per_cell].aborted |= layer.aborted_reason is not None

    def _add_time(self, layer: Interval, ns: int) -> None:
        self._cells[self._open[layer] // self._per_cell].take_in(Cell(ns, layer.layer_kind))

    def drawn(self, *, width: int, rows: int, announced: int, active: Collection[Interval]) -> list[Text]:
        """Return at most so many rows of marks. Layers that were announced and have not begun are dots.

        Args:
            width: Of a row.
            rows: At most.
            announced: Layers that the producer announced; 0 if it did not.
            active: The layers that are in progress.
        """
        wanted, group = self._grouped(width, rows, announced)
        running = {self._open[layer] // self._per_cell // group for layer in active if layer in self._open}
        cells = _merged(self._cells, group)
        longest = self._longest_ns()
        marks = [_mark(cell, longest, is_running=at in running) for at, cell in enumerate(cells)]
        marks += [Text(DOT, "bright_black")] * (math.ceil(wanted / group) - len(marks))
        if not marks:
            return []
        each = math.ceil(len(marks) / math.ceil(len(marks) / max(1, width)))
        return [Text("  ").append_text(Text("").join(marks[at : at + each])) for at in range(0, len(marks), each)]

    def scale(self, *, width: int, rows: int, announced: int) -> tuple[int, int]:
        """Return how many layers a mark stands for, and the time of the tallest one in nanoseconds."""
        return self._per_cell * self._grouped(width, rows, announced)[1], self._longest_ns()

    def _grouped(self, width: int, rows: int, announced: int) -> tuple[int, int]:
        """Return how many cells there are with those to come, and how many of them go into one mark."""
        cells = math.ceil(max(announced, self.begun) / self._per_cell)
        return cells, max(1, math.ceil(cells / max(1, width * rows)))

    def _longest_ns(self) -> int:
        return max((cell.longest_ns for cell in self._cells), default=0)


def _merged(cells: Sequence[Cell], group: int) -> list[Cell]:
    """Return cells of so many cells each."""
    merged: list[Cell] = []
    for at in range(0, len(cells), group):
        cell = Cell()
        for other in cells[at : at + group]:
            cell.take_in(other)
        merged.append(cell)
    return merged


def _mark(cell: Cell, longest_ns: int, *, is_running: bool) -> Text:
    if cell.aborted:
        return Text(CROSS, "red")
    if is_running:
        return Text(RUNNING, "bold")
    if not cell.longest_ns:
        return Text(LINE, kind_style(cell.kind))  # it was left, and its time is not known
    below = round(math.log10(longest_ns / cell.longest_ns) * _LEVELS_PER_DECADE)
    return Text(LEVELS[max(0, len(LEVELS) - 1 - below)], kind_style(cell.kind))
