"""An open span, and everything gathered for it until it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from proofstream import CircuitCompiled, Envelope, GpuStatus, Interval, PhaseProgress, StateProgramCost
from proofstream_otel.traces import describe, phases
from proofstream_otel.traces.places import Place
from proofstream_otel.traces.span_events import BoundedEvents, EventBudget
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr
from proofstream_otel.values.span_limits import SpanLimits
from proofstream_otel.values.spans import SpanValues

MAX_DEVICES = 16
"""The most device names kept for a span."""

MAX_PROGRAMS = 16
"""The most state programs for which a span has attributes."""


class OpenSpan:
    """One open span, of an interval or, without one, of a session.

    Attributes:
        span: The span as it began.
        place: Its place in the trace.
        due_s: For a proof: until when, by a monotonic clock, costs of its latest events may still arrive.
    """

    __slots__ = (
        "_budget",
        "_devices",
        "_found",
        "_gpu_statuses",
        "_interval",
        "_limits",
        "_own_events",
        "_programs",
        "_step",
        "_unplaced",
        "due_s",
        "place",
        "span",
    )

    def __init__(
        self,
        span: SpanValues,
        place: Place,
        limits: SpanLimits,
        budget: EventBudget,
        interval: Interval | None = None,
    ) -> None:
        self.span = span
        self.place = place
        self.due_s = -math.inf
        self._interval = interval
        self._limits = limits
        self._budget = budget
        self._own_events: BoundedEvents | None = None  # many have none
        # Made safe at once, because the texts of untrusted producers may be long, and a span may be open for long.
        self._found: dict[str, Any] = {}
        self._gpu_statuses = 0
        self._devices: list[str] = []
        self._programs: set[str] = set()
        self._step = 0
        self._unplaced = 0

    @property
    def _events(self) -> BoundedEvents:
        if self._own_events is None:
            self._own_events = BoundedEvents(self._limits, self._interval, self._budget)
        return self._own_events

    def add_cost(self, event: StateProgramCost) -> bool:
        """Add a state program's cost as attributes. Return False if the span cannot take one more program."""
        program = event.program
        if not describe.is_program(program) or len(self._programs | {program}) > MAX_PROGRAMS:
            return False
        self._programs.add(program)
        self._found.update(safe.attributes(describe.state_cost_of(event)))
        return True

    def add_event(self, envelope: Envelope) -> None:
        """Add an event that happened in the span."""
        event = envelope.event
        if type(event) is GpuStatus:
            self._gpu_statuses += 1
            names = describe.device_names(event, MAX_DEVICES)
            if names != self._devices:  # most name the same ones
                self._remember(names)
            return
        if isinstance(event, CircuitCompiled):
            self._found.update(safe.attributes(describe.circuit_of(event)))
        self._events.add_event(envelope)

    def add_rounds(self, envelopes: Sequence[Envelope]) -> None:
        """Add sumcheck rounds that happened in the span."""
        self._events.add_rounds(envelopes)

    def add_progress(self, envelope: Envelope, event: PhaseProgress) -> None:
        """Add how far the span's phase has come, if that is a step further."""
        step = phases.step_of(event)
        if step > self._step:
            self._step = step
            self._events.add_event(envelope)

    def count_unplaced_progress(self) -> None:
        """Count a progress of which no phase is open."""
        self._unplaced += 1

    def leave_out(self) -> None:
        """Let there be no such span: its phase is one of those that are summed up in the interval around it."""
        self.place.is_left_out = True
        if self._own_events is not None:
            self._own_events.release()

    def finish(self, *, end_unix_nano: int, said: dict[str, Any], error: str | None = None) -> SpanValues:
        """Return the ended span, with the attributes `said` of its end event and the counts, which are added to it."""
        span = self.span
        span.end_unix_nano = max(span.start_unix_nano, safe.timestamp(end_unix_nano))
        found = said | self._found if self._found else said
        if self._gpu_statuses:
            found[Attr.GPU_STATUS_COUNT] = self._gpu_statuses
            found[Attr.GPU_STATUS_DEVICES] = self._devices
        if self._own_events is not None:
            span.events, span.dropped_events, counts = self._own_events.export(span.start_unix_nano, span.end_unix_nano)
            found |= counts
        if self._unplaced:
            found[Attr.PROGRESS_UNPLACED] = self._unplaced
        span.attributes.update(safe.attributes(found))
        span.error = None if error is None else safe.text(error)
        return span

    def _remember(self, names: list[str]) -> None:
        for name in map(safe.text, names):
            if name not in self._devices and len(self._devices) < MAX_DEVICES:
                self._devices.append(name)
