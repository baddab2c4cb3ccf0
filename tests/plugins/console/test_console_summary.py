"""The summary of a run: its numbers on every stream, and that it stays small."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proofstream import (
    Envelope,
    EventsLost,
    GpuSnapshot,
    GpuStatus,
    IntervalKind,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Log,
    LogLevel,
    PluginHealth,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SumcheckRound,
    TraceStarted,
)
from proofstream.testing import envelopes
from proofstream_console.news import LogLine, ProofEnded, ProofOpened, Reporter
from proofstream_console.run_summary import RunSummary

WIRE = Path(__file__).parents[2] / "data" / "wire"
Streams = Callable[..., tuple[Envelope, ...]]


class Clock:
    """A monotonic clock in seconds that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def new_summary(**settings: Any) -> RunSummary:
    return RunSummary(clock=settings.pop("clock", Clock()), **settings)


def proof_start(model_name: str | None = "mlp", num_layers: int = 2) -> ProofStart:
    return ProofStart(
        model_name=model_name, backend="cpu", num_layers=num_layers, input_shape=(1, 4), output_shape=(1, 2)
    )


def layer_start(index: int, gpu: int | None = None) -> LayerStart:
    return LayerStart(
        layer_idx=index,
        kind=LayerKind.MatMul,
        input_shape=(1, 4),
        output_shape=(1, 2),
        trace_cost=8,
        claim_value_approx=0.5,
        gpu_device=gpu,
    )


def layer_end(index: int, duration_ms: int = 1) -> LayerEnd:
    return LayerEnd(
        layer_idx=index,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=0.5,
        duration_ms=duration_ms,
        rounds_completed=0,
    )


def proof_complete() -> ProofComplete:
    return ProofComplete(duration_ms=0, num_layer_proofs=2, num_weight_openings=0, weight_binding_mode="sequential")


def one_round(index: int) -> SumcheckRound:
    return SumcheckRound(
        layer_idx=index, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=0.5
    )


def feed(summary: RunSummary, *events: ProofEvent, session_id: str = "s", close: bool = False) -> None:
    summary.add_batch(tuple(envelopes(events, session_id=session_id, close=close)))


EXPECTED = sorted(path.name.removesuffix(".expect.json") for path in WIRE.glob("*.expect.json"))


@pytest.mark.parametrize("name", EXPECTED)
def test_numbers_are_those_of_the_stream(name: str, streams: Streams) -> None:
    expected = json.loads((WIRE / f"{name}.expect.json").read_text())
    summary = new_summary()
    summary.add_batch(streams(name))
    proofs = expected.get("proofs", [])
    assert summary.totals.proofs == len(proofs)
    assert summary.open_proofs == []
    for found, wanted in zip(summary.recent, proofs, strict=True):
        assert found.layers_ended == wanted["layers_ended"]
        started = found.layers_done + (found.aborted_reason is not None)
        assert started == wanted["layers_started"]
        assert found.rounds == wanted["rounds"]
        assert (found.aborted_reason is not None) == wanted["aborted"]
        assert found.reported_ms == wanted["duration_ms_sum"]
        assert found.num_layers == expected.get("num_layers", wanted["layers_started"])
    assert summary.rounds == sum(proof["rounds"] for proof in proofs)
    assert summary.totals.lost == expected.get("lost_events", 0)
    assert summary.totals.refused == len(expected.get("rejected_lines", []))
    assert sum(tally.total_ns for tally in summary.by_kind.values()) == 1_000_000 * sum(
        proof["duration_ms_sum"] for proof in proofs
    )
    if "stark" in expected:
        assert summary.parts[IntervalKind.STARK_PROOF].count == expected["stark"]
    if "aborted_in_layer" in expected:
        assert summary.recent_aborted[0].aborted_layer == (expected["aborted_in_layer"], "MatMul")
    if "layers_without_end" in expected:
        assert summary.totals.layers_without_end == len(expected["layers_without_end"])


def test_the_slowest_layers_are_kept_in_order() -> None:
    summary = new_summary(max_slowest=3)
    now = list(envelopes([proof_start(num_layers=9)], close=False))
    time = now[-1].time_unix_nano
    for index, took in enumerate([5, 9, 1, 9, 7, 2]):
        start, end = envelopes([layer_start(index), layer_end(index)], close=False)[1:]
        now.append(msgspec.structs.replace(start, time_unix_nano=time))
        time += took * 1_000_000
        now.append(msgspec.structs.replace(end, time_unix_nano=time))
    summary.add_batch(tuple(now))
    assert [(layer.index, layer.took.ns) for layer in summary.slowest] == [
        (1, 9_000_000),
        (3, 9_000_000),
        (4, 7_000_000),
    ]


def test_the_list_of_slowest_layers_can_be_switched_off() -> None:
    summary = new_summary(max_slowest=0)
    feed(summary, proof_start(), layer_start(1), layer_end(1))
    assert summary.slowest == []


def test_progress_counts_layers_that_the_walk_left_behind() -> None:
    summary = new_summary()
    feed(summary, proof_start(num_layers=4), layer_start(3), layer_start(2))
    (proof,) = summary.open_proofs
    assert (proof.layers_done, proof.layers_left_behind, proof.progress) == (0, 1, 0.25)


def test_running_time_goes_on_with_our_clock_when_live() -> None:
    clock = Clock()
    summary = new_summary(clock=clock)
    feed(summary, proof_start(), layer_start(1))
    (proof,) = summary.open_proofs
    assert proof.proof is not None
    at_first = summary.elapsed(proof.proof).ns
    clock.now += 2.5
    assert summary.elapsed(proof.proof).ns - at_first == 2_500_000_000
    assert summary.quiet_s("s") == 2.5


def test_running_time_stands_still_with_the_events_of_a_replay() -> None:
    clock = Clock()
    summary = new_summary(clock=clock, live=False)
    feed(summary, proof_start(), layer_start(1))
    (proof,) = summary.open_proofs
    assert proof.proof is not None
    clock.now += 1000
    assert summary.elapsed(proof.proof).ns == 1_000_000
    assert summary.quiet_s("s") == 0


def test_sessions_and_jobs_are_kept_apart() -> None:
    summary = new_summary()
    feed(summary, proof_start("one"), session_id="a")
    job = [msgspec.structs.replace(e, job_id="7") for e in envelopes([proof_start("two")], session_id="a", close=False)]
    summary.add_batch(tuple(job[1:]))
    feed(summary, proof_start("three"), session_id="b")
    assert [(p.model_name, p.session_id, p.job_id) for p in summary.open_proofs] == [
        ("one", "a", None),
        ("two", "a", "7"),
        ("three", "b", None),
    ]
    assert summary.totals.sessions == 2


def test_losses_are_those_of_open_and_of_closed_sessions() -> None:
    summary = new_summary()
    feed(summary, EventsLost(where="intake", counts={"SumcheckRound": 5, "Log": 1}), session_id="a", close=True)
    feed(summary, Log(level=LogLevel.Warn, message="lagged 17 events"), session_id="b")
    assert summary.totals.lost == 23


def test_a_session_that_begins_again_counts_its_losses_once() -> None:
    summary = new_summary()
    for _ in range(3):
        feed(summary, EventsLost(where="intake", counts={"Log": 5}), proof_start(), close=True)
    assert summary.totals.lost == 15


def test_remarks_about_a_session_after_its_end_do_not_open_another() -> None:
    summary = new_summary()
    feed(summary, proof_start(), proof_complete(), close=True)
    late = EventsLost(where="intake", counts={"Log": 5}), Log(level=LogLevel.Warn, message="late")
    summary.add_batch(tuple(envelopes(late, session_id="s", close=False)[1:]))
    assert (summary.totals.sessions, summary.sessions) == (1, {})
    assert LogLine(LogLevel.Warn, "late") in summary.news.take_news()


def test_a_reported_duration_that_is_a_placeholder_is_compared_with_nothing() -> None:
    summary = new_summary()
    feed(summary, proof_start(), layer_start(1), layer_end(1, duration_ms=0), layer_start(0), layer_end(0), close=True)
    assert (summary.totals.reported_ms, summary.totals.measured_ns) == (1, 1_000_000)


def test_a_trace_is_found_for_open_and_for_ended_proofs() -> None:
    summary = new_summary()
    feed(summary, proof_start("first"), proof_complete(), proof_start("second"))
    for number in (0, 1):
        trace = TraceStarted(proof=number, trace_id=f"{number}" * 32, span_id="0" * 16, sampled=True)
        summary.add_batch(tuple(envelopes([trace], session_id="s", close=False)[1:]))
    assert summary.recent[0].trace_id == "0" * 32
    assert summary.open_proofs[0].trace_id == "1" * 32


def health(status: str, *, dropped: int = 0, lost: int = 0, plugin: str = "otel") -> PluginHealth:
    return PluginHealth(
        plugin=plugin,
        status=status,
        reason="queue full" if status != "ready" else None,
        depth=0,
        delivered=1,
        dropped={"Log": dropped} if dropped else {},
        counters={"lost_spans": lost, "exports": 3},
        lag_s=0.0,
    )


def test_only_plugins_in_trouble_are_named() -> None:
    summary = new_summary()
    feed(
        summary,
        health("ready"),
        health("failed", plugin="a"),
        health("ready", dropped=2, plugin="b"),
        health("ready", lost=1, plugin="c"),
    )
    assert [h.plugin for h in summary.troubled_plugins] == ["a", "b", "c"]
    feed(summary, health("failed", plugin="a"))
    assert len(summary.news.take_news()) == 1, "the same failure is news only once"


def test_health_and_traces_open_no_session() -> None:
    summary = new_summary()
    summary.add_batch(tuple(envelopes([health("ready")], session_id="host", close=False)[1:]))
    assert summary.sessions == {}
    assert summary.totals.events == 0


def test_news_come_in_order_and_the_urgent_survive_a_flood() -> None:
    summary = new_summary()
    chatter = [Log(level=LogLevel.Info, message=str(n)) for n in range(1000)]
    feed(summary, proof_start(), *chatter, Log(level=LogLevel.Error, message="out of memory"), proof_complete())
    news = summary.news.take_news()
    assert isinstance(news[0], ProofOpened)
    assert LogLine(LogLevel.Error, "out of memory") in news
    assert summary.news.take_unheard() == 1000 + 2 - 256
    assert not any(isinstance(item, ProofEnded) for item in news), "a good end is as urgent as other lines"


def test_trace_and_debug_lines_make_no_news() -> None:
    summary = new_summary()
    feed(summary, Log(level=LogLevel.Debug, message="a"), Log(level=LogLevel.Trace, message="b"))
    assert summary.news.take_news() == []


def gpu_status(name: str, utilization: float | None, free: int | None, done: int = 3) -> GpuStatus:
    device = GpuSnapshot(device_id=0, device_name=name, utilization=utilization, free_memory_bytes=free)
    return GpuStatus(devices=[device], matmul_done=0, matmul_total=4, layers_done=done, layers_total=4)


@pytest.mark.parametrize(
    ("status", "known"),
    [
        (gpu_status("CPU (SIMD)", 0.75, None), []),
        (gpu_status("GPU-0", 0.75, 0), []),
        (gpu_status("NVIDIA H100", 0.75, 0), [("NVIDIA H100", None, None)]),
        (gpu_status("NVIDIA H100", 0.87, 40_000), [("NVIDIA H100", None, 0.87)]),
        (gpu_status("NVIDIA H100", None, 40_000), [("NVIDIA H100", None, None)]),
        (gpu_status("GPU-0", 0.87, 40_000), [(None, None, 0.87)]),
        (gpu_status("GPU-0", 7.0, 40_000), []),
        (gpu_status("GPU-0", 0.0, 40_000), []),
    ],
)
def test_placeholders_of_producers_are_not_taken_for_figures(
    status: GpuStatus, known: list[tuple[str | None, int | None, float | None]]
) -> None:
    summary = new_summary()
    feed(summary, proof_start(), status)
    assert [(d.name, d.free_memory_bytes, d.utilization) for d in summary.devices.reported] == known


def test_free_memory_is_shown_once_it_changes_in_its_own_session() -> None:
    summary = new_summary()
    feed(summary, gpu_status("NVIDIA H100", None, 40_000), session_id="a")
    feed(summary, gpu_status("NVIDIA H100", None, 30_000), session_id="b", close=True)
    assert [device.free_memory_bytes for device in summary.devices.reported] == [None]
    feed(summary, gpu_status("NVIDIA H100", None, 20_000), session_id="a")
    assert [device.free_memory_bytes for device in summary.devices.reported] == [20_000]
    feed(summary, gpu_status("NVIDIA H100", None, 10_000), session_id="b")
    assert [device.free_memory_bytes for device in summary.devices.reported] == [None], "session b has begun again"


def test_devices_of_two_sessions_do_not_hide_each_other() -> None:
    summary = new_summary()
    feed(summary, gpu_status("NVIDIA H100", None, 40_000), session_id="a")
    feed(summary, gpu_status("CPU (SIMD)", None, None), session_id="b")
    assert [device.name for device in summary.devices.reported] == ["NVIDIA H100"]


def test_a_thousand_proofs_and_many_events_take_no_more_memory_than_a_few() -> None:
    summary = new_summary()

    def run(session: str, proofs: int) -> None:
        for _ in range(proofs):
            rounds = [one_round(1)] * 20
            feed(summary, proof_start(), layer_start(1), *rounds, layer_end(1), proof_complete(), session_id=session)

    run("warm", 300)
    summary.news.take_news()
    tracemalloc.start()
    try:
        gc.collect()  # proofs and their layers know each other
        before = tracemalloc.get_traced_memory()[0]
        run("warm", 1000)
        summary.news.take_news()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert summary.totals.proofs == 1300
    assert len(summary.recent) == 20
    assert grown < 256 * 1024


def test_urgent_news_pass_a_flood_of_other_news() -> None:
    summary = new_summary()
    reporter = Reporter(summary.news, log_lines_per_s=0, others_per_s=1)
    died = [proof_start("dies"), layer_start(1), ProofAborted(reason="out of memory")]
    fine = [event for _ in range(20) for event in (proof_start("fine"), layer_start(1), proof_complete())]
    feed(summary, *fine, *died)
    shown = reporter.take_shown(0.0)
    ended = [news.proof for news in shown if isinstance(news, ProofEnded)]
    assert [proof.aborted_reason for proof in ended][-1] == "out of memory"
    assert len(shown) + reporter.take_hidden(0.0) == 42
    assert reporter.take_hidden(0.0) == 0


def test_texts_of_any_length_are_kept_short() -> None:
    summary = new_summary()
    endless = "x" * 200_000
    tracemalloc.start()
    try:
        for number in range(30):
            text = f"{number}{endless}"
            start = proof_start(text)
            feed(
                summary,
                start,
                gpu_status(text, None, None),
                *[Log(level=LogLevel.Error, message=f"{text}{again}") for again in range(5)],
                ProofAborted(reason=text),
                session_id=str(number),
            )
            del start, text
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 3_000_000
