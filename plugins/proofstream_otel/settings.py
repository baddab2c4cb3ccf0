"""The configuration table ``[otel]``, and what the OpenTelemetry environment variables say about it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pydantic

from proofstream import read_table
from proofstream_otel import environment
from proofstream_otel.values.signals import LOGS, METRICS, Signal

MAX_NOTES = 512
"""Span events that are not rounds, at most, per span."""

_NO_LIMIT = 2**31
_SCHEMES = ("http://", "https://", "grpc://")
_EVENT_LIMIT_VARIABLE = "OTEL_SPAN_EVENT_COUNT_LIMIT"


class Rounds(enum.Enum):
    """How sumcheck rounds are exported."""

    SPAN_EVENTS = "span_events"
    """One span event each, on the layer's span."""
    LOGS = "logs"
    """One log record each."""
    BOTH = "both"
    """One span event and one log record each."""
    AGGREGATE = "aggregate"
    """As counts on the layer's span."""
    OFF = "off"
    """As the count alone."""

    @property
    def on_spans(self) -> bool:
        """Whether they are span events."""
        return self in (Rounds.SPAN_EVENTS, Rounds.BOTH)

    @property
    def in_logs(self) -> bool:
        """Whether they are log records."""
        return self in (Rounds.LOGS, Rounds.BOTH)


class NoteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many events one span may have: rounds, others, and both together."""

    rounds: Rounds
    max_rounds: int
    max_notes: int
    max_events: int


def _known_scheme(value: str | None) -> str | None:
    if value and not value.startswith(_SCHEMES):
        raise ValueError(f"{value!r} does not start with http://, https:// or grpc://")
    return value


class Settings(pydantic.BaseModel):
    """What a person can configure.

    Attributes:
        endpoint: Base URL of an OTLP receiver; empty for OTEL_EXPORTER_OTLP_ENDPOINT, or else the standard one.
        file: Folder for OTLP JSON lines.
        headers: Sent with every request, beside those of OTEL_EXPORTER_OTLP_HEADERS.
        metrics: Whether metrics are exported. By default they are, to a receiver that takes them.
        logs: Whether log records are exported. By default they are, to a receiver that takes them.
        metric_interval_s: Seconds between exports of metrics; OTEL_METRIC_EXPORT_INTERVAL, or else 10.
        rounds: How sumcheck rounds are exported.
        max_round_events: How many rounds of one span are exported; OTEL_SPAN_EVENT_COUNT_LIMIT wins if it is lower.
        max_file_bytes: When a file is set aside as ``traces-<n>.jsonl``.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    endpoint: Annotated[str | None, pydantic.AfterValidator(_known_scheme)] = None
    file: Path | None = None
    headers: dict[str, str] = {}
    metrics: bool | None = None
    logs: bool | None = None
    metric_interval_s: Annotated[float | None, pydantic.Field(ge=0.1, le=86_400)] = None
    rounds: Rounds = Rounds.SPAN_EVENTS
    max_round_events: Annotated[int, pydantic.Field(ge=0, le=100_000)] = 512
    max_file_bytes: Annotated[int, pydantic.Field(ge=2**20)] = 64 * 2**20

    @property
    def note_limits(self) -> NoteLimits:
        """The limits on a span's events."""
        said = environment.whole_number(_EVENT_LIMIT_VARIABLE)
        limit = _NO_LIMIT if said is None else said
        return NoteLimits(
            rounds=self.rounds,
            max_rounds=min(self.max_round_events, limit) if self.rounds.on_spans else 0,
            max_notes=min(MAX_NOTES, limit),
            max_events=limit,
        )

    def wants(self, signal: Signal) -> bool:
        """Whether a signal is exported, as far as the table and OTEL_METRICS_EXPORTER or OTEL_LOGS_EXPORTER say."""
        said = {METRICS: self.metrics, LOGS: self.logs}.get(signal, True)
        return not environment.is_turned_off(signal) if said is None else said

    def requires(self, signal: Signal) -> bool:
        """Whether somebody asked for the signal, so that a receiver that does not take it is a failure."""
        if signal is LOGS and self.rounds.in_logs:
            return True
        return {METRICS: self.metrics, LOGS: self.logs}.get(signal, True) is True


def read(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or a value is wrong.
    """
    return read_table(Settings, table, name="otel")
