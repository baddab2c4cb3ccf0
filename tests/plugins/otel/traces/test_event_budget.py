"""The events of all open spans share a bounded memory; those that find none are counted."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.traces import span_events
from proofstream_otel.traces.span_events import EventBudget
from proofstream_otel.values.span_limits import Rounds, SpanLimits

MIB = 2**20


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget of one MiB."""

    def made(log: Any, max_bytes: int = MIB) -> EventBudget:
        return EventBudget(log, max_bytes)

    monkeypatch.setattr("proofstream_otel.telemetry.EventBudget", made)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", ["lines", "rounds"])
def test_what_finds_no_memory_is_counted_and_said_once(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "logs": False})
    line = ps.Log(level=ps.LogLevel.Info, message="x" * 1024)
    inside = [line] * 400 if kind == "lines" else [kit.sumcheck_round(index) for index in range(400)]
    for part in range(20):
        host.feed(envelopes([kit.proof_start(), kit.layer_start(), *inside], session_id=str(part), close=False))
    for part in range(20):
        host.feed(envelopes([kit.layer_end(), kit.proof_complete()], session_id=str(part))[1:])
    host.feed(envelopes([kit.proof_start(), kit.layer_start(), *inside, kit.layer_end(), kit.proof_complete()]))
    host.close()
    layers = [span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "layer MatMul"]
    assert len(layers) == 21
    assert {len(span.events) + span.dropped_events for span in layers} == {400}
    assert sum(len(span.events) for span in layers[:-1]) * (1424 if kind == "lines" else 800) <= MIB
    assert sum(span.dropped_events for span in layers[:-1]) > 6000
    assert len(layers[-1].events) == 400, "the memory came back"
    assert [record.getMessage() for record in caplog.records] == [
        "events of open spans take more than 1 MiB: further ones are left out and counted on their spans"
    ]


@pytest.mark.usefixtures("small")
def test_a_phase_without_a_span_gives_its_memory_back(
    kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    progress = [ps.PhaseProgress(done=done, total=10) for done in range(1, 11)]
    short = [ps.PhaseStart(name="commit"), *progress, ps.PhaseEnd(name="commit")]
    host.feed(envelopes([kit.proof_start(), *short * 500, kit.proof_complete()], step_ns=1000))
    host.close()
    (proof,) = [span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof"]
    assert proof.attributes["proofstream.phase.summed.counts"] == [500]
    assert caplog.records == []


def test_memory_that_comes_back_is_all_that_was_taken(kit: Any) -> None:
    budget = EventBudget(max_bytes=MIB)
    limits = SpanLimits(rounds=Rounds.SPAN_EVENTS, max_rounds=4, max_notes=3, max_events=7)
    for size in (1, 1000, 10):
        events = span_events.BoundedEvents(limits, None, budget)
        lines = [ps.Log(level=ps.LogLevel.Info, message="x" * size * number) for number in range(20)]
        for envelope in envelopes([*lines, *(kit.sumcheck_round(index) for index in range(20))]):
            events.add_event(envelope)
        assert len(events.export(0, 2**63 - 1)[0]) == 7
        assert budget.take_bytes(MIB)
        assert not budget.take_bytes(1)
        assert budget.take_bytes(-MIB)


def test_texts_that_wait_for_the_end_of_a_span_are_cut_at_once(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(20):
            device = ps.GpuSnapshot(
                device_id=0, device_name=f"{number}" + "x" * MIB, utilization=None, free_memory_bytes=None
            )
            status = ps.GpuStatus(devices=[device], matmul_done=0, matmul_total=0, layers_done=0, layers_total=0)
            host.feed(envelopes([kit.proof_start(), status], session_id=str(number), close=False))
            del device, status
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    host.close()
    assert taken < 4 * MIB
    spans = [span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof"]
    assert {len(span.attributes["proofstream.gpu_status.devices"][0]) for span in spans} == {1024}


def test_the_estimate_is_near_the_truth(kit: Any) -> None:
    budget = EventBudget()
    limits = SpanLimits(rounds=Rounds.SPAN_EVENTS, max_rounds=5000, max_notes=5000, max_events=0)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        events = span_events.BoundedEvents(limits, None, budget)
        lines = (ps.Log(level=ps.LogLevel.Info, message=f"{number:0600}") for number in range(2000))
        for event in lines:
            events.add_event(envelopes([event], close=False)[1])
        for index in range(2000):
            events.add_event(envelopes([kit.sumcheck_round(index)], close=False)[1])
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    free = next(size for size in range(span_events.MAX_BYTES, 0, -4096) if budget.take_bytes(size))
    estimate = span_events.MAX_BYTES - free
    assert taken / 2 < estimate < taken * 2
