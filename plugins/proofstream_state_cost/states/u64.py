"""Exact arithmetic on unsigned 64-bit integers: a result that does not fit is an error, never wrapped or rounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from proofstream_state_cost.states.errors import Overflow

U64_MAX: Final = 2**64 - 1


def is_u64(value: object) -> bool:
    """Return whether a value is an unsigned 64-bit integer. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= U64_MAX


def u64_product(first: int, *factors: int, subject: str) -> int:
    """Multiply from left to right.

    Raises:
        Overflow: A factor or an intermediate result is above 2^64 - 1, even if a later factor is 0; the error names
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
    """Add up terms.

    Args:
        terms: For each term its subject and its number.

    Raises:
        Overflow: The sum exceeds 2^64 - 1; the error names the term that made it do so.
    """
    result = 0
    for subject, term in terms:
        if result + term > U64_MAX:
            raise Overflow(subject, f"{result} + {term}")
        result += term
    return result
