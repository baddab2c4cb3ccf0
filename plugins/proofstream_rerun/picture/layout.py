"""The layout of the scene: places of layers, sizes of nodes and bars, and the camera.

Layers stand in rows along X, like text: from left to right, then the next row, nearer to the camera (+Z). The bars of
a layer's sumcheck rounds recede behind it (-Z), within a depth that its row reserves for them, so nothing overlaps for
any number of rounds. In front of each row is room for the wires of the circuit and for labels. The camera looks down
steeply enough that the bars of a row hide no layer behind them. Lengths are in scene units; Y is up.
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
from proofstream_rerun.picture.palette import PLACEHOLDER as PLACEHOLDER_COLOR

PITCH = 2.0
"""Distance from one layer to the next."""
BARS_GAP = 1.1
"""Distance from the middle of a row to its bars."""
BARS_DEPTH = 5.4
"""Depth reserved for a layer's bars."""
FRONT = 1.6
"""Space in front of a row without labels, for its wires."""
LABELS_GAP = 1.7
"""Distance from the middle of a row to its labels."""
LABEL_STEP = 1.0
"""Distance from one line of labels to the next."""
FEW = 40
"""Up to this many layers, each layer has a label."""
SPARSE = 4
"""Up to this many layers in a row, their labels fit side by side."""
ONE_ROW = 8
"""Up to this many layers, one row is always best, and needs no room for the bars of another one."""
FEW_COLUMNS = 14
"""The longest row of a circuit with few layers."""
MAX_ROWS = 64
"""The most rows."""
ASPECT_FEW, ASPECT_MANY = 1.5, 1.12
"""Width over height of the view, for few layers and for many. Few layers leave room for a graph below the view."""

BAR_PITCH = 0.45
BAR_HALF_WIDTH = 0.32
BAR_STEP = 0.32
"""Height of a bar per variable that is still to be bound."""
BAR_HEIGHT = 3.4
"""Greatest height of a bar."""

NODE_MIN, NODE_MAX = 0.28, 0.8
"""Smallest and largest half width of a node."""
NODE_FLATNESS = 0.6
"""Height over width of a node."""
COST_BITS = 36
"""A cost of 2^36 cells, as of a large matrix product, makes the largest node."""

PLACEHOLDER = 0.15
"""Half width of the node of a layer that is still unknown: so small that any other node covers it."""

SLOPE, SLOPE_ONE_ROW = 58, 32
"""How steeply the camera looks down, in degrees: on several rows so steeply that bars hide no row behind them."""
TURN = 0.6
"""How far beyond the end of a row the line to the next one turns, as a share of the pitch."""
WIRES_RIGHT = TURN * PITCH + 0.25
"""Distance from the end of the rows to the wires that connect rows."""
WIRES_ROOM = 1.0
"""Room for those wires."""

TRAIL_Y = -0.7
LABEL_Y = -0.6
MAX_GROUPS = 24
"""Up to this many layers, each layer has an entity of its own."""
GROUPS = 16
"""The most entities that more layers than that share."""
MAX_LAYERS = 4096
"""The most layers that are drawn."""

_NO_POINTS = np.zeros((0, 3), np.float32)


def node_half_width(trace_cost: int) -> float:
    """Return half the width of a node. It grows with the logarithm of the cost: costs span six orders of magnitude."""
    share = min(1.0, math.log2(1 + trace_cost) / COST_BITS)
    return NODE_MIN + (NODE_MAX - NODE_MIN) * share


def columns_for(layers: int) -> int:
    """Return how many layers stand in one row.

    The camera gets as near as possible. In rows of few layers their labels are legible.
    """
    return _columns(layers) if layers else 1


@lru_cache(maxsize=64)
def _columns(layers: int) -> int:
    is_many = layers > FEW
    columns = {math.ceil(layers / rows) for rows in range(1 + is_many, min(layers, MAX_ROWS) + 1)}
    legible = [count for count in columns if is_many or count <= FEW_COLUMNS]
    return min(legible, key=lambda count: _camera(layers, count).distance)


def row_pitch(layers: int) -> float:
    """Return the distance from one row to the next."""
    return BARS_GAP + BARS_DEPTH + _front(layers)


def _front(layers: int) -> float:
    """Return the space in front of a row: for its labels, and for what the bars of the next row would hide."""
    if layers > FEW:
        return FRONT
    lines = 0.6 if layers <= SPARSE else 1.6 if layers <= ONE_ROW else 3.2
    return LABELS_GAP + LABEL_STEP * lines


def _camera(layers: int, columns: int) -> Camera:
    """Return a camera that has all layers in view."""
    rows = max(1, math.ceil(layers / columns))
    is_many = layers > FEW
    right = (columns - 1) * PITCH + (TURN * PITCH if rows == 1 else WIRES_RIGHT + WIRES_ROOM)
    left = -2 * _margin(columns) if is_many else -TURN * PITCH
    back = -(rows - 1) * row_pitch(layers)
    # The first bar is the highest, and stands nearest to the camera; the last one is the lowest, and farthest away.
    places = [(BAR_HEIGHT, -BARS_GAP), (BAR_HEIGHT, back - BARS_GAP), (0.5, back - BARS_GAP - BARS_DEPTH)]
    places.append((TRAIL_Y, _front(layers)))
    corners = [(x, y, z) for x in (left, right) for y, z in places]
    slope = math.radians(SLOPE_ONE_ROW if rows == 1 else SLOPE)
    return framing(corners, slope=slope, aspect=ASPECT_MANY if is_many else ASPECT_FEW)


def _margin(columns: int) -> float:
    """Return the distance from the middle of a row's label to the start of the row."""
    return 0.9 + 0.045 * columns


def group_size(layers: int) -> int:
    """Return how many neighbouring layers share an entity."""
    return 1 if layers <= MAX_GROUPS else math.ceil(layers / GROUPS)


def graph_columns(layers: int) -> int:
    """Return how many columns of the circuit's graph stand side by side: as many as remain legible in its view."""
    return FEW_COLUMNS if layers <= FEW else math.ceil(math.sqrt(layers * 1.5))


def label_step(layers: int) -> int:
    """Return the step from one labelled layer to the next: 1 for few layers, else the length of a row."""
    return 1 if layers <= FEW else columns_for(layers)


class Grid:
    """The places of layers.

    Args:
        layers: How many layers there are.

    Attributes:
        layers: How many layers there are.
        columns: How many layers stand in one row.
        rows: How many rows there are.
        x: The layers' coordinates along the rows, of shape [layers].
        z: Their coordinates across the rows, of shape [layers]; the last row is at 0.
    """

    def __init__(self, layers: int) -> None:
        self.layers: int = layers
        self.columns: int = columns_for(layers)
        self.rows: int = max(1, math.ceil(layers / self.columns))
        index = np.arange(layers)
        self.x: Floats = (index % self.columns * PITCH).astype(np.float32)
        self.z: Floats = ((index // self.columns - (self.rows - 1)) * row_pitch(layers)).astype(np.float32)

    def at(self, index: int, y: float = 0.0) -> tuple[float, float, float]:
        """Return the place of a layer, at height `y`."""
        return float(self.x[index]), y, float(self.z[index])

    @property
    def camera(self) -> Camera:
        """A camera that has everything in view."""
        return _camera(self.layers, self.columns)


@lru_cache(maxsize=256)
def bars(total: int, rgb: tuple[int, int, int]) -> Boxes:
    """Return the bars of all rounds of a layer about the origin, in the order of the rounds.

    A bar's height is the number of variables that are still to be bound when its round begins, so the bars step down
    towards the last one. It does not show the round's claim, because a field element has no magnitude. The kind's
    colour gets brighter from round to round.
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
    """Merge several parts into one set of boxes, each part moved to its place."""
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
    """Return the box of a layer about the origin, in its kind's colour."""
    return _box(node_half_width(trace_cost), packed(kind.color_rgb))


@lru_cache(maxsize=16)
def cage(trace_cost: int) -> Boxes:
    """Return a red box about the origin that hides the node of an aborted layer."""
    return _box(node_half_width(trace_cost) * 1.15, ABORTED)


def _box(half: float, color: int) -> Boxes:
    sizes = np.array([(half, half * NODE_FLATNESS, half)], np.float32)
    return Boxes(np.zeros((1, 3), np.float32), sizes, np.array([color], np.uint32))


def beads(grid: Grid, layers: Sequence[int]) -> Boxes:
    """Return a small box in the place of each of the layers, of which nothing but their number is known."""
    index = np.array(layers)
    places = np.stack([grid.x[index], np.zeros(len(index), np.float32), grid.z[index]], axis=1)
    return Boxes(places, np.full_like(places, PLACEHOLDER), np.full(len(index), PLACEHOLDER_COLOR, np.uint32))


def above(trace_cost: int) -> float:
    """Return the height (Y) of a mark above a layer's node."""
    return node_half_width(trace_cost) * NODE_FLATNESS + 1.5


def label_place(grid: Grid, index: int) -> tuple[float, float, float]:
    """Return the place of a layer's label.

    With few layers it stands in front of its layer, nearer and farther by turns where labels would overlap. With many
    it stands before its row.
    """
    x, _, z = grid.at(index)
    if grid.layers > FEW:
        return x - _margin(grid.columns), 0.0, z
    turn = index % 2 if grid.columns > SPARSE else 0
    return x, LABEL_Y, z + LABELS_GAP + turn * LABEL_STEP


def trail(grid: Grid, done: npt.NDArray[np.bool_]) -> list[Floats]:
    """Return strips below the layers that are done, each of shape [2, 3]: one for each unbroken run in a row."""
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
    """Return the lines along each row, and those from its end around to the start of the next."""
    strips: list[Floats] = []
    for row in range(grid.rows):
        first, last = row * grid.columns, min(grid.layers, (row + 1) * grid.columns) - 1
        if last > first:
            strips.append(np.array([grid.at(first), grid.at(last)], np.float32))
        if row + 1 < grid.rows:
            strips.append(turn(grid, last, last + 1))
    return strips


def turn(grid: Grid, before: int, after: int) -> Floats:
    """Return the line from the end of a row to the start of the next, through the space between them."""
    (x0, _, z0), (x1, _, z1) = grid.at(before), grid.at(after)
    between = z0 + _front(grid.layers)
    right, left = x0 + PITCH * TURN, x1 - PITCH * TURN
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
