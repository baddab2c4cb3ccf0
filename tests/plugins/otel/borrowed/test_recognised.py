"""Which providers are an application's own: known by what they can do, whatever their class."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import _logs, metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import ConsoleLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from proofstream import TraceStarted
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.borrowed.providers import is_deaf, is_stand_in
from proofstream_otel.values.signals import LOGS, METRICS, TRACES, Signal


@dataclass
class Wrapper(trace.TracerProvider):
    """A provider around another one, as observability libraries have them."""

    provider: trace.TracerProvider

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return self.provider.get_tracer(*args, **kwargs)


class Silent(trace.NoOpTracerProvider):
    """A no-op by another name."""


@pytest.mark.parametrize(
    ("provider", "stands_in"),
    [
        (trace.ProxyTracerProvider(), True),
        (trace.NoOpTracerProvider(), True),
        (Silent(), True),
        (metrics.get_meter_provider(), True),
        (metrics.NoOpMeterProvider(), True),
        (_logs.get_logger_provider(), True),
        (_logs.NoOpLoggerProvider(), True),
        (Wrapper(trace.NoOpTracerProvider()), True),
        (Wrapper(Wrapper(trace.ProxyTracerProvider())), True),
        (SimpleNamespace(provider=metrics.NoOpMeterProvider(), get_meter=None), True),
        (TracerProvider(shutdown_on_exit=False), False),
        (MeterProvider(shutdown_on_exit=False), False),
        (LoggerProvider(shutdown_on_exit=False), False),
        (Wrapper(TracerProvider(shutdown_on_exit=False)), False),
        (SimpleNamespace(get_tracer=None), False),
    ],
)
def test_what_leads_nowhere(provider: Any, stands_in: bool) -> None:
    assert is_stand_in(provider) is stands_in


def test_what_exports_nothing_so_far() -> None:
    tracer = TracerProvider(shutdown_on_exit=False)
    logger = LoggerProvider(shutdown_on_exit=False)
    pairs: list[tuple[Any, Signal]] = [(Wrapper(tracer), TRACES), (logger, LOGS)]
    assert [is_deaf(*pair) for pair in pairs] == [True, True]
    assert is_deaf(MeterProvider(shutdown_on_exit=False), METRICS)
    tracer.add_span_processor(SpanProcessor())
    logger.add_log_record_processor(SimpleLogRecordProcessor(ConsoleLogRecordExporter()))
    assert [is_deaf(*pair) for pair in pairs] == [False, False]
    assert not is_deaf(MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False), METRICS)
    assert not is_deaf(PlainProvider(), TRACES)


class PlainSpan(NonRecordingSpan):
    """A span of an implementation that keeps no more than the API asks for, and has no trace states."""

    def __init__(self, name: str, context: SpanContext, **begun: Any) -> None:
        super().__init__(context)
        self.name = name
        self.begun = begun
        self.said: dict[str, Any] = {}
        self.events: list[str] = []
        self.ended_at: int | None = None

    def is_recording(self) -> bool:
        return self.ended_at is None

    def set_attributes(self, attributes: Any) -> None:
        self.said |= attributes

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        self.events.append(name)

    def end(self, end_time: int | None = None) -> None:
        self.ended_at = end_time


class PlainProvider:
    """Another implementation of the API, of no class that the SDK or the API has."""

    def __init__(self, *, ids: bool = True) -> None:
        self.made: list[PlainSpan] = []
        self._ids = ids

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        return self

    def start_span(self, name: str, context: Context, **begun: Any) -> PlainSpan:
        above = trace.get_current_span(context).get_span_context()
        number = len(self.made) + 1
        made = SpanContext(
            trace_id=(above.trace_id or number) if self._ids else 0,
            span_id=number if self._ids else 0,
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        self.made.append(PlainSpan(name, made, above=above.span_id, **begun))
        return self.made[-1]


def test_another_implementation_than_the_sdk_gets_the_spans(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = PlainProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    host = InlineHost(OtelPlugin(), asked=False)
    (started,) = host.feed(envelopes(kit.small_proof()))
    host.close()
    names = {span.get_span_context().span_id: span.name for span in provider.made}
    assert {span.name: names.get(span.begun["above"]) for span in provider.made} == {
        "session": None,
        "proof": None,
        "layer MatMul": "proof",
    }
    assert all(span.ended_at is not None and span.begun["start_time"] for span in provider.made)
    proof = next(span for span in provider.made if span.name == "proof")
    assert isinstance(started, TraceStarted)
    assert started.trace_id == f"{proof.get_span_context().trace_id:032x}"
    assert host.health() == {"spans_handed_over": 3, "spans_unsampled": 0}


def test_spans_without_ids_are_said_once(
    kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = PlainProvider(ids=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    host = InlineHost(OtelPlugin(), asked=False)
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert len(provider.made) == 3
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"].count(
        "the application's tracer provider gives its spans no ids: none hangs from another"
    ) == 1
