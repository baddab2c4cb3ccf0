"""Counts what the SDK delivers and loses, which it tells only its own log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk._logs import ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from proofstream_otel.values.signals import Signal


class Tally:
    """What became of the items of one exporter.

    Attributes:
        taken: The items that its processor was given.
        exported: Those that it said it delivered.
        failed: Those that it said it could not deliver.
        has_ended: Whether the provider was shut down, so that items that are neither are lost.
    """

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self.taken = self.exported = self.failed = 0
        self.has_ended = False

    def counters(self) -> dict[str, int]:
        """Count delivered and lost items."""
        dropped = max(0, self.taken - self.exported - self.failed) if self.has_ended else 0
        return {self._signal.exported: self.exported, self._signal.lost: self.failed + dropped}


class CountedSpans(BatchSpanProcessor):
    """The SDK's processor of spans, with a tally."""

    def __init__(self, exporter: Any, tally: Tally) -> None:
        super().__init__(_Counting(exporter, tally))  # type: ignore[arg-type]
        self._tally = tally

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that has ended."""
        self._tally.taken += bool(span.context and span.context.trace_flags.sampled)
        super().on_end(span)


class CountedLogs(BatchLogRecordProcessor):
    """The SDK's processor of log records, with a tally."""

    def __init__(self, exporter: Any, tally: Tally) -> None:
        super().__init__(_Counting(exporter, tally))  # type: ignore[arg-type]
        self._tally = tally

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Take a log record."""
        self._tally.taken += 1
        super().on_emit(log_record)


class _Counting:
    """An exporter that keeps another one's tally, and leaves everything else to it."""

    def __init__(self, exporter: Any, tally: Tally) -> None:
        self._exporter = exporter
        self._tally = tally

    def __getattr__(self, name: str) -> Any:
        return getattr(self._exporter, name)

    def export(self, items: Sequence[Any]) -> Any:
        result = None
        try:
            result = self._exporter.export(items)
            return result
        finally:
            if getattr(result, "name", "") == "SUCCESS":
                self._tally.exported += len(items)
            else:
                self._tally.failed += len(items)
