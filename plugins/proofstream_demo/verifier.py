"""The verifier, which replays the transcript from the proof alone and checks every round and every final evaluation.

It knows the circuit, the weights and the input, but computes no layer. The last claims are about values of the input's
and the weights' multilinear extensions, and it evaluates these itself. It uses no polynomial commitments: it compares
the hashes in the proof with the hashes of its own weights.

The proof covers the computation in the field. The prover checks (see `proofstream_demo.circuit`), but does not prove,
that no integer grew too large for the field.
"""

from __future__ import annotations

import numpy as np

from proofstream_demo.circuit import Circuit, Input, Layer, MatMul, Product, Sum
from proofstream_demo.field import LIMBS, M31, QM31, Integers, add, embed, equal, is_canonical, mul
from proofstream_demo.models import DemoModel
from proofstream_demo.multilinear import evaluate_matrix
from proofstream_demo.proof import Claim, GkrProof, LayerProof, ProofRejected, Reduction
from proofstream_demo.reductions import combine_claims, factor_points, first_claim, reduction_shapes, selector_at
from proofstream_demo.sumcheck import verify_sum
from proofstream_demo.transcript import Transcript, commit_matrix


def verify(model: DemoModel, proof: GkrProof, inputs: Integers) -> None:
    """Check that the model computes `proof.output` from `inputs`.

    Raises:
        ProofRejected: The proof does not show this; the message says where it fails.
    """
    _check_elements(proof.output, model.circuit.output.shape)
    if inputs.shape != model.circuit.layers[0].shape:
        raise ProofRejected("the input has the wrong shape")
    _Verifier(model.circuit, proof, embed(inputs)).run()


class _Verifier:
    """One walk through one proof."""

    def __init__(self, circuit: Circuit, proof: GkrProof, inputs: M31) -> None:
        self._circuit = circuit
        self._proof = proof
        self._inputs = inputs
        self._weights = {name: embed(matrix) for name, matrix in circuit.weights.items()}
        self._claims: dict[int | str, list[Claim]] = {}
        self._transcript = Transcript()

    def run(self) -> None:
        """Verify the layers from the output to the input, then the weights."""
        commitments = {name: commit_matrix(matrix) for name, matrix in self._weights.items()}
        if self._proof.commitments != commitments:
            raise ProofRejected("the proof is about other weights")
        if len(self._proof.layers) != len(self._circuit.layers):
            raise ProofRejected("the proof is about another number of layers")
        claim = first_claim(self._transcript, self._circuit, commitments, self._inputs, self._proof.output)
        self._claims[len(self._circuit.layers) - 1] = [claim]
        for index in reversed(range(len(self._circuit.layers))):
            self._verify_layer(index)
        for name, matrix in self._weights.items():
            self._check_evaluations(name, matrix)

    def _verify_layer(self, index: int) -> None:
        layer = self._circuit.layers[index]
        reductions = self._proof.layers[index]
        claims = self._claims[index]
        try:
            _check_shapes(self._circuit, layer, reductions, len(claims))
            match layer:
                case Input():
                    self._check_evaluations(index, self._inputs)
                case MatMul():
                    self._verify_matmul(layer, claims, reductions)
                case Product():
                    self._verify_product(layer, claims, reductions[0])
                case Sum():
                    self._verify_sum(layer, claims, reductions[0])
        except ProofRejected as rejected:
            raise ProofRejected(f"layer {index} ({layer.name}): {rejected}") from None

    def _verify_matmul(self, layer: MatMul, claims: list[Claim], reductions: LayerProof) -> None:
        claim = claims[0] if len(claims) == 1 else self._verify_merge(claims, reductions[0])
        inner, left_over = verify_sum(reductions[-1].rounds, claim.value, self._transcript)
        left, right = self._read_finals(reductions[-1])
        _require(mul(left, right), left_over)
        left_point, right_point = factor_points(layer, claim.point, inner)
        self._claim(layer.left, left_point, left)
        self._claim(layer.right, right_point, right)

    def _verify_merge(self, claims: list[Claim], reduction: Reduction) -> Claim:
        factors, value = combine_claims(claims, self._transcript)
        point, left_over = verify_sum(reduction.rounds, value, self._transcript)
        (merged,) = self._read_finals(reduction)
        _require(mul(selector_at(claims, factors, point), merged), left_over)
        return Claim(point, merged)

    def _verify_product(self, layer: Product, claims: list[Claim], reduction: Reduction) -> None:
        factors, value = combine_claims(claims, self._transcript)
        point, left_over = verify_sum(reduction.rounds, value, self._transcript)
        finals = self._read_finals(reduction)
        product = mul(finals[0], finals[-1])
        _require(mul(selector_at(claims, factors, point), product), left_over)
        for target, final in zip(layer.inputs, finals, strict=True):
            self._claim(target, point, final)

    def _verify_sum(self, layer: Sum, claims: list[Claim], reduction: Reduction) -> None:
        finals = self._read_finals(reduction)
        for claim, left, right in zip(claims, finals[0::2], finals[1::2], strict=True):
            _require(add(left, right), claim.value)
            self._claim(layer.left, claim.point, left)
            self._claim(layer.right, claim.point, right)

    def _read_finals(self, reduction: Reduction) -> QM31:
        self._transcript.absorb_elements("finals", reduction.finals)
        return reduction.finals

    def _claim(self, target: int | str, point: QM31, value: QM31) -> None:
        self._claims.setdefault(target, []).append(Claim(point, value))

    def _check_evaluations(self, target: int | str, matrix: M31) -> None:
        for claim in self._claims[target]:
            if not equal(evaluate_matrix(matrix, claim.point), claim.value):
                raise ProofRejected(f"the claim about {target} at a random point is not its value there")


def _require(found: QM31, claimed: QM31) -> None:
    if not equal(found, claimed):
        raise ProofRejected("the final evaluations do not give the last claim")


def _check_shapes(circuit: Circuit, layer: Layer, reductions: LayerProof, claims: int) -> None:
    expected = reduction_shapes(circuit, layer, claims)
    if len(reductions) != len(expected):
        raise ProofRejected("the wrong number of reductions")
    for reduction, shape in zip(reductions, expected, strict=True):
        _check_elements(reduction.rounds, (shape.rounds, shape.degree + 1, LIMBS))
        _check_elements(reduction.finals, (shape.finals, LIMBS))


def _check_elements(elements: QM31, shape: tuple[int, ...]) -> None:
    if elements.shape != shape or elements.dtype != np.uint64:
        raise ProofRejected(f"elements of the shape {elements.shape} instead of {shape}")
    if not is_canonical(elements):
        raise ProofRejected("a limb is not below the prime")
