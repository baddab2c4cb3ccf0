"""The layers of a proof as a strip: one mark for each layer, or for several, in the order in which they began."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from proofstream import Interval
from proofstream_console.durations import took

MAX_CELLS = 512
"""Cells that are remembered of one proof. When they are full, each takes in its neighbour."""


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


@dataclass(frozen=True, slots=True)
class Folded:
    """A strip that fits: its cells, which of them run, how many are to come, layers in each, and the longest time."""

    cells: list[Cell]
    running: set[int]
    to_come: int
    per_cell: int
    longest_ns: int


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

    def folded(self, *, room: int, announced: int, active: Collection[Interval]) -> Folded:
        """Return the strip in at most so many marks, with those for layers that were announced and have not begun.

        Args:
            room: At most so many marks.
            announced: Layers that the producer announced; 0 if it did not.
            active: The layers that are in progress.
        """
        # In whole numbers, because a producer may announce more layers than a float can count.
        wanted = -(-max(announced, self.begun) // self._per_cell)
        group = max(1, -(-wanted // max(1, room)))
        cells = _merged(self._cells, group)
        return Folded(
            cells=cells,
            running={self._open[layer] // self._per_cell // group for layer in active if layer in self._open},
            to_come=-(-wanted // group) - len(cells),
            per_cell=self._per_cell * group,
            longest_ns=max((cell.longest_ns for cell in cells), default=0),
        )


def _merged(cells: Sequence[Cell], group: int) -> list[Cell]:
    """Return cells of so many cells each."""
    merged: list[Cell] = []
    for at in range(0, len(cells), group):
        cell = Cell()
        for other in cells[at : at + group]:
            cell.take_in(other)
        merged.append(cell)
    return merged
