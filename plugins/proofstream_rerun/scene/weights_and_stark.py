"""The drawing of weight openings, weight bindings and STARK proofs: a state timeline for each kind, and log lines."""

from __future__ import annotations

from proofstream import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    Interval,
    IntervalKind,
    ProofEvent,
    StarkProofEnd,
    StarkProofStart,
    WeightOpeningEnd,
    WeightOpeningStart,
    reported_duration_ms,
)
from proofstream_rerun.picture import palette, texts
from proofstream_rerun.picture.canvas import KEPT_LINES, Canvas
from proofstream_rerun.picture.marks import PLAIN, Look, Numbers, StateChange

_KEPT_STATES = 512

_BINDING = Look("points", ("weight binding, ms (reported)",), (palette.SERIES_COLORS[1],))
_PLACES = {
    IntervalKind.WEIGHT_OPENING: ("lanes/4_parts/weight_openings", "opening", "logs/weights"),
    IntervalKind.WEIGHT_BINDING: ("lanes/4_parts/weight_binding", "binding", "logs/proof"),
    IntervalKind.STARK_PROOF: ("lanes/4_parts/stark", "proving", "logs/stark"),
}


class WeightsAndStark:
    """Draws them for one recording. A state lasts while at least one interval of its kind is open."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._open: dict[IntervalKind, int] = {}

    def open_interval(self, part: Interval, event: ProofEvent) -> None:
        """Draw the start of an interval."""
        path, word, log = _PLACES[part.kind]
        count = self._open[part.kind] = self._open.get(part.kind, 0) + 1
        if count == 1:
            self._canvas.add_row(path, StateChange(word), PLAIN, keep=_KEPT_STATES)
        text = _beginning(event)
        if text is not None:
            self._canvas.add_log_line(log, text, "INFO")

    def close_interval(self, part: Interval, event: ProofEvent) -> None:
        """Draw the end of an interval."""
        path, _, log = _PLACES[part.kind]
        count = self._open[part.kind] = max(0, self._open.get(part.kind, 0) - 1)
        if count == 0:
            self._canvas.add_row(path, StateChange(None), PLAIN, keep=_KEPT_STATES)
        text = _ending(part, event) if part.end_seen else None
        if text is not None:
            self._canvas.add_log_line(log, text, "INFO")
        else:
            self._canvas.add_log_line(
                log, texts.part_left(part), "ERROR" if part.aborted_reason is not None else "WARN"
            )
        duration_ms = reported_duration_ms(part)
        if isinstance(event, AggregatedBindingEnd) and duration_ms is not None:
            self._canvas.add_row("proof/binding_ms", Numbers((float(duration_ms),)), _BINDING, keep=KEPT_LINES)


def _beginning(event: ProofEvent) -> str | None:
    match event:
        case WeightOpeningStart():
            return texts.opening_started(event)
        case AggregatedBindingStart():
            return texts.binding_started(event)
        case StarkProofStart():
            return texts.stark_started(event)
        case _:
            return None


def _ending(part: Interval, event: ProofEvent) -> str | None:
    match event:
        case WeightOpeningEnd():
            return texts.opening_ended(part, event)
        case AggregatedBindingEnd():
            return texts.binding_ended(part, event)
        case StarkProofEnd():
            return texts.stark_ended(part)
        case _:
            return None
