"""A producer learns the id of its trace: of ours from the start, of an application's once it is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream
from proofstream import TraceNote, session_trace_id
from proofstream.testing import InlineHost, RecordingPlugin
from proofstream_otel import OtelPlugin

URL = "http://localhost:16686/trace/"


def traced(folder: Path) -> dict[str, set[str]]:
    """Return the trace ids in a folder of OTLP JSON lines, by the name of the span."""
    found: dict[str, set[str]] = {}
    for line in (folder / "traces.jsonl").read_text("utf-8").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    found.setdefault(span["name"], set()).add(span["traceId"])
    return found


@pytest.fixture
def provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def ids_of(exporter: InMemorySpanExporter, name: str) -> set[str]:
    spans = exporter.get_finished_spans()
    return {f"{span.context.trace_id:032x}" for span in spans if span.name == name and span.context is not None}


def test_the_sessions_trace_is_known_at_once_and_a_proofs_after_a_flush(tmp_path: Path) -> None:
    settings = {"file": str(tmp_path), "trace_url": URL + "{trace_id}"}
    with proofstream.open_session(plugins=["otel"], config={"otel": settings}) as session:
        at_once = session.trace_id
        with session.proof(num_layers=1) as first:
            pass
        assert session.flush(20)
        assert first.trace_id is not None
        assert first.trace_url == URL + first.trace_id
        with session.proof(num_layers=1) as second:
            pass
    found = traced(tmp_path)
    assert found["session"] == {at_once} == {session.trace_id}
    assert session.trace_url == URL + str(at_once)
    assert second.trace_id != first.trace_id
    assert found["proof"] == {first.trace_id, second.trace_id}


def test_without_a_plugin_that_makes_traces_the_id_is_that_of_a_later_replay(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with proofstream.open_session(plugins=["record"], config={"record": {"path": str(path)}}) as session:
        with session.proof(num_layers=1) as proof:
            pass
        assert session.flush(10)
    assert (proof.trace_id, proof.trace_url, session.trace_url) == (None, None, None)
    words = [
        sys.executable,
        "-m",
        "proofstream",
        "run",
        str(path),
        "--no-console",
        "--otlp-file",
        str(tmp_path / "otlp"),
    ]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    assert traced(tmp_path / "otlp")["session"] == {session.trace_id}


def test_the_ids_of_an_applications_provider_are_known_once_it_made_them(
    provider: tuple[TracerProvider, InMemorySpanExporter],
) -> None:
    tracers, exporter = provider
    with proofstream.open_session(plugins=[OtelPlugin(tracer_provider=tracers)]) as session:
        assert session.trace_id in (None, session.trace_note.trace_id)
        with session.proof(num_layers=1) as proof:
            pass
        assert session.flush(20)
        known = session.trace_id, proof.trace_id
    assert ({known[0]}, {known[1]}) == (ids_of(exporter, "session"), ids_of(exporter, "proof"))
    assert session_trace_id(session.session_id) != session.trace_id


def test_a_session_in_a_trace_of_the_application_says_so(
    provider: tuple[TracerProvider, InMemorySpanExporter], tmp_path: Path
) -> None:
    tracers, _ = provider
    with (
        tracers.get_tracer("app").start_as_current_span("request") as request,
        proofstream.open_session(plugins=["otel"], config={"otel": {"file": str(tmp_path)}}) as session,
    ):
        assert session.flush(20)
        around = f"{request.get_span_context().trace_id:032x}"
        assert session.trace_id == around
    assert traced(tmp_path)["session"] == {around}


def test_a_session_below_traceparent_says_nothing_that_is_not_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{'a' * 32}-{'b' * 16}-01")
    with proofstream.open_session(plugins=["otel"], config={"otel": {"file": str(tmp_path)}}) as session:
        assert session.trace_id in (None, "a" * 32)
        assert session.flush(20)
        assert session.trace_id == "a" * 32


def test_a_global_provider_may_make_the_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in (None, TracerProvider()):
        monkeypatch.setattr(api, "_TRACER_PROVIDER", provider)
        assert OtelPlugin().joins_other_traces is (provider is not None)
    monkeypatch.setattr(api, "_TRACER_PROVIDER", None)
    assert OtelPlugin(tracer_provider=TracerProvider()).joins_other_traces


def test_a_plugin_whose_answer_fails_does_not_reach_the_prover() -> None:
    class Failing(RecordingPlugin):
        @property
        def joins_other_traces(self) -> bool:
            raise ZeroDivisionError

    with proofstream.open_session(plugins=[Failing()]) as session:
        assert session.trace_id is None


def test_any_plugin_may_tell() -> None:
    class Telling(RecordingPlugin):
        @proofstream.hookimpl
        def proofstream_consume(self, batch: proofstream.Batch) -> None:
            for envelope in batch:
                if isinstance(envelope.trace_note, TraceNote):
                    envelope.trace_note.tell("c" * 32, "https://traces/c")

    with proofstream.open_session(plugins=[Telling()]) as session:
        with session.proof(num_layers=1) as proof:
            pass
        assert session.flush(10)
        assert (session.trace_id, proof.trace_id, proof.trace_url) == ("c" * 32, "c" * 32, "https://traces/c")


@pytest.mark.parametrize("url", ["http://localhost:16686", "http://localhost/{trace}"])
def test_a_url_without_a_place_for_the_id_is_refused(url: str, kit: Any) -> None:
    with pytest.raises(proofstream.ConfigError, match=r"has no \{trace_id\}"):
        InlineHost(OtelPlugin(trace_url=url))
