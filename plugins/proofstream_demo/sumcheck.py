"""The sumcheck protocol, which proves the sum of a product of multilinear polynomials over all bit vectors.

The claim is C = sum over x in {0,1}^n of t1(x) * ... * td(x). In each round the prover leaves the first variable open
and sums over the rest. The result is a polynomial p of degree d in one variable; the prover sends its coefficients. The
verifier checks p(0) + p(1) = C and answers with a random r. The next round's claim is p(r), with one variable less.
After n rounds, one evaluation of each table at the random point is left to check.

After C. Lund, L. Fortnow, H. Karloff, N. Nisan, "Algebraic methods for interactive proof systems", 1992, and J. Thaler,
"Proofs, Arguments, and Zero-Knowledge", chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from proofstream_demo.field import LIMBS, QM31, ZERO, add, equal, mul, sub, total
from proofstream_demo.multilinear import fix_variable, halves
from proofstream_demo.proof import ProofRejected
from proofstream_demo.transcript import Transcript

OnRound = Callable[[QM31, QM31, QM31], None]
"""Called in each round with the polynomial, shape (degree + 1, 4), the claim that it supports, and the next claim."""


@dataclass(frozen=True, slots=True)
class SumcheckResult:
    """The prover's results after the last round.

    Attributes:
        rounds: The polynomials sent: shape (n, degree + 1, 4).
        point: The verifier's answers: shape (n, 4).
        finals: Each table's value at the point: shape (d, 4).
        claim: The last claim: the product of `finals`.
    """

    rounds: QM31
    point: QM31
    finals: QM31
    claim: QM31


def prove_sum(tables: Sequence[QM31], claim: QM31, transcript: Transcript, on_round: OnRound) -> SumcheckResult:
    """Run the prover's side.

    Args:
        tables: The factors, each of shape (2^n, 4).
        claim: The sum of their product.
        transcript: Absorbs each polynomial and draws each answer.
        on_round: Called for every round as it happens.
    """
    folded = list(tables)
    degree = len(folded)
    polynomials: list[QM31] = []
    point: list[QM31] = []
    while len(folded[0]) > 1:
        polynomial = round_polynomial(folded)
        answer = _answer(polynomial, transcript)
        next_claim = evaluate_polynomial(polynomial, answer)
        on_round(polynomial, claim, next_claim)
        folded = [fix_variable(values, answer) for values in folded]
        claim = next_claim
        polynomials.append(polynomial)
        point.append(answer)
    return SumcheckResult(
        rounds=np.array(polynomials, dtype=np.uint64).reshape(-1, degree + 1, LIMBS),
        point=np.array(point, dtype=np.uint64).reshape(-1, LIMBS),
        finals=np.concatenate(folded),
        claim=claim,
    )


def verify_sum(rounds: QM31, claim: QM31, transcript: Transcript) -> tuple[QM31, QM31]:
    """Run the verifier's side up to the last round.

    Returns:
        The random point and the last claim: the factors' product at that point, which the caller must check.

    Raises:
        ProofRejected: p(0) + p(1) is not the claim in some round.
    """
    point: list[QM31] = []
    for number, polynomial in enumerate(rounds):
        if not equal(sum_at_bits(polynomial), claim):
            raise ProofRejected(f"round {number}: p(0) + p(1) is not the claim")
        answer = _answer(polynomial, transcript)
        claim = evaluate_polynomial(polynomial, answer)
        point.append(answer)
    return np.array(point, dtype=np.uint64).reshape(-1, LIMBS), claim


def round_polynomial(tables: Sequence[QM31]) -> QM31:
    """Sum the tables' product over all variables but 0, as a polynomial in variable 0 of shape (d + 1, 4).

    With variable 0 open, each table is a line t(0) + X * (t(1) - t(0)) at every index of the other variables. The lines
    are multiplied.
    """
    product: list[QM31] = []
    for values in tables:
        low, high = halves(values)
        slope = sub(high, low)
        product = _times_line(product, low, slope) if product else [low, slope]
    return np.array([total(coefficient) for coefficient in product], dtype=np.uint64)


def evaluate_polynomial(polynomial: QM31, x: QM31) -> QM31:
    """Evaluate a polynomial by Horner's rule."""
    value = ZERO
    for coefficient in polynomial[::-1]:
        value = add(mul(value, x), coefficient)
    return value


def sum_at_bits(polynomial: QM31) -> QM31:
    """Return p(0) + p(1): the constant coefficient plus the sum of all coefficients."""
    return add(polynomial[0], total(polynomial))


def _times_line(polynomial: list[QM31], constant: QM31, slope: QM31) -> list[QM31]:
    """Multiply polynomials by lines, at every index: c_k becomes c_k * constant + c_(k-1) * slope."""
    middle = [add(mul(here, constant), mul(before, slope)) for before, here in pairwise(polynomial)]
    return [mul(polynomial[0], constant), *middle, mul(polynomial[-1], slope)]


def _answer(polynomial: QM31, transcript: Transcript) -> QM31:
    transcript.absorb_elements("round", polynomial)
    return transcript.challenge()
