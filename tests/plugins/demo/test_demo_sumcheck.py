"""Multilinear extensions, and the sumcheck over any tables."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream_demo.field import PRIME, QM31, add, embed, equal, lift, mul, total
from proofstream_demo.multilinear import (
    equality,
    equality_table,
    evaluate_matrix,
    evaluate_table,
    fix_variables,
    matrix_variables,
    padded,
    table,
    variables,
)
from proofstream_demo.proof import ProofRejected
from proofstream_demo.sumcheck import evaluate_polynomial, prove_sum, sum_at_bits, verify_sum
from proofstream_demo.transcript import Transcript


def random_elements(seed: int, count: int) -> QM31:
    return np.random.default_rng(seed).integers(0, PRIME, size=(count, 4), dtype=np.uint64)


def bits(index: int, count: int) -> QM31:
    return lift(np.array([index >> k & 1 for k in reversed(range(count))], dtype=np.uint64))


def ignore(polynomial: QM31, claim: QM31, next_claim: QM31) -> None:
    del polynomial, claim, next_claim


seeds = st.integers(0, 2**32)


@given(seeds, st.integers(0, 5))
def test_an_extension_goes_through_its_table(seed: int, count: int) -> None:
    values = random_elements(seed, 2**count)
    for index in range(2**count):
        assert equal(evaluate_table(values, bits(index, count)), values[index])


@given(seeds, st.integers(0, 5))
def test_the_equality_table_turns_an_evaluation_into_a_sum(seed: int, count: int) -> None:
    values, point = random_elements(seed, 2**count), random_elements(seed + 1, count)
    assert equal(total(mul(equality_table(point), values)), evaluate_table(values, point))


@given(seeds, st.integers(0, 5))
def test_equality_at_a_point_is_the_extension_of_its_table(seed: int, count: int) -> None:
    x, y = random_elements(seed, count), random_elements(seed + 1, count)
    assert equal(equality(x, y), evaluate_table(equality_table(x), y))
    assert equal(equality(x, y), equality(y, x))


def test_a_matrix_is_padded_and_has_its_rows_bits_first() -> None:
    matrix = embed(np.array([[1, 2, 3], [4, 5, 6]]))
    assert matrix_variables((2, 3)) == (1, 2)
    assert padded(matrix).tolist() == [[1, 2, 3, 0], [4, 5, 6, 0]]
    assert equal(evaluate_matrix(matrix, bits(0b101, 3)), lift(np.array(5, dtype=np.uint64)))
    assert fix_variables(table(matrix), bits(1, 1))[:, 0].tolist() == [4, 5, 6, 0]


@pytest.mark.parametrize(("size", "expected"), [(1, 0), (2, 1), (3, 2), (4, 2), (10, 4), (64, 6)])
def test_variables_count_the_bits_of_an_index(size: int, expected: int) -> None:
    assert variables(size) == expected


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(0, 4), st.integers(1, 4))
def test_each_rounds_polynomial_adds_up_to_the_running_claim(seed: int, count: int, degree: int) -> None:
    tables = [random_elements(seed + k, 2**count) for k in range(degree)]
    claim = total(reduce(mul, tables))
    heard: list[tuple[QM31, QM31, QM31]] = []
    result = prove_sum(tables, claim, Transcript(), lambda p, c, n: heard.append((p, c, n)))
    assert len(heard) == count
    running = claim
    for number, (polynomial, answered, following) in enumerate(heard):
        assert polynomial.shape == (degree + 1, 4)
        assert equal(answered, running)
        assert equal(sum_at_bits(polynomial), running)
        assert equal(evaluate_polynomial(polynomial, result.point[number]), following)
        running = following
    assert equal(running, reduce(mul, result.finals))
    point, left_over = verify_sum(result.rounds, claim, Transcript())
    assert equal(point, result.point)
    assert equal(left_over, running)
    for values, final in zip(tables, result.finals, strict=True):
        assert equal(evaluate_table(values, result.point), final)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 4), st.data())
def test_a_wrong_claim_is_rejected_in_the_first_round(seed: int, count: int, data: st.DataObject) -> None:
    tables = [random_elements(seed, 2**count), random_elements(seed + 1, 2**count)]
    claim = total(mul(*tables))
    wrong = claim.copy()
    limb = data.draw(st.integers(0, 3))
    wrong[limb] = (int(wrong[limb]) + data.draw(st.integers(1, PRIME - 1))) % PRIME
    result = prove_sum(tables, claim, Transcript(), ignore)
    with pytest.raises(ProofRejected, match=r"^round 0: p\(0\) \+ p\(1\) is not the claim$"):
        verify_sum(result.rounds, wrong, Transcript())


def test_each_challenge_depends_on_the_polynomial_that_it_answers() -> None:
    tables = [random_elements(1, 4), random_elements(2, 4)]
    other = [random_elements(1, 4), random_elements(3, 4)]
    one = prove_sum(tables, total(mul(*tables)), Transcript(), ignore)
    two = prove_sum(other, total(mul(*other)), Transcript(), ignore)
    assert not equal(one.point[0], two.point[0])


def test_a_polynomials_value_follows_from_its_coefficients() -> None:
    coefficients, x = random_elements(1, 4), random_elements(2, 1)[0]
    square = mul(x, x)
    terms = [
        coefficients[0],
        mul(coefficients[1], x),
        mul(coefficients[2], square),
        mul(coefficients[3], mul(square, x)),
    ]
    assert equal(evaluate_polynomial(coefficients, x), reduce(add, terms))


def test_the_challenge_depends_on_all_that_was_said_in_order_and_on_labels() -> None:
    def drawn(*messages: tuple[str, bytes]) -> bytes:
        transcript = Transcript()
        for label, data in messages:
            transcript.absorb(label, data)
        return transcript.challenge().tobytes()

    conversations = [
        (),
        (("a", b""),),
        (("a", b"1"),),
        (("b", b"1"),),
        (("a1", b""),),
        (("a", b"1"), ("b", b"2")),
        (("b", b"2"), ("a", b"1")),
        (("a", b"1b2"),),
    ]
    assert len({drawn(*messages) for messages in conversations}) == len(conversations)
    assert drawn(("a", b"1")) == drawn(("a", b"1"))


def test_challenges_differ_from_one_another() -> None:
    point = Transcript().challenges(8)
    assert point.shape == (8, 4)
    assert len({coordinate.tobytes() for coordinate in point}) == 8
    assert Transcript().challenges(0).shape == (0, 4)


@pytest.mark.parametrize("bits", [0, 1, 7])
def test_a_proof_of_work_can_be_checked_and_changes_what_follows(bits: int) -> None:
    prover, verifier = Transcript(), Transcript()
    nonce = prover.grind(bits)
    assert verifier.check_grinding(nonce, bits)
    assert equal(prover.challenge(), verifier.challenge())
    assert bits == 0 or not any(Transcript().check_grinding(less, bits) for less in range(nonce))
    assert not Transcript().check_grinding(-1, bits)
    assert not Transcript().check_grinding(2**64, bits)


def test_positions_are_below_their_bound_and_all_occur() -> None:
    drawn = Transcript().positions(500, 32)
    assert len(drawn) == 500
    assert set(drawn) == set(range(32))
