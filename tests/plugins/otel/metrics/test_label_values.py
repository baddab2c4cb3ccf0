"""The values of an attribute are bounded: old ones make room, no count is lost, and new ones are shown."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import proofstream as ps
from proofstream.testing import envelopes
from proofstream_otel.borrowed.meter import BorrowedMeter
from proofstream_otel.metrics.gpus import IDLE_AFTER_S, GpuMetrics
from proofstream_otel.metrics.label_values import MAX_VALUES, OTHER
from proofstream_otel.metrics.meter import Meter
from proofstream_otel.metrics.own_meter import OwnMeter
from proofstream_otel.metrics.pipeline import PipelineMetrics
from proofstream_otel.metrics.proofs import ProofMetrics
from proofstream_otel.metrics.states import StateMetrics
from proofstream_otel.values.metric_points import HistogramPoint, NumberPoint
from proofstream_otel.values.semconv import Label, Metric, Metrics
from proofstream_otel.values.spans import SpanRef

LOG = logging.getLogger("proofstream.test")


class Backend:
    """Collects a meter as a backend with `increase()` does: it sees the growth of each series, and its end."""

    def __init__(self, meter: OwnMeter) -> None:
        self.meter = meter
        self.live: dict[tuple[str, Any], float] = {}
        self.grown: defaultdict[str, float] = defaultdict(float)
        self.times: dict[tuple[str, Any], int] = {}

    def collect(self) -> None:
        """Take one collection."""
        for group in self.meter.collect():
            for point in group.points:
                self._take(group.metric.name, point)

    def _take(self, name: str, point: NumberPoint | HistogramPoint) -> None:
        key = name, tuple(point.attributes.items())
        assert point.time_unix_nano > self.times.get(key, 0), "times of a series rise"
        self.times[key] = point.time_unix_nano
        value = point.count if isinstance(point, HistogramPoint) else point.value
        if value is None:
            del self.live[key]
            return
        before = self.live.get(key, 0)
        self.grown[name] += value if value < before else value - before
        self.live[key] = value

    def values_of(self, metric: Metric, attribute: str) -> set[Any]:
        """The live values of an attribute."""
        return {dict(key).get(attribute) for name, key in self.live if name == metric.name}


@pytest.fixture
def meter() -> OwnMeter:
    """A meter of our own pipeline."""
    return OwnMeter(log=LOG)


def measure(meter: Meter, model: str) -> None:
    """Count a proof of a model, with its duration."""
    labels = {Label.MODEL: model, Label.BACKEND: "cpu"}
    meter.add_count(Metrics.PROOFS, 1, labels)
    meter.record_value(Metrics.PROOF_DURATION, 0.5, labels, None)
    meter.set_value(Metrics.PROOF_LAST_DURATION, 0.5, labels)


@pytest.mark.parametrize("per_collection", [1, 7, 90, 250, 2500])
def test_a_later_model_is_shown_and_every_count_arrives(meter: OwnMeter, per_collection: int) -> None:
    backend = Backend(meter)
    for number in range(2500):
        measure(meter, f"run-{number}")
        if not number % per_collection:
            backend.collect()
    measure(meter, "the-real-model")
    backend.collect()
    for metric in (Metrics.PROOFS, Metrics.PROOF_DURATION):
        shown = backend.values_of(metric, Label.MODEL)
        assert "the-real-model" in shown
        assert len(shown - {OTHER}) == MAX_VALUES
        assert backend.grown[metric.name] == 2501
    assert len(backend.values_of(Metrics.PROOF_LAST_DURATION, Label.MODEL)) == MAX_VALUES
    backend.collect()
    assert backend.grown[Metrics.PROOFS.name] == 2501


def test_a_model_that_is_used_stays(meter: OwnMeter) -> None:
    backend = Backend(meter)
    for number in range(300):
        measure(meter, "daily")
        measure(meter, f"run-{number}")
    backend.collect()
    daily = (Metrics.PROOFS.name, ((Label.BACKEND, "cpu"), (Label.MODEL, "daily")))
    assert backend.live[daily] == 300


@pytest.mark.parametrize("again", [1, 3, 5])
def test_a_series_that_comes_back_begins_again_at_a_later_time(meter: OwnMeter, again: int) -> None:
    backend = Backend(meter)
    for _ in range(3):
        measure(meter, "first")
    backend.collect()
    for number in range(MAX_VALUES):
        measure(meter, f"run-{number}")
    for _ in range(again):
        measure(meter, "first")
    backend.collect()
    assert backend.grown[Metrics.PROOFS.name] == 3 + MAX_VALUES + again


def test_it_is_said_once_for_each_attribute(meter: OwnMeter, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(300):
        measure(meter, f"run-{number}")
    assert [record.getMessage() for record in caplog.records] == [
        "metrics: proofstream.proof.model has more than 100 values: the ones used longest ago make room for new ones"
    ]


def test_an_exemplar_of_a_series_that_made_room_is_kept(meter: OwnMeter) -> None:
    for number in range(MAX_VALUES + 1):
        ref = SpanRef(f"{number:032x}", "2" * 16, sampled=True)
        meter.record_value(Metrics.PROOF_DURATION, 0.5, {Label.MODEL: f"run-{number}"}, ref)
    points = [point for group in meter.collect() for point in group.points if point.attributes[Label.MODEL] == OTHER]
    assert [e.trace_id for p in points if isinstance(p, HistogramPoint) for e in p.exemplars] == ["0" * 32]


class TestRunningProofs:
    """The labels of a running proof stay as they are until it ends."""

    def start(self, metrics: ProofMetrics, count: int) -> list[ps.Interval]:
        """Begin proofs, each of a model of its own."""
        timelines = ps.Timelines()
        started: list[ps.Interval] = []
        for number in range(count):
            event = ps.ProofStart(
                model_name=f"run-{number}", backend="cpu", num_layers=1, input_shape=(1, 1), output_shape=(1, 1)
            )
            for envelope in envelopes([event], session_id=str(number), close=False):
                for change in timelines.feed(envelope):
                    if isinstance(change, ps.Opened):
                        metrics.opened(change.interval)
                        started.append(change.interval)
        return started

    def test_the_ones_that_find_no_room_are_other(self, meter: OwnMeter) -> None:
        backend = Backend(meter)
        metrics = ProofMetrics(meter, live=True)
        started = self.start(metrics, MAX_VALUES + 20)
        backend.collect()
        running = {dict(key)[Label.MODEL]: value for (name, key), value in backend.live.items() if "running" in name}
        assert running == {**{f"run-{number}": 1 for number in range(MAX_VALUES)}, OTHER: 20}
        assert len(backend.values_of(Metrics.PROOF_ELAPSED, Label.SLOT)) == MAX_VALUES
        for interval in started:
            metrics.closed(interval, SpanRef("1", "2", sampled=False))
        backend.collect()
        assert backend.grown[Metrics.PROOFS.name] == MAX_VALUES + 20
        assert backend.values_of(Metrics.PROOF_ELAPSED, Label.SLOT) == set()
        assert {value for (name, _), value in backend.live.items() if "running" in name} == {0}

    def test_a_model_is_shown_once_another_one_is_idle(self, meter: OwnMeter) -> None:
        backend = Backend(meter)
        metrics = ProofMetrics(meter, live=True)
        for interval in self.start(metrics, MAX_VALUES)[:1]:
            metrics.closed(interval, SpanRef("1", "2", sampled=False))
        measure(meter, "the-real-model")
        backend.collect()
        shown = backend.values_of(Metrics.PROOFS, Label.MODEL)
        assert "the-real-model" in shown
        assert "run-0" not in shown
        assert len(shown - {OTHER}) == MAX_VALUES


def test_kinds_outside_of_the_vocabulary_are_other(meter: OwnMeter) -> None:
    backend = Backend(meter)
    metrics = PipelineMetrics(meter)
    counts = {**{f"Kind{number}": 2 for number in range(5000)}, "Log": 1}
    lost = ps.EventsLost(where="intake", counts=counts)
    health = ps.PluginHealth(
        plugin="record", status="ready", reason=None, depth=0, delivered=0, dropped=counts, counters={}, lag_s=0.0
    )
    for event in (lost, health, health):
        raw = ps.encode_event(event)
        metrics.note_event(
            ps.Envelope(seq=0, time_unix_nano=1, session_id="host", origin=ps.HOST, event=event, raw=raw)
        )
    backend.collect()
    for metric in (Metrics.EVENTS_LOST, Metrics.EVENTS_DROPPED):
        assert backend.values_of(metric, Label.EVENT_KIND) == {None, "Log", OTHER}
        assert backend.grown[metric.name] == 10_001


def test_states_beyond_the_bound_are_one_sum(meter: OwnMeter) -> None:
    backend = Backend(meter)
    states = tuple(ps.StateBytes(group=f"g{number}", kind="recurrent", states=1, bytes=3) for number in range(1000))
    moved = ps.StateBytesMoved(
        circuit="c", convention="v", program="p", runs=1, sequences=1, bytes=3000, states=states, timed_bytes=0,
        timed_ns=0,
    )  # fmt: skip
    StateMetrics(meter).record_program(moved)
    backend.collect()
    assert backend.grown[Metrics.STATE_MOVED.name] == 3000
    assert len(backend.values_of(Metrics.STATE_MOVED, Label.STATE_GROUP)) == MAX_VALUES + 1


class TestDevices:
    """Devices beyond the bound are left out, because their figures have no sum; idle ones make room."""

    def telemetry(self, names: range) -> ps.GpuTelemetry:
        """Figures of devices."""
        return ps.GpuTelemetry(devices=[ps.GpuReading(id=f"GPU-{n}", state="ok", power_w=1.0) for n in names])

    def test_measured_ones(self, meter: OwnMeter) -> None:
        now = [0.0]
        backend = Backend(meter)
        metrics = GpuMetrics(meter, clock=lambda: now[0])
        metrics.record_devices(self.telemetry(range(MAX_VALUES + 50)))
        backend.collect()
        assert backend.values_of(Metrics.POWER, Label.HW_ID) == {f"GPU-{n}" for n in range(MAX_VALUES)}
        now[0] = IDLE_AFTER_S + 1
        metrics.record_devices(self.telemetry(range(500, 501)))
        backend.collect()
        assert backend.values_of(Metrics.POWER, Label.HW_ID) == {f"GPU-{n}" for n in (*range(1, MAX_VALUES), 500)}

    def test_reported_ones(self, meter: OwnMeter) -> None:
        backend = Backend(meter)
        metrics = GpuMetrics(meter)
        for number in range(1000):
            device = ps.GpuSnapshot(device_id=number, device_name="g", utilization=0.7, free_memory_bytes=0)
            metrics.record_devices(
                ps.GpuStatus(devices=[device], matmul_done=0, matmul_total=0, layers_done=1, layers_total=4)
            )
        backend.collect()
        assert backend.values_of(Metrics.REPORTED_UTILIZATION, Label.DEVICE) == set(map(str, range(900, 1000)))
        metrics.forget_reported()
        backend.collect()
        assert backend.values_of(Metrics.REPORTED_UTILIZATION, Label.DEVICE) == set()


def test_with_a_provider_the_first_values_stay_and_others_are_other(caplog: pytest.LogCaptureFixture) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    meter = BorrowedMeter(provider, {}, LOG)
    for number in range(2500):
        measure(meter, f"run-{number}")
    data: Any = reader.get_metrics_data()
    (metrics,) = (scope.metrics for group in data.resource_metrics for scope in group.scope_metrics)
    for metric in metrics:
        points: list[Any] = list(metric.data.data_points)
        models = {point.attributes[Label.MODEL] for point in points}
        assert models == {*(f"run-{number}" for number in range(MAX_VALUES)), OTHER}
        if metric.name == Metrics.PROOFS.name:
            assert sum(point.value for point in points) == 2500
    assert [record.getMessage() for record in caplog.records] == [
        "metrics: proofstream.proof.model has more than 100 values: others count as 'other'"
    ]
    provider.shutdown()
