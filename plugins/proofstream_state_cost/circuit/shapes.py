"""Shape expressions: `lin_k_heads*lin_k_dim*2+lin_v_heads*lin_v_dim x conv_kernel`.

An x between single blanks separates axes. Each axis is a sum of products of dimensions and whole numbers above 0,
without minus, division or parentheses. White space within an axis has no meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from proofstream import safe_text
from proofstream_state_cost.states.errors import BadShape, Overflow
from proofstream_state_cost.states.u64 import U64_MAX, u64_product, u64_sum

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")
_DIGITS: Final = re.compile(r"[0-9]+")
_MOST_DIGITS: Final = len(str(U64_MAX))
_MOST_NAMES: Final = 30
"""Dims that a message lists at most."""

Factor: TypeAlias = int | str
"""A number, or the name of a dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis: its text, and the products that it adds up."""

    text: str
    products: tuple[tuple[Factor, ...], ...]

    def extent(self, dims: Mapping[str, int]) -> int:
        """Return the length of the axis.

        Raises:
            BadShape: A dimension is missing from `dims`.
            Overflow: A product or the sum is above 2^64 - 1.
        """
        subject = f"the expression {self.text}"
        values = [[self._value(factor, dims) for factor in factors] for factors in self.products]
        return u64_sum((subject, u64_product(*factors, subject=subject)) for factors in values)

    def _value(self, factor: Factor, dims: Mapping[str, int]) -> int:
        if isinstance(factor, int):
            return factor
        if factor not in dims:
            raise BadShape(f"unknown dim {factor!r} in the expression {self.text}; {_known(dims)}")
        return dims[factor]


def is_dim_name(word: str) -> bool:
    """Return whether an expression can use a word as a dimension's name."""
    return _NAME.fullmatch(word) is not None


def parse_shape(text: str) -> tuple[Axis, ...]:
    """Read a shape expression.

    Raises:
        BadShape: The text breaks the rules.
        Overflow: One of its numbers is above 2^64 - 1.
    """
    return tuple(_parse_axis(axis) for axis in text.split(" x "))


def measure_axes(axes: tuple[Axis, ...], dims: Mapping[str, int]) -> tuple[int, ...]:
    """Return the length of each axis.

    Raises:
        BadShape: A dimension is missing from `dims`.
        Overflow: An axis is longer than 2^64 - 1.
    """
    return tuple(axis.extent(dims) for axis in axes)


def count_elements(lengths: tuple[int, ...], *, text: str) -> int:
    """Count the elements of a shape with axes of these lengths.

    Raises:
        Overflow: The count exceeds 2^64 - 1; the error names the shape by its `text`.
    """
    return u64_product(*lengths, subject=f"the shape {safe_text(text)}")


def _known(dims: Mapping[str, int]) -> str:
    """List the known dims, as far as a line has room for them."""
    names = sorted(dims)
    if not names:
        return "the circuit declares no dims"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"the dims are {', '.join(names[:_MOST_NAMES])}{more}"


def _parse_axis(text: str) -> Axis:
    axis = "".join(text.split())
    return Axis(text=axis, products=tuple(_parse_product(part, axis) for part in axis.split("+")))


def _parse_product(text: str, axis: str) -> tuple[Factor, ...]:
    return tuple(_parse_factor(part, axis) for part in text.split("*"))


def _parse_factor(text: str, axis: str) -> Factor:
    if is_dim_name(text):
        return text
    if _DIGITS.fullmatch(text) is None:
        what = f"{text!r} is neither a dim nor a number" if text else "a factor is missing"
        raise BadShape(f"{axis!r} is not a shape expression: {what}")
    digits = text.lstrip("0")
    if not digits:
        raise BadShape(f"{axis!r} is not a shape expression: its numbers are 1 or more")
    if len(digits) > _MOST_DIGITS or int(digits) > U64_MAX:
        raise Overflow(f"the expression {axis}", "a number in it")
    return int(digits)
