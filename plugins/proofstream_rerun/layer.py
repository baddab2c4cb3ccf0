"""One layer of the walk as it is drawn: its node, and a bar for each of its rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proofstream import LayerKind
from proofstream_rerun import layout
from proofstream_rerun.marks import Boxes, Place
from proofstream_rerun.palette import LayerState

MAX_ROUNDS = 1024
"""Bars of one layer at most."""


class Layer:
    """One layer as it is drawn."""

    __slots__ = ("_bars", "_drawn", "_drawn_as", "_last", "_node", "_seen", "cost", "kind", "place", "state", "total")

    def __init__(self, place: Place, kind: LayerKind, cost: int) -> None:
        self.place = place
        self.kind = kind
        self.cost = cost
        self.state = LayerState.WAITING
        self.total = 0
        self._seen: dict[int, None] = {}
        self._last = -1
        self._node: Boxes | None = None
        self._bars: Boxes | None = None
        self._drawn: Sequence[Boxes] = ()
        self._drawn_as: tuple[int, LayerState, int] | None = None

    @property
    def rounds(self) -> int:
        """How many of its rounds have a bar."""
        return len(self._seen)

    def add_round(self, number: int, total: int) -> bool:
        """Add a round's bar; whether there was room for it."""
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
        wanted = min(MAX_ROUNDS, max(total, number + 1, self.total))
        if wanted != self.total:
            self.total, self._bars = wanted, None

    def moved(self, place: Place) -> Layer:
        """The same layer in another place."""
        layer = Layer(place, self.kind, self.cost)
        for number in self._seen:
            layer.add_round(number, self.total)
        return layer

    def boxes(self, *, with_node: bool) -> Sequence[Boxes]:
        """All its boxes; the node's own only if asked for, or if the layer was aborted."""
        key = len(self._seen), self.state, self.total
        if key != self._drawn_as:
            self._drawn_as = key
            bars = self._bars_seen()
            node = self._node_box(with_node=with_node)
            self._drawn = [part for part in (node, bars) if part is not None]
        return self._drawn

    def _node_box(self, *, with_node: bool) -> Boxes | None:
        if self.state is LayerState.ABORTED:
            return layout.cage(self.place, self.kind, self.cost)
        if with_node and self._node is None:
            self._node = layout.node_box(self.place, self.kind, self.cost)
        return self._node

    def _bars_seen(self) -> Boxes | None:
        count = len(self._seen)
        if not count:
            return None
        if self._bars is None:
            self._bars = layout.bars(self.place, self.total, self.kind.color_rgb)
        if self._last == count - 1:
            return self._bars.first(count)
        some = np.array(sorted(self._seen))
        return Boxes(self._bars.centers[some], self._bars.half_sizes[some], self._bars.colors[some])
