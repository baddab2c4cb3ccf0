"""The sumcheck protocol: proves what the product of a few multilinear polynomials sums to over all bit vectors.

Claimed is C = sum over x in {0,1}^n of t1(x) * ... * td(x). In each round the prover leaves the first variable open and
sums over the rest. That is a polynomial p of degree d in one variable, sent by its coefficients. The verifier checks
p(0) + p(1) = C, answers with a random r, and the next round's claim is p(r), about one variable less. After n rounds
one evaluation of each table at the random point is left to check. (C. Lund, L. Fortnow, H. Karloff, N. Nisan,
"Algebraic methods for interactive proof systems", 1992; J. Thaler, "Proofs, Arguments, and Zero-Knowledge", chapter 4.)
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
"""Called in each round with the polynomial, shape (degree + 1, 4), the claim that it answers, and the next claim."""


@dataclass(frozen=True, slots=True)
class SumcheckResult:
    """What a prover has after the last round.

    Attributes:
        rounds: The polynomials sent: shape (n, degree + 1, 4).
        point: The verifier's answers: shape (n, 4).
        finals: Each table's value at the point: shape (d, 4).
        claim: What is left of the claim: the product of `finals`.
    """

    rounds: QM31
    point: QM31
    finals: QM31
    claim: QM31


def prove_sum(tables: Sequence[QM31], claim: QM31, transcript: Transcript, on_round: OnRound) -> SumcheckResult:
    """Run the prover's side.

    Args:
        tables: The factors, each of shape (2^n, 4).
        claim: What their product sums to.
        transcript: Absorbs each polynomial, gives each answer.
        on_round: Hears of every round as it happens.
    """
    folded = list(tables)
    degree = len(folded)
    polynomials: list[QM31] = []
    point: list[QM31] = []
    while len(folded[0]) > 1:
        polynomial = round_polynomial(folded)
        answer = _answer(polynomial, transcript)
        next_claim = at(polynomial, answer)
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
        The random point and the claim that is left: the factors' product at that point, which the caller has to check.

    Raises:
        ProofRejected: p(0) + p(1) is not the claim in some round.
    """
    point: list[QM31] = []
    for number, polynomial in enumerate(rounds):
        if not equal(sum_at_bits(polynomial), claim):
            raise ProofRejected(f"round {number}: p(0) + p(1) is not the claim")
        answer = _answer(polynomial, transcript)
        claim = at(polynomial, answer)
        point.append(answer)
    return np.array(point, dtype=np.uint64).reshape(-1, LIMBS), claim


def round_polynomial(tables: Sequence[QM31]) -> QM31:
    """The sum over all but variable 0 of the tables' product, as a polynomial in variable 0: shape (d + 1, 4).

    With variable 0 open, each table is a line t(0) + X * (t(1) - t(0)) at every other index. The lines are multiplied.
    """
    product: list[QM31] = []
    for values in tables:
        low, high = halves(values)
        slope = sub(high, low)
        product = _times_line(product, low, slope) if product else [low, slope]
    return np.array([total(coefficient) for coefficient in product], dtype=np.uint64)


def at(polynomial: QM31, x: QM31) -> QM31:
    """A polynomial's value, by Horner's rule."""
    value = ZERO
    for coefficient in polynomial[::-1]:
        value = add(mul(value, x), coefficient)
    return value


def sum_at_bits(polynomial: QM31) -> QM31:
    """p(0) + p(1): the constant coefficient, and all coefficients."""
    return add(polynomial[0], total(polynomial))


def _times_line(polynomial: list[QM31], constant: QM31, slope: QM31) -> list[QM31]:
    """Polynomials times lines, at every index: c_k becomes c_k * constant + c_(k-1) * slope."""
    middle = [add(mul(here, constant), mul(before, slope)) for before, here in pairwise(polynomial)]
    return [mul(polynomial[0], constant), *middle, mul(polynomial[-1], slope)]


def _answer(polynomial: QM31, transcript: Transcript) -> QM31:
    transcript.absorb_elements("round", polynomial)
    return transcript.challenge()
