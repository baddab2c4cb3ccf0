"""The drawing of the walk, without any write in between."""

from __future__ import annotations

from proofstream import LayerKind, LayerStart
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.layout import Grid
from proofstream_rerun.picture.marks import BoxGroup
from proofstream_rerun.picture.palette import LayerState
from proofstream_rerun.scene.walk import WalkDrawing

LAYERS = 211


def test_a_group_is_drawn_whole_when_the_walk_leaves_it() -> None:
    canvas = Canvas(0)
    walk = WalkDrawing(canvas, Grid(LAYERS), known=True)
    for index in reversed(range(LAYERS)):
        walk.start_layer(
            LayerStart(
                layer_idx=index,
                kind=LayerKind.MatMul,
                input_shape=(1, 1),
                output_shape=(1, 1),
                trace_cost=1,
                claim_value_approx=None,
                gpu_device=None,
            )
        )
        walk.add_rounds(index, [0], [1])
        walk.end_layer(index, LayerState.PROVED)

    groups = [track for path, track in canvas.tracks.items() if path.startswith("gkr/layers/")]
    drawn = 0
    for track in groups:
        last = track.pending.marks[-1]
        assert isinstance(last, BoxGroup)
        drawn += last.boxes
    assert 1 < len(groups) < LAYERS
    assert drawn == LAYERS
