"""Encodes spans, log records and metrics, and queues them for a receiver."""

from __future__ import annotations

from collections.abc import Sequence

from proofstream_otel.otlp.exporter import Exporter
from proofstream_otel.otlp.protobuf import encode_log, encode_span
from proofstream_otel.otlp.protobuf_metrics import encode_metric
from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.metric_points import MetricPoints
from proofstream_otel.values.spans import SpanValues


class SpanSender:
    """Sends spans."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def write_span(self, span: SpanValues) -> None:
        """Queue a span."""
        # Roots end last and hold the trace together, so they get room of their own.
        self._exporter.queue_item(span.resource, encode_span(span), reserve=2 if span.is_root else 1)


class LogSender:
    """Sends log records."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def write_log(self, log: LogValues) -> None:
        """Queue a log record."""
        self._exporter.queue_item(log.resource, encode_log(log))


class MetricSender:
    """Sends metrics."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def write_metrics(self, collected: Sequence[MetricPoints]) -> None:
        """Queue a collection."""
        for group in collected:
            # Never wait for a receiver that is away: the next collection has newer values of the same series.
            self._exporter.queue_item((), encode_metric(group), count=len(group.points), patient=False)
