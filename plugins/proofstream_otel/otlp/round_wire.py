"""Encodes sumcheck rounds as events of a span: nearly all that is exported of a long proof.

A round consists of numbers of known types. So it takes no dictionary, and nothing in it has to be made safe, unless a
number is too large to be exported as a number: then it is encoded as any other event.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec

from proofstream import RoundPolyDeg3, reported_claims
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


class _Coefficients(dict[int, bytes]):
    """What stands in front of the text of a polynomial's coefficients, by the text's length: a few hundred."""

    def __init__(self, degree: int) -> None:
        super().__init__()
        self._degree = attribute(EVENT_ATTRIBUTE, Attr.ROUND_DEGREE, degree)

    def __missing__(self, size: int) -> bytes:
        of_text = attribute(EVENT_ATTRIBUTE, Attr.ROUND_COEFFICIENTS, "0" * size)[: -size or None]
        encoded = self[size] = self._degree + of_text
        return encoded


_INDICES = _Numbers(Attr.ROUND)
_TOTALS = _Numbers(Attr.ROUND_TOTAL)
_QUADRATIC = _Coefficients(2)
_CUBIC = _Coefficients(3)


def encode_rounds(rounds: Sequence[RoundEvent], encode_event: Callable[[RoundEvent], bytes]) -> list[bytes]:
    """Encode rounds of one layer as events of a span.

    Args:
        rounds: The rounds.
        encode_event: Encodes one with a number that is too large.

    Returns:
        The parts of their encoding, to be joined.
    """
    claims = reported_claims([event.round for event in rounds], rounds[0].layer) if rounds else ()
    parts: list[bytes] = []
    for event, claim in zip(rounds, claims, strict=True):
        told = event.round
        index, total = told.round, told.total_rounds
        if index > LARGEST_INTEGER or total > LARGEST_INTEGER:
            parts.append(encode_event(event))
            continue
        text, start = b"", b""
        quadratic = told.poly_deg2
        if quadratic is not None:
            c0, c1, c2 = quadratic.c0, quadratic.c1, quadratic.c2
            limbs = (c0.a, c0.b, c0.c, c0.d), (c1.a, c1.b, c1.c, c1.d), (c2.a, c2.b, c2.c, c2.d)
            text = _json(limbs).replace(b"],[", b";")[2:-2]
            start = _QUADRATIC[len(text)]
        elif told.poly_deg3 is not None:
            text = _cubic(told.poly_deg3)
            start = _CUBIC[len(text)]
        index_pair, total_pair = _INDICES[index], _TOTALS[total]
        double = b"" if claim is None else _pack_claim(_CLAIM, claim)
        size = _FIXED_BYTES + len(index_pair) + len(total_pair) + len(start) + len(text) + len(double)
        time = _pack_time(b"\x09", event.time_unix_nano)
        parts += EVENT, VARINTS[size], time, _NAME, index_pair, total_pair, start, text, double
    return parts


def _cubic(polynomial: RoundPolyDeg3) -> bytes:
    """Return the text of a cubic polynomial's coefficients."""
    limbs = [(each.a, each.b, each.c, each.d) for each in (polynomial.c0, polynomial.c1, polynomial.c2, polynomial.c3)]
    return _json(limbs).replace(b"],[", b";")[2:-2]
