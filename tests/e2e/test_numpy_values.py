"""A Python prover may use numpy: its numbers arrive as plain numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from proofstream import LayerEnd, LayerProofKind, open_session
from proofstream.testing import RecordingPlugin


def test_numpy_numbers_arrive_as_plain_numbers() -> None:
    plugin = RecordingPlugin()
    index: Any = np.int64(3)
    rounds: Any = np.uint8(7)
    claim: Any = np.float32(0.5)

    with open_session(plugins=[plugin]) as session:
        session.emit(
            LayerEnd(
                layer_idx=index,
                kind=LayerProofKind.Sumcheck,
                final_claim_value_approx=claim,
                duration_ms=1,
                rounds_completed=rounds,
            )
        )

    (end,) = [event for event in plugin.events if isinstance(event, LayerEnd)]
    assert (end.layer_idx, end.rounds_completed, end.final_claim_value_approx) == (3, 7, 0.5)
    assert {type(end.layer_idx), type(end.rounds_completed), type(end.final_claim_value_approx)} == {int, float}
    assert session.refused == 0
