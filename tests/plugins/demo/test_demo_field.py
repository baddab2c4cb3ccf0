"""Tests the laws of the fields, and compares the product with one computed on Python's integers."""

from __future__ import annotations

from itertools import starmap

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from proofstream import SecureField
from proofstream_demo.field import (
    LARGEST,
    ONE,
    PRIME,
    QM31,
    ZERO,
    add,
    as_secure_field,
    centred,
    embed,
    equal,
    is_canonical,
    lift,
    mul,
    powers,
    sub,
    total,
)

limbs = st.one_of(st.integers(0, PRIME - 1), st.sampled_from([0, 1, 2, PRIME - 1, PRIME - 2]))
quadruples = st.tuples(limbs, limbs, limbs, limbs)
elements = quadruples.map(lambda quadruple: np.array(quadruple, dtype=np.uint64))

I = np.array([0, 1, 0, 0], dtype=np.uint64)  # noqa: E741 the field's i
J = np.array([0, 0, 1, 0], dtype=np.uint64)
MINUS_ONE = np.array([PRIME - 1, 0, 0, 0], dtype=np.uint64)
TWO_PLUS_I = np.array([2, 1, 0, 0], dtype=np.uint64)


def power(base: QM31, exponent: int) -> QM31:
    result = ONE
    for bit in f"{exponent:b}":
        result = mul(result, result)
        if bit == "1":
            result = mul(result, base)
    return result


def slow_product(x: tuple[int, ...], y: tuple[int, ...]) -> list[int]:
    """Multiply over the basis 1, i, j, ij, with i*i = -1, j*j = 2 + i, ij*j = 2i - 1, ij*ij = -2 - i."""
    basis = {
        (0, 0): (1, 0, 0, 0), (0, 1): (0, 1, 0, 0), (0, 2): (0, 0, 1, 0), (0, 3): (0, 0, 0, 1),
        (1, 1): (-1, 0, 0, 0), (1, 2): (0, 0, 0, 1), (1, 3): (0, 0, -1, 0),
        (2, 2): (2, 1, 0, 0), (2, 3): (-1, 2, 0, 0), (3, 3): (-2, -1, 0, 0),
    }  # fmt: skip
    product = [0, 0, 0, 0]
    for m in range(4):
        for n in range(4):
            for k, factor in enumerate(basis[min(m, n), max(m, n)]):
                product[k] += x[m] * y[n] * factor
    return [limb % PRIME for limb in product]


def test_i_squared_is_minus_one_and_j_squared_is_two_plus_i() -> None:
    assert equal(mul(I, I), MINUS_ONE)
    assert equal(mul(J, J), TWO_PLUS_I)


@given(quadruples, quadruples)
def test_the_product_equals_the_one_over_plain_integers(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    fast = mul(np.array(x, dtype=np.uint64), np.array(y, dtype=np.uint64))
    assert fast.tolist() == slow_product(x, y)


@given(elements, elements, elements)
def test_addition_and_multiplication_make_a_commutative_ring(x: QM31, y: QM31, z: QM31) -> None:
    assert equal(add(x, y), add(y, x))
    assert equal(mul(x, y), mul(y, x))
    assert equal(add(add(x, y), z), add(x, add(y, z)))
    assert equal(mul(mul(x, y), z), mul(x, mul(y, z)))
    assert equal(mul(x, add(y, z)), add(mul(x, y), mul(x, z)))
    assert equal(add(x, ZERO), x)
    assert equal(mul(x, ONE), x)
    assert equal(add(sub(x, y), y), x)
    assert equal(sub(x, x), ZERO)


@settings(max_examples=25)
@given(elements)
def test_every_element_but_zero_has_an_inverse(x: QM31) -> None:
    inverse = power(x, PRIME**4 - 2)
    assert equal(mul(x, inverse), ZERO if equal(x, ZERO) else ONE)


@given(st.lists(quadruples, min_size=1, max_size=5), st.lists(quadruples, min_size=1, max_size=5))
def test_arrays_are_multiplied_element_by_element(xs: list[tuple[int, ...]], ys: list[tuple[int, ...]]) -> None:
    count = min(len(xs), len(ys))
    left, right = np.array(xs[:count], dtype=np.uint64), np.array(ys[:count], dtype=np.uint64)
    one_by_one = list(starmap(mul, zip(left, right, strict=True)))
    assert equal(mul(left, right), np.array(one_by_one))
    assert is_canonical(mul(left, right))
    assert equal(total(left), np.array([sum(x) % PRIME for x in zip(*xs[:count], strict=True)], dtype=np.uint64))


@given(st.lists(st.integers(-LARGEST, LARGEST), min_size=1))
def test_small_integers_come_back_from_the_field(integers: list[int]) -> None:
    plain = np.array(integers, dtype=np.int64)
    embedded = embed(plain)
    assert is_canonical(embedded)
    assert centred(embedded).tolist() == integers


@given(st.integers(-LARGEST, LARGEST), st.integers(-LARGEST, LARGEST))
def test_embedding_keeps_sums_and_products(x: int, y: int) -> None:
    one, other = (lift(embed(np.array(n))) for n in (x, y))
    assert equal(add(one, other), lift(embed(np.array(x + y))))
    assert equal(mul(one, other), lift(embed(np.array(x * y))))


@given(elements)
def test_powers_begin_with_one(x: QM31) -> None:
    found = powers(x, 4)
    assert [p.tolist() for p in found] == [power(x, n).tolist() for n in range(4)]
    assert len(powers(x, 1)) == 1


def test_a_limb_that_is_the_prime_is_not_canonical() -> None:
    assert not is_canonical(np.array([PRIME, 0, 0, 0], dtype=np.uint64))


def test_events_carry_the_four_limbs_as_plain_integers() -> None:
    element = as_secure_field(np.array([1, 2, 3, PRIME - 1], dtype=np.uint64))
    assert element == SecureField(1, 2, 3, PRIME - 1)
    assert type(element.d) is int
