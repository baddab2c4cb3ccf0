"""Where everything stands: places of layers, sizes of nodes and bars, and where the camera looks from.

Layers stand in rows along X, like text: from left to right, then the next row nearer to the camera (+Z). A layer's
sumcheck rounds recede behind it (-Z), inside the room that its row keeps free for them, so nothing overlaps whatever
the number of rounds. Lengths are scene units; Y is up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from proofstream import LayerKind
from proofstream_rerun.picture.camera import Camera, framing
from proofstream_rerun.picture.marks import Boxes, Floats, Placed
from proofstream_rerun.picture.palette import ABORTED, packed, shaded

PITCH = 2.0
"""From one layer to the next."""
BARS_GAP = 1.1
"""From the middle of a row to its bars."""
BARS_DEPTH = 5.4
"""Room for a layer's bars."""
FRONT = 1.5
"""Room in front of a row, without labels."""
LABELS_GAP = 1.1
"""From the middle of a row to its labels."""
LABEL_STEP = 1.0
"""From one line of labels to the next."""
FEW = 40
"""So many layers have a label each."""
SPARSE = 6
"""So many in one row have room for their labels side by side."""
FEW_COLUMNS = 14
"""So many of them stand in one row at most."""
MAX_ROWS = 64
"""So many rows at most."""
ASPECT_FEW, ASPECT_MANY = 1.5, 1.12
"""Width over height of the view: few layers leave room for a graph below it."""

BAR_PITCH = 0.45
BAR_HALF_WIDTH = 0.32
BAR_STEP = 0.32
"""Height of a bar for each variable that is still to be bound."""
BAR_HEIGHT = 4.6
"""The most that a bar is high."""

NODE_MIN, NODE_MAX = 0.28, 0.8
"""Half the width of a node, by its cost."""
NODE_FLATNESS = 0.6
COST_BITS = 36
"""A cost of 2^36 cells, a large matrix product, makes the largest node."""

PLACEHOLDER = 0.08
"""Half the width of a node of which nothing is known: any other node covers it."""

TRAIL_Y = -1.15
LABEL_Y = -0.9
MAX_GROUPS = 24
"""Layers are drawn in so many entities at most: one for each layer up to here, and fewer if there are more."""
GROUPS = 16
"""Entities that more layers than that share."""
MAX_LAYERS = 4096
"""Layers that are drawn at most."""

_HEIGHTS: dict[LayerKind, float] = {
    LayerKind.Activation: 1.8,
    LayerKind.LayerNorm: -1.2,
    LayerKind.RMSNorm: -1.2,
    LayerKind.Attention: 3.0,
    LayerKind.Add: 0.8,
    LayerKind.Mul: 1.2,
    LayerKind.Embedding: -2.5,
    LayerKind.Dequantize: -1.8,
    LayerKind.Quantize: -1.8,
}
_HEIGHT_SCALE = 0.25
_NO_POINTS = np.zeros((0, 3), np.float32)


def height_of(kind: LayerKind) -> float:
    """How high a layer of that kind stands."""
    return _HEIGHT_SCALE * _HEIGHTS.get(kind, 0.0)


def node_half_width(trace_cost: int) -> float:
    """Half the width of a node: with the logarithm of its cost, as costs differ by six orders of magnitude."""
    share = min(1.0, math.log2(1 + trace_cost) / COST_BITS)
    return NODE_MIN + (NODE_MAX - NODE_MIN) * share


def columns_for(layers: int) -> int:
    """How many layers stand in one row: as many as there is room for labels, or so many that the camera is nearest."""
    if layers <= FEW:
        return math.ceil(layers / max(1, math.ceil(layers / FEW_COLUMNS))) or 1
    return _many_columns(layers)


@lru_cache(maxsize=64)
def _many_columns(layers: int) -> int:
    columns = {math.ceil(layers / rows) for rows in range(2, min(layers, MAX_ROWS) + 1)}
    return min(columns, key=lambda count: _camera(layers, count).distance)


def row_pitch(layers: int) -> float:
    """From one row to the next."""
    return BARS_GAP + BARS_DEPTH + _front(layers)


def _front(layers: int) -> float:
    """Room in front of a row: for its labels, and before another row for what the bars there hide."""
    if layers > FEW:
        return FRONT
    lines = 0.6 if layers <= SPARSE else 1.6 if layers <= FEW_COLUMNS else 3.2
    return LABELS_GAP + LABEL_STEP * lines


def _camera(layers: int, columns: int) -> Camera:
    """A camera that has all layers in view."""
    rows = max(1, math.ceil(layers / columns))
    is_many = layers > FEW
    right = (columns - 1) * PITCH + 0.5 * PITCH
    left = -2 * _margin(columns) if is_many else -0.5 * PITCH
    back = -(rows - 1) * row_pitch(layers) - BARS_GAP - BARS_DEPTH
    top = BAR_HEIGHT * (0.6 if rows > 1 else 0.75)
    places = ((top, -BARS_GAP), (0.5, back), (TRAIL_Y, _front(layers)))
    corners = [(x, y, z) for x in (left, right) for y, z in places]
    slope = math.radians(30 if rows == 1 else 45 if is_many else 50)
    return framing(corners, slope=slope, aspect=ASPECT_MANY if is_many else ASPECT_FEW)


def _margin(columns: int) -> float:
    """From the middle of a row's label to the beginning of the row."""
    return 0.9 + 0.045 * columns


def group_size(layers: int) -> int:
    """How many neighbouring layers share an entity."""
    return 1 if layers <= MAX_GROUPS else math.ceil(layers / GROUPS)


def label_step(layers: int) -> int:
    """Every so manyth layer has a label: each one of a few, else the first of each row."""
    return 1 if layers <= FEW else columns_for(layers)


class Grid:
    """The places of `layers` layers.

    Attributes:
        layers: How many.
        columns: How many in one row.
        rows: How many rows.
        x: Along the rows, one for each layer.
        z: Across them; the last row is at 0.
    """

    def __init__(self, layers: int) -> None:
        self.layers: int = layers
        self.columns: int = columns_for(layers)
        self.rows: int = max(1, math.ceil(layers / self.columns))
        index = np.arange(layers)
        self.x: Floats = (index % self.columns * PITCH).astype(np.float32)
        self.z: Floats = ((index // self.columns - (self.rows - 1)) * row_pitch(layers)).astype(np.float32)

    def at(self, index: int, y: float = 0.0) -> tuple[float, float, float]:
        """The place of a layer."""
        return float(self.x[index]), y, float(self.z[index])

    def flat(self, index: npt.NDArray[np.int64]) -> Floats:
        """Return places in the plane of a graph, of shape [n, 2]: the same rows, seen from above."""
        return np.stack([self.x[index] * 60, self.z[index] * 12], axis=1).astype(np.float32)

    @property
    def camera(self) -> Camera:
        """A camera that has everything in view."""
        return _camera(self.layers, self.columns)


@lru_cache(maxsize=256)
def bars(total: int, rgb: tuple[int, int, int]) -> Boxes:
    """The bars of a layer's rounds about the origin, all of them, in their order.

    A bar's height is the number of variables that are still to be bound when its round begins, so bars step down to
    the last one. What a round claims is a field element, which has no magnitude. The kind's colour gets brighter from
    round to round.
    """
    number = np.arange(total, dtype=np.float32)
    pitch = min(BAR_PITCH, BARS_DEPTH / total)
    half_height = (total - number) * min(BAR_STEP, BAR_HEIGHT / total) / 2
    z = -BARS_GAP - (number + 0.5) * pitch
    centers = np.stack([np.zeros_like(number), half_height, z], axis=1)
    half_sizes = np.stack(
        [np.full_like(number, BAR_HALF_WIDTH), half_height, np.full_like(number, pitch * 0.42)], axis=1
    )
    shades = 0.45 + 0.55 * number / max(1, total - 1)
    colors = np.array([shaded(rgb, float(shade)) for shade in shades], np.uint32)
    return Boxes(centers.astype(np.float32), half_sizes.astype(np.float32), colors)


def placed(parts: Sequence[Placed]) -> Boxes:
    """Boxes of several parts, each about its place."""
    if not parts:
        return Boxes(_NO_POINTS, _NO_POINTS, np.zeros(0, np.uint32))
    centers = np.concatenate([boxes.centers for _, boxes in parts])
    lengths = [len(boxes.colors) for _, boxes in parts]
    centers += np.repeat(np.array([place for place, _ in parts], np.float32), lengths, axis=0)
    return Boxes(
        centers,
        np.concatenate([boxes.half_sizes for _, boxes in parts]),
        np.concatenate([boxes.colors for _, boxes in parts]),
    )


@lru_cache(maxsize=256)
def node_box(kind: LayerKind, trace_cost: int) -> Boxes:
    """The box of a layer about the origin, in its kind's colour and height."""
    return _box(kind, node_half_width(trace_cost), packed(kind.color_rgb))


@lru_cache(maxsize=16)
def cage(kind: LayerKind, trace_cost: int) -> Boxes:
    """A red box about the origin that hides the node of a layer that was aborted."""
    return _box(kind, node_half_width(trace_cost) * 1.15, ABORTED)


def _box(kind: LayerKind, half: float, color: int) -> Boxes:
    center = np.array([(0.0, height_of(kind), 0.0)], np.float32)
    return Boxes(center, np.array([(half, half * NODE_FLATNESS, half)], np.float32), np.array([color], np.uint32))


def above(kind: LayerKind, trace_cost: int) -> float:
    """How high a mark above a layer's node stands."""
    return height_of(kind) + node_half_width(trace_cost) * NODE_FLATNESS + 1.0


def label_place(grid: Grid, index: int) -> tuple[float, float, float]:
    """Where a layer's label stands: in front of a few, by turns nearer and farther; else before its row begins."""
    x, _, z = grid.at(index)
    if grid.layers > FEW:
        return x - _margin(grid.columns), 0.0, z
    turn = index % 2 if grid.columns > SPARSE else 0
    return x, LABEL_Y, z + LABELS_GAP + turn * LABEL_STEP


def trail(grid: Grid, done: npt.NDArray[np.bool_]) -> list[Floats]:
    """Strips below all layers that are done: one for each run of neighbours in a row, however many there are in it."""
    index = np.flatnonzero(done)
    if not len(index):
        return []
    breaks = (np.diff(index) > 1) | (index[1:] % grid.columns == 0)
    starts = index[np.concatenate(([True], breaks))]
    ends = index[np.concatenate((breaks, [True]))]
    reach = PITCH * 0.45
    strips = np.full((len(starts), 2, 3), TRAIL_Y, np.float32)
    strips[:, 0, 0], strips[:, 0, 2] = grid.x[starts] - reach, grid.z[starts]
    strips[:, 1, 0], strips[:, 1, 2] = grid.x[ends] + reach, grid.z[ends]
    return list(strips)


def backbone(grid: Grid) -> list[Floats]:
    """A line along each row, and from its end around to the next row's start."""
    strips: list[Floats] = []
    for row in range(grid.rows):
        first, last = row * grid.columns, min(grid.layers, (row + 1) * grid.columns) - 1
        if last > first:
            strips.append(np.array([grid.at(first), grid.at(last)], np.float32))
        if row + 1 < grid.rows:
            strips.append(_turn(grid, last, last + 1))
    return strips


def _turn(grid: Grid, before: int, after: int) -> Floats:
    """From the end of a row to the start of the next one, through the room between them."""
    (x0, _, z0), (x1, _, z1) = grid.at(before), grid.at(after)
    between = z0 + _front(grid.layers)
    right, left = x0 + PITCH * 0.6, x1 - PITCH * 0.6
    low = LABEL_Y if grid.layers <= FEW else 0.0
    corners = [
        (x0, 0.0, z0),
        (right, 0.0, z0),
        (right, low, between),
        (left, low, between),
        (left, 0.0, z1),
        (x1, 0.0, z1),
    ]
    return np.array(corners, np.float32)


def edge(grid: Grid, start: int, end: int, heights: tuple[float, float]) -> Floats:
    """A line from one layer to another: straight to a neighbour, around to the next row's first, else an arc."""
    y0, y1 = heights
    if end - start == 1:
        if end % grid.columns == 0:
            return _turn(grid, start, end)
        return np.array([grid.at(start, y0), grid.at(end, y1)], np.float32)
    share = np.linspace(0.0, 1.0, 17)[:, None]
    a, b = np.array(grid.at(start, y0), np.float32), np.array(grid.at(end, y1), np.float32)
    points = (a + (b - a) * share).astype(np.float32)
    # Steep enough to pass over the nodes between, and never higher than the bars.
    points[:, 1] += (4 * share * (1 - share))[:, 0] * min(BAR_HEIGHT, 0.9 + 0.35 * abs(end - start))
    return points
