"""Encodes spans, log records and metrics, and queues them for a receiver."""

from __future__ import annotations

from collections.abc import Sequence

from proofstream_otel.otlp.exporter import Exporter
from proofstream_otel.otlp.protobuf import encode_log
from proofstream_otel.otlp.protobuf_metrics import encode_metric
from proofstream_otel.otlp.span_wire import encode_span
from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.metric_points import MetricPoints
from proofstream_otel.values.spans import SpanValues


class SpanSender:
    """Sends spans."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def write_span(self, span: SpanValues) -> None:
        """Queue a span."""
        self._exporter.queue_item(span.resource, encode_span(span))


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
            # Never wait for a receiver that is away. Collections are kept as long as the queue has room, because they
            # are the history of the outage; from a full one the oldest go, and later ones have newer values.
            self._exporter.queue_item((), encode_metric(group), count=len(group.points), patient=False)
