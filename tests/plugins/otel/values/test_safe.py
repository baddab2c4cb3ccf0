"""Values are made safe in one place: whatever comes in, OTLP can carry what comes out."""

from __future__ import annotations

import enum
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream_otel.otlp.protobuf import encode_resource
from proofstream_otel.values import safe


class Colour(enum.Enum):
    """An enumeration."""

    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53 - 1, 2**53 - 1),
        (1 - 2**53, 1 - 2**53),
        (2**53, "9007199254740992"),
        (-(2**53), "-9007199254740992"),
        (2**63, "9223372036854775808"),
        (-(2**63) - 1, "-9223372036854775809"),
        (2**254, str(2**254)),
        (math.nan, None),
        (math.inf, None),
        (None, None),
        (True, True),
        ("a\ud800b", "a?b"),
        (Colour.RED, "red"),
        (b"x", "b'x'"),
        ((1, 2), [1, 2]),
        ((1, 2**64), ["1", str(2**64)]),
        ([1, 0.5], [1.0, 0.5]),
        ([1, "a"], ["1", "a"]),
        ([True, 1], ["True", "1"]),
        ([], None),
        ([None, math.nan], None),
    ],
)
def test_a_value_becomes(value: object, expected: object) -> None:
    made = safe.make_safe(value)
    assert made == expected
    assert type(made) is type(expected)


def test_a_long_text_is_cut_and_marked() -> None:
    cut = safe.text("\N{CRAB}" * 5000)
    assert len(cut) == safe.MAX_STRING_CHARS
    assert cut.endswith("\N{CRAB}\N{HORIZONTAL ELLIPSIS}")
    assert safe.text("x" * safe.MAX_STRING_CHARS) == "x" * safe.MAX_STRING_CHARS


@pytest.mark.parametrize(("time", "expected"), [(-5, 1), (0, 1), (7, 7), (2**63, 2**63 - 1), (2**70, 2**63 - 1)])
def test_a_time_is_one_that_every_backend_takes(time: int, expected: int) -> None:
    assert safe.timestamp(time) == expected


@given(
    st.integers() | st.integers(2**53 - 3, 2**53 + 3) | st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=200)
)
def test_a_key_has_one_type_whatever_the_number(value: int | list[int]) -> None:
    """A larger one is there in full, under the other key."""
    ((key, made),) = safe.attributes({"key": value}).items()
    found = made if isinstance(made, list) else [made]
    wanted = value if isinstance(value, list) else [value]
    is_large = max(map(abs, wanted)) >= 2**53
    assert key == ("key.digits" if is_large else "key")
    assert found == [str(item) if is_large else item for item in wanted][: safe.MAX_LIST_ITEMS]


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=8)
values: st.SearchStrategy[Any] = scalars | st.lists(scalars, max_size=8)


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), values, max_size=8))
def test_whatever_comes_in_can_be_encoded(raw: dict[str, Any]) -> None:
    made = safe.attributes(raw)
    assert encode_resource(made) or not made
    for value in made.values():
        items = value if isinstance(value, list) else [value]
        assert items
        assert len({type(item) for item in items}) == 1
