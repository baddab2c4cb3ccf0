"""The verifier, which replays the transcript from the proof alone and checks every round and every final evaluation.

It knows the circuit, the input and the commitments to the weights, but computes no layer. The last claims are about
values of the input's and the weights' multilinear extensions. It evaluates the input's itself, and for each weight
matrix it checks an opening of the commitment. The demo publishes no commitments, so the verifier first makes them
itself from the model's weights; it uses the weights for nothing else.

The proof covers the computation in the field. The prover checks (see `proofstream_demo.circuit`), but does not prove,
that no integer grew too large for the field.
"""

from __future__ import annotations

from proofstream_demo.circuit import Circuit, Input, Layer, MatMul, Product, Sum
from proofstream_demo.commitment import check_opening, published
from proofstream_demo.field import LIMBS, M31, QM31, Integers, add, embed, equal, mul
from proofstream_demo.models import DemoModel
from proofstream_demo.multilinear import evaluate_matrix
from proofstream_demo.proof import Claim, GkrProof, LayerProof, ProofRejected, Reduction, check_elements
from proofstream_demo.reductions import combine_claims, factor_points, first_claim, reduction_shapes, selector_at
from proofstream_demo.sumcheck import verify_sum
from proofstream_demo.transcript import Transcript


def verify(model: DemoModel, proof: GkrProof, inputs: Integers) -> None:
    """Check that the model computes `proof.output` from `inputs`.

    Raises:
        ProofRejected: The proof does not show this; the message says where it fails.
    """
    check_elements(proof.output, model.circuit.output.shape)
    if inputs.shape != model.circuit.layers[0].shape:
        raise ProofRejected("the input has the wrong shape")
    _Verifier(model, proof, embed(inputs)).run()


class _Verifier:
    """One walk through one proof."""

    def __init__(self, model: DemoModel, proof: GkrProof, inputs: M31) -> None:
        self._circuit = model.circuit
        self._grinding_bits = model.grinding_bits
        self._published = published(model.circuit)
        self._proof = proof
        self._inputs = inputs
        self._claims: dict[int | str, list[Claim]] = {}
        self._transcript = Transcript()

    def run(self) -> None:
        """Verify the layers from the output to the input, then the weights."""
        if self._proof.commitments != self._published:
            raise ProofRejected("the proof is about other weights")
        if len(self._proof.layers) != len(self._circuit.layers):
            raise ProofRejected("the proof is about another number of layers")
        claim = first_claim(self._transcript, self._circuit, self._published, self._inputs, self._proof.output)
        self._claims[len(self._circuit.layers) - 1] = [claim]
        for index in reversed(range(len(self._circuit.layers))):
            self._verify_layer(index)
        if self._proof.openings.keys() != self._published.keys():
            raise ProofRejected("the proof opens other weights")
        for _, name in self._circuit.weighted:
            self._check_opening(name)

    def _verify_layer(self, index: int) -> None:
        layer = self._circuit.layers[index]
        reductions = self._proof.layers[index]
        claims = self._claims[index]
        try:
            _check_shapes(self._circuit, layer, reductions, len(claims))
            match layer:
                case Input():
                    self._check_inputs(claims)
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

    def _check_inputs(self, claims: list[Claim]) -> None:
        for claim in claims:
            if not equal(evaluate_matrix(self._inputs, claim.point), claim.value):
                raise ProofRejected("the claim at a random point is not the input's value there")

    def _check_opening(self, name: str) -> None:
        (claim,) = self._claims[name]
        root, shape, opening = self._published[name], self._circuit.weights[name].shape, self._proof.openings[name]
        try:
            check_opening(root, shape, claim, opening, self._transcript, grinding_bits=self._grinding_bits)
        except ProofRejected as rejected:
            raise ProofRejected(f"{name}: {rejected}") from None


def _require(found: QM31, claimed: QM31) -> None:
    if not equal(found, claimed):
        raise ProofRejected("the final evaluations do not give the last claim")


def _check_shapes(circuit: Circuit, layer: Layer, reductions: LayerProof, claims: int) -> None:
    expected = reduction_shapes(circuit, layer, claims)
    if len(reductions) != len(expected):
        raise ProofRejected("the wrong number of reductions")
    for reduction, shape in zip(reductions, expected, strict=True):
        check_elements(reduction.rounds, (shape.rounds, shape.degree + 1, LIMBS))
        check_elements(reduction.finals, (shape.finals, LIMBS))
