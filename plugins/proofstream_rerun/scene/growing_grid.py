"""The grid that a recording's layers stand on. It is laid out again when more layers turn up than it has places for."""

from __future__ import annotations

import math

from proofstream import CircuitCompiled
from proofstream_rerun.picture import layout
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.scene.circuit import CircuitDrawing
from proofstream_rerun.scene.walk import WalkDrawing

_GROWTH = 1.5
"""The least factor by which the grid grows, so that it is laid out only a few times."""


class GrowingGrid:
    """The circuit and the walk of one recording, on a grid that grows.

    Args:
        canvas: Where to draw.
        layers: How many layers were announced; 0 without an announcement.
        circuit: The circuit, if it is known.

    Attributes:
        circuit: The drawing of the circuit.
        walk: The drawing of the walk.
        has_grown: Whether the grid was laid out since this was last set to False.
        undrawn: How many marks belonged to layers beyond `layout.MAX_LAYERS`.
    """

    def __init__(self, canvas: Canvas, layers: int, circuit: CircuitCompiled | None) -> None:
        self._canvas = canvas
        self._compiled = circuit
        grid = layout.Grid(_room_for(layers, circuit))
        self.circuit: CircuitDrawing = CircuitDrawing(canvas, grid, circuit)
        self.walk: WalkDrawing = WalkDrawing(canvas, grid, known=circuit is not None)
        self.has_grown: bool = True
        self.undrawn: int = 0

    @property
    def layers(self) -> int:
        """The number of layers that have a place."""
        return self.walk.grid.layers

    def has_room(self, index: int) -> bool:
        """Return whether a layer has a place, and make the grid grow if it can."""
        if index < self.walk.grid.layers:
            return True
        if index >= layout.MAX_LAYERS:
            self.undrawn += 1
            return False
        self._lay_out(max(index + 1, math.ceil(self.layers * _GROWTH)))
        return True

    def show_circuit(self, circuit: CircuitCompiled) -> None:
        """Draw the circuit, unless one is known already."""
        if self._compiled is None:
            self._compiled = circuit
            self._lay_out(self.layers)

    def catch_up(self, *, at_end: bool) -> None:
        """Draw the changes since the last write."""
        self.walk.catch_up(at_end=at_end)
        self.circuit.catch_up(at_end=at_end)

    def _lay_out(self, layers: int) -> None:
        grid = layout.Grid(_room_for(layers, self._compiled))
        before = self.walk
        # Another number of layers means other groups, and so other entity paths.
        if grid.layers != before.grid.layers:
            before.erase()
        self.circuit = CircuitDrawing(self._canvas, grid, self._compiled)
        self.walk = WalkDrawing(self._canvas, grid, known=self._compiled is not None)
        self.walk.undrawn_rounds = before.undrawn_rounds
        self.walk.undrawn_devices = before.undrawn_devices
        self.walk.take_over(before)
        for index, layer in self.walk.layers.items():
            self.circuit.set_kind(index, layer.kind)
        self.has_grown = True


def _room_for(layers: int, circuit: CircuitCompiled | None) -> int:
    """Return how many places the layers and the circuit's nodes need, within bounds."""
    if circuit is not None:
        layers = max(layers, max((node.layer_idx + 1 for node in circuit.nodes), default=circuit.total_layers))
    return min(layout.MAX_LAYERS, layers)
