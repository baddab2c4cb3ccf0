"""``--otlp-file DIR``: OTLP JSON lines, which a Collector's ``otlp_json_file`` receiver reads.

A line is one whole ``TracesData``, ``LogsData`` or ``MetricsData`` object: one span, one log record, or as many metrics
of one collection as fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from proofstream_otel.otlp import json as otlp_json
from proofstream_otel.otlp.json_lines import MAX_LINE_BYTES, JsonLines
from proofstream_otel.traces.log_records import LogValues
from proofstream_otel.values.metric_points import MetricPoints
from proofstream_otel.values.resources import Resource
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import SpanValues, fit

_encode = msgspec.json.Encoder().encode
_METRIC_BYTES = MAX_LINE_BYTES - 64 * 2**10
"""How much of a line is left for metrics when resource and scope have theirs."""


class _File:
    """What the files of all signals do alike."""

    def __init__(self, lines: JsonLines, resource: Resource) -> None:
        self._lines = lines
        self._resource = resource

    def counters(self) -> dict[str, int]:
        """Items written to the file, and items that could not be."""
        return self._lines.counters()

    def hurry(self) -> None:
        """Do nothing: it never waits."""

    def begin_closing(self, timeout_s: float) -> None:
        """Do nothing: what was written is written."""

    def close(self, timeout_s: float) -> None:
        """Close the file."""
        self._lines.close()

    def _resource_and_scope(self, session: tuple[tuple[str, str], ...]) -> tuple[dict[str, Any], dict[str, Any]]:
        resource = {"attributes": otlp_json.attributes_of(self._resource.of(session))}
        return resource, {"name": SCOPE, "version": self._resource.scope_version}


class TraceFile(_File):
    """Spans."""

    def write(self, span: SpanValues) -> None:
        """Append a span; one that is too large goes without the middle of its events."""
        self._lines.append(fit(span, self._line, MAX_LINE_BYTES))

    def _line(self, span: SpanValues) -> bytes:
        resource, scope = self._resource_and_scope(span.resource)
        scope_spans = {"scope": scope, "spans": [otlp_json.span_of(span)]}
        return _encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}) + b"\n"


class LogFile(_File):
    """Log records."""

    def write(self, log: LogValues) -> None:
        """Append a log record."""
        resource, scope = self._resource_and_scope(log.resource)
        scope_logs = {"scope": scope, "logRecords": [otlp_json.log_of(log)]}
        self._lines.append(_encode({"resourceLogs": [{"resource": resource, "scopeLogs": [scope_logs]}]}) + b"\n")


class MetricFile(_File):
    """Metrics."""

    def write(self, collected: Sequence[MetricPoints]) -> None:
        """Append what was collected, in as few lines as possible."""
        resource, scope = self._resource_and_scope(())
        for metrics, count in _packed(collected):
            scope_metrics = {"scope": scope, "metrics": metrics}
            content = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope_metrics]}]}
            self._lines.append(_encode(content) + b"\n", count)


def _packed(collected: Sequence[MetricPoints]) -> Iterable[tuple[list[msgspec.Raw], int]]:
    """Encoded metrics for one line after the other, and how many points they hold."""
    metrics: list[msgspec.Raw] = []
    size = count = 0
    for group in collected:
        encoded = _encode(otlp_json.metric_of(group))
        if metrics and size + len(encoded) > _METRIC_BYTES:
            yield metrics, count
            metrics, size, count = [], 0, 0
        metrics.append(msgspec.Raw(encoded))
        size += len(encoded) + 1
        count += len(group.points)
    if metrics:
        yield metrics, count
