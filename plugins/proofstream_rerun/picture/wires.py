"""Routes the edges of a circuit: straight to the next layer, and as wires in front of the rows to any other.

A wire leaves its layer to the front, runs along a track parallel to the row, and ends at its layer from the front. All
wires of one layer share a track, so a layer that feeds many others is the spine of a comb. To another row a wire runs
around the right end of the rows. Tracks are assigned as in the routing of a chip's channel: two layers whose wires
would overlap get different ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from proofstream_rerun.picture.layout import FRONT, NODE_MAX, PITCH, WIRES_RIGHT, WIRES_ROOM, Grid, turn
from proofstream_rerun.picture.marks import Floats, Place

WIRE_Y = -0.5
"""Wires run at this height: below the layers, so that they never cross a straight edge."""
NEAREST = NODE_MAX + 0.1
"""Distance from the middle of a row to its first track."""
TRACK_STEP = 0.16
"""Distance from one track to the next, where there is room."""
MAX_TRACKS = 24
"""The most tracks side by side."""
ASIDE = 0.14
"""How far from the middle of a layer a wire leaves it to the right, and ends at it from the left."""

Edge = tuple[int, int]
Span = tuple[float, float]


def routed(grid: Grid, edges: Sequence[Edge]) -> list[Floats]:
    """Return a line for each edge, of shape [k, 3]."""
    far = [edge for edge in edges if not is_next(edge)]
    tracks = _row_tracks(grid, far)
    shafts = _shafts(grid, far)
    lines: list[Floats] = []
    for edge in edges:
        if is_next(edge):
            lines.append(_straight(grid, *edge))
        else:
            lines.append(_wire(grid, edge, tracks, shafts))
    return lines


def is_next(edge: Edge) -> bool:
    """Return whether an edge leads to the next layer."""
    return edge[1] - edge[0] == 1


def _straight(grid: Grid, start: int, end: int) -> Floats:
    if end % grid.columns == 0:
        return turn(grid, start, end)
    return np.array([grid.at(start), grid.at(end)], np.float32)


def _wire(grid: Grid, edge: Edge, tracks: dict[tuple[int, int], float], shafts: dict[int, float]) -> Floats:
    start, end = edge
    (x0, _, z0), (x1, _, z1) = grid.at(start), grid.at(end)
    near = z0 + tracks[start, start // grid.columns]
    points: list[Place] = [(x0 + ASIDE, 0.0, z0), (x0 + ASIDE, WIRE_Y, near)]
    if z0 != z1:
        shaft, far = shafts[start], z1 + tracks[start, end // grid.columns]
        points += [(shaft, WIRE_Y, near), (shaft, WIRE_Y, far)]
        near = far
    points += [(x1 - ASIDE, WIRE_Y, near), (x1 - ASIDE, 0.0, z1)]
    return np.array(points, np.float32)


def _row_tracks(grid: Grid, edges: Iterable[Edge]) -> dict[tuple[int, int], float]:
    """Return the distance of a layer's track from the middle of a row, by the layer and the row."""
    beyond = (grid.columns - 1) * PITCH + WIRES_RIGHT
    spans: dict[int, dict[int, Span]] = {}
    for start, end in edges:
        rows = start // grid.columns, end // grid.columns
        for row, layer in zip(rows, (start, end), strict=True):
            x = float(grid.x[layer])
            of_row = spans.setdefault(row, {})
            low, high = of_row.get(start, (x, x))
            of_row[start] = min(low, x), beyond if rows[0] != rows[1] else max(high, x)
    return {
        (start, row): distance
        for row, of_row in spans.items()
        for start, distance in _spread(of_row, NEAREST, FRONT - 0.1).items()
    }


def _shafts(grid: Grid, edges: Iterable[Edge]) -> dict[int, float]:
    """Return where the wires of a layer run from row to row: a coordinate beyond the right end of the rows."""
    spans: dict[int, Span] = {}
    for start, end in edges:
        a, b = start // grid.columns, end // grid.columns
        if a != b:
            low, high = spans.get(start, (a, a))
            spans[start] = min(low, b), max(high, b)
    nearest = (grid.columns - 1) * PITCH + WIRES_RIGHT
    return _spread(spans, nearest, nearest + WIRES_ROOM - 0.2)


def _spread(spans: dict[int, Span], first: float, last: float) -> dict[int, float]:
    """Return a place between `first` and `last` for each span, so that spans which overlap have different places."""
    tracks = _assigned(spans)
    count = max(tracks.values(), default=0) + 1
    step = min(TRACK_STEP, (last - first) / max(1, count - 1))
    return {key: first + step * track for key, track in tracks.items()}


def _assigned(spans: dict[int, Span]) -> dict[int, int]:
    """Assign tracks by the left-edge algorithm: from left to right, each span gets the first track that is free.

    If there are `MAX_TRACKS` and none is free, it shares the one that ends first.
    """
    ends: list[float] = []
    tracks: dict[int, int] = {}
    for key, (low, high) in sorted(spans.items(), key=lambda item: (item[1], item[0])):
        track = next((place for place, end in enumerate(ends) if end < low), None)
        if track is not None:
            ends[track] = high
        elif len(ends) < MAX_TRACKS:
            track = len(ends)
            ends.append(high)
        else:
            track = ends.index(min(ends))
            ends[track] = max(ends[track], high)
        tracks[key] = track
    return tracks
