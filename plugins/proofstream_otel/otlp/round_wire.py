"""Encodes sumcheck rounds as events of a span: nearly all that is exported of a long proof.

A round consists of numbers of known types. So it takes no dictionary, and nothing in it has to be made safe, unless a
number is too large to be exported as a number: then it is encoded as any other event.
"""

from __future__ import annotations

import struct

import msgspec

from proofstream import SumcheckRound, reported_claim
from proofstream_otel.otlp.wire import VARINTS, attribute, field
from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.safe import LARGEST_INTEGER
from proofstream_otel.values.semconv import Attr, EventName

EVENT = b"\x5a"
"""The tag of a span's event."""

EVENT_ATTRIBUTE = b"\x1a"
"""The tag of an event's attribute."""

_KEPT_BELOW = 4096
"""Indices and numbers of rounds below this are kept encoded."""

_NAME = field(2, EventName.ROUND.encode())
_DEGREE_2 = attribute(EVENT_ATTRIBUTE, Attr.ROUND_DEGREE, 2)
_DEGREE_3 = attribute(EVENT_ATTRIBUTE, Attr.ROUND_DEGREE, 3)
_CLAIM = attribute(EVENT_ATTRIBUTE, Attr.ROUND_CLAIM, 0.0)[:-8]
_FIXED_BYTES = 9 + len(_NAME)
"""What the time and the name take."""

_pack_time = struct.Struct("<cQ").pack
_pack_claim = struct.Struct(f"<{len(_CLAIM)}sd").pack
_json = msgspec.json.Encoder().encode


class _Numbers(dict[int, bytes]):
    """Attributes of one key with small numbers, encoded."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, value: int) -> bytes:
        encoded = attribute(EVENT_ATTRIBUTE, self._key, value)
        if value < _KEPT_BELOW:
            self[value] = encoded
        return encoded


class _Starts(dict[int, bytes]):
    """What stands in front of the text of an attribute, by the text's length: a few hundred."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key

    def __missing__(self, size: int) -> bytes:
        encoded = self[size] = attribute(EVENT_ATTRIBUTE, self._key, "0" * size)[: -size or None]
        return encoded


_INDICES = _Numbers(Attr.ROUND)
_TOTALS = _Numbers(Attr.ROUND_TOTAL)
_COEFFICIENTS = _Starts(Attr.ROUND_COEFFICIENTS)


def encode_round(event: RoundEvent) -> bytes | None:
    """Encode a round as an event of a span; None if a number in it is too large."""
    told = event.round
    index, total = told.round, told.total_rounds
    if index > LARGEST_INTEGER or total > LARGEST_INTEGER:
        return None
    degree, text = _polynomial(told)
    start = _COEFFICIENTS[len(text)] if degree else b""
    claim = reported_claim(told, event.layer)
    double = b"" if claim is None else _pack_claim(_CLAIM, claim)
    index_pair, total_pair = _INDICES[index], _TOTALS[total]
    size = _FIXED_BYTES + len(index_pair) + len(total_pair) + len(degree) + len(start) + len(text) + len(double)
    time = _pack_time(b"\x09", event.time_unix_nano)
    return b"".join((EVENT, VARINTS[size], time, _NAME, index_pair, total_pair, degree, start, text, double))


def _polynomial(told: SumcheckRound) -> tuple[bytes, bytes]:
    """Return the encoded degree of a round's polynomial and the text of its coefficients; empty if it has none."""
    deg2 = told.poly_deg2
    if deg2 is not None:
        c0, c1, c2 = deg2.c0, deg2.c1, deg2.c2
        limbs = (c0.a, c0.b, c0.c, c0.d), (c1.a, c1.b, c1.c, c1.d), (c2.a, c2.b, c2.c, c2.d)
        return _DEGREE_2, _json(limbs).replace(b"],[", b";")[2:-2]
    deg3 = told.poly_deg3
    if deg3 is not None:
        all_limbs = [(each.a, each.b, each.c, each.d) for each in (deg3.c0, deg3.c1, deg3.c2, deg3.c3)]
        return _DEGREE_3, _json(all_limbs).replace(b"],[", b";")[2:-2]
    return b"", b""
