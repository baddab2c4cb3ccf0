"""p(0) + p(1) over QM31, checked against the polynomial evaluated with the field's own arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proofstream import RoundPoly, RoundPolyDeg3, SecureField, SumcheckRound
from proofstream_rerun.picture.field import M31_PRIME, Limbs, coefficients, limbs, sum_over_bits, written
from proofstream_rerun.picture.texts import round_document

LIMB = st.integers(0, M31_PRIME - 1)
ELEMENT = st.tuples(LIMB, LIMB, LIMB, LIMB)


def added(one: Limbs, other: Limbs) -> Limbs:
    """Add two elements."""
    a, b, c, d = ((x + y) % M31_PRIME for x, y in zip(one, other, strict=True))
    return a, b, c, d


def evaluated_at_bit(polynomial: list[Limbs], bit: int) -> Limbs:
    """Evaluate a polynomial at 0 or 1, by Horner's rule."""
    value: Limbs = (0, 0, 0, 0)
    for coefficient in reversed(polynomial):
        value = added(value if bit else (0, 0, 0, 0), coefficient)
    return value


@given(polynomial=st.lists(ELEMENT, min_size=1, max_size=4))
def test_the_sum_over_both_bits(polynomial: list[Limbs]) -> None:
    expected = added(evaluated_at_bit(polynomial, 0), evaluated_at_bit(polynomial, 1))
    assert sum_over_bits(polynomial) == expected


def test_a_document_shows_a_rounds_polynomial_and_what_to_check() -> None:
    one, two = SecureField(a=1, b=2, c=3, d=4), SecureField(a=M31_PRIME - 1, b=0, c=0, d=0)
    event = SumcheckRound(
        layer_idx=7,
        round=2,
        total_rounds=13,
        poly_deg2=None,
        poly_deg3=RoundPolyDeg3(c0=one, c1=two, c2=one, c3=one),
        claim_value_approx=None,
    )
    assert [limbs(c) for c in coefficients(event)] == [
        (1, 2, 3, 4),
        (M31_PRIME - 1, 0, 0, 0),
        (1, 2, 3, 4),
        (1, 2, 3, 4),
    ]
    text = round_document(event)
    assert "Layer 7, round 3 of 13" in text
    assert f"| c1 x | {written(limbs(two))} |" in text
    assert "**(3 + 8i) + (12 + 16i)j**" in text
    assert "claim not reported." in text


def test_a_round_without_a_polynomial() -> None:
    event = SumcheckRound(layer_idx=0, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=0.5)
    assert coefficients(event) == ()
    assert "no polynomial" in round_document(event)


def test_a_polynomial_of_degree_2_has_three_coefficients() -> None:
    zero = SecureField(a=0, b=0, c=0, d=0)
    event = SumcheckRound(
        layer_idx=0,
        round=0,
        total_rounds=1,
        poly_deg2=RoundPoly(c0=zero, c1=zero, c2=zero),
        poly_deg3=None,
        claim_value_approx=0.0,
    )
    assert len(coefficients(event)) == 3
