"""Makes log records of events."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proofstream import Envelope, Interval, Log, LogLevel, SumcheckRound
from proofstream_otel.values import safe
from proofstream_otel.values.logs import LogSink, LogValues
from proofstream_otel.values.rounds import round_of
from proofstream_otel.values.semconv import Attr, EventName
from proofstream_otel.values.spans import SpanRef, SpanValues

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


class LogWriter:
    """Makes records of events inside spans; a listener of the mapping of spans."""

    def __init__(self, sinks: Sequence[LogSink], *, rounds: bool) -> None:
        self._sinks = sinks
        self._kinds = (Log, SumcheckRound) if rounds else (Log,)

    def opened(self, interval: Interval) -> None:
        """Do nothing: the span shows that."""

    def noted(self, interval: Interval | None, envelope: Envelope, span: SpanValues, ref: SpanRef) -> None:
        """Write a record of an event in an interval or a session."""
        if isinstance(envelope.event, self._kinds):
            record = record_of(envelope, interval, ref, span.resource)
            for sink in self._sinks:
                sink.write_log(record)

    def noted_rounds(self, interval: Interval, envelopes: Sequence[Envelope], span: SpanValues, ref: SpanRef) -> None:
        """Write a record of each sumcheck round, if rounds are to be records."""
        if SumcheckRound in self._kinds:
            for envelope in envelopes:
                self.noted(interval, envelope, span, ref)

    def closed(self, interval: Interval, ref: SpanRef) -> None:
        """Do nothing: the span shows that."""


def record_of(
    envelope: Envelope, interval: Interval | None, ref: SpanRef, resource: tuple[tuple[str, str], ...]
) -> LogValues:
    """Make the record of a Log or SumcheckRound that happened in a span."""
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
        said = {Attr.LAYER_INDEX: event.layer_idx, **round_of(event, interval)}
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
