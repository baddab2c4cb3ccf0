"""The layout of the viewer suits every size of circuit and shows everything that is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from proofstream_rerun.picture.layout import Grid
from proofstream_rerun.sdk.blueprint import blueprint

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
    return list(views(blueprint(Grid(layers), paths).root_container))


@pytest.mark.parametrize("layers", [0, 1, 3, 12, 40, 41, 211, 450])
def test_every_size_has_the_views_of_the_walk(layers: int) -> None:
    origins = {view.origin for view in views_of(layers, frozenset())}
    assert {"/", "/circuit/graph", "/lanes", "/proof/progress", "/logs", "/proof/status", "/gkr/round"} <= origins


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
