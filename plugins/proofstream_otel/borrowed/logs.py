"""Hands log records to a logger provider of OpenTelemetry's API.

That API is not public yet. Our own pipeline does without it, since it encodes log records itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import _logs as api

from proofstream_otel.sdk_context import context_of_ref
from proofstream_otel.values.logs import LogValues
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import SpanRef


class BorrowedLogs:
    """Hands log records to the provider's logger, and never shuts it down, flushes it or makes it global."""

    def __init__(self, provider: Any, identity: Mapping[str, str]) -> None:
        self._logger: api.Logger = provider.get_logger(SCOPE, identity.get("proofstream.version", ""))
        self._handed_over = 0

    def write_log(self, log: LogValues) -> None:
        """Emit a log record in the context of its span."""
        self._logger.emit(
            timestamp=log.time_unix_nano,
            observed_timestamp=log.observed_unix_nano,
            context=context_of_ref(SpanRef(log.trace_id, log.span_id, bool(log.flags))),
            severity_number=api.SeverityNumber(log.severity_number),
            severity_text=log.severity_text or None,
            body=log.body,
            attributes=log.attributes,
            event_name=log.event_name,
        )
        self._handed_over += 1

    def counters(self) -> dict[str, int]:
        """Count the log records handed to the provider, which delivers them on its own."""
        return {"logs_handed_over": self._handed_over}
