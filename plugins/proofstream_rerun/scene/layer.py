"""The drawing of one layer of the walk: its node, and a bar for each of its rounds."""

from __future__ import annotations

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
        self._seen: dict[int, None] = {}
        self._last = -1

    @property
    def rounds(self) -> int:
        """The number of rounds that have a bar."""
        return len(self._seen)

    def add_round(self, number: int, total: int) -> bool:
        """Add a round's bar. Returns False if there is no room for it."""
        if number >= MAX_ROUNDS:
            return False
        if total != self.total:
            self._make_room(number, total)
        if number > self._last:
            self._last = number
            if number >= self.total:
                self._make_room(number, total)
        self._seen[number] = None
        return True

    def _make_room(self, number: int, total: int) -> None:
        # Never trust `total` alone: a producer may announce fewer rounds than it sends.
        self.total = min(MAX_ROUNDS, max(total, number + 1, self.total))

    def moved(self, place: Place) -> Layer:
        """Return a copy of the layer in another place. Its state is not copied: the new walk sets it."""
        layer = Layer(place, self.kind, self.cost)
        for number in self._seen:
            layer.add_round(number, self.total)
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
