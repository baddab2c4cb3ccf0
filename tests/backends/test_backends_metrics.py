"""What Prometheus has of a run: every metric of the table with the value that was sent, and what the Collector adds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from proofstream_otel.values.semconv import Instrument, Metric, Metrics

WIRE = Path(__file__).parents[1] / "data" / "wire"
STREAMS = ("ws-job-frames-lagged", "smollm2-135m-cpu", "aborted-then-next", "serde-all-variants", "malformed")
TABLE = [value for value in vars(Metrics).values() if isinstance(value, Metric)]

GPU = {
    "id": "GPU-5e1f0c3a",
    "name": "NVIDIA H200",
    "vendor": "NVIDIA",
    "driver_version": "575.57.08",
    "state": "ok",
    "utilization": 0.25,
    "memory_controller_utilization": 0.125,
    "memory_used_bytes": 70_000_000_000,
    "memory_total_bytes": 140_000_000_000,
    "power_w": 500.0,
    "temperature_celsius": 61.0,
    "errors_corrected": 0,
    "errors_uncorrected": 0,
    "errors_xid": 0,
    "pcie_tx_bytes_per_s": 1_000_000,
    "pcie_rx_bytes_per_s": 2_000_000,
    "clock_sm_mhz": 1980,
    "clock_memory_mhz": 3201,
    "throttle_reasons": ["sw_power_cap"],
}
STATUS = {"matmul_done": 1, "matmul_total": 2, "layers_done": 2, "layers_total": 4}
DEVICE = {"device_id": 0, "device_name": "H200", "utilization": 0.75}
STATE = {
    "id": "l0.gdn.h",
    "kind": "recurrent",
    "section": "main",
    "format": "f32",
    "elements": 4096,
    "local": "h",
    "block": "gdn",
    "layer": 0,
    "verify": "h_steps",
    "lifetime": "sequence",
}
UNITS = {
    "s": "seconds",
    "By": "bytes",
    "By/s": "bytes_per_second",
    "Cel": "celsius",
    "Hz": "hertz",
    "J": "joules",
    "W": "watts",
}

Series = frozenset[tuple[str, str]]


def stored_as(metric: Metric) -> str:
    """The name that Prometheus gives a metric."""
    words = [metric.name.replace(".", "_")]
    if metric.unit in UNITS:
        words.append(UNITS[metric.unit])
    elif metric.unit == "1" and metric.instrument is Instrument.GAUGE:
        words.append("ratio")
    if metric.instrument is Instrument.COUNTER:
        words.append("total")
    return "_".join(words)


def events() -> str:
    """Streams that fill every metric; the proof that begins last goes on."""
    # A device whose free memory never changes is one of which the prover knows nothing.
    reports = [{**STATUS, "devices": [{**DEVICE, "free_memory_bytes": free}]} for free in (7_000_000, 6_000_000)]
    start = {"model_name": "tiny", "backend": "gpu-gkr", "num_layers": 4, "input_shape": [1, 4], "output_shape": [1, 4]}
    layer = {"layer_idx": 3, "kind": "MatMul", "input_shape": [1, 4], "output_shape": [1, 4], "trace_cost": 64}
    circuit = {"total_layers": 4, "input_shape": [1, 4], "output_shape": [1, 4], "nodes": [], "has_simd": False}
    last = [
        {"CircuitCompiled": {**circuit, "simd_num_blocks": 0, "states": [STATE]}},
        {"GpuTelemetry": {"devices": [{**GPU, "energy_j": 1000.0}]}},
        *({"GpuStatus": report} for report in reports),
        {"ProofStart": start},
        {"StateProgramRun": {"program": "verify_checkpoint", "sequences": 8, "duration_ns": 1000}},
        {"PhaseStart": {"name": "commit"}},
        {"PhaseEnd": {"name": "commit"}},
        {"LayerStart": {**layer, "claim_value_approx": 0.5, "gpu_device": 0}},
        {"GpuTelemetry": {"devices": [{**GPU, "energy_j": 1500.0}]}},
    ]
    streams = [(WIRE / f"{name}.jsonl").read_text("utf-8") for name in STREAMS]
    return "".join([*streams, *(json.dumps(event) + "\n" for event in last)])


def points(folder: Path) -> Iterator[tuple[str, dict[str, str], str, dict[str, Any]]]:
    """Every data point that was written: metric, labels as Prometheus names them, kind, point."""
    for path in sorted(folder.glob("metrics*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            for group in json.loads(line)["resourceMetrics"]:
                for metric in (metric for scope in group["scopeMetrics"] for metric in scope["metrics"]):
                    (kind,) = {"gauge", "sum", "histogram"} & set(metric)
                    for point in metric[kind]["dataPoints"]:
                        yield metric["name"], labels_of(point["attributes"]), kind, point


def labels_of(attributes: list[dict[str, Any]]) -> dict[str, str]:
    return {one["key"].replace(".", "_"): str(next(iter(one["value"].values()))) for one in attributes}


@dataclass(frozen=True)
class Run:
    """A run that is over: what it sent, from the files that it wrote beside."""

    instance: str
    traces: set[str]
    last: dict[str, dict[Series, dict[str, Any]]]
    """By metric and labels the last point."""


@pytest.fixture(scope="module")
def run(kit: Any, collector: Any, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that fills every metric, with a proof that goes on for some intervals."""
    folder = tmp_path_factory.mktemp("run")
    process = kit.Command(folder).start(
        "run", "-", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console",
        "--set", "otel.metric_interval_s=1", "--set", 'otel.phase_metrics=["commit"]',
    )  # fmt: skip
    process.stdin.write(events())
    process.stdin.flush()
    kit.eventually(lambda: sum(name == Metrics.PROOF_SILENCE.name for name, *_ in points(folder / "sent")) >= 2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "lost" not in err
    last: dict[str, dict[Series, dict[str, Any]]] = {}
    for name, labels, _, point in points(folder / "sent"):
        if point.get("flags") != 1:  # it says that the series has ended
            last.setdefault(name, {})[frozenset(labels.items())] = point
    spans = kit.spans_in(folder / "sent")
    (instance,) = {kit.comparable(span)["resource"]["service.instance.id"] for span in spans}
    return Run(instance, {span["traceId"] for span in spans}, last)


def number(point: dict[str, Any]) -> float:
    return float(point["asInt"]) if "asInt" in point else point["asDouble"]


def wanted(metric: Metric, last: dict[Series, dict[str, Any]]) -> dict[str, dict[Series, float]]:
    """What Prometheus must have of a metric: by name and labels, the value."""
    name = stored_as(metric)
    if metric.instrument is not Instrument.HISTOGRAM:
        return {name: {series: number(point) for series, point in last.items()}}
    return {
        f"{name}_count": {series: float(point["count"]) for series, point in last.items()},
        f"{name}_sum": {series: point["sum"] for series, point in last.items()},
        f"{name}_bucket": {
            series | {("le", bound)}: float(count)
            for series, point in last.items()
            for bound, count in zip(
                [f"{bound:g}" for bound in point["explicitBounds"]] + ["+Inf"],
                accumulate(int(count) for count in point["bucketCounts"]),
                strict=True,
            )
        },
    }


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_prometheus_has_the_metric_with_the_values_that_were_sent(
    kit: Any, prometheus: Any, run: Run, metric: Metric
) -> None:
    assert metric.name in run.last, "this run does not fill it"
    for name, series in wanted(metric, run.last[metric.name]).items():
        with suppress(AssertionError):  # what is compared again says what differs
            kit.eventually(partial(has, prometheus, run, name, series))
        assert stored(prometheus, name, run) == series


def test_what_has_ended_does_not_linger(kit: Any, prometheus: Any, run: Run) -> None:
    of_running_proofs = f'{{__name__=~"proofstream_proof_(progress|silence|elapsed).*", instance="{run.instance}"}}'
    assert prometheus.query(f"last_over_time({of_running_proofs}[1h])")
    kit.eventually(lambda: not prometheus.query(of_running_proofs))
    assert prometheus.query(of_running_proofs) == []


def has(prometheus: Any, run: Run, name: str, series: dict[Series, float]) -> bool:
    return stored(prometheus, name, run) == series


def stored(prometheus: Any, name: str, run: Run) -> dict[Series, float]:
    """The last value of each series that Prometheus has of a run."""
    samples = prometheus.query(f'last_over_time({name}{{instance="{run.instance}"}}[1h])')
    return {sent_labels(sample.labels): sample.value for sample in samples}


def sent_labels(labels: dict[str, str]) -> Series:
    added = {"__name__", "job", "instance", "service_name", "host_name"}
    return frozenset((key, value) for key, value in labels.items() if key not in added)


def test_an_exemplar_leads_from_a_duration_to_its_trace(kit: Any, prometheus: Any, run: Run) -> None:
    for metric in (Metrics.PROOF_DURATION, Metrics.LAYER_DURATION):
        promql = f'{stored_as(metric)}_bucket{{instance="{run.instance}"}}'
        exemplars = kit.eventually(partial(prometheus.exemplars, promql))
        assert {one["trace_id"] for one in exemplars} <= run.traces


def test_increase_sees_the_first_proof_of_a_process(
    kit: Any, command: Any, collector: Any, prometheus: Any, tmp_path: Path
) -> None:
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console")
    assert result.status == 0, result.err
    instance = kit.comparable(kit.spans_in(tmp_path / "sent")[0])["resource"]["service.instance.id"]
    which = f'{{instance="{instance}", proofstream_proof_outcome="complete"}}'
    (proofs,) = kit.eventually(lambda: prometheus.query(f"increase(proofstream_proofs_total{which}[5m]) > 0"))
    assert proofs.value >= 1
    (took,) = kit.eventually(
        lambda: prometheus.query(f"increase(proofstream_proof_duration_seconds_count{which}[5m]) > 0")
    )
    assert took.value >= 1


def test_span_metrics_arrive_with_few_labels_and_with_exemplars(
    kit: Any, command: Any, collector: Any, prometheus: Any
) -> None:
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--no-console")
    assert result.status == 0, result.err
    # A new series begins at zero, so that increase() sees its first proof.
    calls = kit.eventually(lambda: prometheus.query('traces_span_metrics_calls_total{span_name="layer MatMul"} > 0'))
    for one in calls:
        assert one.labels["proofstream_layer_kind"] == "MatMul"
        assert not {key for key in one.labels if key.endswith(("_index", "_node_id", "_claim")) or "_round" in key}
    seconds = 'traces_span_metrics_duration_seconds_sum{span_name="proof"} > 0'
    assert kit.eventually(lambda: prometheus.query(seconds))
    buckets = 'traces_span_metrics_duration_seconds_bucket{span_name="proof"}'
    exemplars = kit.eventually(lambda: prometheus.exemplars(buckets))
    assert all(len(one["trace_id"]) == 32 for one in exemplars)


def test_the_collector_tells_prometheus_about_itself(kit: Any, command: Any, collector: Any, prometheus: Any) -> None:
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--no-console")
    assert result.status == 0, result.err
    received = kit.eventually(lambda: prometheus.query('{__name__=~"otelcol_receiver_accepted_spans.*"} > 0'))
    assert {one.labels["job"] for one in received} == {"otelcol"}
    assert kit.eventually(lambda: prometheus.query('{__name__=~"otelcol_exporter_queue_size.*"}'))
