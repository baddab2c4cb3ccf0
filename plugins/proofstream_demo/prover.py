"""The GKR prover, which walks from the output back to the input, one layer at a time.

It starts with a claim about the output that the verifier can compute alone: the value of its multilinear extension at a
random point. Each layer turns the claims about itself into claims about the layers and weights that it was computed
from:

- product of matrices: C(i, j) = sum over k of A(i, k) * B(k, j), a sumcheck of degree 2 over the inner dimension;
- product element by element, or square: C(r) = sum over x of eq(r, x) * A(x) * B(x), a sumcheck of degree 3;
- sum: C(r) = A(r) + B(r), at the same point and without rounds.

A layer that several others use ends up with several claims. A random linear combination merges them into one: see
`combine_claims`. The last claims are about the input, which the verifier evaluates itself, and about the weights. After
the walk the prover commits to each weight matrix and opens the commitment at the claim's point: see
`proofstream_demo.commitment`. Nothing is hidden: this proves a computation, and is not zero knowledge.

The prover checks what it proves: every round's p(0) + p(1), that the commitments are the published ones, and the values
that it opens. If memory or a library fails it, it stops with a `ProverError` at that place.

After S. Goldwasser, Y. Kalai, G. Rothblum, "Delegating computation: interactive proofs for muggles", 2008, and for the
matrix product J. Thaler, "Time-optimal interactive proofs for circuit evaluation", 2013.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proofstream import ProofEvent
from proofstream_demo.circuit import Input, Layer, MatMul, Product, Sum, evaluate_circuit
from proofstream_demo.commitment import PUZZLES, Committed, answer_queries, combined_row, published, value_of_row
from proofstream_demo.field import LIMBS, M31, QM31, Integers, embed, equal
from proofstream_demo.models import DemoModel
from proofstream_demo.multilinear import evaluate_matrix, fix_variables, matrix_variables, table
from proofstream_demo.proof import Claim, GkrProof, LayerProof, Opening, ProverError, Reduction
from proofstream_demo.reductions import combine_claims, factor_points, first_claim, selector_table, split_point
from proofstream_demo.sumcheck import OnRound, prove_sum, sum_at_bits
from proofstream_demo.transcript import Transcript
from proofstream_demo.walk import FORWARD, GRIND, WEIGHT_COMMITMENTS, Walk

NextClaims = list[tuple[int | str, Claim]]
"""Claims with their subjects: a layer's index, or a weight matrix's name."""


def prove(model: DemoModel, inputs: Integers, *, emit: Callable[[ProofEvent], None] | None = None) -> GkrProof:
    """Run a model on an input and prove the output.

    Args:
        model: The model.
        inputs: Integers in the shape of the circuit's input.
        emit: Receives every step as the events of a real prover.

    Raises:
        ProverError: A check of the prover's own failed.
        ValueError: The input has the wrong shape, or a value leaves the range of the field.
    """
    walk = Walk(model, emit if emit is not None else _ignore)
    proof = prove_watched(model, inputs, walk)
    walk.complete_proof()
    return proof


def prove_watched(
    model: DemoModel, inputs: Integers, walk: Walk, *, prover: Callable[..., Prover] | None = None
) -> GkrProof:
    """Prove as `prove` does, but leave `complete_proof` to the caller, who may want to verify the proof first.

    Args:
        model: The model.
        inputs: Integers in the shape of the circuit's input.
        walk: Reports every step.
        prover: Makes the prover; by default, an honest one.
    """
    with walk.phase(FORWARD):
        values = evaluate_circuit(model.circuit, inputs)
    made = (prover or Prover)(model, [embed(matrix) for matrix in values], walk)
    walk.begin_proof(values)
    return made.run()


class Prover:
    """One walk through one circuit.

    Args:
        model: The model that was computed.
        values: All layers' values, by layer index.
        walk: Reports every step.
    """

    def __init__(self, model: DemoModel, values: list[M31], walk: Walk) -> None:
        circuit = model.circuit
        self._circuit = circuit
        self._grinding_bits = model.grinding_bits
        self._published = published(circuit)
        self._values = values
        self._weights = {name: embed(matrix) for name, matrix in circuit.weights.items()}
        self._walk = walk
        self._claims: dict[int | str, list[Claim]] = {}
        self._transcript = Transcript()

    def run(self) -> GkrProof:
        """Prove the layers from the output to the input, then commit to the weights and open them."""
        output = self._values[-1]
        layers = self._prove_layers()
        openings = self._open_weights()
        return GkrProof(output=output, commitments=self._published, layers=layers, openings=openings)

    def _prove_layers(self) -> tuple[LayerProof, ...]:
        inputs, output = self._values[0], self._values[-1]
        claim = first_claim(self._transcript, self._circuit, self._published, inputs, output)
        self._claims[len(self._values) - 1] = [claim]
        layers = [self._prove_layer(index) for index in reversed(range(len(self._values)))]
        return tuple(reversed(layers))

    def _prove_layer(self, index: int) -> LayerProof:
        layer = self._circuit.layers[index]
        claims = self._claims[index]
        with self._walk.layer(index, claims) as on_round:
            checked = self._checking(f"layer {index} ({layer.name})", on_round)
            reductions, found = self._reduce(layer, claims, self._values[index], checked)
        for target, claim in found:
            self._claims.setdefault(target, []).append(claim)
        return reductions

    def _checking(self, place: str, on_round: OnRound) -> OnRound:
        """Return a function that checks a round before it is reported."""

        def check(polynomial: QM31, claim: QM31, next_claim: QM31) -> None:
            if not equal(sum_at_bits(polynomial), claim):
                raise ProverError(f"{place}: p(0) + p(1) is not the claim")
            on_round(polynomial, claim, next_claim)

        return check

    def _reduce(
        self, layer: Layer, claims: list[Claim], values: M31, on_round: OnRound
    ) -> tuple[LayerProof, NextClaims]:
        match layer:
            case Input():
                return (), []
            case MatMul():
                return self._reduce_matmul(layer, claims, values, on_round)
            case Product():
                return self._reduce_product(layer, claims, on_round)
            case Sum():
                return self._reduce_sum(layer, claims)

    def _reduce_matmul(
        self, layer: MatMul, claims: list[Claim], values: M31, on_round: OnRound
    ) -> tuple[LayerProof, NextClaims]:
        if len(claims) > 1:
            merge, claim = self._merge(claims, values, on_round)
            before: LayerProof = (merge,)
        else:
            claim, before = claims[0], ()
        row, col = split_point(layer, claim.point)
        right = self._matrix(layer.right)
        factors = [
            fix_variables(table(self._values[layer.left]), row),
            fix_variables(table(right if layer.transposed else right.T), col),
        ]
        result = prove_sum(factors, claim.value, self._transcript, on_round)
        self._transcript.absorb_elements("finals", result.finals)
        left_point, right_point = factor_points(layer, claim.point, result.point)
        found: NextClaims = [
            (layer.left, Claim(left_point, result.finals[0])),
            (layer.right, Claim(right_point, result.finals[1])),
        ]
        return (*before, Reduction(result.rounds, result.finals)), found

    def _merge(self, claims: list[Claim], values: M31, on_round: OnRound) -> tuple[Reduction, Claim]:
        """Turn several claims about one matrix into one: a sumcheck of degree 2 over the matrix's own entries."""
        factors, value = combine_claims(claims, self._transcript)
        result = prove_sum([selector_table(claims, factors), table(values)], value, self._transcript, on_round)
        finals = result.finals[1:]
        self._transcript.absorb_elements("finals", finals)
        return Reduction(result.rounds, finals), Claim(result.point, finals[0])

    def _reduce_product(self, layer: Product, claims: list[Claim], on_round: OnRound) -> tuple[LayerProof, NextClaims]:
        factors, value = combine_claims(claims, self._transcript)
        left, right = table(self._values[layer.left]), table(self._values[layer.right])
        result = prove_sum([selector_table(claims, factors), left, right], value, self._transcript, on_round)
        finals = result.finals[1 : 1 + len(layer.inputs)]
        self._transcript.absorb_elements("finals", finals)
        found: NextClaims = [(t, Claim(result.point, v)) for t, v in zip(layer.inputs, finals, strict=True)]
        return (Reduction(result.rounds, finals),), found

    def _reduce_sum(self, layer: Sum, claims: list[Claim]) -> tuple[LayerProof, NextClaims]:
        found: NextClaims = [
            (target, Claim(claim.point, evaluate_matrix(self._values[target], claim.point)))
            for claim in claims
            for target in (layer.left, layer.right)
        ]
        finals = np.array([claim.value for _, claim in found], dtype=np.uint64)
        self._transcript.absorb_elements("finals", finals)
        return (Reduction(np.zeros((0, 1, LIMBS), dtype=np.uint64), finals),), found

    def _matrix(self, operand: int | str) -> M31:
        return self._weights[operand] if isinstance(operand, str) else self._values[operand]

    def _open_weights(self) -> dict[str, Opening]:
        weighted = self._circuit.weighted
        openings: dict[str, Opening] = {}
        with self._walk.phase(WEIGHT_COMMITMENTS) as progress:
            for done, (index, name) in enumerate(weighted):
                progress(done, len(weighted))
                self._walk.listen()
                openings[name] = self._open_weight(index, name)
            progress(len(weighted), len(weighted))
        return openings

    def _open_weight(self, index: int, name: str) -> Opening:
        """Commit to a weight matrix, and show the value of its extension at the point of the claim about it."""
        (claim,) = self._claims[name]
        with self._walk.weight_opening(index, claim, self._published[name]):
            committed = self._commit(name)
            row = self._combine(name, committed, claim)
            self._transcript.absorb_elements("row", row)
            return answer_queries(committed, row, self._grind(name), self._transcript)

    def _grind(self, name: str) -> tuple[int, ...]:
        nonces: list[int] = []
        with self._walk.phase(GRIND, weight=name) as progress:
            while len(nonces) < PUZZLES:
                self._walk.listen()
                nonces.append(self._transcript.grind(self._grinding_bits))
                progress(len(nonces), PUZZLES)
        return tuple(nonces)

    def _commit(self, name: str) -> Committed:
        committed = Committed(self._weights[name])
        if committed.tree.root != self._published[name]:
            raise ProverError(f"{name}: the root of its tree is not the published commitment")
        return committed

    def _combine(self, name: str, committed: Committed, claim: Claim) -> QM31:
        rows, _ = matrix_variables(committed.shape)
        row = combined_row(committed.matrix, claim.point[:rows])
        if not equal(value_of_row(row, claim.point[rows:]), claim.value):
            raise ProverError(f"{name}: the claim at a random point is not its value there")
        return row


def _ignore(event: ProofEvent) -> None:
    del event
