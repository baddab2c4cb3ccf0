"""The application's own meter provider: it gets the measurements, and is left alone otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.borrowed.meter import BorrowedMeter
from proofstream_otel.metrics.gpus import GpuMetrics
from proofstream_otel.values.semconv import DURATION_BUCKETS_S, METRICS, Instrument, Metrics

PROVER = ("cpu-gkr", "mlp")


@pytest.fixture
def reader() -> InMemoryMetricReader:
    """Reads the provider's metrics."""
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader: InMemoryMetricReader) -> Iterator[MeterProvider]:
    """The application's provider."""
    made = MeterProvider([reader], shutdown_on_exit=False)
    yield made
    made.shutdown()


def collect(reader: InMemoryMetricReader) -> dict[str, Any]:
    """The metrics by name."""
    data: Any = reader.get_metrics_data()
    if data is None:
        return {}
    return {m.name: m for group in data.resource_metrics for scope in group.scope_metrics for m in scope.metrics}


def values(metric: Any) -> dict[tuple[Any, ...], float]:
    """The values of a sum's or gauge's points, by the values of their attributes in order of their keys."""
    points: list[Any] = list(metric.data.data_points)
    return {tuple(point.attributes[key] for key in sorted(point.attributes)): point.value for point in points}


def test_measurements_go_through_it(kit: Any, provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    spans = InMemorySpanExporter()
    tracer_provider = TracerProvider(shutdown_on_exit=False)
    tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
    host = InlineHost(OtelPlugin(tracer_provider=tracer_provider, meter_provider=provider))
    host.feed(envelopes([*kit.small_proof(), kit.proof_start(num_layers=4), kit.layer_start(2)], close=False))
    found = collect(reader)
    assert values(found["proofstream.proofs"]) == {(*PROVER, "complete"): 1, (*PROVER, "aborted"): 0}
    assert values(found["proofstream.rounds"]) == {("MatMul", *PROVER): 2}
    assert values(found["proofstream.proof.layers.total"]) == {(*PROVER, "0"): 4}
    assert values(found["proofstream.proofs.running"]) == {PROVER: 1}
    (point,) = found["proofstream.proof.duration"].data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert tuple(point.explicit_bounds) == DURATION_BUCKETS_S
    (exemplar,) = point.exemplars
    (proof,) = (span for span in spans.get_finished_spans() if span.name == "proof")
    assert proof.context is not None
    assert (exemplar.trace_id, exemplar.span_id) == (proof.context.trace_id, proof.context.span_id)
    host.close()
    after = collect(reader)
    assert "proofstream.proof.progress" not in after
    assert values(after["proofstream.proofs"])[*PROVER, "aborted"] == 1


def test_it_works_without_traces(kit: Any, provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    host = InlineHost(OtelPlugin(meter_provider=provider), asked=False)
    host.feed(envelopes(kit.small_proof()))
    found = collect(reader)
    assert values(found["proofstream.proofs"])[*PROVER, "complete"] == 1
    (point,) = found["proofstream.proof.duration"].data.data_points
    assert point.exemplars == []
    host.close()
    assert provider.force_flush(1000), "it was not shut down"


def test_instruments_are_those_of_the_table(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    meter = BorrowedMeter(provider, {})
    for metric in METRICS:
        if metric.instrument is Instrument.HISTOGRAM:
            meter.record_value(metric, 1.0, {}, None)
        elif metric.instrument is Instrument.COUNTER and not metric.is_counted_elsewhere:
            meter.add_count(metric, 1, {})
        else:
            meter.set_value(metric, 1, {})
    found = collect(reader)
    assert sorted(found) == sorted(metric.name for metric in METRICS)
    for metric in METRICS:
        seen = found[metric.name]
        assert (seen.unit, seen.description) == (metric.unit, metric.summary)
        assert getattr(seen.data, "is_monotonic", False) is (metric.instrument is Instrument.COUNTER)


def test_a_lost_device_is_no_longer_observed(provider: MeterProvider, reader: InMemoryMetricReader) -> None:
    now = [0.0]
    gpus = GpuMetrics(BorrowedMeter(provider, {}), clock=lambda: now[0])
    gpus.record_devices(ps.GpuTelemetry(devices=[ps.GpuReading(id="GPU-1", state="ok", energy_j=5.0, power_w=100.0)]))
    found = collect(reader)
    assert values(found[Metrics.ENERGY.name]) == {("GPU-1", "gpu"): 5.0}
    assert found[Metrics.ENERGY.name].data.is_monotonic
    now[0] = 100.0
    gpus.flush()
    assert Metrics.POWER.name not in collect(reader)


def test_a_global_provider_is_found(
    kit: Any, provider: MeterProvider, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    host = InlineHost(OtelPlugin(), asked=False)
    host.feed(envelopes(kit.small_proof()))
    host.close()
    assert "proofstream.proof.duration" in collect(reader)


def test_it_can_be_left_alone(
    kit: Any, provider: MeterProvider, reader: InMemoryMetricReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    plugin = OtelPlugin()
    InlineHost(plugin, {"metrics": False}, asked=False).feed(envelopes(kit.small_proof()))
    assert collect(reader) == {}
