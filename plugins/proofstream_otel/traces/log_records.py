"""Log records as plain values, and how they are made of events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from proofstream import Envelope, Interval, Log, LogLevel, SumcheckRound
from proofstream_otel.traces import describe
from proofstream_otel.traces.open_spans import Page
from proofstream_otel.values import safe
from proofstream_otel.values.metric_points import SpanRef
from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import Attr, EventName

MAX_BODY_CHARS = 16 * 2**10
"""The longest text of a record."""

_SAMPLED = 1
_SEVERITIES: dict[LogLevel, tuple[int, str]] = {
    LogLevel.Trace: (1, "TRACE"),
    LogLevel.Debug: (5, "DEBUG"),
    LogLevel.Info: (9, "INFO"),
    LogLevel.Warn: (13, "WARN"),
    LogLevel.Error: (17, "ERROR"),
    LogLevel.Unknown: (0, ""),
}


class LogValues(msgspec.Struct, frozen=True, kw_only=True):
    """One log record; every value in it is safe to export.

    Attributes:
        event_name: What kind of record it is.
        time_unix_nano: When it happened.
        observed_unix_nano: When we came to know it.
        severity_number: OpenTelemetry's number of the severity, 0 if there is none.
        severity_text: Its name.
        body: The text, or None.
        attributes: Its attributes.
        trace_id: The trace it belongs to, 32 hex digits.
        span_id: The span it belongs to, 16 hex digits.
        flags: The trace's flags.
        resource: Who runs the prover, as sorted pairs.
    """

    event_name: str
    time_unix_nano: int
    observed_unix_nano: int
    severity_number: int
    severity_text: str
    body: str | None
    attributes: Attributes
    trace_id: str
    span_id: str
    flags: int
    resource: tuple[tuple[str, str], ...]


class LogSink(Protocol):
    """Takes log records."""

    def write(self, log: LogValues) -> None:
        """Take a log record."""
        ...

    def counters(self) -> dict[str, int]:
        """What was delivered and what could not be."""
        ...

    def hurry(self) -> None:
        """Stop waiting in `write`, as `close` is about to come."""
        ...

    def begin_closing(self, timeout_s: float) -> None:
        """Begin to deliver what is left within `timeout_s` from now."""
        ...

    def close(self, timeout_s: float) -> None:
        """Deliver what can be delivered within `timeout_s`."""
        ...


class LogWriter:
    """Makes records of what happens in spans; it listens to the mapping of spans."""

    def __init__(self, sinks: Sequence[LogSink], *, rounds: bool) -> None:
        self._sinks = sinks
        self._kinds = (Log, SumcheckRound) if rounds else (Log,)

    def opened(self, interval: Interval) -> None:
        """Do nothing: a span says that."""

    def noted(self, interval: Interval | None, envelope: Envelope, page: Page) -> None:
        """Take an event that happened in an interval or a session."""
        if isinstance(envelope.event, self._kinds):
            record = record_of(envelope, page.ref, page.span.resource)
            for sink in self._sinks:
                sink.write(record)

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Do nothing: a span says that."""


def record_of(envelope: Envelope, ref: SpanRef, resource: tuple[tuple[str, str], ...]) -> LogValues:
    """The record of a Log or SumcheckRound that happened in a span."""
    event = envelope.event
    event_name: str = EventName.LOG
    said: dict[str, object] = {}
    body: str | None = None
    severity_number, severity_text = 0, ""
    if isinstance(event, Log):
        body = safe.text(event.message, MAX_BODY_CHARS)
        severity_number, severity_text = _SEVERITIES[event.level]
    elif isinstance(event, SumcheckRound):
        event_name = EventName.ROUND
        said = {Attr.LAYER_INDEX: event.layer_idx, **describe.round_of(event)}
    return LogValues(
        event_name=event_name,
        time_unix_nano=safe.timestamp(envelope.time_unix_nano),
        observed_unix_nano=time.time_ns(),
        severity_number=severity_number,
        severity_text=severity_text,
        body=body,
        attributes=safe.attributes({Attr.SESSION_ID: envelope.session_id, **said}),
        trace_id=ref.trace_id,
        span_id=ref.span_id,
        flags=_SAMPLED if ref.sampled else 0,
        resource=resource,
    )
