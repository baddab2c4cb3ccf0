"""What Prometheus has of a run."""

from __future__ import annotations

from typing import Any


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
    seconds = kit.eventually(lambda: prometheus.query('traces_span_metrics_duration_seconds_sum{span_name="proof"}'))
    assert sum(one.value for one in seconds) > 0
    exemplars = kit.eventually(
        lambda: prometheus.exemplars('traces_span_metrics_duration_seconds_bucket{span_name="proof"}')
    )
    assert all(len(one["trace_id"]) == 32 for one in exemplars)


def test_the_collector_tells_prometheus_about_itself(kit: Any, command: Any, collector: Any, prometheus: Any) -> None:
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--no-console")
    assert result.status == 0, result.err
    received = kit.eventually(lambda: prometheus.query('{__name__=~"otelcol_receiver_accepted_spans.*"}'))
    assert sum(one.value for one in received) >= 1
    assert {one.labels["job"] for one in received} == {"otelcol"}
    assert kit.eventually(lambda: prometheus.query('{__name__=~"otelcol_exporter_queue_size.*"}'))
