"""Honest proofs verify; proofs with any element changed, or of a wrong computation, are rejected."""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream_demo.circuit import Circuit, Input, MatMul, Product, Sum, evaluate_circuit
from proofstream_demo.field import ONE, PRIME, QM31, add, embed, equal, mul
from proofstream_demo.models import DemoModel, Example, digits
from proofstream_demo.proof import Claim, GkrProof, ProofRejected, ProverError
from proofstream_demo.prover import Prover, prove, prove_watched
from proofstream_demo.reductions import combine_claims, first_claim, reduction_shapes
from proofstream_demo.sumcheck import OnRound, sum_at_bits
from proofstream_demo.transcript import Transcript
from proofstream_demo.verifier import verify
from proofstream_demo.walk import Walk


def arrays_of(proof: GkrProof) -> list[QM31]:
    """List every array of field elements in a proof."""
    reductions = [reduction for layer in proof.layers for reduction in layer]
    openings = [array for _, opening in sorted(proof.openings.items()) for array in (opening.row, opening.columns)]
    found = [proof.output, *(r.rounds for r in reductions), *(r.finals for r in reductions), *openings]
    return [array for array in found if array.size]


def changed(proof: GkrProof, array: int, limb: int, difference: int) -> GkrProof:
    """Copy a proof with one limb of one element changed."""
    forged = copy.deepcopy(proof)
    flat = arrays_of(forged)[array].reshape(-1)
    flat[limb] = (int(flat[limb]) + difference) % PRIME
    return forged


def every_limb(proof: GkrProof) -> Iterator[tuple[int, int]]:
    for number, array in enumerate(arrays_of(proof)):
        for limb in range(array.size):
            yield number, limb


def is_rejected(example: Example, proof: GkrProof) -> bool:
    try:
        verify(example.model, proof, example.inputs)
    except ProofRejected:
        return True
    return False


def test_an_honest_proof_verifies(example: Example, proof: GkrProof) -> None:
    verify(example.model, proof, example.inputs)
    assert equal(proof.output, embed(evaluate_circuit(example.model.circuit, example.inputs)[-1]))


def test_the_same_run_gives_the_same_proof(example: Example, proof: GkrProof) -> None:
    again = prove(example.model, example.inputs)
    assert again.commitments == proof.commitments
    assert all(map(equal, arrays_of(again), arrays_of(proof)))


def test_a_small_proof_with_any_one_limb_changed_is_rejected(tiny: Example, tiny_proof: GkrProof) -> None:
    limbs = list(every_limb(tiny_proof))
    assert len(limbs) == 186 + 8 + 16 + 2 * (8 + 16)  # each W: a combined row, and all of its 8 or 16 columns
    accepted = [place for place in limbs if not is_rejected(tiny, changed(tiny_proof, *place, 1))]
    assert accepted == []


@settings(max_examples=40)
@given(data=st.data())
def test_a_proof_with_one_limb_changed_is_rejected(data: st.DataObject, example: Example, proof: GkrProof) -> None:
    arrays = arrays_of(proof)
    array = data.draw(st.integers(0, len(arrays) - 1))
    limb = data.draw(st.integers(0, arrays[array].size - 1))
    assert is_rejected(example, changed(proof, array, limb, data.draw(st.integers(1, PRIME - 1))))


def test_a_square_root_of_the_other_sign_is_rejected() -> None:
    """The square's own check cannot distinguish x from -x, so the layer below must."""
    example = digits()
    proof = prove(example.model, example.inputs)
    forged = copy.deepcopy(proof)
    finals = forged.layers[2][0].finals
    finals[...] = (PRIME - finals) % PRIME
    with pytest.raises(ProofRejected, match=r"^layer 1 \(pixels W1\): round 0"):
        verify(example.model, forged, example.inputs)


def test_an_element_written_in_another_way_is_rejected(tiny: Example, tiny_proof: GkrProof) -> None:
    forged = copy.deepcopy(tiny_proof)
    forged.layers[6][0].rounds[0, 0, 0] += np.uint64(PRIME)
    with pytest.raises(ProofRejected, match="a limb is not below the prime"):
        verify(tiny.model, forged, tiny.inputs)


def test_a_commitment_with_any_one_byte_changed_is_rejected(tiny: Example, tiny_proof: GkrProof) -> None:
    for name, digest in tiny_proof.commitments.items():
        for place in range(len(digest)):
            other = digest[:place] + bytes([digest[place] ^ 1]) + digest[place + 1 :]
            forged = replace(tiny_proof, commitments={**tiny_proof.commitments, name: other})
            assert is_rejected(tiny, forged)


def test_a_proof_of_another_input_is_rejected(example: Example, proof: GkrProof) -> None:
    other = example.inputs.copy()
    other[0, 0] += 1
    assert is_rejected(replace(example, inputs=other), proof)


def test_a_proof_about_other_weights_is_rejected(tiny: Example, tiny_proof: GkrProof) -> None:
    weights = {name: matrix + 1 for name, matrix in tiny.model.circuit.weights.items()}
    other = DemoModel("tiny", "other weights", Circuit(tiny.model.circuit.layers, weights))
    with pytest.raises(ProofRejected, match="other weights"):
        verify(other, tiny_proof, tiny.inputs)


def test_a_proof_of_another_shape_is_rejected(tiny: Example, tiny_proof: GkrProof) -> None:
    top = tiny_proof.layers[6][0]
    shapes = [
        replace(tiny_proof, layers=tiny_proof.layers[:-1]),
        replace(tiny_proof, layers=(*tiny_proof.layers[:-1], ())),
        replace(tiny_proof, layers=(*tiny_proof.layers[:-1], (replace(top, rounds=top.rounds[:-1]),))),
        replace(tiny_proof, layers=(*tiny_proof.layers[:-1], (replace(top, rounds=top.rounds.astype(np.int64)),))),
        replace(tiny_proof, layers=(*tiny_proof.layers[:-1], (replace(top, finals=top.finals[:1]),))),
        replace(tiny_proof, output=tiny_proof.output[:, :2]),
    ]
    assert all(is_rejected(tiny, forged) for forged in shapes)
    with pytest.raises(ProofRejected, match="the input has the wrong shape"):
        verify(tiny.model, tiny_proof, tiny.inputs[:1])


def test_the_verifiers_challenges_depend_on_every_element_of_the_proof(
    example: Example, proof: GkrProof, monkeypatch: pytest.MonkeyPatch
) -> None:
    absorbed: list[bytes] = []
    original = Transcript.absorb_elements

    def absorb_elements(self: Transcript, label: str, elements: QM31) -> None:
        absorbed.append(elements.tobytes())
        original(self, label, elements)

    monkeypatch.setattr(Transcript, "absorb_elements", absorb_elements)
    verify(example.model, proof, example.inputs)
    said = [embed(example.inputs), proof.output]
    for reduction in (r for layer in reversed(proof.layers) for r in layer):
        said += [*reduction.rounds, reduction.finals]
    said += [proof.openings[name].row for _, name in example.model.circuit.weighted]
    assert absorbed == [elements.tobytes() for elements in said]


def test_the_first_challenge_depends_on_all_that_is_public(tiny: Example) -> None:
    circuit = tiny.model.circuit
    renamed = Circuit((replace(circuit.layers[0], name="other"), *circuit.layers[1:]), circuit.weights)
    one, other = embed(np.array([[1, 2, 3], [4, 5, 6]])), embed(np.array([[1, 2, 3], [4, 5, 7]]))
    publics: list[tuple[Circuit, dict[str, bytes], QM31, QM31]] = [
        (circuit, {"W1": b"1"}, one, one),
        (renamed, {"W1": b"1"}, one, one),
        (circuit, {"W1": b"2"}, one, one),
        (circuit, {"W2": b"1"}, one, one),
        (circuit, {"W1": b"1"}, other, one),
        (circuit, {"W1": b"1"}, one, other),
    ]
    points = {first_claim(Transcript(), *public).point.tobytes() for public in publics}
    assert len(points) == len(publics)


def test_claims_are_combined_with_a_factor_that_is_unpredictable() -> None:
    claims = [Claim(ONE.reshape(1, 4), ONE)] * 3
    drawn: set[bytes] = set()
    for said in (b"this", b"that"):
        transcript = Transcript()
        transcript.absorb("said", said)
        factors, value = combine_claims(claims, transcript)
        assert equal(factors[0], ONE)
        assert equal(factors[2], mul(factors[1], factors[1]))
        assert equal(value, add(add(factors[0], factors[1]), factors[2]))
        drawn.add(factors[1].tobytes())
    assert len(drawn | {ONE.tobytes()}) == 3


class CarelessProver(Prover):
    """Does not check what it proves."""

    def _checking(self, place: str, on_round: OnRound) -> OnRound:
        return on_round


def test_a_proof_with_one_value_computed_wrong_is_rejected(tiny: Example) -> None:
    circuit = tiny.model.circuit
    for wrong in range(1, len(circuit.layers)):
        values = [embed(matrix) for matrix in evaluate_circuit(circuit, tiny.inputs)]
        values[wrong][0, 0] = (int(values[wrong][0, 0]) + 1) % PRIME
        walk = Walk(tiny.model, lambda event: None)
        walk.begin_proof(evaluate_circuit(circuit, tiny.inputs))
        forged = CarelessProver(tiny.model, values, walk).run()
        with pytest.raises(ProofRejected):
            verify(tiny.model, forged, tiny.inputs)


class ListeningWalk(Walk):
    """Keeps every round before the walk reports it."""

    def __init__(self, model: DemoModel) -> None:
        super().__init__(model, lambda event: None)
        self.rounds: list[tuple[int, QM31, QM31, QM31]] = []
        self.claims: dict[int, list[Claim]] = {}

    @contextmanager
    def layer(self, index: int, claims: Sequence[Claim]) -> Generator[OnRound, None, None]:
        self.claims[index] = list(claims)
        with super().layer(index, claims):
            yield lambda polynomial, claim, following: self.rounds.append((index, polynomial, claim, following))


def test_in_each_round_of_a_walk_p0_plus_p1_is_the_running_claim(example: Example) -> None:
    walk = ListeningWalk(example.model)
    prove_watched(example.model, example.inputs, walk)
    circuit = example.model.circuit
    for index, layer in enumerate(circuit.layers):
        rounds = [heard[1:] for heard in walk.rounds if heard[0] == index]
        shapes = reduction_shapes(circuit, layer, len(walk.claims[index]))
        assert len(rounds) == sum(shape.rounds for shape in shapes)
        for shape in shapes:
            of_this_one, rounds = rounds[: shape.rounds], rounds[shape.rounds :]
            assert all(polynomial.shape == (shape.degree + 1, 4) for polynomial, _, _ in of_this_one)
            assert all(equal(sum_at_bits(polynomial), claim) for polynomial, claim, _ in of_this_one)
            assert all(equal(before[2], after[1]) for before, after in pairwise(of_this_one))


def test_the_first_round_answers_the_only_claim_on_a_layer() -> None:
    example = digits()
    walk = ListeningWalk(example.model)
    prove_watched(example.model, example.inputs, walk)
    for index in (3, 2, 1):
        first = next(heard for heard in walk.rounds if heard[0] == index)
        assert equal(first[2], walk.claims[index][0].value)


def test_layers_that_several_others_use_have_several_claims(tiny: Example) -> None:
    walk = ListeningWalk(tiny.model)
    prove_watched(tiny.model, tiny.inputs, walk)
    assert {index: len(claims) for index, claims in walk.claims.items()} == {6: 1, 5: 1, 4: 1, 3: 2, 2: 2, 1: 4, 0: 1}


class SabotagedWalk(Walk):
    """Changes the claim about a weight matrix just before it is opened."""

    @contextmanager
    def weight_opening(self, index: int, claim: Claim, commitment: bytes) -> Generator[None, None, None]:
        claim.value[0] ^= np.uint64(1)
        with super().weight_opening(index, claim, commitment):
            yield


def test_a_prover_with_a_false_claim_about_its_weights_stops(tiny: Example) -> None:
    with pytest.raises(ProverError, match=r"^W1: the claim at a random point is not its value there$"):
        prove_watched(tiny.model, tiny.inputs, SabotagedWalk(tiny.model, lambda event: None))


def test_a_prover_with_a_value_computed_wrong_stops_at_that_layer(tiny: Example) -> None:
    circuit = tiny.model.circuit
    values = [embed(matrix) for matrix in evaluate_circuit(circuit, tiny.inputs)]
    values[4][0, 0] = (int(values[4][0, 0]) + 1) % PRIME
    walk = Walk(tiny.model, lambda event: None)
    walk.begin_proof(evaluate_circuit(circuit, tiny.inputs))
    with pytest.raises(ProverError, match=r"^layer 5 \(elementwise\): p\(0\) \+ p\(1\) is not the claim$"):
        Prover(tiny.model, values, walk).run()


def test_a_circuit_says_what_is_wrong_with_it() -> None:
    first, weights = Input("x", (1, 1)), {"W": np.array([[1]])}
    with pytest.raises(ValueError, match="every layer but the last must be used"):
        Circuit((first, Input("y", (1, 1)), Product("p", (1, 1), 0, 0)), {})
    with pytest.raises(ValueError, match="only the layers before it"):
        Circuit((first, Sum("s", (1, 1), 0, 1)), {})
    with pytest.raises(ValueError, match="every weight matrix must be used by exactly one layer"):
        Circuit((first, Product("p", (1, 1), 0, 0)), weights)
    with pytest.raises(ValueError, match="every weight matrix must be used by exactly one layer"):
        Circuit((first, MatMul("m", (1, 1), 0, "W"), MatMul("n", (1, 1), 1, "W")), weights)


def test_numbers_that_the_field_cannot_hold_are_refused() -> None:
    squares = Circuit((Input("x", (1, 2)), Product("x*x", (1, 2), 0, 0)), {})
    assert evaluate_circuit(squares, np.array([[3, -4]]))[-1].tolist() == [[9, 16]]
    with pytest.raises(ValueError, match=r"x\*x holds a number that the field cannot hold"):
        evaluate_circuit(squares, np.array([[0, 2**15]]))
    with pytest.raises(ValueError, match=r"x has the shape \(2, 1\), not \(1, 2\)"):
        evaluate_circuit(squares, np.array([[0], [1]]))
    both = Circuit((Input("x", (16, 16)), MatMul("x x", (16, 16), 0, 0)), {})
    with pytest.raises(ValueError, match="x x could hold a number that 64 bits cannot hold"):
        evaluate_circuit(both, np.full((16, 16), 2**30 - 1))
