"""Metrics: each of the table with its value, series that begin at zero and end, exemplars, and nothing that grows."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proofstream as ps
from proofstream import HOST
from proofstream.testing import START_UNIX_NANO, InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.metrics.gpus import GpuMetrics
from proofstream_otel.metrics.meter import MAX_SERIES
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.metrics.proofs import ProofMetrics
from proofstream_otel.metrics.running import Stage, stage_of
from proofstream_otel.values import semconv
from proofstream_otel.values.metric_points import MetricPoints, NumberPoint
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, METRICS, Label, Metrics
from proofstream_otel.values.spans import SpanRef

S = 1_000_000_000
PROVER = ("cpu-gkr", "mlp")
FORBIDDEN = {"index", "round", "ordinal", "session", "trace", "job", "node"}

GPU = ps.GpuReading(
    id="GPU-1",
    name="H200",
    vendor="NVIDIA",
    driver_version="580",
    index=0,
    state="ok",
    utilization=0.5,
    memory_controller_utilization=0.25,
    memory_used_bytes=4 * 2**30,
    memory_total_bytes=8 * 2**30,
    memory_source="v2",
    power_w=300.0,
    energy_j=1e6,
    temperature_celsius=60.0,
    errors_corrected=3,
    errors_uncorrected=0,
    errors_xid=1,
    pcie_tx_bytes_per_s=1e9,
    pcie_rx_bytes_per_s=2e9,
    clock_sm_mhz=1980.0,
    clock_memory_mhz=2619.0,
    throttle_reasons=["sw_power_cap"],
)


STATE_COST = ps.StateProgramCost(
    proof=0,
    circuit="nano",
    convention="vllm",
    program="slot_zero",
    op="zero",
    recurrent_layers=2,
    bytes=96,
    states=[ps.StateBytes(group="mamba.h", kind="recurrent", states=2, bytes=96)],
)
STATE_MOVED = ps.StateBytesMoved(
    circuit="nano",
    convention="vllm",
    program="slot_zero",
    runs=2,
    sequences=3,
    bytes=288,
    states=[ps.StateBytes(group="mamba.h", kind="recurrent", states=2, bytes=288)],
    timed_bytes=96,
    timed_ns=1000,
)


def gpu(**changes: Any) -> ps.GpuTelemetry:
    """Telemetry of one GPU."""
    fields = {name: getattr(GPU, name) for name in GPU.__struct_fields__}
    return ps.GpuTelemetry(devices=[ps.GpuReading(**{**fields, **changes})])


def gpu_status(*, utilization: float, free: int, done: int = 1, device_id: int = 0) -> ps.GpuStatus:
    """A prover's report on its only device."""
    device = ps.GpuSnapshot(device_id=device_id, device_name="GPU-0", utilization=utilization, free_memory_bytes=free)
    return ps.GpuStatus(devices=[device], matmul_done=0, matmul_total=0, layers_done=done, layers_total=4)


def health(**changes: Any) -> ps.PluginHealth:
    """The health of a plugin."""
    fields: dict[str, Any] = {
        "plugin": "record",
        "status": "ready",
        "reason": None,
        "depth": 7,
        "delivered": 9,
        "dropped": {},
        "counters": {},
        "lag_s": 0.5,
    }
    return ps.PluginHealth(**{**fields, **changes})


def at_host(*events: ps.ProofEvent) -> list[ps.Envelope]:
    """Events of the host or one of its plugins."""
    return [
        ps.Envelope(
            seq=seq,
            time_unix_nano=START_UNIX_NANO,
            session_id="host",
            origin=HOST,
            event=event,
            raw=ps.encode_event(event),
        )
        for seq, event in enumerate(events)
    ]


def everything(kit: Any) -> list[ps.ProofEvent | ps.Decoded]:
    """A proof with one of each part, a proof that is aborted, and trouble."""
    return [
        ps.ProofStart(model_name="mlp", backend="cpu-gkr", num_layers=4, input_shape=(1, 4), output_shape=(1, 2)),
        kit.layer_start(1),
        *[kit.sumcheck_round(number, layer_idx=1) for number in range(3)],
        kit.layer_end(1),
        kit.sumcheck_round(0, layer_idx=9),
        ps.WeightOpeningStart(weight_node_id=1, eval_point_len=3),
        ps.WeightOpeningEnd(weight_node_id=1, duration_ms=1, commitment_hex="00"),
        ps.AggregatedBindingStart(num_claims=2, num_matrices=1),
        ps.AggregatedBindingEnd(duration_ms=1, estimated_calldata_felts=1234),
        ps.StarkProofStart(num_activation_layers=1, num_add_layers=0, num_layernorm_layers=0),
        ps.StarkProofEnd(duration_ms=1),
        ps.PhaseStart(name="commit"),
        ps.PhaseEnd(name="commit"),
        kit.proof_complete(),
        kit.proof_start(),
        ps.Log(level=ps.LogLevel.Warn, message="lagged 5 events"),
        ps.ProofAborted(reason="gone"),
        ps.Decoded(event=ps.UnknownEvent(kind="Later"), raw=b'{"Later":{}}'),
    ]


@pytest.fixture
def seen(kit: Any, tmp_path: Path) -> list[Any]:
    """The points of a run that fills every metric: with a proof that runs, one that ended, and trouble."""
    (tmp_path / "one").mkdir()
    settings = {"file": str(tmp_path / "one"), "metric_interval_s": 0.1, "phase_metrics": ["commit"]}
    host = InlineHost(OtelPlugin(), settings, live=True)
    host.feed(at_host(health(), ps.EventsLost(where="intake", counts={"Log": 2})))
    host.feed(at_host(health(status="failed", dropped={"Log": 3}), gpu(), STATE_COST, STATE_MOVED))
    host.feed(envelopes(everything(kit), step_ns=S))
    host.feed(
        envelopes([kit.proof_start(num_layers=4), kit.layer_start(3), kit.layer_end(3)], session_id="b", close=False)
    )
    host.feed(
        envelopes([gpu_status(utilization=0.7, free=8), gpu_status(utilization=0.7, free=6)], session_id="b")[1:-1]
    )
    wait(0.12)
    host.tick()
    host.close()
    points: list[Any] = kit.read_metric_file(tmp_path / "one" / "metrics.jsonl")
    return points


def wait(seconds: float) -> None:
    """Let time pass, since collections are some time apart."""
    time.sleep(seconds)


def values(kit: Any, points: Iterable[Any], metric: semconv.Metric) -> dict[tuple[Any, ...], float]:
    """The last value of each series of a metric."""
    found: dict[tuple[Any, ...], float] = kit.values_of(list(points), metric.name)
    return found


def test_every_metric_of_the_table_is_exported_as_the_table_says(kit: Any, seen: list[Any], tmp_path: Path) -> None:
    by_name = {metric.name: metric for metric in METRICS}
    sent = {point.name for point in seen}
    of_exports = {Metrics.OTLP_EXPORTED.name, Metrics.OTLP_LOST.name, Metrics.OTLP_FAILURES.name}
    assert sent == set(by_name) - of_exports  # nothing is sent to a receiver here
    kinds = {"updowncounter": "sum", "counter": "sum", "gauge": "gauge", "histogram": "histogram"}
    for point in seen:
        metric = by_name[point.name]
        assert point.unit == metric.unit, point.name
        assert point.kind == kinds[metric.instrument.value], point.name
        assert point.monotonic is (metric.instrument is semconv.Instrument.COUNTER), point.name
        assert set(point.attributes) <= set(metric.attributes), point.name
        assert not {word for key in point.attributes for word in key.split(".")} & FORBIDDEN


def test_a_proof_in_figures(kit: Any, seen: list[Any]) -> None:
    complete, aborted = (*PROVER, "complete"), (*PROVER, "aborted")
    assert values(kit, seen, Metrics.PROOFS) == {complete: 1, aborted: 2}
    assert values(kit, seen, Metrics.PROOF_DURATION)[complete] == pytest.approx(15.0)
    assert values(kit, seen, Metrics.PROOF_LAST_DURATION)[complete] == pytest.approx(15.0)
    assert values(kit, seen, Metrics.PROOF_LAST_END)[complete] == pytest.approx(START_UNIX_NANO / S + 16)
    assert values(kit, seen, Metrics.LAYER_DURATION) == pytest.approx(
        {("MatMul", "Sumcheck", *PROVER): 4.001}  # four seconds, and a millisecond in the other session
    )
    assert values(kit, seen, Metrics.ROUNDS) == {("MatMul", *PROVER): 3, PROVER: 1}
    assert values(kit, seen, Metrics.WEIGHT_OPENING_DURATION) == {PROVER: pytest.approx(1.0)}
    assert values(kit, seen, Metrics.WEIGHT_BINDING_DURATION) == {PROVER: pytest.approx(1.0)}
    assert values(kit, seen, Metrics.WEIGHT_BINDING_CALLDATA) == {PROVER: 1234}
    assert values(kit, seen, Metrics.STARK_DURATION) == {PROVER: pytest.approx(1.0)}
    assert values(kit, seen, Metrics.PHASE_DURATION) == {("commit", *PROVER): pytest.approx(1.0)}


def test_a_running_proof_in_figures(kit: Any, seen: list[Any]) -> None:
    running = [point for point in seen if point.name == Metrics.PROOF_PROGRESS.name]
    assert [(p.attributes[Label.SLOT], p.value, p.has_ended) for p in running] == [("0", 0.25, False), ("0", 0, True)]
    assert values(kit, seen, Metrics.PROOF_LAYERS_TOTAL) == {(*PROVER, "0"): 4}
    assert values(kit, seen, Metrics.PROOF_LAYERS_CLOSED) == {(*PROVER, "0"): 1}
    assert 0.1 < values(kit, seen, Metrics.PROOF_ELAPSED)[*PROVER, "0"] < 30
    silence = values(kit, seen, Metrics.PROOF_SILENCE)
    assert set(silence) == {(*PROVER[:1], "mlp", "between_layers", "0")}
    assert 0.1 < silence[PROVER[0], "mlp", "between_layers", "0"] < 30
    counts = [p.value for p in seen if p.name == Metrics.PROOFS_RUNNING.name]
    assert counts == [1, 0]


def test_trouble_in_figures(kit: Any, seen: list[Any]) -> None:
    received = values(kit, seen, Metrics.EVENTS_RECEIVED)
    assert received["SumcheckRound",] == 4
    assert received["ProofStart",] == 3
    assert received["other",] == 1
    assert values(kit, seen, Metrics.EVENTS_DROPPED) == {("record",): 0, ("Log", "record"): 3}
    assert values(kit, seen, Metrics.EVENTS_LOST) == {("intake",): 0, ("producer",): 5, ("Log", "intake"): 2}
    assert values(kit, seen, Metrics.EVENTS_REFUSED) == {(): 0}
    assert values(kit, seen, Metrics.LANE_DEPTH) == {("record",): 7}
    assert values(kit, seen, Metrics.LANE_LAG) == {("record",): 0.5}
    assert values(kit, seen, Metrics.PLUGIN_FAILURES) == {("record",): 1}
    assert values(kit, seen, Metrics.PLUGIN_READY) == {("record",): 0}


def test_a_gpu_in_figures(kit: Any, seen: list[Any]) -> None:
    card = ("580", "GPU-1", "H200", "NVIDIA")
    hardware = ("GPU-1", "H200", "gpu")
    assert values(kit, seen, Metrics.GPU_UTILIZATION) == {card: 0.5}
    assert values(kit, seen, Metrics.GPU_MEMORY_CONTROLLER) == {card: 0.25}
    assert values(kit, seen, Metrics.GPU_MEMORY_USAGE) == {card: 4 * 2**30}
    assert values(kit, seen, Metrics.GPU_MEMORY_LIMIT) == {card: 8 * 2**30}
    assert values(kit, seen, Metrics.GPU_MEMORY_UTILIZATION) == {card: 0.5}
    assert values(kit, seen, Metrics.POWER) == {hardware: 300.0}
    assert values(kit, seen, Metrics.TEMPERATURE) == {("GPU-1", "H200"): 60.0}
    assert values(kit, seen, Metrics.ENERGY) == {hardware: 1e6}
    assert values(kit, seen, Metrics.ERRORS) == {
        ("corrected", *hardware): 3,
        ("uncorrected", *hardware): 0,
        ("xid", *hardware): 1,
    }
    assert values(kit, seen, Metrics.STATUS) == {
        ("GPU-1", "H200", "ok", "gpu"): 1,
        ("GPU-1", "H200", "degraded", "gpu"): 0,
        ("GPU-1", "H200", "failed", "gpu"): 0,
    }
    assert values(kit, seen, Metrics.GPU_PCIE) == {
        ("GPU-1", "H200", "transmit"): 1e9,
        ("GPU-1", "H200", "receive"): 2e9,
    }
    assert values(kit, seen, Metrics.GPU_CLOCK) == {
        ("GPU-1", "H200", "sm"): 1980e6,
        ("GPU-1", "H200", "memory"): 2619e6,
    }
    assert values(kit, seen, Metrics.GPU_THROTTLED) == {("GPU-1", "H200", "sw_power_cap"): 1}
    assert values(kit, seen, Metrics.REPORTED_UTILIZATION) == {("0",): 0.7}
    assert values(kit, seen, Metrics.REPORTED_FREE_MEMORY) == {("0",): 6}


def test_a_device_may_have_any_number(kit: Any, receiver: Any) -> None:
    """Also one that OTLP has no integer for, which would cost the request."""
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metric_interval_s": 0.1})
    statuses = [gpu_status(utilization=0.7, free=free, device_id=2**64 - 1) for free in (8, 6)]
    host.feed(envelopes([kit.proof_start(), *statuses], close=False))

    def is_collected() -> bool:
        host.tick()
        return bool(receiver.points)

    kit.wait_until(is_collected)
    host.close()
    assert values(kit, receiver.points, Metrics.REPORTED_UTILIZATION) == {(str(2**64 - 1),): 0.7}
    assert host.health()["lost_metrics"] == 0


def test_exports_in_figures(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metric_interval_s": 0.1})
    host.feed(envelopes(kit.small_proof()))
    kit.wait_until(lambda: host.health()["spans_exported"] == 3)
    host.close()
    assert values(kit, receiver.points, Metrics.OTLP_EXPORTED)["traces",] == 3
    for metric in (Metrics.OTLP_EXPORTED, Metrics.OTLP_LOST, Metrics.OTLP_FAILURES):
        assert set(values(kit, receiver.points, metric)) == {("traces",), ("metrics",), ("logs",)}
    assert values(kit, receiver.points, Metrics.OTLP_LOST)["traces",] == 0


def test_a_replay_says_nothing_about_the_present(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)}, live=False)
    host.feed(at_host(health(), gpu()))
    items = [*everything(kit), kit.proof_start(), gpu_status(utilization=0.7, free=6)]
    host.feed(envelopes(items, step_ns=S, close=False))
    host.close()
    sent = {point.name for point in kit.read_metric_file(tmp_path / "metrics.jsonl")}
    assert not sent & {metric.name for metric in METRICS if metric.is_live}
    assert {Metrics.PROOF_DURATION.name, Metrics.LANE_DEPTH.name, Metrics.ROUNDS.name} <= sent


class TestBeginnings:
    """A new counter or histogram begins with a zero, so that its first increment can be seen."""

    def test_the_zero_has_the_time_of_the_previous_collection(self) -> None:
        clock = iter(range(100, 200, 10))
        meter = OwnMeter(clock=lambda: next(clock))
        assert meter.collect() == []  # at 110; it was made at 100
        labels = {Label.SIGNAL: "traces"}
        meter.add_count(Metrics.OTLP_LOST, 2, labels)
        first, second = points_of(meter.collect(), Metrics.OTLP_LOST)
        assert (first.start_unix_nano, first.time_unix_nano, first.value) == (110, 110, 0)
        assert (second.start_unix_nano, second.time_unix_nano, second.value) == (110, 120, 2)
        meter.add_count(Metrics.OTLP_LOST, 1, labels)
        (third,) = points_of(meter.collect(), Metrics.OTLP_LOST)
        assert (third.start_unix_nano, third.time_unix_nano, third.value) == (110, 130, 3)

    def test_both_outcomes_are_there_when_the_first_proof_begins(self, kit: Any, tmp_path: Path) -> None:
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "metric_interval_s": 0.1})
        host.feed(envelopes([kit.proof_start()], close=False))
        wait(0.12)
        host.tick()
        zeros = kit.values_of(kit.read_metric_file(tmp_path / "metrics.jsonl"), Metrics.PROOFS.name)
        assert zeros == {(*PROVER, "complete"): 0, (*PROVER, "aborted"): 0}
        host.close()

    def test_a_histogram_begins_empty(self, kit: Any, tmp_path: Path) -> None:
        points = run(kit, tmp_path, envelopes(kit.small_proof()))
        first, second = (point for point in points if point.name == Metrics.PROOF_DURATION.name)
        assert (first.count, sum(first.bucket_counts)) == (0, 0)
        assert (second.count, sum(second.bucket_counts)) == (1, 1)
        assert second.bounds == DURATION_BUCKETS_S
        assert (second.bounds[0], second.bounds[-1]) == (0.001, 7200)
        assert first.time_unix_nano < second.time_unix_nano


def points_of(collected: list[MetricPoints], metric: semconv.Metric) -> list[NumberPoint]:
    """The points of a counter or gauge."""
    found = [p for group in collected if group.metric == metric for p in group.points if isinstance(p, NumberPoint)]
    return [point for point in found if point.value is not None]


def names_of(collected: list[MetricPoints]) -> set[str]:
    """The metrics that have a value."""
    return {group.metric.name for group in collected if any(getattr(p, "value", 0) is not None for p in group.points)}


def run(kit: Any, folder: Path, items: list[ps.Envelope], **config: Any) -> list[Any]:
    """Export a stream to a file and read back the points."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(items)
    host.close()
    points: list[Any] = kit.read_metric_file(folder / "metrics.jsonl")
    return points


def test_a_series_ends_once() -> None:
    meter = OwnMeter()
    phase = ["a"]
    meter.watch_value(Metrics.LANE_LAG, {Label.PLUGIN: "a"}, lambda: 1.0 if phase[0] == "a" else None)
    meter.watch_value(Metrics.LANE_LAG, {Label.PLUGIN: "b"}, lambda: 1.0 if phase[0] == "b" else None)

    def seen() -> list[tuple[Any, Any]]:
        points: list[Any] = [p for group in meter.collect() for p in group.points]
        return [(p.attributes[Label.PLUGIN], p.value) for p in points]

    assert seen() == [("a", 1.0)]
    phase[0] = "b"
    assert seen() == [("b", 1.0), ("a", None)]
    assert seen() == [("b", 1.0)]
    meter.end_series(Metrics.LANE_LAG, {Label.PLUGIN: "b"})
    assert seen() == [("b", None)]
    assert seen() == []


class TestExemplars:
    """A measurement leads to its trace."""

    def test_of_a_proof_and_a_layer(self, kit: Any, tmp_path: Path) -> None:
        points = run(kit, tmp_path, envelopes(kit.small_proof()))
        spans = {span.name: span for span in kit.read_file(tmp_path / "traces.jsonl")}
        for metric, name in ((Metrics.PROOF_DURATION, "proof"), (Metrics.LAYER_DURATION, "layer MatMul")):
            (exemplar,) = (e for point in points if point.name == metric.name for e in point.exemplars)
            span = spans[name]
            assert exemplar == ((span.end_unix_nano - span.start_unix_nano) / 1e9, span.trace_id, span.span_id)

    def test_not_of_unsampled_spans(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        points = run(kit, tmp_path, envelopes(kit.small_proof()))
        assert values(kit, points, Metrics.PROOFS)[*PROVER, "complete"] == 1
        assert [e for point in points for e in point.exemplars] == []

    def test_not_if_they_are_turned_off(self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_METRICS_EXEMPLAR_FILTER", "always_off")
        points = run(kit, tmp_path, envelopes(kit.small_proof()))
        assert [e for point in points for e in point.exemplars] == []


class TestSlots:
    """Proofs that run at the same time take the lowest free numbers."""

    def slots(self, meter: OwnMeter) -> dict[Any, Any]:
        """The slots that are shown, with how many layers their proofs have."""
        points = points_of(meter.collect(), Metrics.PROOF_LAYERS_TOTAL)
        return {int(str(point.attributes[Label.SLOT])): point.value for point in points}

    def test_a_slot_is_free_again_when_its_proof_ends(self, kit: Any) -> None:
        meter = OwnMeter()
        follower = Follower(ProofMetrics(meter, live=True))
        for name, layers in (("a", 1), ("b", 2), ("c", 3)):
            follower.feed(envelopes([kit.proof_start(num_layers=layers)], session_id=name, close=False))
        assert self.slots(meter) == {0: 1, 1: 2, 2: 3}
        follower.feed(envelopes([kit.proof_complete()], session_id="b")[1:])
        assert self.slots(meter) == {0: 1, 2: 3}
        follower.feed(envelopes([kit.proof_start(num_layers=4)], session_id="d", close=False))
        assert self.slots(meter) == {0: 1, 1: 4, 2: 3}
        for name in "acd":
            follower.feed(envelopes([], session_id=name)[1:])
        assert self.slots(meter) == {}
        live = names_of(meter.collect()) & {metric.name for metric in METRICS if metric.is_live}
        assert live == {Metrics.PROOFS_RUNNING.name, Metrics.PROOF_LONGEST_SILENCE.name}

    @given(st.lists(st.integers(0, 4), max_size=30))
    def test_the_lowest_free_slot_is_always_taken(self, turns: list[int]) -> None:
        meter = OwnMeter()
        follower = Follower(ProofMetrics(meter, live=True))
        taken: dict[str, int] = {}
        start = ps.ProofStart(model_name="mlp", backend="x", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
        for name in map(str, turns):
            if name in taken:
                follower.feed(envelopes([], session_id=name)[1:])
                del taken[name]
            else:
                taken[name] = min(set(range(6)) - set(taken.values()))
                follower.feed(envelopes([start], session_id=name, close=False))
            assert set(self.slots(meter)) == set(taken.values())

    def test_silence_has_a_phase(self, kit: Any) -> None:
        now = [0.0]
        meter = OwnMeter()
        follower = Follower(ProofMetrics(meter, live=True, clock=lambda: now[0]))

        def silence() -> list[tuple[Any, Any]]:
            follower.metrics.flush()
            points = points_of(meter.collect(), Metrics.PROOF_SILENCE)
            return [(point.attributes[Label.PHASE], point.value) for point in points]

        items = envelopes([kit.proof_start(num_layers=3), kit.layer_start(2), kit.layer_end(2), kit.proof_complete()])
        follower.feed(items[:2])
        now[0] = 40.0
        assert silence() == [(Stage.BEFORE_LAYERS, 40.0)]
        follower.feed(items[2:3])
        now[0] = 47.0
        assert silence() == [(Stage.LAYERS, 7.0)]
        follower.feed(items[3:4])
        now[0] = 50.0
        assert silence() == [(Stage.BETWEEN_LAYERS, 3.0)]
        follower.feed(items[4:])
        assert silence() == []

    def test_the_longest_silence_of_a_complete_proof_is_kept_by_phase(self, kit: Any) -> None:
        now = [0.0]
        meter = OwnMeter()
        follower = Follower(ProofMetrics(meter, live=True, clock=lambda: now[0]))

        def hear(after_s: float, *items: ps.Envelope) -> None:
            now[0] += after_s
            follower.feed(list(items))
            follower.metrics.flush()

        def kept() -> dict[Any, Any]:
            points = points_of(meter.collect(), Metrics.PROOF_LONGEST_SILENCE)
            return {point.attributes[Label.PHASE]: point.value for point in points}

        start, layer, end = kit.proof_start(num_layers=1), kit.layer_start(), kit.layer_end()
        items = envelopes([start, layer, kit.sumcheck_round(), end, kit.proof_complete(), start, layer])
        for after_s, item in zip((0, 0, 8, 2, 25), items, strict=False):
            hear(after_s, item)
        assert kept() == {}
        hear(21, items[5])
        expected = {Stage.BEFORE_LAYERS: 8, Stage.LAYERS: 25, Stage.AFTER_LAYERS: 21}
        assert kept() == expected
        hear(1, items[6])
        hear(4000, items[7])
        hear(4000, items[8])  # the session ends: a proof that hung and died is no measure
        assert kept() == expected

    def test_a_proof_is_alive_in_those_that_it_has_started(self, kit: Any) -> None:
        now = [0.0]
        meter = OwnMeter()
        follower = Follower(ProofMetrics(meter, live=True, clock=lambda: now[0]))
        outer = kit.of_job("outer", kit.proof_start())
        inner = kit.of_job("inner", kit.proof_start(), kit.layer_start(), inside="outer")
        items = envelopes([*outer, *inner], close=False)
        follower.feed(items[:3])
        follower.metrics.flush()
        now[0] = 40.0
        follower.feed(items[3:])
        follower.metrics.flush()
        now[0] = 41.0
        silences = {point.value for point in points_of(meter.collect(), Metrics.PROOF_SILENCE)}
        assert silences == {1.0}

    def test_a_layer_without_an_end_does_not_stay_open_forever(self, kit: Any) -> None:
        follower = Follower(ProofMetrics(OwnMeter(), live=True))
        items = [kit.proof_start(num_layers=3), kit.layer_start(2), kit.layer_start(1), kit.layer_end(1)]
        follower.feed(envelopes(items, close=False))
        (proof,) = follower.timelines.open_proofs
        assert stage_of(proof) == Stage.BETWEEN_LAYERS


class Follower:
    """Feeds metrics of proofs without anything else."""

    def __init__(self, metrics: ProofMetrics) -> None:
        self.metrics = metrics
        self.timelines = ps.Timelines()

    def feed(self, items: list[ps.Envelope]) -> None:
        """Feed envelopes."""
        for envelope in items:
            for change in self.timelines.feed(envelope):
                if isinstance(change, ps.Opened):
                    self.metrics.opened(change.interval)
                elif isinstance(change, ps.Closed):
                    self.metrics.closed(change.interval, SpanRef("1", "2", sampled=True))
                else:
                    self.metrics.noted(change.interval, envelope)


class TestGpus:
    """Series of devices begin and end with their figures."""

    def names(self, meter: OwnMeter) -> set[str]:
        """The names of the metrics with a value."""
        return names_of(meter.collect())

    def metrics(self, meter: OwnMeter, now: list[float]) -> GpuMetrics:
        """Metrics with a clock that stands still."""
        return GpuMetrics(meter, clock=lambda: now[0])

    def test_a_lost_device_is_failed_and_has_no_other_series(self) -> None:
        meter, now = OwnMeter(), [0.0]
        metrics = self.metrics(meter, now)
        metrics.record_devices(gpu())
        assert Metrics.POWER.name in self.names(meter)
        metrics.record_devices(ps.GpuTelemetry(devices=[ps.GpuReading(id="GPU-1", name="H200", state="lost")]))
        collected = meter.collect()
        assert names_of(collected) == {Metrics.STATUS.name}
        states = {p.attributes[Label.HW_STATE]: p.value for p in points_of(collected, Metrics.STATUS)}
        assert states == {"ok": 0, "degraded": 0, "failed": 1}

    def test_the_series_of_a_silent_device_end(self) -> None:
        meter, now = OwnMeter(), [0.0]
        metrics = self.metrics(meter, now)
        metrics.record_devices(gpu())
        now[0] = 59.0
        metrics.flush()
        assert Metrics.POWER.name in self.names(meter)
        now[0] = 61.0
        metrics.flush()
        assert self.names(meter) == set()

    def test_a_missing_figure_is_not_zero(self) -> None:
        meter = OwnMeter()
        metrics = self.metrics(meter, [0.0])
        metrics.record_devices(gpu(utilization=None, energy_j=math.nan, memory_total_bytes=0))
        shown = self.names(meter)
        assert not shown & {m.name for m in (Metrics.GPU_UTILIZATION, Metrics.ENERGY, Metrics.GPU_MEMORY_UTILIZATION)}
        metrics.record_devices(gpu())
        assert Metrics.GPU_UTILIZATION.name in self.names(meter)

    def test_a_reason_to_throttle_goes_back_to_zero(self) -> None:
        meter = OwnMeter()
        metrics = self.metrics(meter, [0.0])
        for reasons in (["sw_power_cap"], []):
            metrics.record_devices(gpu(throttle_reasons=reasons))
        assert [point.value for point in points_of(meter.collect(), Metrics.GPU_THROTTLED)] == [0]

    def test_a_mig_instance_names_its_gpu(self) -> None:
        meter = OwnMeter()
        self.metrics(meter, [0.0]).record_devices(gpu(id="MIG-1", parent_id="GPU-1", utilization=None))
        (point,) = points_of(meter.collect(), Metrics.GPU_MEMORY_USAGE)
        assert (point.attributes[Label.HW_ID], point.attributes[Label.HW_PARENT]) == ("MIG-1", "GPU-1")

    @pytest.mark.parametrize(
        ("statuses", "shown"),
        [
            ([(0.25, 8, 1), (0.5, 8, 2)], []),  # the share of layers done, and the total
            ([(0.25, 0, 1), (0.25, 0, 1)], []),
            ([(55.0, 8, 1), (-0.1, 8, 1)], []),  # no ratio
            ([(0.9, 8, 1)], [Metrics.REPORTED_UTILIZATION.name]),
            ([(0.25, 8, 1), (0.25, 7, 1)], [Metrics.REPORTED_FREE_MEMORY.name]),
            ([(0.25, 8, 1), (0.25, 7, 1), (0.25, 0, 1)], []),
        ],
    )
    def test_placeholders_are_not_shown(self, statuses: list[tuple[float, int, int]], shown: list[str]) -> None:
        meter = OwnMeter()
        metrics = self.metrics(meter, [0.0])
        for utilization, free, done in statuses:
            metrics.record_devices(gpu_status(utilization=utilization, free=free, done=done))
        assert sorted(self.names(meter)) == shown
        metrics.forget_reported()
        assert self.names(meter) == set()


class TestBounds:
    """Nothing grows without bounds, and no invalid value is exported."""

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
    def test_numbers_that_are_not_finite_are_left_out(self, odd: float) -> None:
        meter = OwnMeter()
        meter.record_value(Metrics.PROOF_DURATION, odd, {}, None)
        meter.add_count(Metrics.PROOFS, odd, {})
        meter.set_value(Metrics.LANE_LAG, odd, {})
        meter.watch_value(Metrics.LANE_DEPTH, {}, lambda: odd)
        assert meter.collect() == []
        assert meter.refused == 3

    def test_an_integer_that_is_too_large_affects_nothing_else(self, kit: Any, receiver: Any) -> None:
        host = InlineHost(OtelPlugin(), {"endpoint": receiver.url})
        host.feed(at_host(health(depth=2**64 - 1)))
        host.close()
        assert values(kit, receiver.points, Metrics.LANE_DEPTH) == {("record",): 2.0**64}
        assert host.health()["lost_metrics"] == 0

    def test_the_series_of_a_metric_are_bounded(self) -> None:
        meter = OwnMeter()
        for number in range(MAX_SERIES + 10):
            labels = {Label.MODEL: f"model-{number % 100}", Label.BACKEND: f"backend-{number // 100}"}
            meter.add_count(Metrics.PROOFS, 1, labels)
        last: dict[Any, Any] = {}
        for point in points_of(meter.collect(), Metrics.PROOFS):
            last[tuple(point.attributes.items())] = point.value
        assert len(last) == MAX_SERIES + 1
        assert last[("otel.metric.overflow", True),] == 10

    def test_a_long_name_is_cut(self, kit: Any, tmp_path: Path) -> None:
        start = ps.ProofStart(
            model_name="m" * 10**6, backend="b\ud800", num_layers=1, input_shape=(1, 1), output_shape=(1, 1)
        )
        item = envelopes([kit.proof_start(), kit.proof_complete()])
        item[1] = ps.Envelope(
            seq=1, time_unix_nano=START_UNIX_NANO, session_id="test-session", origin="producer", event=start, raw=b""
        )
        (backend, model, _), *_ = values(kit, run(kit, tmp_path, item), Metrics.PROOF_DURATION)
        assert (backend, len(model)) == ("b?", 128)

    def test_the_number_of_series_does_not_grow_with_the_number_of_proofs(self, kit: Any, tmp_path: Path) -> None:
        counts: list[int] = []
        for proofs in (1, 20):
            folder = tmp_path / str(proofs)
            points = run(kit, folder, envelopes(kit.small_proof(rounds=3) * proofs))
            counts.append(len({(p.name, tuple(p.attributes.items())) for p in points}))
        assert counts[0] == counts[1]

    def test_no_line_is_longer_than_512_kib(self, kit: Any, tmp_path: Path) -> None:
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
        for number in range(400):
            name = f"model-{number % 100}-" + "x" * 100
            start = kit.proof_start(model_name=name, backend=f"backend-{number // 100}")
            host.feed(envelopes([start, kit.layer_start(), kit.layer_end(), kit.proof_complete()]))
        host.close()
        lines = (tmp_path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        assert len(lines) > 1
        assert max(map(len, lines)) <= 512 * 2**10
        points = kit.read_metric_file(tmp_path / "metrics.jsonl")
        assert len(points) == host.health()["metric_points_written"]
        assert len(values(kit, points, Metrics.PROOF_DURATION)) == 400
