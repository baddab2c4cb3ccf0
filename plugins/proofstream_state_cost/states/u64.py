"""Exact arithmetic on unsigned 64-bit integers: what does not fit is an error, never a wrapped or rounded number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from proofstream_state_cost.states.errors import Overflow

U64_MAX: Final = 2**64 - 1


def is_u64(value: object) -> bool:
    """Whether a value is an integer that 64 bits hold; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= U64_MAX


def u64_product(first: int, *factors: int, subject: str) -> int:
    """Multiply from left to right.

    Raises:
        Overflow: A factor or an intermediate result is above 2^64 - 1, also where a later factor is 0; it names
            `subject`.
    """
    if first > U64_MAX:
        raise Overflow(subject, f"{first}")
    result = first
    for factor in factors:
        if result * factor > U64_MAX:
            raise Overflow(subject, f"{result} x {factor}")
        result *= factor
    return result


def u64_sum(terms: Iterable[tuple[str, int]]) -> int:
    """Add up.

    Args:
        terms: What each number is of, and the number.

    Raises:
        Overflow: The sum is above 2^64 - 1; it names the term at which it came to be.
    """
    result = 0
    for subject, term in terms:
        if result + term > U64_MAX:
            raise Overflow(subject, f"{result} + {term}")
        result += term
    return result
