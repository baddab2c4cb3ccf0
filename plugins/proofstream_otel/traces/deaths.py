"""Tells where a proof died, from what was open when it ended."""

from __future__ import annotations

from typing import Any

from proofstream import Interval, Proof
from proofstream_otel.values.semconv import Attr

_NS_PER_S = 1e9
_AUDIBLE_S = 1.0
"""A silence of less than a second is not worth a word."""


def abort_of(interval: Interval) -> dict[str, Any]:
    """Return why an interval failed and, for a proof, where it stood then."""
    if interval.aborted_reason is None:
        return {}
    found: dict[str, Any] = {Attr.ABORTED_REASON: interval.aborted_reason}
    if isinstance(interval, Proof):
        layer = interval.aborted_layer
        found[Attr.ABORTED_PHASE] = interval.stage
        found[Attr.ABORTED_SILENCE] = interval.silent_ns / _NS_PER_S if interval.silent_ns else None
        if layer is not None:
            found[Attr.ABORTED_LAYER] = layer.key
            found[Attr.ABORTED_LAYER_KIND] = layer.layer_kind
    return found


def error_of(interval: Interval) -> str | None:
    """Return the status message of an interval that failed, or None."""
    reason = interval.aborted_reason
    if reason is None or not isinstance(interval, Proof):
        return reason
    told = ", ".join(part for part in (_place_of(interval), _silence_of(interval)) if part)
    return f"{reason}; {told}" if told else reason


def _place_of(proof: Proof) -> str:
    match proof.stage:
        case _ if proof.aborted_layer is not None:
            return f"in layer {proof.aborted_layer.key} {proof.aborted_layer.layer_kind}"
        case "after_layers":
            return f"after the last layer ({proof.walked})"
        case "layers":
            return f"between layers, after {proof.walked}"
        case "before_layers":
            return "before the first layer"
        case _:
            return ""


def _silence_of(proof: Proof) -> str:
    silent_s = (proof.silent_ns or 0) / _NS_PER_S
    return f"after {_in_words(silent_s)} of silence" if silent_s >= _AUDIBLE_S else ""


def _in_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{seconds:.1f} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
