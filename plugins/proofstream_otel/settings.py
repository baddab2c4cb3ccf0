"""Reads the configuration table ``[otel]``, together with OpenTelemetry's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import pydantic

from proofstream import read_table
from proofstream_otel import environment
from proofstream_otel.values.signals import LOGS, METRICS, Signal
from proofstream_otel.values.span_limits import Rounds, SpanLimits

MAX_NOTES = 512
"""The most span events per span that are not rounds."""

_NO_LIMIT = 2**31
_TRACE_ID = "{trace_id}"
_SCHEMES = ("http://", "https://", "grpc://")
_PhaseName: TypeAlias = Annotated[str, pydantic.Field(min_length=1, max_length=128)]
_EVENT_LIMIT_VARIABLE = "OTEL_SPAN_EVENT_COUNT_LIMIT"


def _known_scheme(value: str | None) -> str | None:
    if value and not value.startswith(_SCHEMES):
        raise ValueError(f"{value!r} does not start with http://, https:// or grpc://")
    return value


def _with_place_for_id(value: str | None) -> str | None:
    if value is not None and _TRACE_ID not in value:
        raise ValueError(f"{value!r} has no {_TRACE_ID}")
    return value


class Settings(pydantic.BaseModel):
    """The user's settings.

    Attributes:
        endpoint: Base URL of an OTLP receiver; empty for OTEL_EXPORTER_OTLP_ENDPOINT, or else the default port.
        file: Folder for OTLP JSON lines. If it holds those of an earlier run, they go into a fresh folder beside it.
        overwrite: Whether they replace those of an earlier run instead.
        headers: Sent with every request, in addition to OTEL_EXPORTER_OTLP_HEADERS.
        metrics: Whether metrics are exported. By default, if the receiver accepts them.
        logs: Whether log records are exported. By default, if the receiver accepts them.
        metric_interval_s: Seconds between exports of metrics; OTEL_METRIC_EXPORT_INTERVAL, or else 10.
        phase_metrics: Names of phases whose durations are a metric: a producer chooses its names, and you the series.
        rounds: How sumcheck rounds are exported.
        max_round_events: The most rounds that are exported of one span; a lower OTEL_SPAN_EVENT_COUNT_LIMIT wins.
        max_queue_bytes: The most memory that one signal's items take while they wait for the receiver, in bytes.
        trace_url: Where a trace can be seen, with `{trace_id}` for its id.
        max_file_bytes: The size at which a file is set aside as ``traces-<n>.jsonl``.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    endpoint: Annotated[str | None, pydantic.AfterValidator(_known_scheme)] = None
    file: Path | None = None
    overwrite: bool = False
    headers: dict[str, str] = {}
    metrics: bool | None = None
    logs: bool | None = None
    metric_interval_s: Annotated[float | None, pydantic.Field(ge=0.1, le=86_400)] = None
    phase_metrics: Annotated[list[_PhaseName], pydantic.Field(max_length=100)] = []
    rounds: Rounds = Rounds.SPAN_EVENTS
    max_round_events: Annotated[int, pydantic.Field(ge=0, le=100_000)] = 512
    max_queue_bytes: Annotated[int, pydantic.Field(ge=2**20)] = 64 * 2**20
    trace_url: Annotated[str | None, pydantic.AfterValidator(_with_place_for_id)] = None
    max_file_bytes: Annotated[int, pydantic.Field(ge=2**20)] = 64 * 2**20

    @property
    def span_limits(self) -> SpanLimits:
        """The limits on a span's events."""
        said = environment.whole_number(_EVENT_LIMIT_VARIABLE)
        limit = _NO_LIMIT if said is None else said
        return SpanLimits(
            rounds=self.rounds,
            max_rounds=min(self.max_round_events, limit) if self.rounds.on_spans else 0,
            max_notes=min(MAX_NOTES, limit),
            max_events=limit,
        )

    def wants(self, signal: Signal) -> bool:
        """Return whether a signal is exported, by the table or else by OTEL_METRICS_EXPORTER or OTEL_LOGS_EXPORTER."""
        said = {METRICS: self.metrics, LOGS: self.logs}.get(signal, True)
        return not environment.is_turned_off(signal) if said is None else said

    def requires(self, signal: Signal) -> bool:
        """Return whether the user asked for the signal, so that a receiver without support for it is a failure."""
        if signal is LOGS and self.rounds.in_logs:
            return True
        return {METRICS: self.metrics, LOGS: self.logs}.get(signal, True) is True


def read(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or a value is wrong.
    """
    return read_table(Settings, table, name="otel")
