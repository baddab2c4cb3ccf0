"""Arithmetic in the prover's field QM31, so that a reader can check a round's polynomial."""

from __future__ import annotations

from collections.abc import Sequence

from proofstream import SecureField, SumcheckRound

M31_PRIME = 2**31 - 1

Limbs = tuple[int, int, int, int]


def limbs(element: SecureField) -> Limbs:
    """Return the four limbs of an element of QM31."""
    return element.a, element.b, element.c, element.d


def coefficients(event: SumcheckRound) -> tuple[SecureField, ...]:
    """Return the coefficients of a round's polynomial, the constant first; empty if the producer sent no polynomial."""
    poly = event.poly_deg2
    if poly is not None:
        return poly.c0, poly.c1, poly.c2
    cubic = event.poly_deg3
    return () if cubic is None else (cubic.c0, cubic.c1, cubic.c2, cubic.c3)


def sum_over_bits(coefficients: Sequence[Limbs]) -> Limbs:
    """Return p(0) + p(1) of the polynomial with these coefficients, the constant first.

    The sum is c0 + (c0 + c1 + ...). QM31 is a vector space over M31, so each limb is summed separately, modulo
    2^31 - 1. In an honest sumcheck the result is the claim that the round starts from.
    """
    a, b, c, d = coefficients[0]
    for coefficient in coefficients:
        a, b, c, d = a + coefficient[0], b + coefficient[1], c + coefficient[2], d + coefficient[3]
    return a % M31_PRIME, b % M31_PRIME, c % M31_PRIME, d % M31_PRIME


def written(element: Limbs) -> str:
    """Return an element of QM31 in mathematical notation: (a + bi) + (c + di)j."""
    a, b, c, d = element
    return f"({a} + {b}i) + ({c} + {d}i)j"
