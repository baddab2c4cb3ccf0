"""The durations that enter histograms: those that are known, not those of which only a bound is known, or nothing."""

from __future__ import annotations

from proofstream import Interval, PhaseEnd, Stage, reported_duration_ms

LONGEST_BELIEVABLE_S = 400 * 24 * 3600.0
"""A reported duration above 400 days measures nothing, and would spoil a histogram's sum for ever."""

_NS_PER_S = 1e9
_MS_PER_S = 1e3


def duration_s(interval: Interval) -> float | None:
    """Return how long an interval took in seconds, or None if that is not known.

    A reported duration counts as the producer reports it: where it was laid out, the interval may be cut or moved.
    """
    match interval.duration_source:
        case "measured" | "derived":
            return (interval.duration_ns or 0) / _NS_PER_S
        case "reported":
            return _reported_s(interval)
        case _:
            return None


def stage_duration_s(stage: Stage) -> float | None:
    """Return how long a stage took in seconds, or None if that is not known."""
    is_known = stage.duration_source in ("measured", "derived")
    return (stage.duration_ns or 0) / _NS_PER_S if is_known else None


def _reported_s(interval: Interval) -> float | None:
    event = interval.end_event
    if isinstance(event, PhaseEnd):
        found = None if event.duration_ns is None else event.duration_ns / _NS_PER_S
    else:
        reported_ms = reported_duration_ms(interval)
        found = None if reported_ms is None else reported_ms / _MS_PER_S
    return found if found is not None and found <= LONGEST_BELIEVABLE_S else None
