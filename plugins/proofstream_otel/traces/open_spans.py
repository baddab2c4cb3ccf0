"""An open span and what is gathered for it until it ends."""

from __future__ import annotations

import math
from typing import Any

from proofstream import CircuitCompiled, Envelope, GpuStatus, StateProgramCost
from proofstream_otel.settings import NoteLimits
from proofstream_otel.traces import describe
from proofstream_otel.traces.span_events import Notebook
from proofstream_otel.values import safe
from proofstream_otel.values.metric_points import SpanRef
from proofstream_otel.values.semconv import Attr
from proofstream_otel.values.spans import SpanValues

MAX_DEVICES = 16
"""Names of devices kept for a span."""

MAX_PROGRAMS = 16
"""State programs that a span has attributes for."""


class Page:
    """One open span.

    Attributes:
        span: The span as it began.
        ref: Where metrics and log records point to: the span, or the one above it if its id is not known yet.
        due_s: Of a proof: until when, by a monotonic clock, what came last may still be answered by who prices it.
    """

    __slots__ = ("_devices", "_found", "_gpu_statuses", "_notes", "_programs", "due_s", "ref", "span")

    def __init__(self, span: SpanValues, ref: SpanRef, limits: NoteLimits) -> None:
        self.span = span
        self.ref = ref
        self.due_s = -math.inf
        self._notes = Notebook(limits)
        self._found: dict[str, Any] = {}
        self._gpu_statuses = 0
        self._devices: list[str] = []
        self._programs: set[str] = set()

    def price(self, event: StateProgramCost) -> bool:
        """Take a state program's cost as attributes; False if it cannot be one of the few that a span has."""
        program = event.program
        if not describe.is_program(program) or len(self._programs | {program}) > MAX_PROGRAMS:
            return False
        self._programs.add(program)
        self._found.update(describe.state_cost_of(event))
        return True

    def note(self, envelope: Envelope) -> None:
        """Take an event that happened in the span."""
        event = envelope.event
        if isinstance(event, GpuStatus):
            self._gpu_statuses += 1
            self._remember(describe.device_names(event))
            return
        if isinstance(event, CircuitCompiled):
            self._found.update(describe.circuit_of(event))
        self._notes.add(envelope)

    def close(self, *, end_unix_nano: int, said: dict[str, Any], error: str | None = None) -> SpanValues:
        """The span as it ended, with what its last event and the counts say."""
        events, dropped, counts = self._notes.close()
        span = self.span
        span.end_unix_nano = max(span.start_unix_nano, safe.timestamp(end_unix_nano))
        span.attributes.update(safe.attributes({**said, **self._found, **self._gpu_counts(), **counts}))
        span.events = events
        span.dropped_events = dropped
        span.error = None if error is None else safe.text(error)
        return span

    def _remember(self, names: list[str]) -> None:
        for name in names:
            if name not in self._devices and len(self._devices) < MAX_DEVICES:
                self._devices.append(name)

    def _gpu_counts(self) -> dict[str, Any]:
        if not self._gpu_statuses:
            return {}
        return {Attr.GPU_STATUS_COUNT: self._gpu_statuses, Attr.GPU_STATUS_DEVICES: self._devices}
