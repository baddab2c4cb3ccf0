"""Shape expressions: sums of products, separated by an x between blanks."""

from __future__ import annotations

import pytest

from proofstream_state_cost.circuit.shapes import count_elements, measure_axes, parse_shape
from proofstream_state_cost.states.errors import BadShape, Overflow

DIMS = {"a": 2, "b": 3, "c": 5, "x": 7, "zero": 0, "big": 2**63, "_n1": 11}


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        ("a", (2,)),
        ("4", (4,)),
        ("007", (7,)),
        ("a x b x c", (2, 3, 5)),
        ("a*b+c x 4", (11, 4)),
        ("a*b*2+c*c x _n1", (37, 11)),
        ("  a * b +\tc x 4 ", (11, 4)),
        ("a x x x b", (2, 7, 3)),
        ("1 2 x a", (12, 2)),
        ("x ", (7,)),
        ("zero x b", (0, 3)),
        ("zero*big+a", (2,)),
        ("18446744073709551615", (2**64 - 1,)),
    ],
)
def test_a_shape_is_read_and_computed(text: str, lengths: tuple[int, ...]) -> None:
    assert measure_axes(parse_shape(text), DIMS) == lengths


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a x ", " x a", "a x  x b", "a-1", "a/2", "(a)", "a*(b+c)", "a**b", "a++b", "+a", "a*",
        "0", "00", "a*0", "A", "a x Heads", "1a", "a.b", "3.0", "-1", "1e3", "0x10", "1_000",
        "\u0663", "\xe9", "a,b", "a\xd7b",
    ],
)  # fmt: skip
def test_expressions_that_break_the_rules_are_refused(text: str) -> None:
    with pytest.raises(BadShape):
        measure_axes(parse_shape(text), DIMS)


@pytest.mark.parametrize(
    ("text", "name"), [("a xb", "axb"), ("a\tx\tb", "axb"), ("d", "d"), ("a b", "ab"), ("a*q x b", "q")]
)
def test_an_unknown_dim_is_named_with_its_expression(text: str, name: str) -> None:
    with pytest.raises(BadShape, match=f"unknown dim '{name}' in the expression .*; the dims are"):
        measure_axes(parse_shape(text), DIMS)
    with pytest.raises(BadShape, match="the circuit declares no dims"):
        measure_axes(parse_shape(text), {})


@pytest.mark.parametrize("text", ["18446744073709551616", "9" * 5000, "big*2", "big+big", "big*2*zero", "a x big+big"])
def test_an_expression_beyond_64_bits_is_an_error_and_not_wrapped(text: str) -> None:
    with pytest.raises(Overflow, match=r"the expression .* overflows"):
        measure_axes(parse_shape(text), DIMS)


def test_the_largest_product_fits_and_the_next_does_not() -> None:
    assert count_elements((2**32 - 1, 2**32 + 1), text="a x b") == 2**64 - 1
    with pytest.raises(Overflow, match=r"the shape a x b overflows: 4294967296 x 4294967296 is more than 2\^64 - 1"):
        count_elements((2**32, 2**32), text="a x b")


def test_a_later_zero_does_not_hide_an_overflow() -> None:
    with pytest.raises(Overflow):
        count_elements((2**63, 2, 0), text="a x b x zero")
    assert count_elements((0, 2**63, 2**63), text="zero x a x b") == 0
