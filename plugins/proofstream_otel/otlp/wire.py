"""Writes protobuf's wire format: the parts of OTLP messages that are encoded for every span and event.

A message object for each of them takes ten times as long. Encoded keys and small numbers are kept, because they repeat.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from proofstream_otel.values.safe import Attributes, Value

_SEVEN_BITS = 0x7F
_MORE = 0x80
_64_BITS = 2**64 - 1
_MOST_KEPT = 4096
"""So many numbers and keys are kept encoded. A producer chooses the names of its phases' attributes."""

_LONGEST_KEPT = 128
"""No longer attributes are kept, in bytes."""

_pack_double = struct.Struct("<d").pack


class _Varints(dict[int, bytes]):
    def __missing__(self, value: int) -> bytes:
        encoded = _varint(value)
        if value < _MOST_KEPT:
            self[value] = encoded
        return encoded


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > _SEVEN_BITS:
        encoded.append(value & _SEVEN_BITS | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


VARINTS: dict[int, bytes] = _Varints()
"""Numbers from 0 up, encoded."""


def field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited field with a number below 16."""
    return b"%c%b%b" % (number << 3 | 2, VARINTS[len(content)], content)


class _Keys(dict[str, bytes]):
    def __missing__(self, key: str) -> bytes:
        if len(self) >= _MOST_KEPT:
            self.clear()
        encoded = self[key] = field(1, key.encode()) + b"\x12"
        return encoded


_KEYS = _Keys()


class _Pairs(dict[tuple[str, Any], bytes]):
    """Attributes with short values, which repeat from span to span. Of equal values of two types, one type only."""

    def __init__(self, tag: bytes) -> None:
        super().__init__()
        self._tag = tag

    def __missing__(self, pair: tuple[str, Any]) -> bytes:
        key, value = pair
        encoded = attribute(self._tag, key, [*cast("tuple[int, ...]", value)] if isinstance(value, tuple) else value)
        if len(encoded) <= _LONGEST_KEPT:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[pair] = encoded
        return encoded


class _Doubles(dict[str, Callable[[float], bytes]]):
    """The functions that encode an attribute with a double, by key: only the last eight bytes differ."""

    def __init__(self, tag: bytes) -> None:
        super().__init__()
        self._tag = tag

    def __missing__(self, key: str) -> Callable[[float], bytes]:
        if len(self) >= _MOST_KEPT:
            self.clear()
        start = attribute(self._tag, key, 0.0)[:-8]
        encode = self[key] = partial(struct.Struct(f"<{len(start)}sd").pack, start)
        return encode


def _pair(key: str, value: Value) -> bytes:
    """Encode an attribute, with its size in front."""
    start, content = _KEYS[key], _VALUES[type(value)](value)
    size = VARINTS[len(content)]
    return b"%b%b%b%b" % (VARINTS[len(start) + len(size) + len(content)], start, size, content)


def attribute(tag: bytes, key: str, value: Value) -> bytes:
    """Encode an attribute as a field with the given tag."""
    return tag + _pair(key, value)


class AttributesEncoder:
    """Encodes attributes as fields with a tag."""

    def __init__(self, tag: bytes) -> None:
        self._tag = tag
        self._pairs = _Pairs(tag)
        self._doubles = _Doubles(tag)

    def encode(self, values: Attributes) -> list[bytes]:
        """Return the encoded attributes, in parts."""
        pairs = self._pairs
        parts: list[bytes] = []
        for pair in values.items():
            key, value = pair
            kind = type(value)
            if kind is str or kind is int:
                parts.append(pairs[pair])
            elif isinstance(value, float):
                parts.append(self._doubles[key](value))
            elif isinstance(value, list) and value and type(value[0]) is int:
                parts.append(pairs[key, tuple(value)])
            else:
                parts.append(attribute(self._tag, key, value))
        return parts


def _text(value: str) -> bytes:
    encoded = value.encode()
    return b"\x0a%b%b" % (VARINTS[len(encoded)], encoded)


def _boolean(value: bool) -> bytes:
    return b"\x10\x01" if value else b"\x10\x00"


def _integer(value: int) -> bytes:
    return b"\x18" + VARINTS[value & _64_BITS]


def _double(value: float) -> bytes:
    return b"\x21" + _pack_double(value)


def _array(values: list[Any]) -> bytes:
    return field(5, b"".join([field(1, _VALUES[type(value)](value)) for value in values]))


_VALUES: dict[type[Value], Callable[[Any], bytes]] = {
    str: _text,
    bool: _boolean,
    int: _integer,
    float: _double,
    list: _array,
}
