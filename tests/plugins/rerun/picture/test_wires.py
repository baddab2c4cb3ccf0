"""Edges of circuits: each begins and ends at its layers, and wires of different layers do not run over each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream_rerun.picture import wires
from proofstream_rerun.picture.layout import FRONT, PITCH, WIRES_RIGHT, WIRES_ROOM, Grid
from proofstream_rerun.picture.wires import ASIDE, MAX_TRACKS, WIRE_Y, Edge, routed

SOURCES: dict[int, list[int]] = {
    **{layer: [0] for layer in (1, 2, 3, 7, 8, 9)},
    4: [1, 2],
    5: [4, 3],
    6: [5],
    10: [7, 8],
    11: [10, 9],
    12: [11],
    13: [6, 12],
    14: [0, 13],
    15: [14],
    16: [14],
    17: [15, 16],
    18: [17],
    19: [14, 18],
}
TRANSFORMER: list[Edge] = [(source, layer) for layer, sources in SOURCES.items() for source in sources]
"""The edges of the demo's transformer."""


def pieces_of(grid: Grid, edges: list[Edge]) -> set[tuple[int, float, float, float]]:
    """Return the pieces along the rows, in steps of half a pitch: the layer they come from, and their place."""
    found: set[tuple[int, float, float, float]] = set()
    for (start, _), line in zip(edges, routed(grid, edges), strict=True):
        for (x0, y0, z0), (x1, y1, z1) in itertools.pairwise(line.tolist()):
            if y0 == y1 == WIRE_Y and z0 == z1:
                low, high = sorted((x0, x1))
                found |= {(start, step, round(z0, 3), WIRE_Y) for step in np.arange(np.ceil(low), high, PITCH / 2)}
    return found


@pytest.mark.parametrize("edge", [(0, 1), (9, 10), (2, 7), (3, 30), (39, 4)])
def test_an_edge_begins_and_ends_at_its_layers(edge: Edge) -> None:
    grid = Grid(40)
    (line,) = routed(grid, [edge])
    aside = 0.0 if wires.is_next(edge) else ASIDE
    np.testing.assert_allclose(line[0], grid.at(edge[0]) + np.array((aside, 0, 0)), atol=1e-5)
    np.testing.assert_allclose(line[-1], grid.at(edge[1]) - np.array((aside, 0, 0)), atol=1e-5)


def test_the_wires_of_a_transformer_do_not_run_over_each_other() -> None:
    pieces = pieces_of(Grid(20), TRANSFORMER)
    places = [piece[1:] for piece in pieces]
    assert len(places) == len(set(places)) > 20


@given(layers=st.integers(2, 120), data=st.data())
def test_wires_of_different_layers_share_no_place_and_stay_in_their_room(layers: int, data: st.DataObject) -> None:
    index = st.integers(0, layers - 1)
    edges = data.draw(st.lists(st.tuples(index, index), max_size=MAX_TRACKS, unique=True))
    far = [edge for edge in edges if not wires.is_next(edge)]
    grid = Grid(layers)
    places = [piece[1:] for piece in pieces_of(grid, far)]
    assert len(places) == len(set(places))
    right = (grid.columns - 1) * PITCH + WIRES_RIGHT + WIRES_ROOM
    for line in routed(grid, far):
        assert line[:, 0].max() <= right
        assert line[:, 2].max() <= FRONT
        assert set(line[1:-1, 1].tolist()) == {WIRE_Y}


def test_many_wires_share_a_bounded_number_of_tracks() -> None:
    grid = Grid(400)
    edges = [(start, start + 150) for start in range(250)]
    tracks = {round(float(z % 1000), 4) for line in routed(grid, edges) for z in line[1:-1, 2]}
    assert len(tracks) <= MAX_TRACKS * grid.rows
