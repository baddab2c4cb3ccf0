"""A log record as plain values: made from events, taken by every writer of logs."""

from __future__ import annotations

from typing import Protocol

import msgspec

from proofstream_otel.values.safe import Attributes


class LogValues(msgspec.Struct, frozen=True, kw_only=True):
    """One log record; every value in it is safe to export.

    Attributes:
        event_name: The kind of record.
        time_unix_nano: When it happened.
        observed_unix_nano: When this process saw it.
        severity_number: OpenTelemetry's number of the severity, or 0 without one.
        severity_text: The severity's name.
        body: The text, or None.
        attributes: The record's attributes.
        trace_id: Its trace, 32 lower-case hex digits.
        span_id: Its span, 16 lower-case hex digits.
        flags: The trace's flags.
        resource: The process that runs the prover, as sorted pairs.
        dropped_attributes: The number of its attributes that are left out, for a limit.
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
    dropped_attributes: int = 0


class LogSink(Protocol):
    """Takes log records."""

    def write_log(self, log: LogValues) -> None:
        """Take a log record."""
        ...
