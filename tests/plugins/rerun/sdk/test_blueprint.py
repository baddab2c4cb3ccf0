"""The layout of the viewer suits every size of circuit and shows everything that is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import rerun as rr

from proofstream_rerun.picture.layout import Grid
from proofstream_rerun.sdk.blueprint import blueprint, shape_of
from proofstream_rerun.sdk.columns import ROUND_NAMES

EXTENT = (0.0, 100.0, 0.0, 50.0)
PATHS = frozenset(
    {
        "circuit/nodes",
        "gkr/layers/000-011",
        "inference/activations",
        "inference/mean",
        "inference/attention/layer_002",
        "gpu/utilization/gpu_0",
        "gpu/memory_gib/gpu_0",
        "state/programs",
        "state/bytes",
        "state/moved/commit_0",
    }
)


def views(part: Any) -> Iterator[Any]:
    """Yield all views below a part of a blueprint."""
    contents = getattr(part, "contents", None)
    if getattr(part, "class_identifier", None) is not None:
        yield part
    elif contents is not None:
        for inner in contents:
            yield from views(inner)


def views_of(layers: int, paths: frozenset[str]) -> list[Any]:
    return list(views(blueprint(Grid(layers), paths, EXTENT).root_container))


@pytest.mark.parametrize("layers", [0, 1, 3, 12, 40, 41, 211, 450])
def test_every_size_has_the_views_of_the_walk(layers: int) -> None:
    origins = {view.origin for view in views_of(layers, frozenset())}
    assert origins == {
        "/",
        "/circuit/graph",
        "/lanes",
        "/proof/progress",
        "/logs",
        "/proof/status",
        "/time",
        "/gkr/rounds",
        "/gkr/round",
        "/gkr",
    }


def test_views_of_missing_entities_are_left_out() -> None:
    few = {view.origin for view in views_of(12, frozenset())}
    all_ = {view.origin for view in views_of(12, PATHS)}
    assert all_ - few == {
        "/inference/activations",
        "/inference/mean",
        "/inference/sparsity",
        "/inference/attention/layer_002",
        "/gpu",
        "/state/programs",
        "/state/bytes",
        "/state/moved",
    }


def test_the_camera_stands_farther_away_for_more_layers() -> None:
    def distance(layers: int) -> float:
        camera = Grid(layers).camera
        return math.dist(camera.position, camera.target)

    assert distance(3) < distance(40) < distance(450)
    (walk,) = (view for view in views_of(450, frozenset()) if view.origin == "/")
    position = walk.properties["EyeControls3D"].position.as_arrow_array().to_pylist()
    np.testing.assert_allclose(position, [Grid(450).camera.position], rtol=1e-5)


def test_attention_has_a_tab_for_each_layer() -> None:
    paths = {f"inference/attention/layer_{layer:03d}" for layer in range(7)}
    names = [view.name for view in views_of(12, frozenset(paths)) if "attention" in view.origin]
    assert names == [f"layer {layer:03d}" for layer in range(7)]


def test_the_table_of_rounds_has_a_row_for_each_event() -> None:
    """By time it would show one of the rounds that have the same time."""
    (rounds,) = (view for view in views_of(12, frozenset()) if view.origin == "/gkr/rounds")
    assert rounds.properties["DataframeQuery"].timeline.as_arrow_array().to_pylist() == ["event"]
    assert sorted(ROUND_NAMES)[:3] == ["Layer", "Round", "Rounds"]  # the viewer sorts columns by their names


def test_recordings_of_different_shape_are_different_applications() -> None:
    one_map = frozenset({"inference/attention/layer_001"})
    shapes = [
        shape_of(7, frozenset()),
        shape_of(12, frozenset()),
        shape_of(12, frozenset({"inference/activations"})),
        shape_of(12, one_map),
        shape_of(12, one_map | {"inference/attention/layer_002"}),
        shape_of(12, frozenset({"gpu/utilization"})),
        shape_of(12, frozenset({"state/programs"})),
    ]
    assert len(set(shapes)) == len(shapes)
    assert shape_of(1, frozenset()) == "1 layer"
    assert shape_of(0, frozenset()) == "no layers"
    assert shape_of(211, frozenset({"inference/activations"}) | one_map) == (
        "211 layers and activations and attention of 1"
    )


def test_rerun_takes_the_names_of_applications_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    everything = shape_of(20, frozenset({"gpu/x", "state/x", "inference/activations", "inference/attention/layer_001"}))
    stream = rr.RecordingStream(f"proofstream: {everything}")
    assert rr.get_application_id(stream) == f"proofstream: {everything}"
    assert capfd.readouterr().err == ""
