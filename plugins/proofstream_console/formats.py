"""Text for the terminal: glyphs, numbers with their units, and the bound on texts that are kept."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import lru_cache
from typing import TypeVar

from proofstream import LayerKind

CHECK, CROSS, WAIT, DOT, ARROW, ELLIPSIS, LINE = "✓", "✗", "○", "·", "→", "…", "━"
TIMES, MICRO = "\N{MULTIPLICATION SIGN}", "\N{MICRO SIGN}"
AT_LEAST = "≥"
LEVELS = "▁▂▃▄▅▆▇█"
"""From little to much."""

RUNNING = "◆"
_EIGHTHS = " ▏▎▍▌▋▊▉"

ASCII_FORMS = str.maketrans(
    "✓✗○·→…━≥◆▁▂▃▄▅▆▇█\N{MULTIPLICATION SIGN}\N{MICRO SIGN}\N{REPLACEMENT CHARACTER}", "+xo->~=>@_.,:;*%#xu?"
)
"""One ASCII character for each of ours, so that columns stay aligned in terminals that show only ASCII."""

_SECOND = 10**9
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_NEXT_SIZE = 1023.5
_ENERGIES = ("J", "kJ", "MJ", "GJ", "TJ")
_NEXT_ENERGY = 999.5
_ONE_WHOLE, _TWO_WHOLE = 9.995, 99.95
_MICROSECOND = 10**3
_UNITS = ((_SECOND, "s"), (10**6, "ms"), (_MICROSECOND, f"{MICRO}s"))
_LEAST = f"<1 {MICRO}s"

MAX_KEPT = 600
"""Characters of a text that are kept: more are never shown."""

MAX_NAMED = 16
"""Names that are told one by one wherever producers choose them; the rest are `others`."""

UNKNOWN = "?"
"""Stands for a figure that no real run has. So every figure has a form, and none can end a view."""

_LARGEST = 10**30
_Figure = TypeVar("_Figure", int, float)


def clip(text: str) -> str:
    """Return the part of a text that is kept, because a line of a stream may be as long as 16 MiB."""
    return text[:MAX_KEPT]


def clip_optional(text: str | None) -> str | None:
    """Return the part of an optional text that is kept."""
    return None if text is None else clip(text)


def count_by_name(counts: MutableMapping[str, int], name: str, number: int = 1) -> None:
    """Add to a name's count, or to that of `others` if there are names enough."""
    kept = clip(name)
    named = kept if kept in counts or len(counts) < MAX_NAMED else "others"
    counts[named] = counts.get(named, 0) + number


def plausible(figure: _Figure | None, most: float) -> _Figure | None:
    """Return a figure from 0 to `most`, and None for any other, which no device has."""
    return figure if figure is not None and 0 <= figure <= most else None


def _is_impossible(number: float) -> bool:
    """Return whether a number is too large to be shown, negative, or not a number."""
    return not 0 <= number < _LARGEST


def duration(nanoseconds: float) -> str:
    """Return a duration in readable units, with three significant digits if it is below a minute."""
    if _is_impossible(nanoseconds):
        return UNKNOWN
    if 0 < nanoseconds < _MICROSECOND:
        return _LEAST  # less than it takes to send an event
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
    """Return a number with separators between thousands."""
    return UNKNOWN if _is_impossible(number) else f"{number:,}"


def index(number: int) -> str:
    """Return a number that is a name, such as a layer's, without separators."""
    return UNKNOWN if _is_impossible(number) else str(number)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 layer`, `12 layers`."""
    return f"{count(number)} {noun if number == 1 else plural or noun + 's'}"


def percent(share: float) -> str:
    """Return a share of 1 in whole percent, rounded down, so that 100 % means that all is done."""
    return f"{UNKNOWN if _is_impossible(share) else min(99, int(share * 100)) if share < 1 else 100} %"


def fine_percent(share: float) -> str:
    """Return a share of 1 in percent, with one decimal."""
    return f"{UNKNOWN if _is_impossible(share) else format(100 * share, '.1f')} %"


def memory(size: int) -> str:
    """Return bytes in GiB."""
    return f"{UNKNOWN if _is_impossible(size) else format(size / 2**30, '.1f')} GiB"


def joules(number: float) -> str:
    """Return an energy in joules or, if it is large, in kJ, MJ and so on, with three significant digits."""
    if _is_impossible(number):
        return UNKNOWN
    value, unit = number, 0
    while value >= _NEXT_ENERGY and unit < len(_ENERGIES) - 1:
        value, unit = value / 1000, unit + 1
    decimals = 0 if value >= _TWO_WHOLE else 1 if value >= _ONE_WHOLE else 2
    return f"{value:,.{decimals}f} {_ENERGIES[unit]}"


def size(number: float) -> str:
    """Return bytes in a readable binary unit, with three significant digits."""
    if _is_impossible(number):
        return UNKNOWN
    value, unit = float(number), 0
    while value >= _NEXT_SIZE and unit < len(_SIZES) - 1:
        value, unit = value / 1024, unit + 1
    decimals = 0 if not unit or value >= _TWO_WHOLE else 1 if value >= _ONE_WHOLE else 2
    return f"{value:,.{decimals}f} {_SIZES[unit]}"


def shapes(input_shape: tuple[int, int], output_shape: tuple[int, int]) -> str:
    """Return a layer's shapes, rows times columns, with an arrow between."""
    return f" {ARROW} ".join(TIMES.join(map(index, shape)) for shape in (input_shape, output_shape))


def bar(share: float, width: int) -> str:
    """Return a bar for a share of 1, in eighths of a column."""
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).strip()


@lru_cache(maxsize=64)
def kind_style(kind: str) -> str:
    """Return the colour of a layer kind, as a style of rich."""
    red, green, blue = LayerKind(kind).color_rgb
    return f"rgb({red},{green},{blue})"
