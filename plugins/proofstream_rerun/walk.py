"""The walk over the layers as it is drawn: nodes and bars, the trail below what is proved, the cursor, the lanes.

Neighbouring layers share an entity as soon as there are more than `layout.MAX_GROUPS` of them, so that a recording
has few entities, and a row repeats only what its group shows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proofstream import Interval, LayerKind
from proofstream_rerun import layout, palette
from proofstream_rerun.canvas import Canvas
from proofstream_rerun.marks import PLAIN, Boxes, BoxGroup, Cleared, Look, Place, Points, State, Strips
from proofstream_rerun.palette import LayerState

MAX_ROUNDS = 1024
"""Bars of one layer at most."""

MAX_DEVICES = 16
"""Lanes of devices at most."""

_ROWS_PER_GROUP = 6
"""A group is drawn so often at least, beside once for each write."""
_TRAIL_ROWS = 24
_KEPT_STATES = 64

_TRAIL = Look("trail")
_CURSOR = Look("cursor")


class Layer:
    """One layer as it is drawn."""

    __slots__ = ("_bars", "_drawn", "_drawn_as", "_last", "_seen", "cost", "kind", "place", "state", "total")

    def __init__(self, place: tuple[float, float, float], kind: LayerKind, cost: int) -> None:
        self.place = place
        self.kind = kind
        self.cost = cost
        self.state = LayerState.WAITING
        self.total = 0
        self._seen: dict[int, None] = {}
        self._last = -1
        self._bars: Boxes | None = None
        self._drawn: Sequence[Boxes] = ()
        self._drawn_as: tuple[int, LayerState, int] | None = None

    @property
    def rounds(self) -> int:
        """How many of its rounds have a bar."""
        return len(self._seen)

    @property
    def seen(self) -> list[int]:
        """Which of them."""
        return list(self._seen)

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

    def boxes(self, *, with_node: bool) -> Sequence[Boxes]:
        """All its boxes; the node's own only if asked for, or if the layer was aborted."""
        key = len(self._seen), self.state, self.total
        if key != self._drawn_as:
            self._drawn_as = key
            bars = self._bars_seen()
            if self.state is LayerState.ABORTED:
                node = [layout.cage(self.place, self.kind, self.cost)]
            else:
                node = [layout.node_box(self.place, self.kind, self.cost)] if with_node else []
            self._drawn = node if bars is None else [*node, bars]
        return self._drawn

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


class Walk:
    """The layers of one proof.

    Args:
        canvas: Where to draw.
        grid: Where the layers stand.
        known: Whether the circuit's nodes are drawn already, from the circuit.
    """

    def __init__(self, canvas: Canvas, grid: layout.Grid, *, known: bool) -> None:
        self.grid = grid
        self.known = known
        self.layers: dict[int, Layer] = {}
        self.undrawn_rounds: int = 0
        self._canvas = canvas
        self._size = layout.group_size(grid.layers)
        self._digits = len(str(max(0, grid.layers - 1)))
        self._proved = np.zeros(grid.layers, np.bool_)
        self._states: dict[int, list[int]] = {}
        self._lane_states: dict[int, LayerState] = {}
        self._pausing_lanes: dict[int, None] = {}
        self._stale_groups: dict[int, None] = {}
        self._trail_step = max(1, grid.layers // _TRAIL_ROWS)
        self._trail_stale = 0
        self._rows_per_layer = max(1, _ROWS_PER_GROUP // self._size)
        self._layers_per_row = max(1, self._size // _ROWS_PER_GROUP)
        self._kinds: dict[int, LayerKind] = {}
        self._devices: dict[int | None, str | None] = {}
        self._cursor: list[int] = []
        self.proving: dict[int, None] = {}

    def look_of(self, index: int) -> tuple[LayerKind, int]:
        """Kind and cost of a layer, as far as they are known."""
        layer = self._layer(index)
        return layer.kind, layer.cost

    # What happens

    def start(self, index: int, kind: LayerKind, cost: int, device: int | None) -> None:
        """A layer began."""
        layer = Layer(self.grid.at(index), kind, cost)
        before = self.layers.get(index)
        if before is not None:
            layer.state = before.state
        self.layers[index] = layer
        self._set_state(index, layer, LayerState.PROVING)
        self._stale_groups[index // self._size] = None
        if device in self._devices or len(self._devices) < MAX_DEVICES:
            self._show_device(device, kind.value)

    def round(self, index: int, number: int, total: int) -> None:
        """A round of a layer."""
        layer = self.layers.get(index) or self._layer(index)
        if not layer.add_round(number, total):
            self.undrawn_rounds += 1
            return
        group = index // self._size
        self._stale_groups[group] = None
        if self._rows_per_layer > 1 and layer.rounds % max(1, layer.total // self._rows_per_layer) == 0:
            self._draw_group(group)

    def end(self, index: int, state: LayerState) -> None:
        """A layer ended, in that state."""
        layer = self._layer(index)
        self._set_state(index, layer, state)
        if state is LayerState.PROVED:
            self._proved[index] = True
            self._trail_stale += 1
            if self._trail_stale >= self._trail_step:
                self._draw_trail()
        if state is LayerState.ABORTED or index % self._layers_per_row == 0:
            self._draw_group(index // self._size)

    def leave(self, index: int) -> None:
        """The walk went on from a layer of which the end was not seen."""
        layer = self.layers.get(index)
        if layer is not None and layer.state is LayerState.PROVING:
            self._set_state(index, layer, LayerState.END_NOT_SEEN)

    def point_at(self, active: Sequence[Interval]) -> None:
        """Put a cursor above each of those layers."""
        places = [layer.key for layer in active if layer.key is not None and layer.key < self.grid.layers]
        if places != self._cursor:
            self._cursor = places
            self._draw_cursor()

    def rest(self, active: Sequence[Interval]) -> None:
        """Show which devices are at no layer."""
        busy = {None if layer.opened is None else getattr(layer.opened.event, "gpu_device", None) for layer in active}
        for device, shown in self._devices.items():
            if shown is not None and device not in busy:
                self._show_device(device, None)

    def catch_up(self) -> None:
        """Draw what has changed since it was last drawn."""
        for group in list(self._stale_groups):
            self._draw_group(group)
        if self._trail_stale:
            self._draw_trail()
        for group in self._pausing_lanes:
            self._show_lane(group, self._lane_state(group, self._states[group]))
        self._pausing_lanes.clear()

    def erase(self) -> None:
        """Take from the canvas what another walk will draw under other names."""
        for group in {index // self._size for index in self.layers}:
            for path in (f"gkr/layers/{self._name(group)}", self._lane(group)):
                if path in self._canvas.tracks:
                    self._canvas.add(path, Cleared(), PLAIN)

    def restart(self, walk: Walk) -> None:
        """Take over what another walk has seen, on a grid of another size."""
        for index, layer in walk.layers.items():
            copy = Layer(self.grid.at(index), layer.kind, layer.cost)
            for number in layer.seen:
                copy.add_round(number, layer.total)
            self.layers[index] = copy
            self._set_state(index, copy, layer.state)
            if layer.state is LayerState.PROVED:
                self._proved[index] = True
                self._trail_stale += 1
            self._stale_groups[index // self._size] = None

    # How it is drawn

    def _layer(self, index: int) -> Layer:
        found = self.layers.get(index)
        if found is None:
            found = self.layers[index] = Layer(self.grid.at(index), LayerKind.Unknown, 0)
        return found

    def _draw_group(self, group: int) -> None:
        self._stale_groups.pop(group, None)
        parts: list[Boxes] = []
        for index in range(group * self._size, min(self.grid.layers, (group + 1) * self._size)):
            layer = self.layers.get(index)
            if layer is not None:
                parts += layer.boxes(with_node=not self.known)
        if parts:
            self._canvas.add(f"gkr/layers/{self._name(group)}", BoxGroup(tuple(parts)), PLAIN)

    def _draw_trail(self) -> None:
        self._trail_stale = 0
        strips = layout.trail(self.grid, self._proved)
        self._canvas.add("gkr/trail", Strips(strips, np.array([palette.PROVED], np.uint32)), _TRAIL)

    def _draw_cursor(self) -> None:
        places: list[Place] = []
        labels: list[str] = []
        for index in self._cursor:
            layer = self._layer(index)
            x, _, z = layer.place
            places.append((x, layout.above(layer.kind, layer.cost), z))
            labels.append(f"layer {index} {layer.kind.value}")
        self._canvas.add("gkr/cursor", Points(places, labels, palette.ACTIVE), _CURSOR)

    def _show_device(self, device: int | None, kind: str | None) -> None:
        self._devices[device] = kind
        name = "prover" if device is None else f"gpu_{device}"
        self._canvas.add(f"lanes/at/{name}", State(kind), PLAIN, keep=_KEPT_STATES)

    # Lanes

    def _set_state(self, index: int, layer: Layer, state: LayerState) -> None:
        group = index // self._size
        states = self._states.get(group)
        if states is None:
            states = self._states[group] = [0] * len(LayerState)
        states[layer.state] -= 1
        states[state] += 1
        layer.state = state
        if state is LayerState.PROVING:
            self.proving[index] = None
        else:
            self.proving.pop(index, None)
        shown = self._lane_state(group, states)
        if shown is LayerState.PARTLY_DONE:
            self._pausing_lanes[group] = None  # the next layer of the same lane is about to begin, mostly
        else:
            self._show_lane(group, shown)

    def _show_lane(self, group: int, shown: LayerState) -> None:
        if shown is not self._lane_states.get(group):
            self._lane_states[group] = shown
            self._canvas.add(self._lane(group), State(shown.word), PLAIN, keep=_KEPT_STATES)

    def _lane(self, group: int) -> str:
        path = f"lanes/layers/{self._name(group)}"
        if self._size > 1:
            return path
        kind = self._kinds.setdefault(group, self.layers[group].kind)
        return path if kind is LayerKind.Unknown else f"{path}_{kind.value}"

    def _lane_state(self, group: int, states: list[int]) -> LayerState:
        if states[LayerState.ABORTED]:
            return LayerState.ABORTED
        if states[LayerState.PROVING]:
            return LayerState.PROVING
        layers = min(self.grid.layers, (group + 1) * self._size) - group * self._size
        done = states[LayerState.PROVED : LayerState.ABORTED]
        if sum(done) < layers:
            return LayerState.PARTLY_DONE
        if layers in done:
            return LayerState(LayerState.PROVED + done.index(layers))
        return LayerState.DONE

    def _name(self, group: int) -> str:
        first = group * self._size
        last = min(self.grid.layers, first + self._size) - 1
        digits = self._digits
        return f"{first:0{digits}d}" if self._size == 1 else f"{first:0{digits}d}-{last:0{digits}d}"
