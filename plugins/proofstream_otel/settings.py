"""Reads the configuration table ``[otel]``, together with OpenTelemetry's environment variables."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from proofstream import Check, read_table
from proofstream_otel import addresses, environment
from proofstream_otel.values.signals import LOGS, METRICS, TRACES, Signal
from proofstream_otel.values.span_limits import Rounds, SpanLimits

INTERVAL_S = 10.0
"""Seconds between exports of metrics, by default."""

MAX_NOTES = 512
"""The most span events per span that are not rounds."""

_NO_LIMIT = 2**31
_SDK_EVENT_LIMIT = 128
"""The most events of a span in the SDK, if no variable says otherwise."""
_TRACE_ID = "{trace_id}"
_PhaseName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128)]
_EVENT_LIMIT_VARIABLE = "OTEL_SPAN_EVENT_COUNT_LIMIT"


def _possible(value: str | None) -> str | None:
    fault = addresses.fault_of(value) if value else None
    if fault is not None:
        raise ValueError(fault)
    return value


def _with_place_for_id(value: str | None) -> str | None:
    if value is not None and _TRACE_ID not in value:
        raise ValueError(f"{value!r} has no {_TRACE_ID}")
    return value


class Pipeline(enum.Enum):
    """What makes and delivers the telemetry of each signal."""

    AUTO = "auto"
    """The application's provider for that signal, or else our own pipeline."""
    OWN = "own"
    """Our own pipeline, whatever providers the application has."""
    SDK = "sdk"
    """Providers of OpenTelemetry's SDK, made from the environment for proofstream alone."""


class Settings(Struct, frozen=True, kw_only=True):
    """The user's settings.

    Attributes:
        pipeline: What makes and delivers the telemetry.
        endpoint: Base URL of an OTLP receiver; empty for OTEL_EXPORTER_OTLP_ENDPOINT, or else the default port.
        file: Folder for OTLP JSON lines. If it holds those of an earlier run, they go into a fresh folder beside it.
        overwrite: Whether they replace those of an earlier run instead.
        headers: Sent with every request, in addition to OTEL_EXPORTER_OTLP_HEADERS.
        traces: Whether traces are exported. By default, unless OTEL_TRACES_EXPORTER is ``none``.
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

    pipeline: Pipeline = Pipeline.AUTO
    endpoint: Annotated[str | None, Check(_possible)] = None
    file: Path | None = None
    overwrite: bool = False
    headers: dict[str, str] = {}
    traces: bool | None = None
    metrics: bool | None = None
    logs: bool | None = None
    metric_interval_s: Annotated[float, Meta(ge=0.1, le=86_400)] | None = None
    phase_metrics: Annotated[list[_PhaseName], Meta(max_length=100)] = []
    rounds: Rounds = Rounds.SPAN_EVENTS
    max_round_events: Annotated[int, Meta(ge=0, le=100_000)] = 512
    max_queue_bytes: Annotated[int, Meta(ge=2**20)] = 64 * 2**20
    trace_url: Annotated[str | None, Check(_with_place_for_id)] = None
    max_file_bytes: Annotated[int, Meta(ge=2**20)] = 64 * 2**20

    @property
    def span_limits(self) -> SpanLimits:
        """The limits on a span's events."""
        said = environment.whole_number(_EVENT_LIMIT_VARIABLE)
        default = _SDK_EVENT_LIMIT if self.pipeline is Pipeline.SDK else _NO_LIMIT
        limit = default if said is None else said
        return SpanLimits(
            rounds=self.rounds,
            max_rounds=min(self.max_round_events, limit) if self.rounds.on_spans else 0,
            max_notes=min(MAX_NOTES, limit),
            max_events=limit,
        )

    def wants(self, signal: Signal) -> bool:
        """Return whether a signal is exported, by the table or else by OTEL_TRACES_EXPORTER and its neighbours."""
        said = self._said_of(signal)
        return not environment.is_turned_off(signal) if said is None else said

    def leaves_otlp_out(self, signal: Signal) -> bool:
        """Return whether OTEL_TRACES_EXPORTER, or its neighbour, names no ``otlp``, and the table does not ask for it.

        Then the signal has no receiver that only the environment asks for.
        """
        return self._said_of(signal) is None and environment.leaves_otlp_out(signal)

    def requires(self, signal: Signal) -> bool:
        """Return whether the user asked for the signal, so that a receiver without support for it is a failure."""
        if signal is LOGS and self.rounds.in_logs:
            return True
        return signal is TRACES or self._said_of(signal) is True

    def _said_of(self, signal: Signal) -> bool | None:
        return {TRACES: self.traces, METRICS: self.metrics, LOGS: self.logs}[signal]


def metric_interval_s(chosen: Settings) -> float:
    """Return the seconds between exports of metrics.

    Raises:
        ConfigError: A variable is wrong.
    """
    return chosen.metric_interval_s or environment.metric_interval_s(INTERVAL_S)


def read(table: Mapping[str, Any]) -> Settings:
    """Validate the configuration table.

    Raises:
        ConfigError: A key is unknown or a value is wrong.
    """
    return read_table(Settings, table, name="otel")
