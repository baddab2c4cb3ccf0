"""Writes OTLP JSON lines for ``--otlp-file DIR``; a Collector's ``otlp_json_file`` receiver reads them.

A line is one whole ``TracesData``, ``LogsData`` or ``MetricsData`` object: one span, one log record, or as many metrics
of one collection as fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from proofstream_otel.otlp import json as otlp_json
from proofstream_otel.otlp.json_lines import MAX_LINE_BYTES, JsonLines
from proofstream_otel.otlp.resources import Resources
from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.metric_points import MetricPoints
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import SpanValues, fit

_encode = msgspec.json.Encoder().encode
_METRIC_BYTES = MAX_LINE_BYTES - 64 * 2**10
"""The part of a line that metrics may fill; the rest is for the resource and the scope."""


class _SignalFile:
    """A file of any signal. Its `JsonLines` are closed by their owner."""

    def __init__(self, lines: JsonLines, resources: Resources) -> None:
        self._lines = lines
        self._resources = resources

    def _resource_and_scope(self, session: tuple[tuple[str, str], ...]) -> tuple[dict[str, Any], dict[str, Any]]:
        resource = {"attributes": otlp_json.attributes_of(self._resources.attributes_of(session))}
        return resource, {"name": SCOPE, "version": self._resources.scope_version}


class SpanFile(_SignalFile):
    """Writes spans."""

    def write_span(self, span: SpanValues) -> None:
        """Append a span; one that is too large loses events from the middle."""
        self._lines.append_line(fit(span, self._line, MAX_LINE_BYTES))

    def _line(self, span: SpanValues) -> bytes:
        resource, scope = self._resource_and_scope(span.resource)
        scope_spans = {"scope": scope, "spans": [otlp_json.span_of(span)]}
        return _encode({"resourceSpans": [{"resource": resource, "scopeSpans": [scope_spans]}]}) + b"\n"


class LogFile(_SignalFile):
    """Writes log records."""

    def write_log(self, log: LogValues) -> None:
        """Append a log record."""
        resource, scope = self._resource_and_scope(log.resource)
        scope_logs = {"scope": scope, "logRecords": [otlp_json.log_of(log)]}
        self._lines.append_line(_encode({"resourceLogs": [{"resource": resource, "scopeLogs": [scope_logs]}]}) + b"\n")


class MetricFile(_SignalFile):
    """Writes metrics."""

    def write_metrics(self, collected: Sequence[MetricPoints]) -> None:
        """Append a collection in as few lines as possible."""
        resource, scope = self._resource_and_scope(())
        for metrics, count in _packed(collected):
            scope_metrics = {"scope": scope, "metrics": metrics}
            content = {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope_metrics]}]}
            self._lines.append_line(_encode(content) + b"\n", count)


def _packed(collected: Sequence[MetricPoints]) -> Iterable[tuple[list[msgspec.Raw], int]]:
    """Yield, for each line, its encoded metrics and the number of their points."""
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
