"""Sumcheck rounds as span events that are described only when a writer asks: most writers take them in another form."""

from __future__ import annotations

from typing import Any

import msgspec

from proofstream import Interval, SecureField, SumcheckRound, reported_claim
from proofstream_otel.values import safe
from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import Attr, EventName


class RoundEvent(msgspec.Struct, frozen=True, gc=False):
    """A sumcheck round as a span event; it can stand wherever a `SpanEvent` can.

    Attributes:
        time_unix_nano: When it happened. As it came: only a time inside of its span is safe to export.
        round: The round.
        layer: The layer that it belongs to, if that was open.
    """

    time_unix_nano: int
    round: SumcheckRound
    layer: Interval | None

    @property
    def name(self) -> str:
        """The name of every round."""
        return EventName.ROUND

    @property
    def attributes(self) -> Attributes:
        """What the round says, made safe."""
        return safe.attributes(round_of(self.round, self.layer))

    @property
    def dropped_attributes(self) -> int:
        """None are left out."""
        return 0


def round_of(event: SumcheckRound, layer: Interval | None) -> dict[str, Any]:
    """Describe a sumcheck round; its coefficients are one string of decimal limbs, "c0.a,c0.b,c0.c,c0.d;c1.a,..."."""
    degree, coefficients = _polynomial(event)
    return {
        Attr.ROUND: event.round,
        Attr.ROUND_TOTAL: event.total_rounds,
        Attr.ROUND_DEGREE: degree,
        Attr.ROUND_COEFFICIENTS: coefficients,
        Attr.ROUND_CLAIM: reported_claim(event, layer),
    }


def _polynomial(event: SumcheckRound) -> tuple[int | None, str | None]:
    """Return degree and coefficients of a round's polynomial, or None for both if it carries no polynomial."""
    if (deg2 := event.poly_deg2) is not None:
        return 2, f"{_limbs(deg2.c0)};{_limbs(deg2.c1)};{_limbs(deg2.c2)}"
    if (deg3 := event.poly_deg3) is not None:
        return 3, f"{_limbs(deg3.c0)};{_limbs(deg3.c1)};{_limbs(deg3.c2)};{_limbs(deg3.c3)}"
    return None, None


def _limbs(element: SecureField) -> str:
    return f"{element.a},{element.b},{element.c},{element.d}"
