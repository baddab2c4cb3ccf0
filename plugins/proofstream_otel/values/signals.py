"""The three kinds of telemetry, and how they differ on the way to a receiver."""

from __future__ import annotations

from typing import Final

import msgspec


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of telemetry.

    Attributes:
        name: `traces`, `metrics` or `logs`.
        items: The plural noun for its items.
        exported: The health counter of items that the receiver acknowledged.
        written: The health counter of items written to files.
        lost: The health counter of items that could not be delivered.
        failures: The health counter of requests that failed for good.
        rpc: The gRPC method.
        file_stem: The file's name without its extension.
    """

    name: str
    items: str
    exported: str
    written: str
    lost: str
    failures: str
    rpc: str
    file_stem: str

    @property
    def path(self) -> str:
        """The path below a receiver's base URL."""
        return f"/v1/{self.name}"

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.file_stem}.jsonl"

    @property
    def variable(self) -> str:
        """The signal's name in OTEL_EXPORTER_OTLP_ variables."""
        return self.name.upper()


class ExportCounts(msgspec.Struct, frozen=True):
    """What an exporter has done so far: items acknowledged, items lost, and attempts that failed."""

    exported: int
    lost: int
    failed_attempts: int


_SERVICES = "/opentelemetry.proto.collector"

TRACES: Final = Signal(
    name="traces",
    items="spans",
    exported="spans_exported",
    written="spans_written",
    lost="lost_spans",
    failures="export_failures",
    rpc=f"{_SERVICES}.trace.v1.TraceService/Export",
    file_stem="traces",
)
METRICS: Final = Signal(
    name="metrics",
    items="data points",
    exported="metric_points_exported",
    written="metric_points_written",
    lost="lost_metrics",
    failures="metric_export_failures",
    rpc=f"{_SERVICES}.metrics.v1.MetricsService/Export",
    file_stem="metrics",
)
LOGS: Final = Signal(
    name="logs",
    items="log records",
    exported="logs_exported",
    written="logs_written",
    lost="lost_logs",
    failures="log_export_failures",
    rpc=f"{_SERVICES}.logs.v1.LogsService/Export",
    file_stem="logs",
)
SIGNALS: Final = (TRACES, METRICS, LOGS)
