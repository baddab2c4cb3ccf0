"""The drawing of the walk over the layers: nodes and bars, the trail below proved layers, the cursor, the states.

A row of an entity replaces the row before it, so it has to repeat all boxes of that entity. One entity for all layers
would make rows large, and one for each layer would make too many entities. So if there are more than
`layout.MAX_GROUPS` layers, neighbours share an entity, and a row repeats only the boxes of its group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proofstream import Interval, LayerKind, LayerStart
from proofstream_rerun.picture import layout, palette
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.marks import PLAIN, Cleared, Look, Place, Points, StateChange, Strips
from proofstream_rerun.picture.palette import LayerState
from proofstream_rerun.scene.layer import Layer
from proofstream_rerun.scene.layer_groups import GroupBoxes, LayerGroups
from proofstream_rerun.scene.state_timeline import KEPT_STATES, StateTimeline

MAX_DEVICES = 16
"""The most devices that have a state timeline."""

_ROWS_PER_GROUP = 4
"""The rows that a group gets while the walk crosses it, even if no write is due, so that a replay shows it growing."""
_LARGE, _PATIENCE = 1024, 4
"""A group of `_LARGE` boxes or more is drawn only in every `_PATIENCE`-th write, because each row repeats them all."""
_TRAIL_ROWS = 16
"""The rows that the trail gets over the whole walk, even if no write is due."""

_TRAIL = Look("trail")
_CURSOR = Look("cursor")


class WalkDrawing:
    """Draws the layers of one proof.

    Args:
        canvas: Where to draw.
        grid: Where the layers stand.
        known: Whether the circuit is known, so that `CircuitDrawing` draws the nodes.

    Attributes:
        grid: Where the layers stand.
        layers: The layers seen so far, by index.
        proving: The indices of the layers that are being proved, in the order in which they began.
        undrawn_rounds: How many rounds were dropped for lack of room.
        undrawn_devices: How many states of devices were.
    """

    def __init__(self, canvas: Canvas, grid: layout.Grid, *, known: bool) -> None:
        self.grid = grid
        self.layers: dict[int, Layer] = {}
        self.proving: dict[int, None] = {}
        self.undrawn_rounds: int = 0
        self.undrawn_devices: int = 0
        self._canvas = canvas
        self._known = known
        self._groups = LayerGroups(grid.layers)
        self._state_timeline = StateTimeline(canvas, self._groups)
        self._proved = np.zeros(grid.layers, np.bool_)
        self._boxes: dict[int, GroupBoxes] = {}
        self._stale_groups: dict[int, None] = {}
        self._touched: Layer | None = None
        self._drawn: dict[int, tuple[int, int]] = {}
        self._write = 0
        self._stale_trail = 0
        self._trail_step = max(1, grid.layers // _TRAIL_ROWS)
        self._rows_per_layer = max(1, _ROWS_PER_GROUP // self._groups.size)
        self._layers_per_row = max(1, self._groups.size // _ROWS_PER_GROUP)
        self._devices: dict[int | None, str | None] = {}
        self._cursor: list[int] = []
        if not known:
            self._stale_groups = dict.fromkeys(self._groups.all())  # to show the layers' beads

    # Events of the walk

    def start_layer(self, event: LayerStart) -> None:
        """Draw the start of a layer."""
        index = event.layer_idx
        layer = Layer(self.grid.at(index), event.kind, event.trace_cost)
        before = self.layers.get(index)
        if before is not None:
            layer.state = before.state  # a layer may start twice, and its state timeline must not count it twice
        self.layers[index] = layer
        self._set_state(index, layer, LayerState.PROVING)
        self._touch(index, layer)
        device = event.gpu_device
        if device in self._devices or len(self._devices) < MAX_DEVICES:
            self._show_device(device, event.kind.value)
        else:
            self.undrawn_devices += 1

    @property
    def shows_rounds(self) -> bool:
        """Whether layers are drawn while their rounds come, even if no write is due."""
        return self._rows_per_layer > 1

    def add_rounds(self, index: int, numbers: Sequence[int], totals: Sequence[int]) -> None:
        """Add the bars of a layer's rounds, whose numbers count from 0."""
        layer = self.layers.get(index) or self.layer_at(index)
        added = layer.add_rounds(numbers, totals)
        self.undrawn_rounds += len(numbers) - added
        if not added:
            return
        # Rounds are by far the most frequent events. Of several in a row, only the first one has to mark its group.
        if layer is not self._touched:
            self._touch(index, layer)
        if self.shows_rounds and layer.rounds % max(1, layer.total // self._rows_per_layer) == 0:
            self._draw_group(index // self._groups.size)

    def end_layer(self, index: int, state: LayerState) -> None:
        """Draw the end of a layer, in its final state."""
        layer = self.layer_at(index)
        self._set_state(index, layer, state)
        group = self._settle(index, layer)
        if state is LayerState.PROVED:
            self._proved[index] = True
            self._stale_trail += 1
            if self._stale_trail >= self._trail_step:
                self._draw_trail()
        # The walk goes down: a group's first layer is the last one of it to be proved.
        is_last = index == self._groups.members(group).start
        if state is LayerState.ABORTED or is_last or index % self._layers_per_row == 0:
            self._draw_group(group)

    def leave_layer(self, index: int) -> None:
        """Mark a layer that the walk has left although its end was not seen."""
        self._set_state(index, self.layer_at(index), LayerState.END_NOT_SEEN)

    def point_at(self, active: Sequence[Interval]) -> None:
        """Put a cursor above each active layer, in place of the cursors before."""
        indices = [layer.key for layer in active if layer.key is not None and layer.key < self.grid.layers]
        if indices != self._cursor:
            self._cursor = indices
            self._draw_cursor()

    def show_idle_devices(self, active: Sequence[Interval]) -> None:
        """End the state of every device that has none of the active layers."""
        idle = [device for device, shown in self._devices.items() if shown is not None]
        for layer in active:
            event = layer.start_event
            if isinstance(event, LayerStart) and event.gpu_device in idle:
                idle.remove(event.gpu_device)
        for device in idle:
            self._show_device(device, None)

    def catch_up(self, *, at_end: bool) -> None:
        """Draw the changes since the last write, though large groups less often."""
        self._write += 1
        for group in list(self._stale_groups):
            boxes, write = self._drawn.get(group, (0, 0))
            if at_end or boxes < _LARGE or self._write >= write + _PATIENCE:
                self._draw_group(group)
        if self._stale_trail:
            self._draw_trail()
        self._state_timeline.catch_up()

    # Another grid

    def erase(self) -> None:
        """Clear this walk's groups and states, because its successor on another grid draws them under other paths."""
        self._state_timeline.erase()
        for group in self._drawn:
            self._canvas.add_row(self._path(group), Cleared(), PLAIN)

    def take_over(self, walk: WalkDrawing) -> None:
        """Draw the contents of the walk before this one on this grid."""
        self._devices = walk._devices
        self._proved[: len(walk._proved)] = walk._proved
        self._stale_trail = int(self._proved.any())
        for index, before in walk.layers.items():
            layer = self.layers[index] = before.moved(self.grid.at(index))
            self._set_state(index, layer, before.state)
            if index in self.proving:
                self._touch(index, layer)
            else:
                self._settle(index, layer)
        if self.grid.layers == walk.grid.layers:
            self._stale_groups |= dict.fromkeys(walk._drawn)  # those that showed only beads, too
            self._drawn = dict.fromkeys(walk._drawn, (0, 0))
        self._cursor = walk._cursor
        if self._cursor:
            self._draw_cursor()

    # Drawing

    def layer_at(self, index: int) -> Layer:
        """Return a layer; one that was not seen before gets an unknown kind."""
        found = self.layers.get(index)
        if found is None:
            found = self.layers[index] = Layer(self.grid.at(index), LayerKind.Unknown, 0)
        return found

    def _set_state(self, index: int, layer: Layer, state: LayerState) -> None:
        self._state_timeline.change_state(index, layer.kind, layer.state, state)
        layer.state = state
        if state is LayerState.PROVING:
            self.proving[index] = None
        else:
            self.proving.pop(index, None)

    def _touch(self, index: int, layer: Layer) -> None:
        """Mark a layer as about to change, and its group as stale."""
        group = index // self._groups.size
        self._stale_groups[group] = None
        self._boxes_of(group).touch(index, layer)
        self._touched = layer

    def _settle(self, index: int, layer: Layer) -> int:
        """Mark a layer as ended, and its group as stale. Returns the group."""
        group = index // self._groups.size
        self._stale_groups[group] = None
        self._boxes_of(group).settle(index, layer)
        self._touched = None
        return group

    def _boxes_of(self, group: int) -> GroupBoxes:
        boxes = self._boxes.get(group)
        if boxes is None:
            boxes = self._boxes[group] = GroupBoxes(self.grid, self._groups.members(group), with_nodes=not self._known)
        return boxes

    def _path(self, group: int) -> str:
        return f"gkr/layers/{self._groups.name(group)}"

    def _draw_group(self, group: int) -> None:
        self._stale_groups.pop(group, None)
        self._touched = None  # the next round has to mark its group again
        row = self._boxes_of(group).row()
        if row.boxes or group in self._drawn:
            self._drawn[group] = row.boxes, self._write
            self._canvas.add_row(self._path(group), row, PLAIN)

    def _draw_trail(self) -> None:
        self._stale_trail = 0
        strips = layout.trail(self.grid, self._proved)
        self._canvas.add_row("gkr/trail", Strips(strips, np.array([palette.PROVED], np.uint32)), _TRAIL)

    def _draw_cursor(self) -> None:
        places: list[Place] = []
        labels: list[str] = []
        for index in self._cursor:
            layer = self.layer_at(index)
            x, _, z = layer.place
            places.append((x, layout.above(layer.cost), z))
            labels.append(f"layer {index} {layer.kind.value}")
        self._canvas.add_row("gkr/cursor", Points(places, labels, palette.ACTIVE), _CURSOR)

    def _show_device(self, device: int | None, kind: str | None) -> None:
        self._devices[device] = kind
        name = "prover" if device is None else f"gpu_{device}"
        self._canvas.add_row(f"lanes/3_devices/{name}", StateChange(kind), PLAIN, keep=KEPT_STATES)
