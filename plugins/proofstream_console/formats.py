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
_SECOND = 10**9
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_NEXT_SIZE = 1023.5
_ONE_WHOLE, _TWO_WHOLE = 9.995, 99.95
_UNITS = ((_SECOND, "s"), (10**6, "ms"), (10**3, f"{MICRO}s"), (1, "ns"))


MAX_KEPT = 600
"""Characters of a text that are kept: more are never shown."""


def clip(text: str) -> str:
    """What is kept of somebody else's text; lines of a stream may be as long as 16 MiB."""
    return text[:MAX_KEPT]


def clip_optional(text: str | None) -> str | None:
    """The same for a text that may be absent."""
    return None if text is None else clip(text)


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
    """A stretch of time in the units that a person would choose; below a minute with three significant digits."""
    whole = _three_digits(int(nanoseconds))
    if whole < _MINUTE:
        for unit, name in _UNITS:
            if whole >= unit:
                decimals = 2 if whole < 10 * unit else 1 if whole < 100 * unit else 0
                return f"{whole / unit:.{decimals}f} {name}"
        return "0 ms"
    seconds = round(nanoseconds / _SECOND)
    if seconds < _HOUR // _SECOND:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def _three_digits(number: int) -> int:
    unit: int = 10 ** max(0, len(str(number)) - 3)
    return (number + unit // 2) // unit * unit


def count(number: int) -> str:
    """A number with separators between thousands."""
    return f"{number:,}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: `1 layer`, `12 layers`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """A share of 1 in percent; whole, but never 100 before all is done."""
    return f"{min(99, int(share * 100)) if share < 1 else 100} %"


def fine_percent(share: float) -> str:
    """A share of 1 in percent, with one decimal."""
    return f"{100 * share:.1f} %"


def memory(size: int) -> str:
    """Bytes in GiB."""
    return f"{size / 2**30:.1f} GiB"


def size(number: float) -> str:
    """Bytes in the binary unit that a person would choose, with three significant digits."""
    value, unit = float(number), 0
    while value >= _NEXT_SIZE and unit < len(_SIZES) - 1:
        value, unit = value / 1024, unit + 1
    decimals = 0 if not unit or value >= _TWO_WHOLE else 1 if value >= _ONE_WHOLE else 2
    return f"{value:,.{decimals}f} {_SIZES[unit]}"


def shape(rows_columns: tuple[int, int]) -> str:
    """Rows and columns."""
    return TIMES.join(str(side) for side in rows_columns)
