"""Reports the prover's steps as events, in the vocabulary and the order of a real prover.

First the forward pass, CircuitCompiled, the activations and ProofStart. Then for each layer, from the last to the
first, LayerStart, its SumcheckRounds, LayerEnd and GpuStatus. Then the weight commitments, which take most of the time,
and ProofComplete. Every figure is measured or counted here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from proofstream import (
    GpuStatus,
    LayerEnd,
    Log,
    LogLevel,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    RoundPoly,
    RoundPolyDeg3,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
    commitment_hex,
    gpu_snapshot,
)
from proofstream_demo.circuit import Circuit, Input, Layer, MatMul
from proofstream_demo.field import QM31, Integers, as_secure_field
from proofstream_demo.models import DemoModel
from proofstream_demo.proof import Claim, ProofRejected, ProverError
from proofstream_demo.reductions import reduction_shapes
from proofstream_demo.sumcheck import OnRound
from proofstream_demo.vocabulary import activation_of, approx, compiled, heatmaps, layer_start, proof_kind_of

BACKEND = "cpu-numpy"
DEVICE = "CPU (numpy)"
WEIGHT_BINDING = "merkle"
"""Each weight matrix is bound by the root of a Merkle tree and opened on its own."""

FORWARD = "forward pass"
WEIGHT_COMMITMENTS = "weight commitments"
GRIND = "grind"
VERIFY = "verify"

_QUADRATIC = 3
"""Number of coefficients of a polynomial of degree 2."""


OnProgress = Callable[[int, int], None]
"""Called with the number of things done, and of all."""


class Walk:
    """Turns the prover's steps into events.

    Args:
        model: The model to prove.
        emit: Receives the events.
        between_layers: Called between two layers, after the GpuStatus of one and before the LayerStart of the next, to
            pause or, by raising, to stop. Its time counts neither for a layer nor for ProofComplete.duration_ms.
        listen: Called often while the weights are committed to, to stop by raising.
    """

    def __init__(
        self,
        model: DemoModel,
        emit: Callable[[ProofEvent], None],
        *,
        between_layers: Callable[[], None] = lambda: None,
        listen: Callable[[], None] = lambda: None,
    ) -> None:
        self._model = model
        self._circuit = model.circuit
        self._emit = emit
        self._between_layers = between_layers
        self.listen = listen
        self._numbers = itertools.count(1)
        self._started = 0.0
        self._paused_s = 0.0
        self._layers_done = 0
        self._matmul_done = 0
        self._layer_proofs = 0
        self._openings = 0

    @property
    def proving_ms(self) -> int:
        """Milliseconds since ProofStart, without the pauses between layers."""
        return _milliseconds(time.perf_counter() - self._started - self._paused_s)

    @property
    def paused_s(self) -> float:
        """Seconds of pauses between layers so far."""
        return self._paused_s

    def log(self, message: str, level: LogLevel = LogLevel.Info) -> None:
        """Emit a message for the user."""
        self._emit(Log(level=level, message=message))

    @contextmanager
    def phase(self, name: str, **attributes: str) -> Generator[OnProgress, None, None]:
        """Wrap a phase; yield the function that reports how much of it is done. An error ends the phase as failed.

        Any other exception leaves it open: it means that the demo was stopped.
        """
        number = next(self._numbers)
        started = time.perf_counter()

        def end(failed: str | None) -> None:
            took = round((time.perf_counter() - started) * 1e9)
            self._emit(PhaseEnd(name=name, phase=number, duration_ns=took, failed=failed))

        self._emit(PhaseStart(name=name, phase=number, attributes=attributes))
        try:
            yield lambda done, total: self._emit(PhaseProgress(phase=number, done=done, total=total))
        except (ProverError, ProofRejected, ValueError) as error:
            end(str(error))
            raise
        end(None)

    def begin_proof(self, values: Sequence[Integers]) -> None:
        """Report the forward pass and start the proof; `values` are all layers' values, by layer index."""
        layers = self._circuit.layers
        self._emit(compiled(self._circuit))
        for index, (layer, matrix) in enumerate(zip(layers, values, strict=True)):
            self._emit(activation_of(index, layer, matrix))
        for event in heatmaps(self._model, values):
            self._emit(event)
        self._started = time.perf_counter()
        self._emit(
            ProofStart(
                model_name=self._model.name,
                backend=BACKEND,
                num_layers=len(layers),
                input_shape=layers[0].shape,
                output_shape=layers[-1].shape,
            )
        )

    @contextmanager
    def layer(self, index: int, claims: Sequence[Claim]) -> Generator[OnRound, None, None]:
        """Wrap the reduction of one layer; yield the function that the sumcheck calls for each round.

        LayerStart shows the first claim about the layer, even if several claims are combined.
        """
        self._pause()
        rounds = _Rounds(self._circuit, index, claims, self._emit)
        started = time.perf_counter()
        self._emit(layer_start(self._circuit, index, claims[0]))
        yield rounds
        layer = self._circuit.layers[index]
        self._emit(
            LayerEnd(
                layer_idx=index,
                kind=proof_kind_of(layer),
                final_claim_value_approx=approx(rounds.claim),
                duration_ms=_milliseconds(time.perf_counter() - started),
                rounds_completed=rounds.done,
            )
        )
        self._count(layer)
        self._emit(self._status())

    @contextmanager
    def weight_opening(self, index: int, claim: Claim, commitment: bytes) -> Generator[None, None, None]:
        """Wrap the evaluation of one weight matrix at the point of a claim; `index` is the layer that uses it."""
        started = time.perf_counter()
        self._emit(WeightOpeningStart(weight_node_id=index, eval_point_len=len(claim.point)))
        yield
        self._openings += 1
        self._emit(
            WeightOpeningEnd(
                weight_node_id=index,
                duration_ms=_milliseconds(time.perf_counter() - started),
                commitment_hex=commitment_hex(commitment),
            )
        )

    def complete_proof(self) -> None:
        """Report the proof as complete."""
        self._emit(
            ProofComplete(
                duration_ms=self.proving_ms,
                num_layer_proofs=self._layer_proofs,
                num_weight_openings=self._openings,
                weight_binding_mode=WEIGHT_BINDING,
            )
        )

    def abort_proof(self, reason: str) -> None:
        """Report the proof as aborted, with an error message."""
        self.log(reason, LogLevel.Error)
        self._emit(ProofAborted(reason=reason))

    def _pause(self) -> None:
        if self._layers_done:
            before = time.perf_counter()
            self._between_layers()
            self._paused_s += time.perf_counter() - before

    def _count(self, layer: Layer) -> None:
        self._layers_done += 1
        self._layer_proofs += not isinstance(layer, Input)
        self._matmul_done += isinstance(layer, MatMul)

    def _status(self) -> GpuStatus:
        layers = self._circuit.layers
        return GpuStatus(
            devices=[gpu_snapshot(device_id=0, device_name=DEVICE)],
            matmul_done=self._matmul_done,
            matmul_total=sum(isinstance(layer, MatMul) for layer in layers),
            layers_done=self._layers_done,
            layers_total=len(layers),
        )


class _Rounds:
    """Emits the rounds of one layer, numbered across all of its reductions."""

    def __init__(
        self, circuit: Circuit, index: int, claims: Sequence[Claim], emit: Callable[[ProofEvent], None]
    ) -> None:
        shapes = reduction_shapes(circuit, circuit.layers[index], len(claims))
        self._index = index
        self._total = sum(shape.rounds for shape in shapes)
        self._emit = emit
        self.done = 0
        self.claim = claims[0].value

    def __call__(self, polynomial: QM31, claim: QM31, next_claim: QM31) -> None:
        coefficients = [as_secure_field(coefficient) for coefficient in polynomial]
        is_quadratic = len(coefficients) == _QUADRATIC
        self._emit(
            SumcheckRound(
                layer_idx=self._index,
                round=self.done,
                total_rounds=self._total,
                poly_deg2=RoundPoly(*coefficients) if is_quadratic else None,
                poly_deg3=None if is_quadratic else RoundPolyDeg3(*coefficients),
                claim_value_approx=approx(claim),
            )
        )
        self.done += 1
        self.claim = next_claim


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
