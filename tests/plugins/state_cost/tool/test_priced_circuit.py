"""Rates: exact where the product is a whole number."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream_state_cost.tool.priced_circuit import per_second

MOST = 2**64 - 1


@given(st.integers(0, MOST), st.integers(1, 10**9))
def test_a_whole_rate_is_exact(number: int, rate: int) -> None:
    assert per_second(number, Decimal(rate)) == number * rate
    assert isinstance(per_second(number, Decimal(rate)), int)


def test_a_rate_with_a_fraction() -> None:
    assert per_second(10, Decimal("0.5")) == 5
    assert isinstance(per_second(10, Decimal("0.5")), int)
    assert per_second(1, Decimal("0.1")) == 0.1
    assert per_second(MOST, Decimal("1e-9")) == pytest.approx(MOST / 1e9)
