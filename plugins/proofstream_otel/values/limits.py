"""OpenTelemetry's limits on attributes and links, beside our own ones: the lower one wins."""

from __future__ import annotations

import msgspec

from proofstream_otel.values.logs import LogSink, LogValues
from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.safe import Attributes, Value
from proofstream_otel.values.spans import SpanEvent, SpanValues


class AttributeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on the attributes of one thing.

    Attributes:
        count: The most attributes; later ones are left out. None for no limit.
        length: The most characters of a text. None for no limit.
    """

    count: int | None = None
    length: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return self.count is not None or self.length is not None

    def apply(self, attributes: Attributes) -> tuple[Attributes, int]:
        """Return the attributes within the limits, and how many were left out."""
        if not self.is_set:
            return attributes, 0
        kept = list(attributes.items())[: self.count]
        return {key: self._cut(value) for key, value in kept}, len(attributes) - len(kept)

    def _cut(self, value: Value) -> Value:
        if isinstance(value, str):
            return value[: self.length]
        if isinstance(value, list) and value and isinstance(value[0], str):
            return [str(text)[: self.length] for text in value]
        return value


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on spans and log records.

    Attributes:
        span: On a span's attributes.
        event: On the attributes of a span's event.
        log: On a log record's attributes.
        links: The most links of a span. None for no limit.
    """

    span: AttributeLimits = AttributeLimits()
    event: AttributeLimits = AttributeLimits()
    log: AttributeLimits = AttributeLimits()
    links: int | None = None

    @property
    def is_set(self) -> bool:
        """Whether there is a limit on spans."""
        return self.span.is_set or self.event.is_set or self.links is not None

    def limit_span(self, span: SpanValues) -> None:
        """Apply the limits to an ended span, and count on it what was left out."""
        span.attributes, span.dropped_attributes = self.span.apply(span.attributes)
        if self.event.is_set:
            span.events = [_limited_event(event, self.event) for event in span.events]
        kept = span.links[: self.links]
        span.links, span.dropped_links = kept, len(span.links) - len(kept)


class _LimitedLogs:
    """Applies limits to log records on their way to a sink."""

    def __init__(self, sink: LogSink, limits: AttributeLimits) -> None:
        self._sink = sink
        self._limits = limits

    def write_log(self, log: LogValues) -> None:
        """Pass a log record on, within the limits."""
        attributes, dropped = self._limits.apply(log.attributes)
        self._sink.write_log(msgspec.structs.replace(log, attributes=attributes, dropped_attributes=dropped))


def limited(sink: LogSink, limits: AttributeLimits) -> LogSink:
    """Return the sink with limits applied to what it gets."""
    return _LimitedLogs(sink, limits) if limits.is_set else sink


def _limited_event(event: SpanEvent | RoundEvent, limits: AttributeLimits) -> SpanEvent:
    attributes, dropped = limits.apply(event.attributes)
    return SpanEvent(event.name, event.time_unix_nano, attributes, dropped)
