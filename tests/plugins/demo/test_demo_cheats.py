"""Provers that cheat as well as possible: each breaks exactly one check, which shows that every check is needed.

A changed element also changes every later challenge, so that several checks notice it. These provers instead go along
with the challenges: they mend each round's polynomial until p(0) + p(1) is the claim, and only the final evaluations
give them away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from proofstream_demo import prover as prover_module
from proofstream_demo.circuit import Circuit, evaluate_circuit, evaluate_layer
from proofstream_demo.commitment import Committed, published
from proofstream_demo.field import M31, QM31, Integers, add, embed, lift, mul, sub
from proofstream_demo.models import DemoModel, Example
from proofstream_demo.multilinear import fix_variable
from proofstream_demo.proof import Claim, LayerProof, ProofRejected
from proofstream_demo.prover import Prover
from proofstream_demo.reductions import first_claim
from proofstream_demo.sumcheck import OnRound, SumcheckResult, evaluate_polynomial, round_polynomial, sum_at_bits
from proofstream_demo.transcript import Transcript
from proofstream_demo.verifier import verify
from proofstream_demo.walk import Walk

HALF: QM31 = lift(np.array(2**30, dtype=np.uint64))
"""2 * 2^30 = 2^31 = 1 modulo 2^31 - 1."""


def mended_sum(tables: Sequence[QM31], claim: QM31, transcript: Transcript, on_round: OnRound) -> SumcheckResult:
    """Run the sumcheck of a wrong claim; the constant coefficients hide the difference, so that all rounds add up."""
    folded = list(tables)
    polynomials: list[QM31] = []
    point: list[QM31] = []
    while len(folded[0]) > 1:
        polynomial = round_polynomial(folded)
        polynomial[0] = add(polynomial[0], mul(HALF, sub(claim, sum_at_bits(polynomial))))
        transcript.absorb_elements("round", polynomial)
        answer = transcript.challenge()
        folded = [fix_variable(values, answer) for values in folded]
        following = evaluate_polynomial(polynomial, answer)
        on_round(polynomial, claim, following)
        claim = following
        polynomials.append(polynomial)
        point.append(answer)
    return SumcheckResult(np.array(polynomials), np.array(point), np.concatenate(folded), claim)


class Pretender(Prover):
    """Pretends that one layer had other values, until it has to prove that layer."""

    def __init__(self, model: DemoModel, values: list[M31], walk: Walk, *, layer: int, truth: M31) -> None:
        super().__init__(model, values, walk)
        self._layer = layer
        self._truth = truth

    def _prove_layer(self, index: int) -> LayerProof:
        if index == self._layer:
            self._values[index] = self._truth
        return super()._prove_layer(index)


def values_with_a_lie(circuit: Circuit, inputs: Integers, lie: int) -> list[M31]:
    """Return all values, with one entry of one layer wrong and all later layers computed from it."""
    values = evaluate_circuit(circuit, inputs)[: lie + 1]
    values[lie] = values[lie] + np.eye(*values[lie].shape, dtype=np.int64)
    for layer in circuit.layers[lie + 1 :]:
        values.append(evaluate_layer(layer, values, circuit.weights, inputs))
    return [embed(matrix) for matrix in values]


def walk_of(example: Example) -> Walk:
    walk = Walk(example.model, lambda event: None)
    walk.begin_proof(evaluate_circuit(example.model.circuit, example.inputs))
    return walk


@pytest.mark.parametrize("lie", range(1, 7))
def test_a_lie_about_a_layer_is_caught_at_that_layer(lie: int, tiny: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover_module, "prove_sum", mended_sum)
    circuit = tiny.model.circuit
    truth = embed(evaluate_circuit(circuit, tiny.inputs)[lie])
    forged = values_with_a_lie(circuit, tiny.inputs, lie)
    proof = Pretender(tiny.model, forged, walk_of(tiny), layer=lie, truth=truth).run()
    name = circuit.layers[lie].name
    with pytest.raises(ProofRejected, match=rf"^layer {lie} \({name}\): the final evaluations do not give"):
        verify(tiny.model, proof, tiny.inputs)


def test_a_proof_about_a_secret_other_input_is_caught_at_the_input(
    tiny: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    def claim_of_the_real_input(
        transcript: Transcript, circuit: Circuit, commitments: Mapping[str, bytes], inputs: M31, output: M31
    ) -> Claim:
        del inputs
        return first_claim(transcript, circuit, commitments, embed(tiny.inputs), output)

    monkeypatch.setattr(prover_module, "first_claim", claim_of_the_real_input)
    forged = [embed(matrix) for matrix in evaluate_circuit(tiny.model.circuit, tiny.inputs + 1)]
    proof = Prover(tiny.model, forged, walk_of(tiny)).run()
    with pytest.raises(
        ProofRejected, match=r"^layer 0 \(input\): the claim at a random point is not the input's value there$"
    ):
        verify(tiny.model, proof, tiny.inputs)


class Substituter(Prover):
    """Computes with other weights than the published ones, but builds the trees of the published ones."""

    def __init__(self, model: DemoModel, values: list[M31], walk: Walk, *, weights: Mapping[str, Integers]) -> None:
        super().__init__(model, values, walk)
        self._used = {name: embed(matrix) for name, matrix in weights.items()}
        self._real = self._weights
        self._weights = self._used

    def _commit(self, name: str) -> Committed:
        self._weights = self._real
        committed = super()._commit(name)
        self._weights = self._used
        return committed

    def _combine(self, name: str, committed: Committed, claim: Claim) -> QM31:
        return super()._combine(name, Committed(self._used[name]), claim)


@pytest.mark.parametrize("name", ["W1", "W2"])
def test_a_proof_with_other_weights_than_published_is_caught_at_the_weights(name: str, tiny: Example) -> None:
    real = tiny.model.circuit
    other = Circuit(real.layers, {**real.weights, name: real.weights[name] + 1})
    forged = [embed(matrix) for matrix in evaluate_circuit(other, tiny.inputs)]
    proof = Substituter(tiny.model, forged, walk_of(tiny), weights=other.weights).run()
    with pytest.raises(ProofRejected, match=rf"^{name}: the combined row is not one of the committed columns$"):
        verify(tiny.model, proof, tiny.inputs)


class Replanter(Prover):
    """Says that its commitments are the published ones, but opens the trees of other weights."""

    def __init__(self, model: DemoModel, values: list[M31], walk: Walk, *, real: Circuit) -> None:
        super().__init__(model, values, walk)
        self._published = published(real)

    def _commit(self, name: str) -> Committed:
        return Committed(self._weights[name])


def test_a_tree_of_other_weights_is_caught_at_its_first_path(tiny: Example) -> None:
    real = tiny.model
    other = replace(real, circuit=Circuit(real.circuit.layers, {**real.circuit.weights, "W2": np.ones((2, 3), int)}))
    forged = [embed(matrix) for matrix in evaluate_circuit(other.circuit, tiny.inputs)]
    proof = Replanter(other, forged, walk_of(tiny), real=real.circuit).run()
    with pytest.raises(ProofRejected, match=r"^W2: column 0 is not in the tree$"):
        verify(real, proof, tiny.inputs)
