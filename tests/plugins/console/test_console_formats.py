"""Numbers have units, and every glyph has an ASCII form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from proofstream_console.formats import ASCII_FORMS, duration, percent


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (0, "0 ms"),
        (7, "<1 µs"),
        (950, "<1 µs"),
        (58_000, "58.0 µs"),
        (1_234_567, "1.23 ms"),
        (999_600_000, "1.00 s"),
        (31_783_000_000, "31.8 s"),
        (59_940_000_000, "59.9 s"),
        (59_960_000_000, "1 min 00 s"),
        (125_400_000_000, "2 min 05 s"),
        (3_599_600_000_000, "1 h 00 min"),
        (100_000_000_000_000, "27 h 47 min"),
    ],
)
def test_durations(nanoseconds: int, shown: str) -> None:
    assert duration(nanoseconds) == shown


@given(st.integers(min_value=0, max_value=10**18))
def test_a_duration_is_short_whatever_it_is(nanoseconds: int) -> None:
    assert len(duration(nanoseconds)) <= 16


def test_a_share_below_one_never_reads_100_percent() -> None:
    assert percent(0.9999) == "99 %"
    assert percent(1.0) == "100 %"


def test_ascii_forms_keep_columns_aligned() -> None:
    for code, form in ASCII_FORMS.items():
        assert cell_len(chr(code)) == cell_len(chr(form)) == 1
        assert chr(form).isascii()
