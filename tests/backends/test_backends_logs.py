"""Log records go through the Collector into its file, with their trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SERDE = Path(__file__).parents[1] / "data" / "wire" / "serde-all-variants.jsonl"

Record = dict[str, Any]


def records_in(path: Path) -> list[Record]:
    """The log records of a file of OTLP JSON lines."""
    return [
        record
        for line in (path.read_text("utf-8").splitlines() if path.exists() else [])
        for group in json.loads(line)["resourceLogs"]
        for scope in group["scopeLogs"]
        for record in scope["logRecords"]
    ]


def essence(record: Record) -> tuple[str, ...]:
    keys = ("timeUnixNano", "traceId", "spanId", "eventName", "severityText")
    body = record.get("body", {}).get("stringValue", "")
    return (*(str(record.get(key, "")) for key in keys), body)


def test_log_records_arrive_with_their_trace(
    kit: Any, command: Any, collector: Any, jaeger: Any, tmp_path: Path
) -> None:
    result = command(
        "run", "-", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console",
        "--set", "otel.rounds=both", stdin=SERDE.read_text("utf-8"),
    )  # fmt: skip
    assert result.status == 0, result.err
    sent = {essence(record) for record in records_in(tmp_path / "sent" / "logs.jsonl")}
    assert {record[3] for record in sent} == {"proofstream.log", "proofstream.sumcheck.round"}
    kit.eventually(lambda: sent <= {essence(record) for record in records_in(collector.state / "logs.jsonl")})
    spans = kit.spans_in(tmp_path / "sent")
    assert {record[1] for record in sent} <= {span["traceId"] for span in spans}


def test_a_spooled_folder_brings_logs_and_metrics_as_well(
    kit: Any, command: Any, collector: Any, prometheus: Any, tmp_path: Path
) -> None:
    result = command("run", "-", "--otlp-file", tmp_path / "sent", "--no-console", stdin=SERDE.read_text("utf-8"))
    assert result.status == 0, result.err
    sent = {essence(record) for record in records_in(tmp_path / "sent" / "logs.jsonl")}
    assert sent
    instance = kit.comparable(kit.spans_in(tmp_path / "sent")[0])["resource"]["service.instance.id"]
    (tmp_path / "sent").rename(collector.spool / "all-signals")
    kit.eventually(lambda: sent <= {essence(record) for record in records_in(collector.state / "logs.jsonl")})
    received = f'sum(last_over_time(proofstream_events_received_total{{instance="{instance}"}}[1h]))'
    lines = len(SERDE.read_text("utf-8").splitlines())
    kit.eventually(lambda: [one.value for one in prometheus.query(received)] == [lines])
