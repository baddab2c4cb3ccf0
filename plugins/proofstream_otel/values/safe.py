"""Makes values safe to export: OTLP can carry every value that this module returns.

A bad value costs at most itself, never its span or batch. A missing or non-finite number is left out, a lone surrogate
becomes a question mark, and a long string is cut.

Web pages read numbers as doubles and round integers from 2^53 on, and OTLP has no integers from 2^63 on. Such an
integer is exported as its decimal digits, under a key of its own: a key that is a number for one value and a text for
the next cannot be searched, and some backends refuse the second.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

Scalar: TypeAlias = str | bool | int | float
Value: TypeAlias = Scalar | list[str] | list[int] | list[float]
Attributes: TypeAlias = dict[str, Value]

MAX_STRING_CHARS = 1024
"""The longest string exported. Backends cut at 2 KiB of UTF-8 or earlier without a mark; we add one."""

MAX_LIST_ITEMS = 128
"""The longest list exported."""

LARGEST_INTEGER = 2**53 - 1
"""The largest integer that is exported as a number."""

_SMALLEST_INTEGER = -LARGEST_INTEGER

DIGITS = ".digits"
"""The end of the key under which a larger one is exported."""

_INT64_MAX = 2**63 - 1
_CUT = "\N{HORIZONTAL ELLIPSIS}"


def attributes(raw: Mapping[str, object]) -> Attributes:
    """Make a mapping of attributes safe; leave out the ones that cannot be exported.

    A list with an integer that is too large for a number is exported as digits as a whole.
    """
    safe: Attributes = {}
    for key, found in raw.items():
        value: Any = found
        # Nearly all stay as they are. That is asked right here, since this runs for each attribute of a stream.
        kind = type(found)
        if kind is int:
            is_safe = _SMALLEST_INTEGER <= value <= LARGEST_INTEGER
        elif kind is str:
            is_safe = len(value) <= MAX_STRING_CHARS and value.isascii()
        elif kind is float:
            is_safe = math.isfinite(value)
        elif value is None:
            continue
        elif kind is tuple and _are_numbers(value):
            value, is_safe = [*value][:MAX_LIST_ITEMS], True
        else:
            is_safe = kind is bool
        if is_safe:
            safe[key] = value
        else:
            _add_made_safe(safe, key, value)
    return safe


def _add_made_safe(safe: Attributes, key: str, value: object) -> None:
    exportable = make_safe(value)
    if exportable is None:
        return
    # Where a number was too large, there is a text in its place.
    is_text = isinstance(exportable, str) or (isinstance(exportable, list) and isinstance(exportable[0], str))
    safe[key + DIGITS if is_text and _is_large(value) else key] = exportable


def _are_numbers(values: Sequence[Any]) -> bool:
    """Return whether all are integers that can be exported as numbers, and there is one."""
    for value in values:  # a loop is fastest, since most are shapes of two
        if type(value) is not int or not _SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            return False
    return bool(values)


def _is_large(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) > LARGEST_INTEGER
    return isinstance(value, list | tuple) and any(map(_is_large, cast("Sequence[object]", value)))


def make_safe(value: object) -> Value | None:
    """Make one value safe; None if there is nothing to export."""
    if value is None:
        return None
    # Look up the exact type first, since this runs several times for each event of a stream.
    rule = _RULES.get(type(value))
    return rule(value) if rule is not None else _by_base(value)


def _by_base(value: object) -> Value | None:
    if isinstance(value, enum.Enum):
        return make_safe(value.value)
    for base, rule in _RULES.items():
        if isinstance(value, base):
            return rule(value)
    return text(str(value))


def _boolean(value: bool) -> bool:
    return value


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _sequence(values: Sequence[Any]) -> Value | None:
    """Make a list of one type only: all integers, all numbers, or else all strings."""
    if _are_numbers(values):
        return [*values][:MAX_LIST_ITEMS]
    items = [item for item in map(make_safe, values) if item is not None]
    if any(isinstance(item, str | bool | list) for item in items):
        return [text(str(item)) for item in items[:MAX_LIST_ITEMS]]
    numbers = [item for item in items[:MAX_LIST_ITEMS] if isinstance(item, int | float)]
    if any(isinstance(item, float) for item in numbers):
        return [float(item) for item in numbers]
    return [int(item) for item in numbers] or None


def integer(value: int) -> int | str:
    """Return the integer, or its decimal digits if it is too large for a number, as u64 counts may be."""
    return int(value) if abs(value) <= LARGEST_INTEGER else str(value)


def text(value: str, max_chars: int = MAX_STRING_CHARS) -> str:
    """Return the string as valid Unicode of at most `max_chars` characters; a cut one ends in an ellipsis."""
    if len(value) > max_chars:
        value = value[: max_chars - 1] + _CUT
    if value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")


def timestamp(unix_nano: int) -> int:
    """Clamp a time to the range that every backend accepts: from 1 to 2^63 - 1."""
    if type(unix_nano) is int and 1 <= unix_nano <= _INT64_MAX:
        return unix_nano
    return min(max(1, int(unix_nano)), _INT64_MAX)


_RULES: dict[type, Callable[[Any], Value | None]] = {
    bool: _boolean,
    int: integer,
    float: _number,
    str: text,
    list: _sequence,
    tuple: _sequence,
}
