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
        self._log = context.log
        self._settings = tables.read(table)
        self._limits = self._settings.note_limits
        self._mapper: SpanMapper | None = None
        self._writer: Writer | None = None
        self._disabled = environment.is_sdk_disabled()
        if self._disabled:
            self._log.warning("OTEL_SDK_DISABLED is set: no traces are exported")
        else:
            self._choose(context, tracer_provider)

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

    def _choose(self, context: PluginContext, tracer_provider: TracerProvider | None) -> None:
        settings = self._settings
        asked = settings.endpoint is not None or settings.file is not None
        if tracer_provider is not None and asked:
            raise ConfigError("otel: a tracer provider was passed in, so otel.endpoint and otel.file cannot be set")
        if tracer_provider is not None:
            self._use(BorrowedWriter(tracer_provider, context.identity))
        elif asked:
            self._use(OwnedWriter(_sinks(settings, context)))
        elif isinstance(provider := trace.get_tracer_provider(), SdkTracerProvider):
            self._use(BorrowedWriter(provider, context.identity))
        elif environment.has_endpoint():
            self._use(OwnedWriter(_sinks(settings.model_copy(update={"endpoint": ""}), context)))
        else:
            self._log.info("no OTLP endpoint, file or tracer provider is there: no traces are exported")

    def _use(self, writer: Writer) -> None:
        self._writer = writer
        self._mapper = SpanMapper(writer, Parents(self._log), self._limits)


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
