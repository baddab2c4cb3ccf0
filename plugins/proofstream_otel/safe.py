"""The one place where values are made safe to export: whatever a stream holds, OTLP can carry what comes out of here.

A bad value costs itself at most, never its span and never its batch: an integer outside of int64 becomes a decimal
string, a number that is not finite or missing is left out, a lone surrogate becomes a question mark, a long string is
cut.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

Scalar: TypeAlias = str | bool | int | float
Value: TypeAlias = Scalar | list[str] | list[int] | list[float]
Attributes: TypeAlias = dict[str, Value]

MAX_STRING_CHARS = 1024
"""The longest string exported. Backends cut at 2 KiB of UTF-8 or earlier; what we cut is marked."""

MAX_LIST_ITEMS = 128
"""The longest list exported."""

_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1
_CUT = "\N{HORIZONTAL ELLIPSIS}"


def attributes(raw: Mapping[str, object]) -> Attributes:
    """Make a mapping of attributes safe; what cannot be exported is left out."""
    safe: Attributes = {}
    for key, value in raw.items():
        exportable = make_safe(value)
        if exportable is not None:
            safe[key] = exportable
    return safe


def make_safe(value: object) -> Value | None:
    """Make one value safe; None if there is nothing to export."""
    if isinstance(value, list | tuple):
        return _safe_list(cast("Iterable[object]", value))
    return _safe_scalar(value)


def _safe_scalar(value: object) -> Scalar | None:
    match value:
        case bool():
            return value
        case int():
            return integer(value)
        case float():
            return float(value) if value - value == 0.0 else None
        case str():
            return text(value)
        case enum.Enum():
            return _safe_scalar(value.value)
        case None:
            return None
        case _:
            return text(str(value))


def _safe_list(values: Iterable[object]) -> Value | None:
    """A list of one type only: all integers, all numbers, or else all strings."""
    items = [item for item in (_safe_scalar(v) for v in values) if item is not None][:MAX_LIST_ITEMS]
    if any(isinstance(item, str | bool) for item in items):
        return [str(item) for item in items]
    numbers = [item for item in items if isinstance(item, int | float)]
    if any(isinstance(item, float) for item in numbers):
        return [float(item) for item in numbers]
    return [int(item) for item in numbers] or None


def integer(value: int) -> int | str:
    """The integer, or its decimal digits if it does not fit into int64, as field elements and u64 counts may not."""
    return int(value) if _INT64_MIN <= value <= _INT64_MAX else str(value)


def text(value: str) -> str:
    """The string as valid Unicode of at most `MAX_STRING_CHARS` characters; a cut one ends in an ellipsis."""
    if len(value) > MAX_STRING_CHARS:
        value = value[: MAX_STRING_CHARS - 1] + _CUT
    if value.isascii():
        return value
    return value.encode("utf-8", "replace").decode("utf-8")


def timestamp(unix_nano: int) -> int:
    """A time that every backend takes: from 1 to 2^63 - 1."""
    return min(max(1, int(unix_nano)), _INT64_MAX)
