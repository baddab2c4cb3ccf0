"""What `OtelPlugin` does once it is configured: choose where spans go, and feed the mapping."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider

from proofstream import Batch, ConfigError, PluginContext, TraceStarted
from proofstream_otel import environment
from proofstream_otel import settings as tables
from proofstream_otel.borrowed import BorrowedWriter
from proofstream_otel.mapping import SpanMapper
from proofstream_otel.otlp_file import OtlpFile
from proofstream_otel.owned import OwnedWriter, Sink
from proofstream_otel.parents import Parents
from proofstream_otel.resources import Resource
from proofstream_otel.settings import Settings
from proofstream_otel.spans import Writer

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider


class Exporting:
    """One plugin at work."""

    def __init__(
        self, context: PluginContext, table: Mapping[str, Any], tracer_provider: TracerProvider | None
    ) -> None:
        """Open what the table asks for.

        Raises:
            ConfigError: The table is wrong, or what it asks for cannot be opened.
            PluginError: It needs packages that are not installed.
        """
        settings = tables.read(table)
        limits = settings.note_limits
        self._writer = _choose_writer(settings, context, tracer_provider)
        self._mapper = None if self._writer is None else SpanMapper(self._writer, Parents(context.log), limits)

    @property
    def is_idle(self) -> bool:
        """Whether there is nowhere to export to."""
        return self._writer is None

    def consume(self, batch: Batch) -> Iterable[TraceStarted]:
        """Turn envelopes into spans; returns the trace of each proof that begins."""
        started: list[TraceStarted] = []
        if self._mapper is not None:
            for envelope in batch:
                started.extend(self._mapper.feed(envelope))
        return started

    def counters(self) -> dict[str, int]:
        """What was exported and what was lost."""
        return {} if self._writer is None else self._writer.counters()

    def close(self, timeout_s: float) -> None:
        """End what is open and deliver what is left, within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        if self._mapper is not None and self._writer is not None:
            self._writer.hurry()
            self._mapper.close("proofstream stopped")
            self._writer.close(max(0.0, deadline - time.monotonic()))


def _choose_writer(settings: Settings, context: PluginContext, tracer_provider: TracerProvider | None) -> Writer | None:
    """What was asked for, or else what the application has set up; None if there is nothing."""
    if environment.is_sdk_disabled():
        context.log.warning("OTEL_SDK_DISABLED is set: no traces are exported")
        return None
    asked = settings.endpoint is not None or settings.file is not None
    if tracer_provider is not None and asked:
        raise ConfigError("otel: a tracer provider was passed in, so otel.endpoint and otel.file cannot be set")
    if tracer_provider is not None:
        return BorrowedWriter(tracer_provider, context.identity)
    if asked:
        return OwnedWriter(_sinks(settings, context))
    if isinstance(provider := trace.get_tracer_provider(), SdkTracerProvider):
        return BorrowedWriter(provider, context.identity)
    if context.asked or environment.has_endpoint():
        return OwnedWriter(_sinks(settings.model_copy(update={"endpoint": ""}), context))
    context.log.info("no OTLP endpoint, file or tracer provider is there: no traces are exported")
    return None


def _sinks(settings: Settings, context: PluginContext) -> list[Sink]:
    resource = Resource(context.identity)
    sinks: list[Sink] = []
    if settings.file is not None:
        sinks.append(OtlpFile(settings.file, resource, max_bytes=settings.max_file_bytes, log=context.log))
    if settings.endpoint is not None:
        from proofstream_otel.export import Exporter
        from proofstream_otel.transport import open_transport

        transport = open_transport(settings.endpoint, settings.headers)
        batching = environment.batching()
        exporter = Exporter(transport, resource, batching=batching, progress=context.progress, log=context.log)
        sinks.append(exporter)
    return sinks
