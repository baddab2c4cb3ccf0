"""The drawing of one layer of the walk: its node, and a bar for each of its rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proofstream import LayerKind
from proofstream_rerun.picture import layout
from proofstream_rerun.picture.marks import Boxes, Place, Placed
from proofstream_rerun.picture.palette import LayerState

MAX_ROUNDS = 1024
"""The most bars of one layer."""


class Layer:
    """The drawing of one layer.

    Args:
        place: Where it stands.
        kind: Its kind, which sets its colour.
        cost: Its cost in cells of the trace, which sets the size of its node.
    """

    __slots__ = ("_last", "_seen", "cost", "kind", "place", "state", "total")

    def __init__(self, place: Place, kind: LayerKind, cost: int) -> None:
        self.place = place
        self.kind = kind
        self.cost = cost
        self.state = LayerState.WAITING
        self.total = 0
        self._seen: set[int] = set()
        self._last = -1

    @property
    def rounds(self) -> int:
        """The number of rounds that have a bar."""
        return len(self._seen)

    def add_rounds(self, numbers: Sequence[int], totals: Sequence[int]) -> int:
        """Add the bars of rounds, each with the announced number of rounds; return how many found room."""
        if max(numbers) >= MAX_ROUNDS:
            fitting = [pair for pair in zip(numbers, totals, strict=True) if pair[0] < MAX_ROUNDS]
            if not fitting:
                return 0
            numbers, totals = zip(*fitting, strict=True)
        self._seen.update(numbers)
        self._last = max(self._last, *numbers)
        # Never trust the announced number alone: a producer may send more rounds than it announces.
        self.total = min(MAX_ROUNDS, max(self.total, self._last + 1, *totals))
        return len(numbers)

    def moved(self, place: Place) -> Layer:
        """Return a copy of the layer in another place. Its state is not copied: the new walk sets it."""
        layer = Layer(place, self.kind, self.cost)
        if self._seen:
            layer.add_rounds([*self._seen], [self.total] * len(self._seen))
        return layer

    def parts(self, *, with_node: bool) -> list[Placed]:
        """Return the boxes of the layer. An aborted layer always has a cage, in place of its node."""
        parts: list[Placed] = []
        if self.state is LayerState.ABORTED:
            parts.append((self.place, layout.cage(self.cost)))
        elif with_node:
            parts.append((self.place, layout.node_box(self.kind, self.cost)))
        if self._seen:
            parts.append((self.place, self._bars_seen()))
        return parts

    def _bars_seen(self) -> Boxes:
        bars = layout.bars(self.total, self.kind.color_rgb)
        count = len(self._seen)
        # Rounds mostly come in order and without gaps, so slices of the cached bars are enough.
        if self._last == count - 1:
            return bars.first(count)
        some = np.array(sorted(self._seen))
        return Boxes(bars.centers[some], bars.half_sizes[some], bars.colors[some])
