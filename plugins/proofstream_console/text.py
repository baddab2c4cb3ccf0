"""Text for a person: what others wrote made safe to show, and numbers with their units."""

from __future__ import annotations

import unicodedata

CHECK, CROSS, WAIT, DOT, ARROW, ELLIPSIS, LINE = "✓", "✗", "○", "·", "→", "…", "━"
TIMES, MICRO = "\N{MULTIPLICATION SIGN}", "\N{MICRO SIGN}"

ASCII_FORMS = str.maketrans("✓✗○·→…█━\N{MULTIPLICATION SIGN}\N{MICRO SIGN}\N{REPLACEMENT CHARACTER}", "+xo->~#=xu?")
"""One ASCII character for each of ours, for terminals that cannot show more: columns stay aligned."""

_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_SPACE = 0x20
_MICROSECOND = 1000
_MILLISECOND = 1000 * _MICROSECOND
_SECOND = 1000 * _MILLISECOND
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE


def safe_text(text: str, limit: int = 200) -> str:
    """What somebody else wrote, as characters that only show themselves.

    Control characters become their pictures (ESC is shown as one glyph), spaces of other kinds become spaces, and what
    else would not be printed as itself (C1 and bidirectional controls, lone surrogates, unassigned and private code
    points) becomes the replacement character.

    Args:
        text: Any string.
        limit: The most characters that are kept; a longer text ends in an ellipsis.
    """
    shown = text if len(text) <= limit else text[: limit - 1] + ELLIPSIS
    return shown if shown.isprintable() else "".join(map(_safe_character, shown))


def _safe_character(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < _SPACE:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return "␡"
    return " " if unicodedata.category(character) == "Zs" else "\N{REPLACEMENT CHARACTER}"


def duration(nanoseconds: float) -> str:
    """A stretch of time with three significant digits, cut off, in the unit that a person would choose."""
    whole = int(nanoseconds)
    if whole >= _HOUR:
        return f"{whole // _HOUR:,} h {whole % _HOUR // _MINUTE:02d} min"
    if whole >= _MINUTE:
        return f"{whole // _MINUTE} min {whole % _MINUTE // _SECOND:02d} s"
    if whole >= _SECOND:
        return f"{_three_digits(whole, _SECOND)} s"
    if whole >= _MILLISECOND or not whole:
        return f"{_three_digits(whole, _MILLISECOND)} ms"
    return f"{_three_digits(whole, _MICROSECOND)} {MICRO}s"


def _three_digits(nanoseconds: int, unit: int) -> str:
    decimals = 2 if nanoseconds < 10 * unit else 1 if nanoseconds < 100 * unit else 0
    # Integers, and cut off: 999.9 ms are not yet 1000 ms.
    return f"{nanoseconds * 10**decimals // unit / 10**decimals:.{decimals}f}" if nanoseconds else "0"


def count(number: int) -> str:
    """A number with separators between thousands."""
    return f"{number:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 layer`, `12 layers`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """A share of 1 in percent; whole, but never 100 before all is done."""
    return f"{min(99, int(share * 100)) if share < 1 else 100} %"


def memory(size: int) -> str:
    """Bytes in GiB."""
    return f"{size / 2**30:.1f} GiB"


def shape(rows_columns: tuple[int, int]) -> str:
    """Rows and columns."""
    return TIMES.join(str(side) for side in rows_columns)
