"""Log records: where they point, what they hold, how rounds become log records, and that our own lines do not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider

import proofstream as ps
from proofstream import ConfigError
from proofstream.testing import START_UNIX_NANO, InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.traces import log_records

MS = 1_000_000


def say(message: str, level: ps.LogLevel = ps.LogLevel.Info) -> ps.Log:
    """A line of text."""
    return ps.Log(level=level, message=message)


def export(folder: Path, items: list[ps.Envelope], **config: Any) -> InlineHost:
    """Export a stream to files, and end."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(items)
    host.close()
    return host


def test_a_record_points_to_what_was_open(kit: Any, tmp_path: Path) -> None:
    items = [say("before"), kit.proof_start(), say("in the proof"), kit.layer_start(), say("in the layer")]
    export(tmp_path, envelopes([*items, kit.layer_end(), kit.proof_complete(), say("after")]))
    spans = {span.name: span for span in kit.read_file(tmp_path / "traces.jsonl")}
    records = kit.read_log_file(tmp_path / "logs.jsonl")
    owners = {"before": "session", "in the proof": "proof", "in the layer": "layer MatMul", "after": "session"}
    assert {record.body: (record.trace_id, record.span_id) for record in records} == {
        text: (spans[name].trace_id, spans[name].span_id) for text, name in owners.items()
    }
    assert [record.time_unix_nano for record in records] == [START_UNIX_NANO + n * MS for n in (1, 3, 5, 8)]
    assert {record.flags for record in records} == {1}
    assert {record.event_name for record in records} == {"proofstream.log"}
    assert records[0].attributes == {"proofstream.session.id": "test-session"}


def test_a_log_stays_a_span_event(kit: Any, tmp_path: Path) -> None:
    export(tmp_path, envelopes([kit.proof_start(), say("both"), kit.proof_complete()]))
    spans = {span.name: span for span in kit.read_file(tmp_path / "traces.jsonl")}
    assert [e.attributes["proofstream.log.message"] for e in spans["proof"].events] == ["both"]
    assert [record.body for record in kit.read_log_file(tmp_path / "logs.jsonl")] == ["both"]


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        ("Trace", (1, "TRACE")),
        ("Debug", (5, "DEBUG")),
        ("Info", (9, "INFO")),
        ("Warn", (13, "WARN")),
        ("Error", (17, "ERROR")),
        ("Unknown", (0, "")),
    ],
)
def test_severities(kit: Any, tmp_path: Path, level: str, severity: tuple[int, str]) -> None:
    export(tmp_path, envelopes([say("x", ps.LogLevel(level))]))
    (record,) = kit.read_log_file(tmp_path / "logs.jsonl")
    assert record.severity == severity


def test_a_long_or_odd_text_is_made_safe(kit: Any, receiver: Any) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    items = envelopes([say("x" * 10**6), say("plain")])
    items[2] = ps.Envelope(
        seq=2,
        time_unix_nano=-5,
        session_id="test-session",
        origin="producer",
        event=say("lone \ud800"),
        raw=b"",
    )
    host.feed(items)
    host.close()
    long, odd = receiver.logs
    assert (len(long.body), long.body[-1]) == (log_records.MAX_BODY_CHARS, "…")
    assert (odd.body, odd.time_unix_nano) == ("lone ?", 1)


@pytest.mark.parametrize(
    ("mode", "on_spans", "in_logs"),
    [("span_events", 700 - 188, 0), ("both", 512, 700), ("logs", 0, 700), ("aggregate", 0, 0), ("off", 0, 0)],
)
def test_where_rounds_go(kit: Any, tmp_path: Path, mode: str, on_spans: int, in_logs: int) -> None:
    export(tmp_path, envelopes(kit.small_proof(rounds=700)), rounds=mode)
    layer = next(span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "layer MatMul")
    assert len(layer.rounds()) == on_spans
    assert layer.attributes["proofstream.rounds.total"] == 700
    records = kit.read_log_file(tmp_path / "logs.jsonl")
    assert len(records) == in_logs
    if records:
        assert [record.attributes["proofstream.round.index"] for record in records] == list(range(700))
        assert {(r.trace_id, r.span_id) for r in records} == {(layer.trace_id, layer.span_id)}
        assert "proofstream.round.claim" not in records[1].attributes  # half of the layer's claim: a known placeholder
        assert records[2].event_name == "proofstream.sumcheck.round"
        assert records[2].attributes == {
            "proofstream.session.id": "test-session",
            "proofstream.layer.index": 0,
            "proofstream.round.index": 2,
            "proofstream.round.total": 700,
            "proofstream.round.degree": 2,
            "proofstream.round.coefficients": "1,2,3,4;10,11,12,13;100,101,102,103",
            "proofstream.round.claim": 0.25,
        }


def test_rounds_as_log_records_need_a_destination(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        InlineHost(OtelPlugin(), {"file": str(tmp_path), "rounds": "logs", "logs": False})
    assert str(raised.value) == "otel.rounds: 'logs' exports log records, but they have no destination"


def test_a_record_of_an_unsampled_trace_says_so(kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    export(tmp_path, envelopes([say("x")]))
    (record,) = kit.read_log_file(tmp_path / "logs.jsonl")
    assert record.flags == 0


def test_signals_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(tmp_path / "table", envelopes([say("x")]), logs=False, metrics=False)
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    export(tmp_path / "environment", envelopes([say("x")]))
    export(tmp_path / "both", envelopes([say("x")]), logs=True, metrics=True)
    made = {folder.name: sorted(path.stem for path in folder.iterdir()) for folder in tmp_path.iterdir()}
    assert made == {"table": ["traces"], "environment": ["traces"], "both": ["logs", "metrics", "traces"]}


def test_our_own_log_lines_are_not_exported(kit: Any, receiver: Any) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    for name in ("proofstream", "proofstream.plugin.otel", "opentelemetry", "urllib3", "requests"):
        logging.getLogger(name).warning("about ourselves")
    host.feed(envelopes([say("the prover's")]))
    host.close()
    assert [record.body for record in receiver.logs] == ["the prover's"]


def test_every_record_is_delivered_or_counted(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "10")
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "rounds": "logs"})
    host.feed(kit.stream("smollm2-135m-cpu"))
    host.close()
    health = host.health()
    assert (health["logs_exported"], health["lost_logs"]) == (1230, 0)
    assert len(receiver.logs) == 1230


class TestLoggerProvider:
    """The application's own logger provider."""

    @pytest.fixture
    def records(self) -> InMemoryLogRecordExporter:
        """Keeps the provider's records."""
        return InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # its constructor has no annotations

    @pytest.fixture
    def provider(self, records: InMemoryLogRecordExporter) -> Iterator[LoggerProvider]:
        """The application's provider."""
        made = LoggerProvider(shutdown_on_exit=False)
        made.add_log_record_processor(SimpleLogRecordProcessor(records))
        yield made
        made.shutdown()

    def test_records_go_through_it(
        self, kit: Any, provider: LoggerProvider, records: InMemoryLogRecordExporter
    ) -> None:
        tracer_provider = TracerProvider(shutdown_on_exit=False)
        plugin = OtelPlugin(tracer_provider=tracer_provider, logger_provider=provider, rounds="both")
        host = InlineHost(plugin)
        (started, *_) = host.feed(
            envelopes([kit.proof_start(), say("hello", ps.LogLevel.Warn), *kit.small_proof()[1:]], session_id="a")
        )
        host.close()
        assert isinstance(started, ps.TraceStarted)
        found: list[Any] = [data.log_record for data in records.get_finished_logs()]
        assert [(r.event_name, r.body) for r in found] == [
            ("proofstream.log", "hello"),
            ("proofstream.sumcheck.round", None),
            ("proofstream.sumcheck.round", None),
        ]
        assert (found[0].severity_number.value, found[0].severity_text) == (13, "WARN")
        assert {f"{r.trace_id:032x}" for r in found} == {started.trace_id}
        assert f"{found[0].span_id:016x}" == started.span_id
        assert found[0].timestamp == START_UNIX_NANO + 2 * MS
        assert host.health()["logs_handed_over"] == 3

    def test_a_global_provider_is_found(
        self, provider: LoggerProvider, records: InMemoryLogRecordExporter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_logs, "get_logger_provider", lambda: provider)
        InlineHost(OtelPlugin(logs=False), asked=False).feed(envelopes([say("not wanted")]))
        InlineHost(OtelPlugin(), asked=False).feed(envelopes([say("hello")]))
        assert [data.log_record.body for data in records.get_finished_logs()] == ["hello"]
