"""How sumcheck rounds are exported, and how many events one span may have."""

from __future__ import annotations

import enum

import msgspec


class Rounds(enum.Enum):
    """How sumcheck rounds are exported."""

    SPAN_EVENTS = "span_events"
    """Each as a span event of its layer."""
    LOGS = "logs"
    """Each as a log record."""
    BOTH = "both"
    """Each as a span event and as a log record."""
    AGGREGATE = "aggregate"
    """As counts on the layer's span."""
    OFF = "off"
    """As the total alone."""

    @property
    def on_spans(self) -> bool:
        """Whether they are span events."""
        return self in (Rounds.SPAN_EVENTS, Rounds.BOTH)

    @property
    def in_logs(self) -> bool:
        """Whether they are log records."""
        return self in (Rounds.LOGS, Rounds.BOTH)


class SpanLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many events one span may have.

    Attributes:
        rounds: How sumcheck rounds are exported.
        max_rounds: The most rounds.
        max_notes: The most events of other kinds.
        max_events: The most of both together.
    """

    rounds: Rounds
    max_rounds: int
    max_notes: int
    max_events: int
