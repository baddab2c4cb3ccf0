"""State programs as metrics: costs are gauges, traffic is counters, and bandwidth needs durations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric as ProtoMetric
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.borrowed.meter import BorrowedMeter
from proofstream_otel.metrics.measuring import Measuring
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.otlp.protobuf_metrics import encode_metric
from proofstream_otel.values.semconv import METRICS, Metric, Metrics

STATE = "proofstream.state."
NANO = {f"{STATE}circuit": "nano", f"{STATE}convention": "vllm", f"{STATE}program": "slot_zero"}
OF_STATES = (
    Metrics.STATE_COST,
    Metrics.STATE_RUNS,
    Metrics.STATE_SEQUENCES,
    Metrics.STATE_MOVED,
    Metrics.STATE_TIMED_MOVED,
    Metrics.STATE_TIME,
    Metrics.STATE_BANDWIDTH,
)


def groups(h: int, conv: int) -> list[ps.StateBytes]:
    """The bytes of two groups."""
    return [
        ps.StateBytes(group="mamba.h", kind="recurrent", states=2, bytes=h),
        ps.StateBytes(group="mamba.conv", kind="recurrent", states=2, bytes=conv),
    ]


def cost(h: int = 64, conv: int = 32) -> ps.StateProgramCost:
    """The cost of a program."""
    return ps.StateProgramCost(
        proof=0,
        circuit="nano",
        convention="vllm",
        program="slot_zero",
        op="zero",
        recurrent_layers=2,
        bytes=h + conv,
        states=groups(h, conv),
    )


def moved(sequences: int, *, timed: int = 0, timed_ns: int = 0, scale: int = 1) -> ps.StateBytesMoved:
    """The bytes that runs moved; the duration of `timed` sequences is known."""
    return ps.StateBytesMoved(
        circuit="nano",
        convention="vllm",
        program="slot_zero",
        runs=2,
        sequences=sequences,
        bytes=96 * sequences * scale,
        states=groups(64 * sequences * scale, 32 * sequences * scale),
        timed_bytes=96 * timed * scale,
        timed_ns=timed_ns,
    )


def collected(*events: ps.ProofEvent, live: bool = True) -> dict[str, dict[tuple[Any, ...], Any]]:
    """The last values of all series after some events, by metric and by the attributes that differ."""
    meter = OwnMeter()
    measuring = Measuring(meter, live=live)
    for envelope in envelopes(events, close=False)[1:]:
        measuring.measure_event(envelope)
    measuring.flush()
    found: dict[str, dict[tuple[Any, ...], Any]] = {}
    for group in meter.collect():
        for point in group.points:
            rest = tuple(value for key, value in sorted(point.attributes.items()) if NANO.get(key) != value)
            found.setdefault(group.metric.name, {})[rest] = getattr(point, "value", None)
            encoded = ProtoMetric.FromString(encode_metric(group))
            assert encoded.name == group.metric.name
    return found


@pytest.mark.parametrize("live", [True, False])
def test_a_cost_is_a_gauge_by_group(live: bool) -> None:
    found = collected(cost(1, 1), cost(), live=live)
    assert found[Metrics.STATE_COST.name] == {("mamba.h", "recurrent"): 64, ("mamba.conv", "recurrent"): 32}
    assert not set(found) & {metric.name for metric in OF_STATES[1:]}


def test_traffic_is_counted() -> None:
    found = collected(moved(3), moved(4))
    assert found[Metrics.STATE_RUNS.name] == {(): 4}
    assert found[Metrics.STATE_SEQUENCES.name] == {(): 7}
    assert found[Metrics.STATE_MOVED.name] == {("mamba.h", "recurrent"): 448, ("mamba.conv", "recurrent"): 224}


def test_there_is_no_bandwidth_without_a_duration() -> None:
    found = collected(moved(3))
    assert not set(found) & {metric.name for metric in OF_STATES[4:]}


def test_bandwidth_is_of_the_latest_timed_runs_and_counters_are_of_all() -> None:
    found = collected(moved(2, timed=2, timed_ns=1000), moved(5, timed=3, timed_ns=500), moved(7))
    assert found[Metrics.STATE_BANDWIDTH.name] == {(): pytest.approx(288 / 500e-9)}
    assert found[Metrics.STATE_TIMED_MOVED.name] == {(): 480}
    assert found[Metrics.STATE_TIME.name] == {(): pytest.approx(1500e-9)}


def test_a_program_that_touches_no_state_has_series_too() -> None:
    none = ps.StateProgramCost(
        proof=0,
        circuit="nano",
        convention="vllm",
        program="slot_zero",
        op="zero",
        recurrent_layers=0,
        bytes=0,
        states=[],
    )
    assert collected(none)[Metrics.STATE_COST.name] == {(): 0}


def test_a_u64_and_a_sum_that_overflows_are_the_nearest_doubles() -> None:
    found = collected(cost(2**64 - 1, 2**63 - 1), moved(1, scale=2**56), moved(1, scale=2**56), moved(1, scale=2**56))
    assert found[Metrics.STATE_COST.name] == {
        ("mamba.h", "recurrent"): float(2**64),
        ("mamba.conv", "recurrent"): 2**63 - 1,
    }
    total = found[Metrics.STATE_MOVED.name]["mamba.h", "recurrent"]
    assert isinstance(total, float)
    assert total == 3 * 2**62


def test_a_sum_that_overflows_does_not_break_an_application() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    meter = BorrowedMeter(provider, {})
    for _ in range(3):
        meter.add_count(Metrics.STATE_RUNS, 2**62, {})
    meter.add_count(Metrics.STATE_SEQUENCES, 2**62, {})
    data = reader.get_metrics_data()
    assert data is not None
    (resource,) = data.resource_metrics
    (scope,) = resource.scope_metrics
    points = {metric.name: metric.data.data_points[0] for metric in scope.metrics}
    runs, sequences = points[Metrics.STATE_RUNS.name], points[Metrics.STATE_SEQUENCES.name]
    assert isinstance(runs, NumberDataPoint)
    assert isinstance(runs.value, float)
    assert runs.value == 3 * 2**62
    assert isinstance(sequences, NumberDataPoint)
    assert isinstance(sequences.value, int)
    provider.shutdown()


@pytest.mark.parametrize("metric", OF_STATES, ids=lambda metric: metric.name)
def test_no_label_grows_with_proofs_or_runs(metric: Metric) -> None:
    assert metric in METRICS
    assert set(metric.attributes) <= {*NANO, f"{STATE}kind", f"{STATE}group"}


def test_they_are_exported_with_the_others(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes([*kit.small_proof(), cost(), moved(3, timed=3, timed_ns=1000)]))
    host.close()
    seen = {point.name: point for point in kit.read_metric_file(tmp_path / "metrics.jsonl")}
    assert {metric.name for metric in OF_STATES} <= set(seen)
    assert seen[Metrics.STATE_BANDWIDTH.name].attributes == NANO
    assert seen[Metrics.STATE_TIME.name].value == pytest.approx(1e-6)
