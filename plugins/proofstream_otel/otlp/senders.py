"""What goes to a receiver, encoded: one small writer in front of each signal's queue."""

from __future__ import annotations

from collections.abc import Sequence

from proofstream_otel.otlp.exporter import Exporter
from proofstream_otel.otlp.protobuf import encode_log, encode_span
from proofstream_otel.otlp.protobuf_metrics import encode_metric
from proofstream_otel.traces.log_records import LogValues
from proofstream_otel.values.metric_points import MetricPoints
from proofstream_otel.values.spans import SpanValues


class _Sender:
    """What the senders of all signals do alike."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def counters(self) -> dict[str, int]:
        """What was delivered and what could not be."""
        return self._exporter.counters()

    def hurry(self) -> None:
        """Hold the lane no more, as it is about to end."""
        self._exporter.hurry()

    def begin_closing(self, timeout_s: float) -> None:
        """Begin to deliver what is left within `timeout_s` from now."""
        self._exporter.begin_closing(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Deliver what can be delivered within `timeout_s`."""
        self._exporter.close(timeout_s)


class TraceSender(_Sender):
    """Spans."""

    def write(self, span: SpanValues) -> None:
        """Queue a span; roots end last and hold the trace together, so they have some room of their own."""
        self._exporter.put(span.resource, encode_span(span), reserve=2 if span.is_root else 1)


class LogSender(_Sender):
    """Log records."""

    def write(self, log: LogValues) -> None:
        """Queue a log record."""
        self._exporter.put(log.resource, encode_log(log))


class MetricSender(_Sender):
    """Metrics."""

    def write(self, collected: Sequence[MetricPoints]) -> None:
        """Queue what was collected. While the receiver is away collections wait for it; the plugin does not."""
        for group in collected:
            self._exporter.put((), encode_metric(group), count=len(group.points), patient=False)
