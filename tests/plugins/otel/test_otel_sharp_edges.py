"""The sharp edges of OpenTelemetry in Python, one test each, numbered as in the notes on them."""

from __future__ import annotations

import logging
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.otlp import exporter


def exported(kit: Any, folder: Path, items: Any, **config: Any) -> dict[str, Any]:
    """Export to a file; the spans by name."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(items)
    host.close()
    assert host.health()["lost_spans"] == 0
    return {span.name: span for span in kit.read_file(folder / "traces.jsonl")}


def test_1_a_layer_of_many_rounds_keeps_both_ends_and_the_counts(kit: Any, tmp_path: Path) -> None:
    layer = exported(kit, tmp_path, envelopes(kit.small_proof(rounds=2000)))["layer MatMul"]
    indices = [event.attributes["proofstream.round.index"] for event in layer.rounds()]
    assert indices == [*range(256), *range(1744, 2000)]
    assert layer.dropped_events == 1488
    assert layer.attributes["proofstream.rounds.total"] == 2000
    assert layer.attributes["proofstream.rounds.recorded"] == 512
    assert layer.attributes["proofstream.rounds.dropped"] == 1488


def test_1_the_limit_of_the_environment_wins_and_drops_rounds_before_log_lines(
    kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SPAN_EVENT_COUNT_LIMIT", "7")
    text = ps.Log(level=ps.LogLevel.Error, message="half way")
    rounds = [kit.sumcheck_round(i, total=20) for i in range(20)]
    items = [kit.proof_start(), kit.layer_start(), *rounds[:10], text, *rounds[10:], kit.layer_end()]
    layer = exported(kit, tmp_path, envelopes(items))["layer MatMul"]
    assert len(layer.events) == 7
    assert [event.name for event in layer.events].count("proofstream.log") == 1
    assert layer.attributes["proofstream.rounds.dropped"] == 14


def test_2_an_integer_that_web_pages_would_round_is_digits_under_a_key_of_its_own(
    kit: Any, receiver: Any, tmp_path: Path
) -> None:
    large = [2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "file": str(tmp_path)})
    layers = [kit.layer_start(index, trace_cost=cost, input_shape=(1, cost)) for index, cost in enumerate(large)]
    host.feed(envelopes([kit.proof_start(num_layers=2**64 - 1), *layers]))
    host.close()
    (proof,) = (span for span in receiver.spans if span.name == "proof")
    assert "proofstream.proof.num_layers" not in proof.attributes
    assert proof.attributes["proofstream.proof.num_layers.digits"] == str(2**64 - 1)
    found = [span.attributes for span in receiver.spans if span.name == "layer MatMul"]
    cost, shape = "proofstream.layer.trace_cost", "proofstream.layer.input_shape"
    assert [attributes.get(cost) for attributes in found] == [2**53 - 1, None, None, None, None]
    assert [attributes.get(f"{cost}.digits") for attributes in found] == [None, *map(str, large[1:])]
    assert [attributes.get(shape) for attributes in found] == [[1, 2**53 - 1], None, None, None, None]
    assert [attributes.get(f"{shape}.digits") for attributes in found] == [None, *(["1", str(n)] for n in large[1:])]
    assert receiver.spans == kit.read_file(tmp_path / "traces.jsonl")


def test_4_missing_values_are_left_out_and_enums_are_words(kit: Any, tmp_path: Path) -> None:
    items = [kit.proof_start(model_name=None), kit.layer_start(claim=math.nan), kit.layer_end()]
    spans = exported(kit, tmp_path, envelopes(items))
    assert "proofstream.proof.model" not in spans["proof"].attributes
    assert "proofstream.layer.claim" not in spans["layer MatMul"].attributes
    assert "proofstream.layer.gpu_device" not in spans["layer MatMul"].attributes
    assert spans["layer MatMul"].attributes["proofstream.layer.proof_kind"] == "Sumcheck"


def test_5_a_lone_surrogate_costs_itself(kit: Any, receiver: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "file": str(tmp_path)})
    start = envelopes([kit.proof_start()], close=False)
    bad = msgspec.structs.replace(start[1], event=kit.proof_start(model_name="m\ud800\U0001f980"))
    host.feed([start[0], bad])
    host.close()
    assert {span.attributes.get("proofstream.proof.model") for span in receiver.spans} == {"m?\U0001f980", None}
    assert receiver.spans == kit.read_file(tmp_path / "traces.jsonl")


def test_6_times_out_of_range_are_clamped(kit: Any, receiver: Any) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    opened, start, layer, end = envelopes([kit.proof_start(), kit.layer_start(), kit.layer_end()], close=False)
    times = [-5, 2**70, 100, 50]
    host.feed(
        msgspec.structs.replace(envelope, time_unix_nano=time_unix_nano)
        for envelope, time_unix_nano in zip((opened, start, layer, end), times, strict=True)
    )
    host.close()
    assert len(receiver.spans) == 3
    for span in receiver.spans:
        assert 0 < span.start_unix_nano <= span.end_unix_nano < 2**63


def test_7_a_long_text_and_a_large_span_stay_within_the_limits_of_receivers(kit: Any, receiver: Any) -> None:
    text = ps.Log(level=ps.LogLevel.Info, message="\N{CRAB}" * 100_000)
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    host.feed(envelopes([kit.proof_start(), *[text] * 512, kit.proof_complete()]))
    host.close()
    assert max(receiver.sizes) < 2 * 2**20
    proof = next(span for span in receiver.spans if span.name == "proof")
    assert len(proof.events) + proof.dropped_events == 512
    assert {len(event.attributes["proofstream.log.message"]) for event in proof.events} == {1024}


def test_8_every_span_is_delivered_or_counted_when_the_queue_is_full(
    kit: Any, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setattr(exporter, "PATIENCE_S", 0.1)
    host = InlineHost(OtelPlugin(), {"endpoint": closed})
    host.feed(envelopes(kit.small_proof() * 100))
    host.close(0.5)
    assert host.health()["lost_spans"] == 201
    assert host.health()["spans_exported"] == 0


AT_EXIT = """
import sys, time
from proofstream.testing import InlineHost, envelopes, read_stream
from pathlib import Path
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"endpoint": sys.argv[1]})
for part in range(4):
    host.feed(envelopes(read_stream(Path(sys.argv[2])), session_id=str(part)))
began = time.monotonic()
if sys.argv[3] == "close":
    host.close(1.0)
print(host.health().get("lost_spans"), flush=True)
"""


@pytest.mark.parametrize("how", ["close", "just end"])
@pytest.mark.parametrize("what", ["silent", "closed"])
def test_9_a_process_ends_in_time_with_a_full_queue_and_a_dead_receiver(
    kit: Any, request: pytest.FixtureRequest, what: str, how: str
) -> None:
    url = request.getfixturevalue(what)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, url, str(kit.WIRE / "smollm2-135m-cpu.jsonl"), how],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert time.monotonic() - began < 15  # a slow machine starts slowly; the SDK's own exporters take 30 s more
    assert done.stdout.strip() == (str(4 * 214) if how == "close" else "0")


def test_10_nothing_is_flushed_on_the_callers_thread(kit: Any, silent: str) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": silent})
    began = time.monotonic()
    host.feed(envelopes(kit.small_proof() * 20))
    host.tick()
    assert time.monotonic() - began < 2
    host.close(0.2)


def test_11_a_failing_request_is_given_up_when_the_queue_is_full_and_the_next_one_goes_out(
    kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "3")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "3")
    monkeypatch.setattr(exporter, "PATIENCE_S", 0.1)
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.15)
    receiver.answers = [kit.Answer(status=503), kit.Answer(status=503), kit.Answer()]
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    host.feed(envelopes(kit.small_proof() * 4))
    kit.wait_until(lambda: host.health()["spans_exported"] + host.health()["lost_spans"] == 9)
    host.close()
    assert 0 < host.health()["lost_spans"] < 9
    # A request that was given up without an answer may have arrived all the same.
    assert host.health()["spans_exported"] <= len(receiver.spans)


FORKED = """
import os, sys
from proofstream.testing import InlineHost, envelopes, read_stream
from pathlib import Path
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"endpoint": sys.argv[1], "file": sys.argv[3]})
items = envelopes(read_stream(Path(sys.argv[2])))
host.feed(items[: len(items) // 2])
child = os.fork()
host.feed(items[len(items) // 2 :])
host.close(5.0)
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(host.health()["lost_spans"])
"""


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_12_and_13_a_forked_child_sends_nothing_and_does_not_hang(
    kit: Any, receiver: Any, closed: str, tmp_path: Path, scheme: str
) -> None:
    url = receiver.url if scheme == "http" else closed.replace("http", "grpc")
    done = subprocess.run(
        [
            *[sys.executable, "-W", "ignore", "-c", FORKED, url],
            *[str(kit.WIRE / "smollm2-135m-cpu.jsonl"), str(tmp_path)],
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert len(kit.read_file(tmp_path / "traces.jsonl")) == 214
    assert len(receiver.spans) == (214 if scheme == "http" else 0)
    assert done.stdout.strip() == ("0" if scheme == "http" else "214")


def test_14_a_long_outage_is_one_log_line_of_ours_and_the_host_says_what_was_lost(
    kit: Any, closed: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.01)
    host = InlineHost(OtelPlugin(), {"endpoint": closed})
    for envelope in envelopes(kit.small_proof() * 10):
        host.feed([envelope])
    host.close(0.5)
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if text.startswith("traces are") or " spans " in text]) == 1
    assert len(said) == 3, "metrics take two, because the first is no warning: they may not have been asked for"
    assert host.health()["lost_spans"] > 0
    assert {record.name.split(".")[0] for record in caplog.records} == {"proofstream"}


def test_15_open_spans_are_exported_as_aborted_at_the_end(kit: Any, receiver: Any) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    host.feed(envelopes([kit.proof_start(), kit.layer_start(), kit.sumcheck_round()], close=False))
    assert receiver.spans == []
    host.close()
    spans = {span.name: span for span in receiver.spans}
    assert spans["proof"].status == (2, "the session was interrupted: proofstream stopped; in layer 0 MatMul")
    assert spans["layer MatMul"].status[0] == 2
    assert len(spans["layer MatMul"].rounds()) == 1
    assert spans["session"].attributes["proofstream.session.outcome"] == "interrupted"


def test_16_a_terminated_process_still_exports_its_open_spans(kit: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proofstream", "run", "-", "--otlp-file", str(tmp_path), "--no-console"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        lines = (kit.WIRE / "smollm2-135m-cpu.jsonl").read_bytes().splitlines(keepends=True)
        process.stdin.writelines(lines[:1000])
        process.stdin.flush()
        kit.wait_until(lambda: (tmp_path / "traces.jsonl").exists() and (tmp_path / "traces.jsonl").stat().st_size)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(15)
        assert process.stderr is not None
        process.stderr.read()
    assert process.returncode == 143
    spans = {span.name: span for span in kit.read_file(tmp_path / "traces.jsonl")}
    assert spans["proof"].status[0] == 2
    assert "session" in spans


ATEXIT = """
import atexit, sys
from proofstream.testing import InlineHost, envelopes, read_stream
from pathlib import Path
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"endpoint": sys.argv[1]})
host.feed(envelopes(read_stream(Path(sys.argv[2]))))
atexit.register(host.close, 5.0)
"""


def test_17_closing_while_the_interpreter_exits_starts_no_thread(kit: Any, receiver: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATEXIT, receiver.url, str(kit.WIRE / "aborted-then-next.jsonl")],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    assert len(receiver.spans) == 39


def test_18_late_events_are_counted_without_a_warning(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items = [kit.proof_start(), kit.layer_start(), kit.layer_end(), kit.sumcheck_round(), kit.proof_complete()]
    spans = exported(kit, tmp_path, envelopes([*items, kit.layer_end()]))
    assert caplog.records == []
    assert len(kit.read_file(tmp_path / "traces.jsonl")) == 6
    assert spans["session"].attributes["proofstream.session.proofs"] == 2


GLOBALS = """
import sys
from opentelemetry import trace
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"file": sys.argv[1]})
host.feed(envelopes([]))
host.close()
print(type(trace.get_tracer_provider()).__name__)
"""


def test_19_no_global_is_ever_set(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GLOBALS, str(tmp_path)], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == "ProxyTracerProvider"


def test_20_a_provider_that_was_shut_down_breaks_nothing(kit: Any) -> None:
    provider, exporter = TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    host = InlineHost(OtelPlugin(tracer_provider=provider))
    host.feed(envelopes(kit.small_proof(), close=False))
    provider.shutdown()
    host.feed(envelopes(kit.small_proof(), session_id="later"))
    host.close()
    assert len(exporter.get_finished_spans()) == 2
    # The provider delivers, so no delivery is claimed.
    assert set(host.health()) == {"spans_handed_over", "spans_unsampled"}


def test_20_after_its_end_the_exporter_counts_later_items(kit: Any, receiver: Any) -> None:
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
    host.feed(envelopes(kit.small_proof()))
    host.close()
    host.feed(envelopes(kit.small_proof(), session_id="later"))
    assert host.health()["spans_exported"] == 3
    assert host.health()["lost_spans"] == 3
