"""Turns ``with`` blocks of a producer into the events of proofs and layers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator

from proofstream.events import (
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    ProofComplete,
    ProofEvent,
    RoundPoly,
    RoundPolyDeg3,
    SumcheckRound,
)


class ProofScope:
    """A proof, for the length of a ``with`` block."""

    def __init__(self, emit: Callable[[ProofEvent], None]) -> None:
        self._emit = emit
        self._started = time.monotonic()
        self._layers_proved = 0
        self._weight_openings = 0
        self._binding_mode = "none"

    def layer(
        self,
        layer_idx: int,
        *,
        kind: LayerKind,
        input_shape: tuple[int, int] = (0, 0),
        output_shape: tuple[int, int] = (0, 0),
        trace_cost: int = 0,
        claim_value_approx: float | None = None,
        gpu_device: int | None = None,
        proof_kind: LayerProofKind = LayerProofKind.Sumcheck,
    ) -> contextlib.AbstractContextManager[LayerScope]:
        """Emit one layer's reduction for the length of a ``with`` block; the arguments are the fields of LayerStart.

        An exception inside propagates, and leaves the layer without an end.
        """
        start = LayerStart(
            layer_idx=layer_idx,
            kind=kind,
            input_shape=input_shape,
            output_shape=output_shape,
            trace_cost=trace_cost,
            claim_value_approx=claim_value_approx,
            gpu_device=gpu_device,
        )
        return self._layer(start, proof_kind)

    @contextlib.contextmanager
    def _layer(self, start: LayerStart, proof_kind: LayerProofKind) -> Generator[LayerScope]:
        scope = LayerScope(self._emit, start.layer_idx, proof_kind)
        self._emit(start)
        yield scope
        self._layers_proved += 1
        self._emit(scope.completion())

    def bound_weights(self, *, mode: str, num_openings: int) -> None:
        """Record how the weights were bound, for ProofComplete."""
        self._binding_mode = mode
        self._weight_openings = num_openings

    def completion(self) -> ProofComplete:
        """Return the event that ends the proof successfully."""
        return ProofComplete(
            duration_ms=_elapsed_ms(self._started),
            num_layer_proofs=self._layers_proved,
            num_weight_openings=self._weight_openings,
            weight_binding_mode=self._binding_mode,
        )


class LayerScope:
    """A layer, for the length of a ``with`` block."""

    def __init__(self, emit: Callable[[ProofEvent], None], layer_idx: int, proof_kind: LayerProofKind) -> None:
        self._emit = emit
        self._layer_idx = layer_idx
        self._started = time.monotonic()
        self._rounds = 0
        self._claim: float | None = None
        self.proof_kind = proof_kind

    def round(
        self,
        index: int,
        *,
        total_rounds: int,
        poly_deg2: RoundPoly | None = None,
        poly_deg3: RoundPolyDeg3 | None = None,
        claim_value_approx: float | None = None,
    ) -> None:
        """Emit one sumcheck round; the arguments are the fields of SumcheckRound, `index` counts from 0."""
        self._rounds += 1
        self._claim = claim_value_approx
        self._emit(
            SumcheckRound(
                layer_idx=self._layer_idx,
                round=index,
                total_rounds=total_rounds,
                poly_deg2=poly_deg2,
                poly_deg3=poly_deg3,
                claim_value_approx=claim_value_approx,
            )
        )

    def completion(self) -> LayerEnd:
        """Return the event that ends the layer."""
        return LayerEnd(
            layer_idx=self._layer_idx,
            kind=self.proof_kind,
            final_claim_value_approx=self._claim,
            duration_ms=_elapsed_ms(self._started),
            rounds_completed=self._rounds,
        )


def _elapsed_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
