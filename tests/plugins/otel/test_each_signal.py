"""Each signal goes its own way: to the application's provider for it, or through our own pipeline."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream import ConfigError
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What the application's global tracer provider exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, resource=Resource({"service.name": "the-app"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """Reads the application's global meter provider."""
    made = InMemoryMetricReader()
    provider = MeterProvider([made], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    yield made
    provider.shutdown()


def run(kit: Any, plugin: OtelPlugin | None = None, config: dict[str, Any] | None = None, **how: Any) -> InlineHost:
    """Prove once, with a line of text, and end."""
    host = InlineHost(plugin or OtelPlugin(), config, **how)
    start, layer, *rest = kit.small_proof()
    host.feed(envelopes([start, layer, ps.Log(level=ps.LogLevel.Info, message="hello"), *rest]))
    host.close()
    return host


def ids_of_proofs(spans: InMemorySpanExporter) -> list[tuple[str, str]]:
    """The ids of the spans of proofs."""
    found = [span.get_span_context() for span in spans.get_finished_spans() if span.name == "proof"]
    return [(f"{one.trace_id:032x}", f"{one.span_id:016x}") for one in found if one is not None]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that the user sees."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def exemplars(reader: InMemoryMetricReader) -> list[tuple[str, str]]:
    """The spans that the durations of proofs point to."""
    data: Any = reader.get_metrics_data()
    found = [m for group in data.resource_metrics for scope in group.scope_metrics for m in scope.metrics]
    points = [p for metric in found if metric.name == "proofstream.proof.duration" for p in metric.data.data_points]
    return [(f"{e.trace_id:032x}", f"{e.span_id:016x}") for point in points for e in point.exemplars]


class TestWithMetricsAlone:
    """The application has a meter provider, and nothing else."""

    @pytest.mark.parametrize("asked", [True, False])
    def test_the_endpoint_gets_the_others(
        self, kit: Any, receiver: Any, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch, asked: bool
    ) -> None:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        run(kit, asked=asked)
        assert sorted(span.name for span in receiver.spans) == ["layer MatMul", "proof", "session"]
        assert [record.body for record in receiver.logs] == ["hello"]
        assert receiver.points == []
        (proof,) = [span for span in receiver.spans if span.name == "proof"]
        assert exemplars(reader) == [(proof.trace_id, proof.span_id)]

    def test_who_asks_for_the_plugin_gets_traces_at_the_default_endpoint(
        self, kit: Any, receiver: Any, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("proofstream_otel.otlp.endpoints.HTTP_DEFAULT", receiver.url)
        run(kit, asked=True)
        assert len(receiver.spans) == 3
        assert receiver.points == []

    def test_where_the_others_go_nowhere_it_is_no_news_to_who_did_not_ask(
        self, kit: Any, reader: InMemoryMetricReader, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO):
            run(kit, asked=False)
        assert warnings(caplog) == []
        assert any("traces and logs go nowhere" in record.getMessage() for record in caplog.records)


class TestWithTracingAlone:
    """The application has a tracer provider, and nothing else."""

    def test_the_endpoint_gets_the_others(
        self, kit: Any, receiver: Any, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        run(kit, asked=False)
        assert receiver.spans == []
        proofs = ids_of_proofs(spans)
        pointed = [p.exemplars for p in receiver.points if p.name == "proofstream.proof.duration" and p.exemplars]
        assert [(trace_id, span_id) for ((_, trace_id, span_id),) in pointed] == proofs
        assert [(record.trace_id, record.span_id, record.flags) for record in receiver.logs] == [(*proofs[0], 1)]
        assert receiver.services == {"the-app"}

    def test_what_goes_nowhere_is_said_once(
        self, kit: Any, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
    ) -> None:
        host = run(kit, asked=True)
        assert host.health() == {"spans_handed_over": 3, "spans_unsampled": 0}
        (line,) = warnings(caplog)
        assert line == (
            "metrics and logs go nowhere, because no provider and no endpoint takes them: set "
            "OTEL_EXPORTER_OTLP_ENDPOINT, or leave them out with OTEL_METRICS_EXPORTER=none, OTEL_LOGS_EXPORTER=none"
        )

    def test_what_is_turned_off_is_not_missed(
        self, kit: Any, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
    ) -> None:
        run(kit, config={"metrics": False, "logs": False}, asked=True)
        assert warnings(caplog) == []

    def test_what_is_asked_for_by_name_goes_to_the_default_endpoint(
        self, kit: Any, receiver: Any, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("proofstream_otel.otlp.endpoints.HTTP_DEFAULT", receiver.url)
        run(kit, config={"metrics": True, "logs": False}, asked=False)
        assert {path.rpartition("/")[2] for path in receiver.other_paths} == {"metrics"}
        assert receiver.paths == []

    def test_our_own_pipeline_can_be_had_all_the_same(
        self, kit: Any, receiver: Any, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        run(kit, config={"pipeline": "own"}, asked=False)
        assert len(receiver.spans) == 3
        assert spans.get_finished_spans() == ()


@pytest.mark.parametrize("asked", [True, False])
def test_a_provider_without_a_processor_is_named(
    kit: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, asked: bool
) -> None:
    bare = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: bare)
    with caplog.at_level(logging.INFO):
        run(kit, config={"metrics": False, "logs": False}, asked=asked)
    (record,) = [record for record in caplog.records if "nowhere" in record.getMessage()]
    assert record.levelno == (logging.WARNING if asked else logging.INFO)
    assert record.getMessage() == (
        "traces go nowhere so far: the application's provider has nothing that exports them; give it a processor or "
        'reader, or set otel.pipeline = "own"'
    )


class TestPassedIn:
    """Providers that are handed to the plugin take their own signal; the rest goes where the settings say."""

    def test_a_file_takes_the_others(self, kit: Any, tmp_path: Path) -> None:
        made = InMemoryMetricReader()
        provider = MeterProvider([made], shutdown_on_exit=False)
        run(kit, OtelPlugin(meter_provider=provider), {"file": str(tmp_path)})
        assert sorted(path.name for path in tmp_path.iterdir()) == ["logs.jsonl", "traces.jsonl"]
        (proof,) = [span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof"]
        assert exemplars(made) == [(proof.trace_id, proof.span_id)]
        provider.shutdown()

    def test_with_all_of_them_nothing_is_left_for_a_file(self, tmp_path: Path) -> None:
        plugin = OtelPlugin(
            tracer_provider=TracerProvider(shutdown_on_exit=False),
            meter_provider=MeterProvider(shutdown_on_exit=False),
            logger_provider=LoggerProvider(shutdown_on_exit=False),
        )
        with pytest.raises(ConfigError) as raised:
            InlineHost(plugin, {"file": str(tmp_path)})
        message = "otel: providers for all signals were passed in: nothing is left for endpoint and file"
        assert str(raised.value) == message


def test_a_provider_that_comes_too_late_is_named_once(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, receiver.url)
    host = InlineHost(OtelPlugin(), asked=False)
    late = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: late)
    host.tick()
    host.tick()
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert len(receiver.spans) == 3, "the spans of a trace stay together"
    (line,) = warnings(caplog)
    assert line == (
        "the application has set up a provider for traces after the session was opened: "
        "proofstream's do not go there; set it up before open_session"
    )
