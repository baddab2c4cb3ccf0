"""Text from elsewhere only shows itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream import safe_text
from proofstream.errors import describe
from proofstream.wire import refusal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Modèle 模型 🦀", "Modèle 模型 🦀"),
        ("\x1b[2J\x1b]0;owned\x07", "␛[2J␛]0;owned␇"),
        ("a\nb\r\tc\x00\x7f", "a␊b␍␉c␀␡"),
        ("\x9b31m", "\N{REPLACEMENT CHARACTER}31m"),
        ("evil\u202etxt.exe", "evil\N{REPLACEMENT CHARACTER}txt.exe"),
        ("\u2066x\u2069\u200f\u061c", "\ufffdx\ufffd\ufffd\ufffd"),
        ("\ud800lone", "\ufffdlone"),
        ("line\u2028sep\u2029", "line\ufffdsep\ufffd"),
        ("no\xa0break\u3000wide", "no break wide"),
        ("[bold red]markup[/] :smile:", "[bold red]markup[/] :smile:"),
    ],
)
def test_hostile_text(text: str, shown: str) -> None:
    assert safe_text(text) == shown


@given(st.text(alphabet=st.characters(), max_size=300))
def test_nothing_that_moves_a_terminal_survives(text: str) -> None:
    shown = safe_text(text, 100)
    assert shown.isprintable()
    assert len(shown) <= 100
    shown.encode("utf-8")


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert safe_text("x" * 10, 10) == "x" * 10
    assert safe_text("x" * 11, 10) == "x" * 9 + "…"


def test_an_error_of_a_plugin_is_one_line_that_shows_itself() -> None:
    assert describe(ValueError("a\nb\x1b[31m")) == "ValueError: a␊b␛[31m"
    assert len(describe(ValueError("x" * 10**6))) == 1000


def test_a_refused_line_is_shown_by_the_same_rule() -> None:
    assert refusal(7, "not JSON", b"\x1b]52;c;x\x07\xff").excerpt == "␛]52;c;x␇\N{REPLACEMENT CHARACTER}"
