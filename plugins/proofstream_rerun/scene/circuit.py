"""The drawing of the circuit: nodes, edges, labels and the graph, from CircuitCompiled or from the walk itself.

Producers that send no circuit announce a number of layers, and name a layer's kind when its proof starts. Then the
circuit is a line, on which the walk puts a bead for each layer that it has not reached. Labels and graph are drawn
again each time the number of known kinds has multiplied, so that few large static marks are written.
"""

from __future__ import annotations

import numpy as np

from proofstream import CircuitCompiled, LayerKind
from proofstream_rerun.picture import layout, palette, wires
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.layered import chain, layered
from proofstream_rerun.picture.marks import Edges, Floats, Labels, Nodes, Strips
from proofstream_rerun.picture.palette import packed

MAX_EDGES = 8192
"""The most edges that are drawn."""

_REDRAW_FEW, _REDRAW_MANY = 4, 16
"""Labels and graph are redrawn when the number of known kinds has grown by this factor, for few layers and for many."""


class CircuitDrawing:
    """The drawing of one proof's circuit.

    Args:
        canvas: Where to draw.
        grid: Where the layers stand.
        circuit: The circuit, if the producer sent it.
    """

    def __init__(self, canvas: Canvas, grid: layout.Grid, circuit: CircuitCompiled | None) -> None:
        self._canvas = canvas
        self._grid = grid
        self._kinds: dict[int, LayerKind] = {}
        self._drawn = 0
        self._edges: list[wires.Edge] = []
        self._places: Floats = np.zeros((0, 2), np.float32)
        self.is_known: bool = circuit is not None
        if grid.layers:
            self._draw(circuit)

    @property
    def extent(self) -> tuple[float, float, float, float]:
        """The least and greatest x, and the least and greatest y, of the graph's nodes."""
        if not len(self._places):
            return 0.0, 0.0, 0.0, 0.0
        (left, top), (right, bottom) = self._places.min(axis=0).tolist(), self._places.max(axis=0).tolist()
        return left, right, top, bottom

    def set_kind(self, index: int, kind: LayerKind) -> None:
        """Set a layer's kind, which the walk has shown; ignored if the circuit is known."""
        if not self.is_known:
            self._kinds[index] = kind

    def catch_up(self, *, at_end: bool) -> None:
        """Redraw labels and graph if many more kinds are known than are drawn, or at the end if any are."""
        known = len(self._kinds)
        factor = _REDRAW_FEW if self._grid.layers <= layout.FEW else _REDRAW_MANY
        if known > self._drawn and (at_end or known >= factor * self._drawn):
            self._draw_names()

    def _draw(self, circuit: CircuitCompiled | None) -> None:
        if circuit is None:
            self._draw_placeholders()
        else:
            self._draw_circuit(circuit)
        self._canvas.set_static("circuit/graph", Edges([(str(a), str(b)) for a, b in self._edges]))
        self._draw_names()

    def _draw_placeholders(self) -> None:
        grid = self._grid
        backbone = Strips(layout.backbone(grid), np.array([palette.BACKBONE], np.uint32))
        self._canvas.set_static("circuit/backbone", backbone)
        self._edges = [(index, index + 1) for index in range(grid.layers - 1)]
        self._places = chain(grid.layers, columns=layout.graph_columns(grid.layers))

    def _draw_circuit(self, circuit: CircuitCompiled) -> None:
        grid = self._grid
        nodes = {node.layer_idx: node for node in circuit.nodes if node.layer_idx < grid.layers}
        known = [(index, node.kind, node.trace_cost) for index, node in nodes.items()]
        self._kinds = {index: kind for index, kind, _ in known}
        boxes = layout.placed([(grid.at(index), layout.node_box(kind, cost)) for index, kind, cost in known])
        self._canvas.set_static("circuit/nodes", boxes)
        for node in nodes.values():
            self._edges += [(start, node.layer_idx) for start in node.input_layers if start in nodes]
        del self._edges[MAX_EDGES:]
        self._places = layered(grid.layers, self._edges, columns=layout.graph_columns(grid.layers))
        lines = wires.routed(grid, self._edges)
        colors = [palette.EDGE if wires.is_next(edge) else palette.FAR_EDGE for edge in self._edges]
        # If the circuit comes late, placeholders have drawn a backbone. A static mark cannot be removed, only emptied.
        if "circuit/backbone" in self._canvas.static_paths:
            self._canvas.set_static("circuit/backbone", Strips([], np.array([palette.BACKBONE], np.uint32)))
        self._canvas.set_static("circuit/edges", Strips(lines, np.array(colors, np.uint32)))

    def _draw_names(self) -> None:
        self._drawn = len(self._kinds)
        self._draw_labels()
        self._draw_graph()

    def _draw_labels(self) -> None:
        grid = self._grid
        step = layout.label_step(grid.layers)
        shown = range(0, grid.layers, step)
        positions = [layout.label_place(grid, index) for index in shown]
        is_each = grid.layers <= layout.FEW
        colors = [self._color(index) if is_each else palette.LABEL for index in shown]
        labels = [self._title(index) if is_each else str(index) for index in shown]
        places = np.array(positions, np.float32).reshape(-1, 3)
        self._canvas.set_static("circuit/labels", Labels(places, np.array(colors, np.uint32), labels))

    def _draw_graph(self) -> None:
        layers = range(self._grid.layers)
        self._canvas.set_static(
            "circuit/graph",
            Nodes(
                ids=[str(index) for index in layers],
                positions=self._places,
                labels=[self._title(index) for index in layers],
                colors=np.array([self._color(index) for index in layers], np.uint32),
            ),
        )

    def _title(self, index: int) -> str:
        kind = self._kinds.get(index)
        return str(index) if kind is None else f"{index} {kind.value}"

    def _color(self, index: int) -> int:
        kind = self._kinds.get(index)
        return palette.LABEL if kind is None else packed(kind.color_rgb)
