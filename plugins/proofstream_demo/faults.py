"""A prover whose memory fails: one entry of a weight matrix changes, before the layers are proved or after it.

Nothing else is different. The prover's own checks notice the change where it first makes a statement false.
"""

from __future__ import annotations

import numpy as np

from proofstream_demo.circuit import MatMul
from proofstream_demo.field import M31, PRIME
from proofstream_demo.models import DemoModel
from proofstream_demo.proof import LayerProof, Opening
from proofstream_demo.prover import Prover
from proofstream_demo.request import FAIL_COMMIT, FAIL_WALK
from proofstream_demo.walk import Walk


class FailingProver(Prover):
    """Fails in the layers or in the commitments, as `fail` says, with about half of the work there done."""

    def __init__(self, model: DemoModel, values: list[M31], walk: Walk, *, fail: str) -> None:
        super().__init__(model, values, walk)
        self._fail = fail

    def _prove_layers(self) -> tuple[LayerProof, ...]:
        if self._fail == FAIL_WALK:
            # The walk takes the layers from the last to the first.
            self._change_weight((len(self._circuit.weighted) - 1) // 2)
        return super()._prove_layers()

    def _open_weights(self) -> dict[str, Opening]:
        if self._fail == FAIL_COMMIT:
            self._change_weight(len(self._circuit.weighted) // 2)
        return super()._open_weights()

    def _change_weight(self, number: int) -> None:
        """Change an entry that the layer's output depends on: one in a row that meets numbers other than 0."""
        index, name = self._circuit.weighted[number]
        layer = self._circuit.layers[index]
        assert isinstance(layer, MatMul)
        row = int(np.flatnonzero(self._values[layer.left].any(axis=0))[0])
        changed = self._weights[name].copy()
        changed[row, 0] = (int(changed[row, 0]) + 1) % PRIME
        self._weights[name] = changed
