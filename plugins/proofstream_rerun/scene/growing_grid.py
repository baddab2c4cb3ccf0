"""The room that a recording's layers stand in. It is laid out anew when more of them turn up than it was made for."""

from __future__ import annotations

import math

from proofstream import CircuitCompiled
from proofstream_rerun.picture import layout
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.scene.circuit import CircuitDrawing
from proofstream_rerun.scene.walk import WalkDrawing

_GROWTH = 1.5
"""It grows by half of its size at least, so that it is laid out a few times at most."""


class GrowingGrid:
    """Circuit and walk of one recording.

    Args:
        canvas: Where to draw.
        layers: How many layers were announced; 0 if none were.
        circuit: The circuit, if it is known.

    Attributes:
        circuit: The circuit as it is drawn.
        walk: The walk over it as it is drawn.
        has_grown: Whether it was laid out since this was last set to False.
        undrawn: How often something was to be drawn of a layer that there can be no room for.
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
        """Layers that there is room for."""
        return self.walk.grid.layers

    def has_room(self, index: int) -> bool:
        """Whether there is room for that layer; room is made within bounds."""
        if index < self.walk.grid.layers:
            return True
        if index >= layout.MAX_LAYERS:
            self.undrawn += 1
            return False
        self._lay_out(max(index + 1, math.ceil(self.layers * _GROWTH)))
        return True

    def show_circuit(self, circuit: CircuitCompiled) -> None:
        """Draw the circuit, which was not known before."""
        if self._compiled is None:
            self._compiled = circuit
            self._lay_out(self.layers)

    def catch_up(self, *, at_end: bool) -> None:
        """Draw what has changed since it was last drawn."""
        self.walk.catch_up(at_end=at_end)
        self.circuit.catch_up(at_end=at_end)

    def _lay_out(self, layers: int) -> None:
        grid = layout.Grid(_room_for(layers, self._compiled))
        before = self.walk
        if grid.layers != before.grid.layers:
            before.erase()
        self.circuit = CircuitDrawing(self._canvas, grid, self._compiled)
        self.walk = WalkDrawing(self._canvas, grid, known=self._compiled is not None)
        self.walk.undrawn_rounds = before.undrawn_rounds
        self.walk.take_over(before)
        for index, layer in self.walk.layers.items():
            self.circuit.set_kind(index, layer.kind)
        self.has_grown = True


def _room_for(layers: int, circuit: CircuitCompiled | None) -> int:
    """How many places are needed for so many layers, and for a circuit."""
    if circuit is not None:
        layers = max(layers, max((node.layer_idx + 1 for node in circuit.nodes), default=circuit.total_layers))
    return min(layout.MAX_LAYERS, layers)
