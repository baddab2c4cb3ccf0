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


def blueprint(grid: Grid, paths: AbstractSet[str]) -> rrb.Blueprint:
    """Return the layout for a circuit, with views only of entities that exist.

    Args:
        grid: The places of the layers.
        paths: The entities so far.
    """
    return _blueprint(grid.layers, frozenset(path for path in paths if path.startswith(TOPICS)))


@lru_cache(maxsize=8)
def _blueprint(layers: int, paths: AbstractSet[str]) -> rrb.Blueprint:
    """Return the same, made once for proofs that look the same: making and sending a new layout takes 10 ms."""
    grid = Grid(layers)
    walk, graph = _walk_view(grid), _graph_view()
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


def _graph_view() -> rrb.GraphView:
    return rrb.GraphView(origin="/circuit/graph", name="Circuit")


def _state_timeline_view() -> rrb.StateTimelineView:
    words, colors = list(palette.STATE_COLORS), np.array(list(palette.STATE_COLORS.values()), np.uint32)
    configuration = rr.StateConfiguration(values=words, labels=words, colors=colors)
    return rrb.StateTimelineView(origin="/lanes", name="Layer states", defaults=[configuration])


def _progress_view() -> rrb.TimeSeriesView:
    return rrb.TimeSeriesView(
        origin="/proof/progress",
        name="Progress",
        axis_y=rrb.ScalarAxis(range=(0.0, 1.02), zoom_lock=True),
        plot_legend=rrb.PlotLegend(visible=False),
    )


def _rounds_view() -> rrb.DataframeView:
    columns = [
        rrb.components.ComponentColumnSelector(entity_path="/gkr/rounds", component=f"Round:{name}")
        for name in ROUND_NAMES
    ]
    query = rrb.archetypes.DataframeQuery(timeline="prover_time", select=["prover_time", *columns], auto_scroll=True)
    return rrb.DataframeView(origin="/gkr/rounds", name="Rounds", query=query)


def _log_view() -> rrb.TextLogView:
    columns = rrb.TextLogColumns(timeline_columns=["prover_time"], text_log_columns=["loglevel", "body"])
    return rrb.TextLogView(origin="/logs", name="Log", columns=columns)


def _tabs(paths: AbstractSet[str], more: Sequence[rrb.View]) -> rrb.Tabs:
    views: list[rrb.View] = [
        _log_view(),
        rrb.TextDocumentView(origin="/proof/status", name="Proof"),
        rrb.TimeSeriesView(origin="/gkr", contents=["/gkr/claims", "/gkr/rounds"], name="Claims", axis_y=_unit_axis()),
        rrb.TextDocumentView(origin="/gkr/round", name="Round"),
        _rounds_view(),
        *more,
        *_activation_views(paths),
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
    maps = sorted(path for path in paths if path.startswith("inference/attention/"))
    views += [
        _tensor_view(f"/{path}", f"Attention {path[-3:]}", down=1, across=2, fit="FillKeepAspectRatio")
        for path in maps[:2]
    ]
    return views


def _tensor_view(
    origin: str, name: str, *, down: int, across: int, fit: Literal["Fill", "FillKeepAspectRatio"]
) -> rrb.TensorView:
    """Return a view of two dimensions of a tensor. The viewer shows sliders for the others."""
    return rrb.TensorView(
        origin=origin,
        name=name,
        slice_selection=rrb.TensorSliceSelection(width=across, height=down),
        scalar_mapping=rrb.TensorScalarMapping(mag_filter="nearest", colormap="viridis"),
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
