"""Phases as attributes: what a producer says of one, how far it has come, and the sums of those without a span."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

from proofstream import Phase, PhaseEnd, PhaseProgress, PhaseStart, PhaseSum
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr, phase_attribute

MAX_ATTRIBUTES = 32
"""The most attributes of a producer's own that a phase's span has."""

MAX_SUMMED = safe.MAX_LIST_ITEMS
"""The most names of summed phases that a span tells apart; the ones that took least time are added up."""

OTHER = "other"

_MAX_KEY_CHARS = 64
_NS_PER_S = 1e9
_STEPS = 10


def name_of(phase: Phase) -> str:
    """Return the name of a phase's span. The producer chose it, so it may hold anything."""
    return safe.text(phase.name, 128)


def start_of(phase: Phase) -> dict[str, Any]:
    """Return the attributes with which a phase begins."""
    event = phase.start_event
    found: dict[str, Any] = {Attr.PHASE_NAME: phase.name, Attr.PHASE_NUMBER: phase.key}
    if isinstance(event, PhaseStart):
        found[Attr.LAYER_INDEX] = event.layer_idx
        for key in list(event.attributes)[:MAX_ATTRIBUTES]:
            found[phase_attribute(safe.text(key, _MAX_KEY_CHARS))] = event.attributes[key]
        found[Attr.PHASE_ATTRIBUTES_DROPPED] = max(0, len(event.attributes) - MAX_ATTRIBUTES) or None
    return found


def end_of(phase: Phase) -> dict[str, Any]:
    """Return the attributes with which a phase ends."""
    event = phase.end_event
    return {
        Attr.PHASE_DONE: phase.done,
        Attr.PHASE_TOTAL: phase.total,
        Attr.PHASE_REPORTED_DURATION: event.duration_ns if isinstance(event, PhaseEnd) else None,
        Attr.PHASE_AFTER_COMPLETE: phase.after_complete or None,
    }


def summed_in(summed: Mapping[str, PhaseSum]) -> dict[str, Any]:
    """Return the sums of the phases in an interval that have no span of their own: lists, the most time first."""
    if not summed:
        return {}
    sums = heapq.nlargest(MAX_SUMMED, summed.items(), key=lambda item: item[1].total_ns)
    if len(summed) > MAX_SUMMED:
        sums[-1] = (OTHER, PhaseSum())
        told = {name for name, _ in sums[:-1]}
        for name, found in summed.items():
            if name not in told:
                sums[-1][1].add(found)
    return {
        Attr.SUMMED_NAMES: [name for name, _ in sums],
        Attr.SUMMED_COUNTS: [found.count for _, found in sums],
        Attr.SUMMED_DURATIONS: [found.total_ns / _NS_PER_S for _, found in sums],
        Attr.SUMMED_LONGEST: [found.max_ns / _NS_PER_S for _, found in sums],
    }


def step_of(event: PhaseProgress) -> int:
    """Return the step that a progress has reached: a tenth of the total or, where that is not known, a power of two."""
    if event.total:
        return min(_STEPS, event.done * _STEPS // event.total)
    return event.done.bit_length()
