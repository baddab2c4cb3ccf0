"""The graph of a circuit: edges lead to the right, nodes have places of their own, and no edge hides a node."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proofstream_rerun.picture.layered import BAND_GAP, COLUMN, SLOT, chain, layered

Edges = list[tuple[int, int]]


@st.composite
def circuits(draw: st.DrawFn) -> tuple[int, Edges]:
    nodes = draw(st.integers(1, 40))
    index = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(index, index).map(lambda pair: (min(pair), max(pair))), max_size=60, unique=True))
    return nodes, [edge for edge in edges if edge[0] != edge[1]]


@given(circuit=circuits())
def test_edges_lead_to_the_right_and_nodes_do_not_meet(circuit: tuple[int, Edges]) -> None:
    nodes, edges = circuit
    places = layered(nodes, edges, columns=1000)
    for start, end in edges:
        assert places[end][0] >= places[start][0] + COLUMN
    gaps = np.abs(places[:, None, :] - places[None, :, :])
    is_apart = (gaps[..., 0] >= COLUMN) | (gaps[..., 1] >= SLOT - 1e-2)
    assert (is_apart | np.eye(nodes, dtype=np.bool_)).all()


@given(circuit=circuits())
def test_no_node_stands_on_a_level_edge(circuit: tuple[int, Edges]) -> None:
    nodes, edges = circuit
    places = layered(nodes, edges, columns=1000)
    for start, end in edges:
        (x0, y0), (x1, y1) = places[start], places[end]
        if y0 == y1:
            between = (places[:, 0] > x0) & (places[:, 0] < x1)
            assert (np.abs(places[between, 1] - y0) >= SLOT - 1e-2).all()


def test_an_edge_that_passes_over_layers_passes_beside_them() -> None:
    places = layered(4, [(0, 1), (1, 2), (2, 3), (0, 3)], columns=10)
    (x0, y0), (_, y1), (_, y2), (x3, y3) = places.tolist()
    assert (y0, x3 - x0) == (y3, 3 * COLUMN)  # the long edge is level,
    assert min(abs(y1 - y0), abs(y2 - y0)) >= SLOT / 2  # and the layers that it passes are not


def test_heads_of_attention_stand_side_by_side() -> None:
    places = layered(4, [(0, 1), (0, 2), (0, 3)], columns=10)
    assert len(set(places[1:, 0].tolist())) == 1
    assert sorted(places[1:, 1].tolist()) == [0.0, SLOT, 2 * SLOT]


def test_a_long_chain_continues_in_bands_below() -> None:
    places = layered(25, [(node, node + 1) for node in range(24)], columns=10)
    assert places[:, 0].max() == 9 * COLUMN
    np.testing.assert_allclose(places[[0, 10, 20], 1], [0, BAND_GAP, 2 * BAND_GAP])


@given(nodes=st.integers(1, 60), columns=st.integers(1, 30))
def test_a_chain_is_laid_out_like_any_circuit(nodes: int, columns: int) -> None:
    edges = [(node, node + 1) for node in range(nodes - 1)]
    np.testing.assert_allclose(chain(nodes, columns=columns), layered(nodes, edges, columns=columns))


def test_a_circuit_without_layers_has_no_places() -> None:
    assert layered(0, [], columns=14).shape == (0, 2)
