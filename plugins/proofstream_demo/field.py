"""Arithmetic in two fields: M31, the integers modulo 2^31 - 1, and QM31, its extension of degree 4.

An array of M31 elements is a uint64 array of numbers below the prime. An array of QM31 elements has one more axis of
length 4 at its end: the limbs a, b, c, d of (a + b*i) + (c + d*i)*j, with i^2 = -1 and j^2 = 2 + i. Small negative
integers -n are embedded as p - n. A product of two limbs is below 2^62, so the sum of two products fits into 64 bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proofstream import SecureField

M31 = NDArray[np.uint64]
"""Base field elements, in an array of any shape."""

QM31 = NDArray[np.uint64]
"""Extension field elements: the last axis holds the four limbs."""

Integers = NDArray[np.int64]
"""Plain integers, before they are embedded."""

PRIME = 2**31 - 1
LIMBS = 4
LARGEST = PRIME // 2
"""The largest magnitude at which embedded integers are still distinct."""

_P = np.uint64(PRIME)
_TWO = np.uint64(2)

ZERO: QM31 = np.zeros(LIMBS, dtype=np.uint64)
ONE: QM31 = np.array([1, 0, 0, 0], dtype=np.uint64)


def embed(integers: Integers) -> M31:
    """Return integers as M31 elements; negative ones wrap around."""
    return np.mod(integers, PRIME).astype(np.uint64)


def centred(elements: M31) -> Integers:
    """Return M31 elements as integers from -LARGEST to LARGEST: the inverse of `embed`."""
    signed = elements.astype(np.int64)
    return np.where(signed > LARGEST, signed - PRIME, signed)


def lift(elements: M31) -> QM31:
    """Return M31 elements as QM31 elements: each becomes the first limb, the other limbs are zero."""
    lifted = np.zeros((*elements.shape, LIMBS), dtype=np.uint64)
    lifted[..., 0] = elements
    return lifted


def is_canonical(elements: QM31) -> bool:
    """Return whether every limb is below the prime. Otherwise one element could be written in two ways."""
    return bool(np.all(elements < _P))


def add(x: QM31, y: QM31) -> QM31:
    """Add two arrays element by element; M31 arrays work, too."""
    return (x + y) % _P


def sub(x: QM31, y: QM31) -> QM31:
    """Subtract two arrays element by element; M31 arrays work, too."""
    return (x + (_P - y)) % _P


def mul(x: QM31, y: QM31) -> QM31:
    """Multiply two QM31 arrays element by element."""
    (x0, x1), (y0, y1) = (_halves(x), _halves(y))
    low = add(_complex_mul(x0, y0), _times_two_plus_i(_complex_mul(x1, y1)))
    high = add(_complex_mul(x0, y1), _complex_mul(x1, y0))
    return np.concatenate((low, high), axis=-1)


def total(elements: QM31) -> QM31:
    """Sum over the first axis. The result is exact for up to 2^33 elements."""
    summed: QM31 = np.add.reduce(elements, axis=0, dtype=np.uint64)
    return summed % _P


def powers(base: QM31, count: int) -> list[QM31]:
    """Return the first `count` powers: 1, base, base^2, ..."""
    found = [ONE]
    while len(found) < count:
        found.append(mul(found[-1], base))
    return found[:count]


def equal(x: QM31, y: QM31) -> bool:
    """Return whether two elements, or two arrays of elements, are the same."""
    return bool(np.array_equal(x, y))


def as_secure_field(element: QM31) -> SecureField:
    """Return one element in the form that events carry."""
    a, b, c, d = (int(limb) for limb in element)
    return SecureField(a, b, c, d)


def _halves(x: QM31) -> tuple[QM31, QM31]:
    return x[..., :2], x[..., 2:]


def _complex_mul(x: QM31, y: QM31) -> QM31:
    """Multiply a + b*i and c + d*i, with i^2 = -1."""
    a, b, c, d = x[..., 0], x[..., 1], y[..., 0], y[..., 1]
    return np.stack(((a * c + (_P - b) * d) % _P, (a * d + b * c) % _P), axis=-1)


def _times_two_plus_i(x: QM31) -> QM31:
    """Multiply u + v*i by j^2 = 2 + i."""
    u, v = x[..., 0], x[..., 1]
    return np.stack(((_TWO * u + (_P - v)) % _P, (u + _TWO * v) % _P), axis=-1)
