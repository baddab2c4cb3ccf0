"""Python proofs that run at once, in one session, with the application's provider: no span of theirs is an error."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream_otel import OtelPlugin

LAYERS = 3


def prove(session: ps.Session, name: str, meet: Callable[[], object], inner: str | None = None) -> None:
    """Prove, and let the others go on after every layer; maybe with another proof inside."""
    with session.proof(num_layers=LAYERS, model_name=name) as proof:
        for index in reversed(range(LAYERS)):
            with proof.layer(index, kind=ps.LayerKind.MatMul), proof.phase("reduce"):
                meet()
        if inner is not None:
            prove(session, inner, meet)


def exported(run: Callable[[ps.Session, TracerProvider], None]) -> list[ReadableSpan]:
    """The spans of a session that an application proves in."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with ps.open_session(plugins=[OtelPlugin(tracer_provider=provider)], scope="context") as session:
        run(session, provider)
    return list(exporter.get_finished_spans())


def models_above_layers(spans: list[ReadableSpan]) -> Counter[object]:
    """How many layers hang from the proof of each model."""
    models = {
        span.context.span_id: (span.attributes or {})["proofstream.proof.model"]
        for span in spans
        if span.name == "proof" and span.context
    }
    return Counter(models[span.parent.span_id] for span in spans if span.name.startswith("layer ") and span.parent)


def assert_all_went_well(spans: list[ReadableSpan], names: str) -> None:
    """Each proof is there, complete, with its own layers."""
    assert [span.status.description for span in spans if not span.status.is_ok and not span.status.is_unset] == []
    assert models_above_layers(spans) == Counter(dict.fromkeys(names, LAYERS))
    closed = [(span.attributes or {})["proofstream.proof.layers_closed"] for span in spans if span.name == "proof"]
    assert closed == [LAYERS] * len(names)
    (session,) = [span for span in spans if span.name == "session"]
    assert (session.attributes or {})["proofstream.session.aborted"] == 0
    assert "proofstream.session.overlaps" not in (session.attributes or {})


def test_in_threads() -> None:
    def run(session: ps.Session, _provider: TracerProvider) -> None:
        barrier = threading.Barrier(3, timeout=30)
        threads = [threading.Thread(target=prove, args=(session, name, barrier.wait)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert_all_went_well(exported(run), "abc")


def test_in_tasks() -> None:
    async def prove_slowly(session: ps.Session, name: str) -> None:
        with session.proof(num_layers=LAYERS, model_name=name) as proof:
            for index in reversed(range(LAYERS)):
                with proof.layer(index, kind=ps.LayerKind.MatMul):
                    await asyncio.sleep(0)

    async def gather(session: ps.Session) -> None:
        await asyncio.gather(*(prove_slowly(session, name) for name in "abc"))

    assert_all_went_well(exported(lambda session, _provider: asyncio.run(gather(session))), "abc")


def test_one_inside_another_below_the_applications_span() -> None:
    def run(session: ps.Session, provider: TracerProvider) -> None:
        with provider.get_tracer("app").start_as_current_span("request"):
            prove(session, "a", lambda: None, inner="b")

    spans = exported(run)
    assert_all_went_well([span for span in spans if span.name != "request"], "ab")
    by_model = {(span.attributes or {}).get("proofstream.proof.model"): span for span in spans if span.name == "proof"}
    (request,) = [span for span in spans if span.name == "request"]
    assert by_model["a"].parent == request.context
    assert by_model["b"].parent is not None
    assert by_model["a"].context is not None
    assert by_model["b"].parent.span_id == by_model["a"].context.span_id
