"""Places and sizes: nothing overlaps, for any number of layers and rounds."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream import LayerKind
from proofstream_rerun.picture import layout
from proofstream_rerun.picture.camera import FIELD_OF_VIEW
from proofstream_rerun.picture.layout import Grid
from proofstream_rerun.picture.marks import Boxes

SIZES = st.integers(3, 450)
KINDS = st.sampled_from(LayerKind)
COSTS = st.integers(0, 2**64 - 1)
ROUNDS = st.integers(1, 210)


def extent(boxes: Boxes) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return the lowest and the highest corner of the space that all boxes fill."""
    return (boxes.centers - boxes.half_sizes).min(axis=0), (boxes.centers + boxes.half_sizes).max(axis=0)


def are_apart(one: Boxes, other: Boxes) -> bool:
    """Return whether no box of the one reaches into the space of the other."""
    (low, high), (other_low, other_high) = extent(one), extent(other)
    return bool(((high <= other_low + 1e-4) | (other_high <= low + 1e-4)).any())


@given(layers=SIZES, data=st.data())
def test_nodes_and_bars_of_two_layers_never_meet(layers: int, data: st.DataObject) -> None:
    grid = Grid(layers)
    indices = data.draw(st.lists(st.integers(0, layers - 1), min_size=2, max_size=2, unique=True))
    drawn: list[tuple[Boxes, Boxes]] = []
    for index in indices:
        kind = data.draw(KINDS)
        node = layout.node_box(kind, data.draw(COSTS))
        bars = layout.bars(data.draw(ROUNDS), kind.color_rgb)
        drawn.append((layout.placed([(grid.at(index), node)]), layout.placed([(grid.at(index), bars)])))
    for one in drawn[0]:
        for other in drawn[1]:
            assert are_apart(one, other)


@given(kind=KINDS, cost=COSTS, rounds=ROUNDS)
def test_the_bars_of_a_layer_meet_neither_its_node_nor_each_other(kind: LayerKind, cost: int, rounds: int) -> None:
    bars = layout.bars(rounds, kind.color_rgb)
    assert are_apart(layout.node_box(kind, cost), bars)
    near = bars.centers[:, 2] + bars.half_sizes[:, 2]
    far = bars.centers[:, 2] - bars.half_sizes[:, 2]
    assert (near[1:] < far[:-1] + 1e-4).all()
    assert far.min() >= -layout.BARS_GAP - layout.BARS_DEPTH - 1e-4


@given(rounds=ROUNDS)
def test_a_bars_height_is_the_number_of_variables_still_to_be_bound(rounds: int) -> None:
    bars = layout.bars(rounds, (66, 155, 245))
    heights = bars.half_sizes[:, 1] * 2
    left_to_bind = rounds - np.arange(rounds)
    np.testing.assert_allclose(heights / heights[-1], left_to_bind, rtol=1e-3)
    np.testing.assert_allclose(bars.centers[:, 1] * 2, heights, rtol=1e-5)
    assert heights.max() <= layout.BAR_HEIGHT + 1e-4


@given(one=COSTS, other=COSTS)
def test_a_node_grows_with_its_cost_within_bounds(one: int, other: int) -> None:
    small, large = sorted((layout.node_half_width(one), layout.node_half_width(other)))
    assert layout.NODE_MIN <= small <= large <= layout.NODE_MAX
    assert (layout.node_half_width(one) <= layout.node_half_width(other)) or one > other


@pytest.mark.parametrize("layers", [1, 2, 3, 16, 17, 22, 211, 281, 450, layout.MAX_LAYERS])
def test_layers_stand_in_rows_in_the_order_of_their_indices(layers: int) -> None:
    grid = Grid(layers)
    places = [(float(z), float(x)) for x, z in zip(grid.x, grid.z, strict=True)]
    assert places == sorted(places)
    assert len(set(places)) == layers
    assert grid.columns * (grid.rows - 1) < layers <= grid.columns * grid.rows


@given(layers=st.integers(1, 450), data=st.data())
def test_the_trail_runs_below_all_layers_that_are_done_and_no_others(layers: int, data: st.DataObject) -> None:
    grid = Grid(layers)
    done = np.array(data.draw(st.lists(st.booleans(), min_size=layers, max_size=layers)))
    strips = layout.trail(grid, done)
    covered = np.zeros(layers, np.bool_)
    for strip in strips:
        (start, _, z), (end, _, _) = strip
        covered |= (grid.z == z) & (grid.x > start) & (grid.x < end)
    np.testing.assert_array_equal(covered, done)
    breaks = np.count_nonzero(np.diff(done.astype(np.int8)) == 1) + int(done[0])
    assert len(strips) <= breaks + grid.rows


@given(layers=st.integers(1, layout.MAX_LAYERS))
def test_neighbours_share_an_entity_if_there_are_many(layers: int) -> None:
    size = layout.group_size(layers)
    assert -(-layers // size) <= layout.MAX_GROUPS
    assert (size == 1) == (layers <= layout.MAX_GROUPS)


def seen(grid: Grid, places: npt.NDArray[np.float64], aspect: float) -> npt.NDArray[np.float64]:
    """Project places into the view of the grid's camera: across and up, from -1 to 1 at its borders."""
    position, target = np.array(grid.camera.position), np.array(grid.camera.target)
    forward = (target - position) / np.linalg.norm(target - position)
    up = np.cross((1.0, 0.0, 0.0), forward)
    relative = places - position
    depth = relative @ forward
    assert (depth > 0).all()
    high = depth * np.tan(FIELD_OF_VIEW / 2)
    return np.stack([relative[:, 0] / (high * aspect), relative @ up / high], axis=1)


@pytest.mark.parametrize("layers", [1, 3, 8, 11, 12, 20, 40, 41, 211, 281, 450])
def test_the_bars_of_210_rounds_are_in_view_in_every_layer(layers: int) -> None:
    grid = Grid(layers)
    bars = layout.bars(210, (66, 155, 245))
    boxes = layout.placed([(grid.at(index), bars) for index in range(layers)])
    corners = [boxes.centers + boxes.half_sizes * signs for signs in itertools.product((-1, 1), repeat=3)]
    aspect = layout.ASPECT_FEW if layers <= layout.FEW else layout.ASPECT_MANY
    assert np.abs(seen(grid, np.concatenate(corners).astype(np.float64), aspect)).max() < 1


@pytest.mark.parametrize("layers", [12, 20, 29, 40, 41, 211, 281, 450, layout.MAX_LAYERS])
def test_bars_hide_no_layer_behind_them(layers: int) -> None:
    """Compare the lowest point of each row's trail with the top of the bars in front of it, as the camera sees them."""
    grid = Grid(layers)
    rows = grid.z[:: grid.columns].astype(np.float64)
    ground = np.stack([np.zeros_like(rows), np.full_like(rows, layout.TRAIL_Y), rows], axis=1)
    first_bars = np.stack([np.zeros_like(rows), np.full_like(rows, layout.BAR_HEIGHT), rows - layout.BARS_GAP], axis=1)
    lowest, highest = seen(grid, ground, 1.0)[:, 1], seen(grid, first_bars, 1.0)[:, 1]
    assert len(rows) > 1
    assert (lowest[:-1] > highest[1:]).all()


@given(cost=COSTS)
def test_a_node_covers_the_bead_that_stood_for_it(cost: int) -> None:
    bead = layout.beads(Grid(1), [0])
    node = layout.node_box(LayerKind.Add, cost)
    assert (bead.centers == node.centers).all()
    assert (bead.half_sizes < node.half_sizes).all()
