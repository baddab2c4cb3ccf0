"""Turns static marks and the looks of entities into components of Rerun."""

from __future__ import annotations

import numpy as np
import rerun as rr

from proofstream_rerun.picture.marks import Boxes, Edges, Labels, Look, Mark, Nodes, Strips
from proofstream_rerun.sdk.arrow import Content, components, made, numbers, pairs, strips, text, vectors

_NAME_BYTES = 40

_BOXES = components(rr.Boxes3D(centers=[(0, 0, 0)], half_sizes=[(0, 0, 0)], colors=[0]))
_POINTS = components(rr.Points3D([(0, 0, 0)], colors=[0], labels=[""]))
_STRIPS = components(rr.LineStrips3D([[(0, 0, 0)]], colors=[0]))
_NODES = components(rr.GraphNodes([""], positions=[(0, 0)], labels=[""], colors=[0]))
_EDGES = components(rr.GraphEdges([("", "")]))["edges"]
_LINES = components(rr.SeriesLines(names=[""], colors=[0], widths=[0.0]))
_SERIES = components(rr.SeriesPoints(names=[""], colors=[0], marker_sizes=[0.0]))


AXES = made(rr.ViewCoordinates.RIGHT_HAND_Y_UP)
"""Says that +Y is up; the viewer would take +Z."""
# The looks below are the same for every entity of a kind. Rerun takes negative radii as sizes on the screen in UI
# points, positive ones as sizes in the scene.
_SOLID = made(rr.Boxes3D.from_fields(fill_mode="solid"))
_TEXTS = made(rr.Points3D.from_fields(radii=[-1.0], show_labels=True))
_THIN = made(rr.LineStrips3D.from_fields(radii=[-1.5]))
_DIRECTED = made(rr.GraphEdges.from_fields(graph_type="directed"))
# What steps show never goes back. The viewer would show the mean of values that fall on one pixel.
_STEPS = made(
    rr.SeriesLines.from_fields(
        interpolation_mode=rr.components.InterpolationMode.StepAfter,
        aggregation_policy=rr.components.AggregationPolicy.Max,
    )
)
_TRAIL = made(rr.LineStrips3D.from_fields(radii=[0.1]))
_CURSOR = made(rr.Points3D.from_fields(radii=[-7.0], show_labels=True))


def static_content(mark: Mark) -> tuple[Content, int]:
    """Return the content of a static mark, and roughly how many bytes it holds.

    Raises:
        TypeError: Marks of that kind are never static.
    """
    match mark:
        case Boxes():
            return _boxes(mark), 2 * mark.centers.nbytes + mark.colors.nbytes
        case Labels():
            return _labels(mark), mark.positions.nbytes + _NAME_BYTES * len(mark.labels)
        case Strips():
            return _strips(mark), sum(strip.nbytes for strip in mark.strips)
        case Nodes():
            return _nodes(mark), _NAME_BYTES * len(mark.ids)
        case Edges():
            edges = _EDGES.batch(pairs(_EDGES.type, mark.pairs))
            return [edges, *_DIRECTED], _NAME_BYTES * len(mark.pairs)
        case _:
            raise TypeError(f"{type(mark).__name__} is never static")


def look_content(look: Look) -> Content:
    """Return the components that set an entity's look."""
    match look.kind:
        case "lines":
            return _lines(look, 2.0)
        case "steps":
            return [*_lines(look, 2.5), *_STEPS]
        case "points":
            return _points(look)
        case "trail":
            return _TRAIL
        case "cursor":
            return _CURSOR
        case _:
            return ()


def _boxes(mark: Boxes) -> Content:
    return [
        _BOXES["centers"].batch(vectors(_BOXES["centers"].type, mark.centers)),
        _BOXES["half_sizes"].batch(vectors(_BOXES["half_sizes"].type, mark.half_sizes)),
        _BOXES["colors"].batch(numbers(mark.colors)),
        *_SOLID,
    ]


def _labels(mark: Labels) -> Content:
    return [
        _POINTS["positions"].batch(vectors(_POINTS["positions"].type, mark.positions)),
        _POINTS["colors"].batch(numbers(mark.colors)),
        _POINTS["labels"].batch(text(mark.labels)),
        *_TEXTS,
    ]


def _strips(mark: Strips) -> Content:
    return [
        _STRIPS["strips"].batch(strips(_STRIPS["strips"].type, mark.strips)),
        _STRIPS["colors"].batch(numbers(mark.colors)),
        *_THIN,
    ]


def _nodes(mark: Nodes) -> Content:
    return [
        _NODES["node_ids"].batch(text(mark.ids)),
        _NODES["positions"].batch(vectors(_NODES["positions"].type, mark.positions)),
        _NODES["labels"].batch(text(mark.labels)),
        _NODES["colors"].batch(numbers(mark.colors)),
    ]


def _lines(look: Look, width: float) -> Content:
    return [
        _LINES["names"].batch(text(look.names)),
        _LINES["colors"].batch(numbers(np.array(look.colors, np.uint32))),
        _LINES["widths"].batch(numbers(np.full(len(look.names), width, np.float32))),
    ]


def _points(look: Look) -> Content:
    return [
        _SERIES["names"].batch(text(look.names)),
        _SERIES["colors"].batch(numbers(np.array(look.colors, np.uint32))),
        _SERIES["marker_sizes"].batch(numbers(np.full(len(look.names), 2.0, np.float32))),
    ]
