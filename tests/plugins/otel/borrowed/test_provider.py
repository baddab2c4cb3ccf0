"""The application's own tracer provider: it gets the same spans as the file, and is left alone otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream.testing import InlineHost, RecordingPlugin, envelopes
from proofstream_otel import OtelPlugin

EVERY_STREAM = ["serde-all-variants", "aborted-then-next", "ws-job-frames-lagged", "stark-without-proof"]


def make_provider(**arguments: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    """A provider, and what it exports."""
    arguments.setdefault("span_limits", SpanLimits(max_events=4096))
    provider = TracerProvider(shutdown_on_exit=False, **arguments)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def plain(value: Any) -> Any:
    """A value as the file has it."""
    items: Any = value
    return list(items) if isinstance(value, tuple) else value


def content(span: ReadableSpan) -> dict[str, Any]:
    """The content of a span, without the provider's ids."""
    return {
        "name": span.name,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": {key: plain(value) for key, value in (span.attributes or {}).items()},
        "events": [
            (event.name, event.timestamp, {key: plain(value) for key, value in (event.attributes or {}).items()})
            for event in span.events
        ],
        "links": len(span.links),
        "status": (span.status.status_code.value if span.status.status_code.value == 2 else 0, span.status.description),
    }


def content_of_file(span: Any) -> dict[str, Any]:
    """The content of a span of the file."""
    return {
        "name": span.name,
        "start": span.start_unix_nano,
        "end": span.end_unix_nano,
        "attributes": span.attributes,
        "events": [(event.name, event.time_unix_nano, event.attributes) for event in span.events],
        "links": len(span.links),
        "status": (span.status[0], span.status[1] or None),
    }


def ids_of(span: ReadableSpan) -> tuple[str, str, str]:
    """A span's name, id and parent's id."""
    context = span.get_span_context()
    assert context is not None
    return span.name, f"{context.span_id:016x}", f"{span.parent.span_id:016x}" if span.parent else ""


def trace_of(span: ReadableSpan) -> str:
    """A span's trace id."""
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}"


def parents(spans: Sequence[tuple[str, str, str]]) -> list[str | None]:
    """For each span the name of its parent, from names, ids and parents' ids."""
    names = {span_id: name for name, span_id, _ in spans}
    return [names.get(parent_id) for _, _, parent_id in spans]


@pytest.mark.parametrize("name", EVERY_STREAM)
def test_both_writers_say_the_same(kit: Any, tmp_path: Path, name: str) -> None:
    provider, exporter = make_provider()
    borrowed = InlineHost(OtelPlugin(tracer_provider=provider))
    owned = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    started = [host.feed(kit.stream(name)) for host in (borrowed, owned)]
    borrowed.close()
    owned.close()
    made = exporter.get_finished_spans()
    written = kit.read_file(tmp_path / "traces.jsonl")
    assert [content(span) for span in made] == [content_of_file(span) for span in written]
    assert parents([ids_of(span) for span in made]) == parents([(s.name, s.span_id, s.parent_span_id) for s in written])
    assert len(started[0]) == len(started[1])
    proofs = {trace_of(span) for span in made if span.name == "proof"}
    assert {event.trace_id for event in started[0] if isinstance(event, ps.TraceStarted)} == proofs


def test_the_resource_and_the_ids_are_the_providers(kit: Any) -> None:
    provider, exporter = make_provider(resource=Resource({"service.name": "the-app"}))
    host = InlineHost(OtelPlugin(tracer_provider=provider))
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert {str(span.resource.attributes["service.name"]) for span in exporter.get_finished_spans()} == {"the-app"}
    scopes = [span.instrumentation_scope for span in exporter.get_finished_spans()]
    assert {scope.name for scope in scopes if scope is not None} == {"proofstream"}


def test_the_span_that_was_current_is_the_parent(kit: Any) -> None:
    provider, exporter = make_provider()
    plugin = OtelPlugin(tracer_provider=provider)
    host = InlineHost(plugin)
    with provider.get_tracer("app").start_as_current_span("request") as request:
        captured = plugin.proofstream_capture()
    items = envelopes(kit.small_proof())
    items[1] = msgspec.structs.replace(items[1], captured={"otel": captured})
    host.feed(items)
    host.close()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans["proof"].parent == request.get_span_context()
    assert spans["session"].parent is None


def test_an_unsampled_proof_is_left_out_as_a_whole(kit: Any) -> None:
    provider, exporter = make_provider(sampler=sampling.ALWAYS_OFF)
    host = InlineHost(OtelPlugin(tracer_provider=provider))
    (started,) = host.feed(envelopes(kit.small_proof()))
    host.close()
    assert isinstance(started, ps.TraceStarted)
    assert not started.sampled
    assert exporter.get_finished_spans() == ()
    assert host.health() == {"spans_handed_over": 0, "spans_unsampled": 3}


def test_the_providers_limit_drops_rounds_and_the_counts_say_so(kit: Any) -> None:
    provider, exporter = make_provider(span_limits=SpanLimits(max_events=10))
    host = InlineHost(OtelPlugin(tracer_provider=provider))
    host.feed(envelopes(kit.small_proof(rounds=30)))
    host.close()
    layer = next(span for span in exporter.get_finished_spans() if span.name == "layer MatMul")
    assert len(layer.events) == 10
    counts = {key: value for key, value in (layer.attributes or {}).items() if ".rounds." in key}
    assert counts == {
        "proofstream.rounds.total": 30,
        "proofstream.rounds.announced": 30,
        "proofstream.rounds.recorded": 10,
        "proofstream.rounds.dropped": 20,
    }


def test_what_is_open_at_the_end_is_ended(kit: Any) -> None:
    provider, exporter = make_provider()
    host = InlineHost(OtelPlugin(tracer_provider=provider))
    host.feed(envelopes([kit.proof_start(), kit.layer_start()], close=False))
    host.close()
    ended = {span.name: span.status.description for span in exporter.get_finished_spans()}
    assert ended == {
        "layer MatMul": "the session was interrupted: proofstream stopped",
        "proof": "the session was interrupted: proofstream stopped; in layer 0 MatMul",
        "session": None,
    }


def test_it_is_never_shut_down(kit: Any) -> None:
    provider, exporter = make_provider()
    for _ in range(2):
        host = InlineHost(OtelPlugin(tracer_provider=provider))
        host.feed(envelopes(kit.small_proof()))
        host.close()
    assert len(exporter.get_finished_spans()) == 6


@pytest.fixture
def global_provider(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """A global provider of the SDK, for one test."""
    provider, exporter = make_provider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def test_the_global_provider_is_used_if_nothing_else_was_asked_for(
    kit: Any, global_provider: InMemorySpanExporter, tmp_path: Path
) -> None:
    for config in ({}, {"file": str(tmp_path)}):
        host = InlineHost(OtelPlugin(), config)
        host.feed(envelopes(kit.small_proof()))
        host.close()
        assert len(global_provider.get_finished_spans()) == 3


def test_without_a_destination_the_plugin_sits_the_run_out(kit: Any) -> None:
    host = InlineHost(OtelPlugin(), asked=False)
    assert host.plugin.proofstream_configure(context=host.context) is False
    assert host.feed(envelopes(kit.small_proof())) == []
    host.close()
    assert host.health() == {}


def test_asking_for_the_plugin_alone_means_the_default_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    asked, found = OtelPlugin(), OtelPlugin()
    host = InlineHost(asked, asked=True)
    try:
        assert asked.proofstream_report_health() != {}
    finally:
        host.close(0.1)
    assert found.proofstream_configure(InlineHost(RecordingPlugin(), asked=False).context) is False


def nested(kit: Any) -> list[ps.Decoded]:
    """A proof inside another one, with phases in layers and layers in phases, and a phase after the end."""

    def phase(name: str, *inside: ps.ProofEvent) -> list[ps.ProofEvent]:
        return [ps.PhaseStart(name=name), *inside, ps.PhaseEnd(name=name)]

    layer = [kit.layer_start(), *phase("reduce", *phase("fold")), kit.layer_end()]
    return [
        *kit.of_job("outer", kit.proof_start(), ps.PhaseStart(name="prepare")),
        *kit.of_job("inner", kit.proof_start(), *phase("walk", *phase("group", *layer)), inside="outer"),
        *kit.of_job("outer", ps.PhaseEnd(name="prepare"), *layer, ps.PhaseStart(name="commit"), *phase("hash")),
        *kit.of_job("inner", kit.proof_complete()),
        *kit.of_job("outer", kit.proof_complete(), ps.PhaseEnd(name="commit"), *phase("attention", *phase("head"))),
    ]


class TestPhases:
    """Spans below spans that have no ids yet when they begin."""

    @pytest.mark.parametrize("step_ns", [2_000_000, 300_000])
    def test_both_writers_say_the_same(self, kit: Any, tmp_path: Path, step_ns: int) -> None:
        provider, exporter = make_provider()
        borrowed = InlineHost(OtelPlugin(tracer_provider=provider))
        owned = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        alone = [ps.PhaseStart(name="load"), ps.PhaseStart(name="read"), ps.PhaseEnd(name="read")]
        for host in (borrowed, owned):
            host.feed(envelopes([*alone, ps.PhaseEnd(name="load"), *nested(kit)], step_ns=step_ns))
            host.close()
        made = exporter.get_finished_spans()
        written = kit.read_file(tmp_path / "traces.jsonl")
        assert [content(span) for span in made] == [content_of_file(span) for span in written]
        above = parents([ids_of(span) for span in made])
        assert above == parents([(s.name, s.span_id, s.parent_span_id) for s in written])
        assert above.count(None) == 2, "the session and the outer proof"
        assert len({trace_of(span) for span in made}) == 2

    def test_a_span_ends_after_it_was_made_and_none_is_left_open(self, kit: Any) -> None:
        provider, exporter = make_provider()
        started: list[str] = []

        class Counting(SimpleSpanProcessor):
            def on_start(self, span: Any, parent_context: Any = None) -> None:
                started.append(span.name)

        provider.add_span_processor(Counting(InMemorySpanExporter()))
        host = InlineHost(OtelPlugin(tracer_provider=provider))
        host.feed(envelopes(nested(kit), step_ns=300_000))
        host.close()
        assert sorted(started) == sorted(span.name for span in exporter.get_finished_spans())
        assert "phase fold" not in started, "it is summed up"

    @pytest.mark.parametrize("sampler", [sampling.ALWAYS_OFF, sampling.ParentBased(sampling.ALWAYS_OFF)])
    def test_an_unsampled_proof_is_left_out_with_all_below_it(self, kit: Any, sampler: sampling.Sampler) -> None:
        provider, exporter = make_provider(sampler=sampler)
        host = InlineHost(OtelPlugin(tracer_provider=provider))
        started = host.feed(envelopes(nested(kit), step_ns=2_000_000))
        host.close()
        assert [event.sampled for event in started if isinstance(event, ps.TraceStarted)] == [False, False]
        assert exporter.get_finished_spans() == ()

    def test_the_parents_trace_state_reaches_every_span(self, kit: Any) -> None:
        class Marking(sampling.Sampler):
            def should_sample(self, *_: Any, **__: Any) -> sampling.SamplingResult:
                return sampling.SamplingResult(
                    sampling.Decision.RECORD_AND_SAMPLE, trace_state=trace.TraceState([("app", "1")])
                )

            def get_description(self) -> str:
                return "marking"

        provider, exporter = make_provider(sampler=sampling.ParentBased(Marking()))
        host = InlineHost(OtelPlugin(tracer_provider=provider))
        host.feed(envelopes(nested(kit), step_ns=2_000_000))
        host.close()
        states = {span.context.trace_state.to_header() for span in exporter.get_finished_spans() if span.context}
        assert states == {"app=1"}
