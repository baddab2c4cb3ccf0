"""Computes the layout of the viewer from the circuit: its views, their contents and the camera."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Literal

import numpy as np
import rerun as rr
import rerun.blueprint as rrb

from proofstream_rerun.picture import palette
from proofstream_rerun.picture.layout import FEW, Grid
from proofstream_rerun.sdk.columns import ROUND_NAMES

TOPICS = ("inference/", "gpu/", "state/")
"""Prefixes of entities whose views are left out while there are no such entities."""


Extent = tuple[float, float, float, float]

_GRAPH_MARGIN_X, _GRAPH_MARGIN_Y = 75.0, 30.0
"""Room around the centres of a graph's outermost nodes."""


def blueprint(grid: Grid, paths: AbstractSet[str], graph: Extent) -> rrb.Blueprint:
    """Return the layout for a circuit, with views only of entities that exist.

    Args:
        grid: The places of the layers.
        paths: The entities so far.
        graph: The least and greatest x, and the least and greatest y, of the nodes of the circuit's graph.
    """
    return _blueprint(grid.layers, frozenset(path for path in paths if path.startswith(TOPICS)), graph)


@lru_cache(maxsize=32)
def _blueprint(layers: int, paths: AbstractSet[str], extent: Extent) -> rrb.Blueprint:
    """Return the same, made once for proofs that look the same: making and sending a new layout takes 10 ms."""
    grid = Grid(layers)
    walk, graph = _walk_view(grid), _graph_view(extent)
    is_small = grid.layers <= FEW
    return rrb.Blueprint(
        rrb.Horizontal(
            rrb.Vertical(walk, graph, row_shares=[0.76, 0.24]) if is_small else walk,
            rrb.Vertical(
                _state_timeline_view(),
                _progress_view(),
                _tabs(paths, [] if is_small else [graph]),
                row_shares=[0.54, 0.14, 0.32],
            ),
            column_shares=[0.64, 0.36],
        ),
        rrb.TimePanel(state="collapsed", timeline="prover_time", play_state="following"),
        rrb.BlueprintPanel(state="collapsed"),
        rrb.SelectionPanel(state="collapsed"),
        rrb.TopPanel(state="expanded"),
    )


def shape_of(layers: int, topics: AbstractSet[str]) -> str:
    """Say in a few words what a layout depends on: recordings for which they are equal can share one.

    Args:
        layers: How many layers have a place.
        topics: The entities that decide about views.
    """
    maps = sum(topic.startswith("inference/attention/") for topic in topics)
    size = f"{layers} layer" if layers == 1 else f"{layers or 'no'} layers"
    given = {
        "activations": "inference/activations" in topics,
        f"attention of {maps}": maps > 0,
        "GPUs": _any_below(topics, "gpu/"),
        "state": _any_below(topics, "state/"),
    }
    # Rerun replaces all but letters, digits and a few signs in an application's id, with a warning.
    return " and ".join([size, *(words for words, is_given in given.items() if is_given)])


def _walk_view(grid: Grid) -> rrb.Spatial3DView:
    camera = grid.camera
    return rrb.Spatial3DView(
        origin="/",
        contents=[
            "/circuit/nodes",
            "/circuit/edges",
            "/circuit/backbone",
            "/circuit/labels",
            "/gkr/layers/**",
            "/gkr/trail",
            "/gkr/cursor",
            "/gkr/aborted",
        ],
        name="GKR walk: layers and their sumcheck rounds",
        background=list(palette.BACKGROUND),
        line_grid=rrb.LineGrid3D(visible=False),
        defaults=[rr.Boxes3D.from_fields(fill_mode="solid")],
        eye_controls=rrb.EyeControls3D(
            kind=rrb.Eye3DKind.Orbital, position=camera.position, look_target=camera.target, eye_up=(0, 1, 0)
        ),
    )


def _graph_view(extent: Extent) -> rrb.GraphView:
    left, right, top, bottom = extent
    bounds = rrb.VisualBounds2D(
        x_range=(left - _GRAPH_MARGIN_X, right + _GRAPH_MARGIN_X),
        y_range=(top - _GRAPH_MARGIN_Y, bottom + _GRAPH_MARGIN_Y),
    )
    return rrb.GraphView(origin="/circuit/graph", name="Circuit", visual_bounds=bounds)


def _state_timeline_view() -> rrb.StateTimelineView:
    words, colors = list(palette.STATE_COLORS), np.array(list(palette.STATE_COLORS.values()), np.uint32)
    configuration = rr.StateConfiguration(values=words, labels=words, colors=colors)
    return rrb.StateTimelineView(origin="/lanes", name="States", defaults=[configuration])


def _progress_view() -> rrb.TimeSeriesView:
    return rrb.TimeSeriesView(
        origin="/proof/progress",
        name="Layers done / layers announced",
        axis_y=rrb.ScalarAxis(range=(0.0, 1.02), zoom_lock=True),
        plot_legend=rrb.PlotLegend(visible=False),
    )


def _rounds_view() -> rrb.DataframeView:
    columns = [
        rrb.components.ComponentColumnSelector(entity_path="/gkr/rounds", component=f"Round:{name}")
        for name in ROUND_NAMES
    ]
    # By event, because rounds come in bursts: many have the same time, and a table by time shows one of them.
    query = rrb.archetypes.DataframeQuery(timeline="event", select=["event", *columns], auto_scroll=True)
    return rrb.DataframeView(origin="/gkr/rounds", name="Rounds", query=query)


def _log_view() -> rrb.TextLogView:
    columns = rrb.TextLogColumns(timeline_columns=["prover_time"], text_log_columns=["loglevel", "body"])
    return rrb.TextLogView(origin="/logs", name="Log", columns=columns)


def _tabs(paths: AbstractSet[str], more: Sequence[rrb.View]) -> rrb.Tabs:
    views: list[rrb.View | rrb.Container] = [
        _log_view(),
        rrb.TextDocumentView(origin="/proof/status", name="Proof"),
        rrb.BarChartView(origin="/time", name="Layer times, ms"),
        _rounds_view(),
        rrb.TextDocumentView(origin="/gkr/round", name="Round"),
        rrb.TimeSeriesView(origin="/gkr", contents=["/gkr/claims", "/gkr/rounds"], name="Claims", axis_y=_unit_axis()),
        *more,
        *_activation_views(paths),
        *_attention_tabs(paths),
        *_gpu_views(paths),
        *_state_views(paths),
    ]
    return rrb.Tabs(*views, active_tab=0)


def _activation_views(paths: AbstractSet[str]) -> list[rrb.View]:
    views: list[rrb.View] = []
    if "inference/activations" in paths:
        views.append(_tensor_view("/inference/activations", "Activations", down=0, across=1, fit="Fill"))
        views += [
            rrb.BarChartView(origin=f"/inference/{name}", name=f"Activation {name}") for name in ("mean", "sparsity")
        ]
    return views


def _attention_tabs(paths: AbstractSet[str]) -> list[rrb.Tabs]:
    """Return a tab that holds a tab for each layer; no more than `inference.MAX_MAPS` layers are drawn."""
    maps = sorted(path for path in paths if path.startswith("inference/attention/"))
    views = [
        _tensor_view(f"/{path}", path.rpartition("/")[2].replace("_", " "), down=1, across=2, fit="FillKeepAspectRatio")
        for path in maps
    ]
    return [rrb.Tabs(*views, name="Attention")] if views else []


def _tensor_view(
    origin: str, name: str, *, down: int, across: int, fit: Literal["Fill", "FillKeepAspectRatio"]
) -> rrb.TensorView:
    """Return a view of two dimensions of a tensor. The viewer shows sliders for the others."""
    return rrb.TensorView(
        origin=origin,
        name=name,
        slice_selection=rrb.TensorSliceSelection(width=across, height=down),
        scalar_mapping=rrb.TensorScalarMapping(mag_filter="nearest", colormap="inferno"),
        view_fit=fit,
    )


def _gpu_views(paths: AbstractSet[str]) -> list[rrb.View]:
    views: list[rrb.View] = []
    if _any_below(paths, "gpu/utilization/", "gpu/reported/utilization/"):
        contents = ["/gpu/utilization/**", "/gpu/reported/utilization/**"]
        views.append(rrb.TimeSeriesView(origin="/gpu", contents=contents, name="GPU busy", axis_y=_unit_axis()))
    if _any_below(paths, "gpu/memory_gib/", "gpu/reported/free_gib/"):
        contents = ["/gpu/memory_gib/**", "/gpu/reported/free_gib/**"]
        views.append(rrb.TimeSeriesView(origin="/gpu", contents=contents, name="GPU memory, GiB"))
    return views


def _state_views(paths: AbstractSet[str]) -> list[rrb.View]:
    views: list[rrb.View] = []
    if "state/programs" in paths:
        views.append(rrb.TextDocumentView(origin="/state/programs", name="State programs"))
        views.append(rrb.BarChartView(origin="/state/bytes", name="State bytes"))
    if _any_below(paths, "state/moved/"):
        views.append(rrb.TimeSeriesView(origin="/state/moved", name="State bytes moved"))
    return views


def _any_below(paths: AbstractSet[str], *folders: str) -> bool:
    return any(path.startswith(folders) for path in paths)


def _unit_axis() -> rrb.ScalarAxis:
    return rrb.ScalarAxis(range=(0.0, 1.02))  # a little above 1, or the plot's edge would hide a line at 1
