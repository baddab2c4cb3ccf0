"""Places the nodes of a circuit's graph in columns by their depth, so that edges lead to the right and hide no node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from proofstream_rerun.picture.marks import Floats

COLUMN, SLOT = 130.0, 46.0
"""Distance from one column to the next, and from one place of a column to the next, in the units of a graph view."""
BAND_GAP = 50.0
"""Space between two bands of columns."""
MAX_PASSING = 32
"""The most nodes whose edges keep their level free in the columns that they pass."""


def chain(nodes: int, *, columns: int) -> Floats:
    """Return the places of nodes of which each feeds only the next: what `layered` would return, but at once."""
    number = np.arange(nodes)
    return np.stack([number % columns * COLUMN, number // columns * BAND_GAP], axis=1).astype(np.float32)


def layered(nodes: int, edges: Sequence[tuple[int, int]], *, columns: int) -> Floats:
    """Return the places of nodes, of shape [n, 2].

    A node's column is the length of the longest path to it. In a column, nodes stand in the order of those that feed
    them. Where an edge passes over a column, the column's nodes leave its level free, and it ends on that level if it
    can. After `columns` columns, a new band begins below.

    Args:
        nodes: How many nodes there are.
        edges: Pairs of a node and a later one that it feeds; others are ignored.
        columns: The most columns side by side.
    """
    forward = [edge for edge in edges if edge[0] < edge[1]]
    sources: dict[int, list[int]] = {}
    for start, end in forward:
        sources.setdefault(end, []).append(start)
    depth = _depths(nodes, sources)
    y = _heights(depth, sources, _last_uses(forward, depth))
    extents: dict[int, tuple[float, float]] = {}
    for column, place in zip(depth, y, strict=True):
        low, high = extents.get(column // columns, (place, place))
        extents[column // columns] = min(low, place), max(high, place)
    shift: dict[int, float] = {}
    top = 0.0
    for band, (low, high) in sorted(extents.items()):
        shift[band] = top - low
        top += high - low + BAND_GAP
    places = [
        (column % columns * COLUMN, place + shift[column // columns]) for column, place in zip(depth, y, strict=True)
    ]
    return np.array(places, np.float32).reshape(-1, 2)


def _depths(nodes: int, sources: Mapping[int, Sequence[int]]) -> list[int]:
    depth: list[int] = []
    for node in range(nodes):
        depth.append(max((depth[source] + 1 for source in sources.get(node, ())), default=0))
    return depth


def _last_uses(edges: Sequence[tuple[int, int]], depth: Sequence[int]) -> dict[int, int]:
    """Return the deepest column that each node feeds."""
    last: dict[int, int] = {}
    for start, end in edges:
        last[start] = max(last.get(start, 0), depth[end])
    return last


def _heights(depth: Sequence[int], sources: Mapping[int, Sequence[int]], last: Mapping[int, int]) -> list[float]:
    """Return the places of nodes in their columns."""
    columns: dict[int, list[int]] = {}
    for node, column in enumerate(depth):
        columns.setdefault(column, []).append(node)
    y = [0.0] * len(depth)
    passing: list[int] = []
    for column, here in sorted(columns.items()):
        passing = [node for node in passing if last[node] > column][:MAX_PASSING]
        wanted = [(_wanted(column, sources.get(node, ()), depth, y), node) for node in here]
        for node, place in _stacked(sorted(wanted), sorted(y[node] for node in passing)):
            y[node] = place
        passing += [node for node in here if last.get(node, 0) > column + 1]
    return y


def _wanted(column: int, feeding: Sequence[int], depth: Sequence[int], y: Sequence[float]) -> float:
    """Return where a node would stand best: level with the farthest node that feeds it, or amid those next to it."""
    farthest = min(feeding, key=lambda source: depth[source], default=None)
    if farthest is not None and depth[farthest] < column - 1:
        return y[farthest]
    return sum(y[source] for source in feeding) / len(feeding) if feeding else 0.0


def _stacked(wanted: Sequence[tuple[float, int]], passing: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Yield the nodes with their places, a slot apart from each other and from the edges that pass."""
    middle = sum(place for place, _ in wanted) / len(wanted)
    spread = [(middle + (slot - (len(wanted) - 1) / 2) * SLOT, node) for slot, (_, node) in enumerate(wanted)]
    first = passing[0] if passing else spread[0][0]
    below = [entry for entry in spread if entry[0] >= first]
    bound = first
    for place, node in reversed(spread[: len(spread) - len(below)]):
        bound = min(place, bound - SLOT)
        yield node, bound
    bound = first if passing else first - SLOT
    for place, node in below:
        bound = max(place, bound + SLOT)
        for edge in passing:
            if abs(bound - edge) < SLOT:
                bound = edge + SLOT
        yield node, bound
