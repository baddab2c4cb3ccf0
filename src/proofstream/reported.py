"""The worth of a producer's figures: known placeholders and impossible values, one rule for every view.

Each function returns the figure as the producer reported it, or None where it says nothing. docs/events.md lists the
placeholders. A view never decides by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from proofstream.events import (
    AggregatedBindingEnd,
    GpuSnapshot,
    GpuStatus,
    LayerEnd,
    LayerStart,
    ProofComplete,
    StarkProofEnd,
    SumcheckRound,
    WeightOpeningEnd,
)
from proofstream.intervals import Interval

_ALMOST_EQUAL = 1e-6
_ONE_MS = 1_000_000
_WITH_DURATION = (ProofComplete, LayerEnd, WeightOpeningEnd, AggregatedBindingEnd, StarkProofEnd)
MAX_DEVICES = 1024
"""The most devices whose memory is followed. A producer chooses their numbers; of more, nothing is shown."""
_MOST_HALVINGS = 30
"""Producers that make claims up stop halving here."""
_HALVES = [2.0**-number for number in range(_MOST_HALVINGS + 1)]


def reported_duration_ms(interval: Interval) -> int | None:
    """Return the duration that an interval's end event reports, in milliseconds.

    Producers report whole milliseconds, and some write 0 for every proof. So 0 means "below a millisecond" where no
    more was measured, and says nothing beside a measured millisecond or more.
    """
    event = interval.end_event
    if not isinstance(event, _WITH_DURATION):
        return None
    is_placeholder = event.duration_ms == 0 and (interval.duration_ns or 0) >= _ONE_MS
    return None if is_placeholder else event.duration_ms


def reported_rounds(layer: Interval) -> int | None:
    """Return how many rounds a layer's end event reports. Some producers write 0 for layers whose rounds they sent."""
    event = layer.end_event
    if not isinstance(event, LayerEnd) or (event.rounds_completed == 0 and layer.rounds):
        return None
    return event.rounds_completed


def reported_claim(event: SumcheckRound, layer: Interval | None) -> float | None:
    """Return the claim that a round reports, from 0 to 1: the first limb over the field's size.

    Some producers fill it in by halving the layer's starting claim once a round.

    Args:
        event: The round.
        layer: The layer that it belongs to, if that is open; it knows the starting claim.
    """
    return reported_claims((event,), layer)[0]


def reported_claims(events: Sequence[SumcheckRound], layer: Interval | None) -> list[float | None]:
    """Return the claims that rounds of one layer report; see `reported_claim`."""
    start = None if layer is None else layer.start_event
    first = start.claim_value_approx if isinstance(start, LayerStart) else None
    if not first:
        return [event.claim_value_approx for event in events]
    claims: list[float | None] = []
    for event in events:
        claim, number = event.claim_value_approx, event.round
        if claim is not None and number:
            halved = first * _HALVES[min(number, _MOST_HALVINGS)]
            if abs(claim - halved) <= _ALMOST_EQUAL * halved:
                claim = None
        claims.append(claim)
    return claims


class ReportedDevices:
    """Filters placeholders and impossible values out of reported device figures. One instance for each stream."""

    def __init__(self) -> None:
        self._first_free: dict[int, int] = {}
        self._changing: set[int] = set()

    def utilization(self, status: GpuStatus, device: GpuSnapshot) -> float | None:
        """Return a device's utilization, from 0 to 1; None if it is out of range or the share of layers done."""
        utilization = device.utilization
        if utilization is None or not 0 <= utilization <= 1:
            return None
        if not status.layers_total:
            return utilization
        is_share = abs(utilization - status.layers_done / status.layers_total) < _ALMOST_EQUAL
        return None if is_share else utilization

    def free_memory_bytes(self, device: GpuSnapshot) -> int | None:
        """Return a device's free memory in bytes; None until it changes, because a constant is the total or a filler.

        A zero is a placeholder, too: a device without a free byte could not prove anything.
        """
        free = device.free_memory_bytes
        if not free:
            return None
        if device.device_id not in self._first_free and len(self._first_free) >= MAX_DEVICES:
            return None
        if free != self._first_free.setdefault(device.device_id, free):
            self._changing.add(device.device_id)
        return free if device.device_id in self._changing else None

    def forget(self) -> None:
        """Forget what was seen, as for a new stream."""
        self._first_free.clear()
        self._changing.clear()
