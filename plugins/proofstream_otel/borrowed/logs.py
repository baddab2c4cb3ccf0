"""The sink for a logger provider that is not ours, and the only module that touches OpenTelemetry's API for logs.

That API is not public yet. Log records of our own pipeline do not need it, as they are encoded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import _logs as api
from opentelemetry.sdk import _logs as sdk

from proofstream_otel.otlp.span_writer import context_of
from proofstream_otel.traces.log_records import LogValues
from proofstream_otel.values.semconv import SCOPE
from proofstream_otel.values.spans import Parent


class BorrowedLogs:
    """Hands log records to the provider's logger. It is never shut down, flushed or made global by us."""

    def __init__(self, provider: Any, identity: Mapping[str, str]) -> None:
        self._logger: api.Logger = provider.get_logger(SCOPE, identity.get("proofstream.version", ""))
        self._handed_over = 0

    def write(self, log: LogValues) -> None:
        """Emit a log record in the context of its span."""
        span = Parent(trace_id=log.trace_id, span_id=log.span_id, sampled=bool(log.flags), remote=False)
        self._logger.emit(
            timestamp=log.time_unix_nano,
            observed_timestamp=log.observed_unix_nano,
            context=context_of(span),
            severity_number=api.SeverityNumber(log.severity_number),
            severity_text=log.severity_text or None,
            body=log.body,
            attributes=log.attributes,
            event_name=log.event_name,
        )
        self._handed_over += 1

    def counters(self) -> dict[str, int]:
        """Log records handed to the provider. Delivery is its own affair."""
        return {"logs_handed_over": self._handed_over}

    def hurry(self) -> None:
        """Do nothing: it never waits."""

    def begin_closing(self, timeout_s: float) -> None:
        """Do nothing: delivery is the provider's."""

    def close(self, timeout_s: float) -> None:
        """Do nothing: delivery is the provider's."""


def find(passed_in: Any, identity: Mapping[str, str]) -> BorrowedLogs | None:
    """The sink for the provider that was passed in, or else for the global one, if that is one of the SDK."""
    provider = passed_in if passed_in is not None else api.get_logger_provider()
    usable = passed_in is not None or isinstance(provider, sdk.LoggerProvider)
    return BorrowedLogs(provider, identity) if usable else None
