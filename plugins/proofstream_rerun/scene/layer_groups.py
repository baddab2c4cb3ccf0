"""Groups of neighbouring layers that share an entity. Each row of the entity repeats all boxes of its group."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from proofstream_rerun.picture import layout
from proofstream_rerun.picture.marks import ORIGIN, Boxes, BoxGroup, Placed
from proofstream_rerun.scene.layer import Layer


class LayerGroups:
    """Neighbouring layers that share an entity.

    Args:
        layers: How many layers there are.

    Attributes:
        size: How many layers share an entity.
    """

    def __init__(self, layers: int) -> None:
        self.size: int = layout.group_size(layers)
        self._layers = layers
        self._digits = len(str(max(0, layers - 1)))

    def all(self) -> range:
        """Return the numbers of all groups."""
        return range(-(-self._layers // self.size))

    def members(self, group: int) -> range:
        """Return the indices of a group's layers."""
        first = group * self.size
        return range(first, min(self._layers, first + self.size))

    def count(self, group: int) -> int:
        """Return how many layers are in a group; the last group may have fewer than others."""
        return min(self.size, self._layers - group * self.size)

    def name(self, group: int) -> str:
        """Return the group's name in the paths of entities: `007`, or `000-011`."""
        members, digits = self.members(group), self._digits
        first = f"{members.start:0{digits}d}"
        return first if self.size == 1 else f"{first}-{members.stop - 1:0{digits}d}"


class GroupBoxes:
    """The boxes of one group.

    Layers that have ended hardly ever change, so rows share one list of their boxes, which only grows. If such a layer
    does change, a new list is made for the rows that follow, and earlier rows keep the old one.

    Args:
        grid: Where the layers stand.
        members: The indices of the group's layers.
        with_nodes: Whether layers have a node, beside their bars, and a bead until they have been seen.
    """

    def __init__(self, grid: layout.Grid, members: range, *, with_nodes: bool) -> None:
        self._grid = grid
        self._with_nodes = with_nodes
        self._members = members
        self._unseen: dict[int, None] = dict.fromkeys(members if with_nodes else ())
        self._beads: Boxes | None = None
        self._open: dict[int, Layer] = {}
        self._settled: dict[int, list[Placed]] = {}
        self._stock: list[Placed] = []
        self._in_stock = 0

    def touch(self, index: int, layer: Layer) -> None:
        """Mark a layer as changing: until it settles, each row gets its boxes from the layer itself."""
        self._open[index] = layer
        self._unseen.pop(index, None)
        if index in self._settled:
            del self._settled[index]
            self._stock = list(chain.from_iterable(self._settled.values()))
            self._in_stock = _boxes_in(self._stock)

    def settle(self, index: int, layer: Layer) -> None:
        """Mark a layer as ended: its boxes join the list that rows share."""
        self.touch(index, layer)
        del self._open[index]
        parts = self._settled[index] = layer.parts(with_node=self._with_nodes)
        self._stock += parts
        self._in_stock += _boxes_in(parts)

    def row(self) -> BoxGroup:
        """Return all boxes of the group in their present state."""
        more = [part for layer in self._open.values() for part in layer.parts(with_node=self._with_nodes)]
        if self._unseen:
            more.append((ORIGIN, self._beads_unseen()))
        return BoxGroup(self._stock, len(self._stock), more, self._in_stock + _boxes_in(more))

    def _beads_unseen(self) -> Boxes:
        if self._beads is None:
            self._beads = layout.beads(self._grid, self._members)
        count = len(self._unseen)
        # The walk goes down, so mostly the first layers remain, and a slice is enough.
        if next(reversed(self._unseen)) == self._members[count - 1]:
            return self._beads.first(count)
        return layout.beads(self._grid, list(self._unseen))


def _boxes_in(parts: Iterable[Placed]) -> int:
    return sum(len(boxes.colors) for _, boxes in parts)
