"""Prometheus's names of our metrics and labels, and the names that a query uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from proofstream_otel.values.semconv import METRICS, Instrument, Metric

_UNITS: Final = {
    "s": "seconds",
    "By": "bytes",
    "By/s": "bytes_per_second",
    "W": "watts",
    "J": "joules",
    "Hz": "hertz",
    "Cel": "celsius",
}
_HISTOGRAM: Final = ("_bucket", "_sum", "_count")

OTHERS: Final = frozenset(
    {"otelcol_exporter_queue_size", "otelcol_exporter_queue_capacity", "traces_span_metrics_duration_seconds_bucket"}
) | {
    f"otelcol_{what}_{items}_total"
    for what in (
        "exporter_sent",
        "exporter_send_failed",
        "exporter_enqueue_failed",
        "receiver_refused",
        "receiver_failed",
    )
    for items in ("spans", "metric_points", "log_records")
}
"""Metrics of the Collector and its connector that queries may use besides ours."""

OTHER_LABELS: Final = frozenset({"job", "instance", "le", "__name__", "exporter", "data_type", "span_name"})

_TEXTS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_MATCHERS: Final = re.compile(r"\{([^}]*)\}")
_GROUPINGS: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_METRIC: Final = re.compile(r"\b(?:proofstream|hw|otelcol|traces)_\w+")
_LABEL: Final = re.compile(r"\b[A-Za-z_]\w*\b")


def prometheus_name(metric: Metric) -> str:
    """Return a metric's name in Prometheus, by the translation strategy UnderscoreEscapingWithSuffixes."""
    words = [re.sub(r"\W", "_", metric.name)]
    if metric.unit in _UNITS:
        words.append(_UNITS[metric.unit])
    if metric.instrument is Instrument.COUNTER:
        words.append("total")
    elif metric.instrument is Instrument.GAUGE and metric.unit == "1":
        words.append("ratio")
    return "_".join(words)


def series_names(metrics: Iterable[Metric] = METRICS) -> frozenset[str]:
    """Return the names of the metrics' series."""
    return frozenset(
        prometheus_name(metric) + suffix
        for metric in metrics
        for suffix in (_HISTOGRAM if metric.instrument is Instrument.HISTOGRAM else ("",))
    )


def label_names(metrics: Iterable[Metric] = METRICS) -> frozenset[str]:
    """Return the names of the metrics' labels."""
    return frozenset(re.sub(r"\W", "_", key) for metric in metrics for key in metric.attributes)


def used(promql: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the metrics and the labels that a query names."""
    bare = _TEXTS.sub("", promql)
    labels = {name for part in (*_MATCHERS.findall(bare), *_GROUPINGS.findall(bare)) for name in _LABEL.findall(part)}
    return frozenset(_METRIC.findall(_GROUPINGS.sub("", _MATCHERS.sub("", bare)))), frozenset(labels)


def strangers(promql: str) -> list[str]:
    """Return the metrics and labels in a query that are never exported."""
    metrics, labels = used(promql)
    return sorted((metrics - series_names() - OTHERS) | (labels - label_names() - OTHER_LABELS))
