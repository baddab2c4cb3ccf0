"""Multilinear extensions: the polynomial in n variables, linear in each, that takes 2^n given values on bit vectors.

Variable 0 is the most significant bit of the index. A matrix is padded with zeros to powers of two, and its table has
the row's bits before the column's bits: the point of a matrix entry is (row bits, column bits).
"""

from __future__ import annotations

import numpy as np

from proofstream_demo.field import LIMBS, M31, ONE, QM31, add, lift, mul, sub


def variables(size: int) -> int:
    """Return how many variables index `size` entries: the logarithm to base 2, rounded up."""
    return (size - 1).bit_length()


def matrix_variables(shape: tuple[int, int]) -> tuple[int, int]:
    """Return how many variables index a matrix's rows and its columns."""
    return variables(shape[0]), variables(shape[1])


def padded(matrix: M31) -> M31:
    """Pad a matrix with zeros until both sides are powers of two."""
    rows, cols = matrix.shape
    grown = np.zeros((1 << variables(rows), 1 << variables(cols)), dtype=np.uint64)
    grown[:rows, :cols] = matrix
    return grown


def table(matrix: M31) -> QM31:
    """Return a matrix's values as a table of QM31 elements, of shape (2^n, 4)."""
    return lift(padded(matrix).reshape(-1))


def fix_variable(values: QM31, coordinate: QM31) -> QM31:
    """Set variable 0, which halves the table. On the line between two values, t(r) = t(0) + r * (t(1) - t(0))."""
    low, high = halves(values)
    return add(low, mul(coordinate, sub(high, low)))


def fix_variables(values: QM31, point: QM31) -> QM31:
    """Set one leading variable for each coordinate of the point."""
    for coordinate in point:
        values = fix_variable(values, coordinate)
    return values


def evaluate_table(values: QM31, point: QM31) -> QM31:
    """Evaluate a table's extension at a point; the result is one element."""
    return fix_variables(values, point).reshape(LIMBS)


def evaluate_matrix(matrix: M31, point: QM31) -> QM31:
    """Evaluate a matrix's extension at a point; the result is one element."""
    return evaluate_table(table(matrix), point)


def halves(values: QM31) -> tuple[QM31, QM31]:
    """Return the values where variable 0 is 0, and the values where it is 1."""
    middle = len(values) // 2
    return values[:middle], values[middle:]


def equality_table(point: QM31) -> QM31:
    """Return the table of eq(point, .): for a point of bits it is 1 at that index and 0 elsewhere.

    eq(r, x) is the product over all variables of r*x + (1 - r)*(1 - x). The sum over x of eq(r, x) * t(x) is t's
    extension at r: it turns an evaluation into a sum, which a sumcheck can prove.
    """
    values = ONE.reshape(1, LIMBS)
    for coordinate in point:
        ones = mul(values, coordinate)
        values = np.stack((sub(values, ones), ones), axis=1).reshape(-1, LIMBS)
    return values


def equality(x: QM31, y: QM31) -> QM31:
    """Return eq(x, y) for any two points of the same length, without a table."""
    value = ONE
    for a, b in zip(x, y, strict=True):
        both = mul(a, b)
        value = mul(value, add(sub(sub(ONE, a), b), add(both, both)))
    return value
