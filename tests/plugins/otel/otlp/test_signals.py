"""All three signals on the way to a receiver: where they go, which ones it may refuse, and how long they may take."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin, environment
from proofstream_otel.otlp import exporter


def proof_with_a_log(kit: Any) -> list[ps.Envelope]:
    """A proof with a log line."""
    return envelopes([ps.Log(level=ps.LogLevel.Info, message="hello"), *kit.small_proof()])


def run(kit: Any, endpoint: str, *, timeout_s: float = 5.0, **config: Any) -> InlineHost:
    """Send a proof to an endpoint, and end."""
    host = InlineHost(OtelPlugin(), {"endpoint": endpoint, **config})
    host.feed(proof_with_a_log(kit))
    host.close(timeout_s)
    return host


def said(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """The messages logged at a level or above."""
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


@pytest.mark.parametrize("tail", ["", "/", "/v1/traces"])
def test_each_signal_has_its_path(kit: Any, receiver: Any, tail: str) -> None:
    health = run(kit, receiver.url + "/base" + tail).health()
    assert set(receiver.paths) == {"/base/v1/traces"}
    assert set(receiver.other_paths) == {"/base/v1/metrics", "/base/v1/logs"}
    assert (health["lost_spans"], health["lost_metrics"], health["lost_logs"]) == (0, 0, 0)
    assert health["metric_points_exported"] == len(receiver.points) > 0
    assert health["logs_exported"] == len(receiver.logs) == 1


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_receiver_of_traces_alone_is_fine(
    kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.INFO)
    receiver.others = kit.Answer(status=status)
    health = run(kit, receiver.url).health()
    assert (health["spans_exported"], health["lost_metrics"], health["lost_logs"]) == (3, 0, 0)
    assert sorted(receiver.other_paths) == ["/v1/logs", "/v1/metrics"]
    assert said(caplog) == []
    assert [text.split(" (")[0] for text in sorted(said(caplog, logging.INFO))] == [
        f"{receiver.url}/v1/logs takes no logs",
        f"{receiver.url}/v1/metrics takes no metrics",
    ]


def test_a_signal_asked_for_by_name_must_be_accepted(kit: Any, receiver: Any) -> None:
    receiver.others = kit.Answer(status=404)
    health = run(kit, receiver.url, metrics=True, rounds="logs").health()
    assert health["lost_metrics"] > 0
    assert health["metric_export_failures"] == 1
    assert health["lost_logs"] == 3  # two rounds and a line


def test_refused_items_are_lost_with_a_warning(kit: Any, receiver: Any, caplog: pytest.LogCaptureFixture) -> None:
    receiver.others = kit.Answer(status=400)
    health = run(kit, receiver.url).health()
    assert (health["spans_exported"], health["lost_logs"]) == (3, 1)
    lost = health["lost_metrics"]
    assert lost > 0
    assert sorted(said(caplog)) == [
        f"logs were not delivered to {receiver.url}/v1/logs: HTTP 400 Bad Request",
        f"metrics were not delivered to {receiver.url}/v1/metrics: HTTP 400 Bad Request",
    ]


def test_an_outage_that_ends_costs_nothing(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_FIRST_BACKOFF_S", 0.05)
    receiver.others = kit.Answer(status=503)
    host = InlineHost(OtelPlugin(), {"endpoint": receiver.url, "metric_interval_s": 0.1})
    host.feed(proof_with_a_log(kit))
    time.sleep(0.12)
    host.tick()
    kit.wait_until(lambda: len(receiver.other_paths) > 4)
    receiver.others = kit.Answer()
    host.close()
    health = host.health()
    assert (health["lost_metrics"], health["lost_logs"]) == (0, 0)
    assert health["metric_points_exported"] == len(receiver.points)
    assert len({point.time_unix_nano for point in receiver.points if point.kind == "gauge"}) > 1
    failures = kit.values_of(receiver.points, "proofstream.otlp.failures")
    assert failures["metrics",] > 0
    assert failures["traces",] == 0


def test_a_silent_receiver_does_not_delay_the_end(kit: Any, silent: str) -> None:
    began = time.monotonic()
    health = run(kit, silent, timeout_s=1.0).health()
    assert time.monotonic() - began < 1.5
    assert health["lost_spans"] == 3
    assert health["lost_logs"] == 1
    assert health["lost_metrics"] > 0


def test_a_full_queue_of_metrics_blocks_nothing(kit: Any, silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(*_: Any) -> environment.Batching:
        return environment.Batching(max_queue_bytes=2000, delay_s=60)

    monkeypatch.setattr(environment, "batching_of", small)
    host = InlineHost(OtelPlugin(), {"endpoint": silent, "metric_interval_s": 0.1, "logs": False})
    began = time.monotonic()
    for part in range(4):
        host.feed(envelopes([kit.proof_start()], session_id=str(part), close=False))
        time.sleep(0.11)
        host.tick()
    assert time.monotonic() - began < 2
    assert host.health()["lost_metrics"] > 0
    host.close(0.2)


def test_only_signals_with_a_receiver_are_sent(kit: Any, receiver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receiver.url + "/mine")
    run(kit, "")
    assert (set(receiver.paths), receiver.other_paths) == ({"/mine"}, [])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", receiver.url + "/other/v1/metrics")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=b")
    run(kit, "")
    assert set(receiver.other_paths) == {"/other/v1/metrics"}
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    sent = len(receiver.points)
    health = run(kit, "").health()
    assert len(receiver.points) > sent
    assert "lost_spans" not in health


def test_metrics_come_at_their_interval_and_when_a_proof_ends(kit: Any, tmp_path: Path) -> None:
    def collections() -> int:
        return len((tmp_path / "metrics.jsonl").read_bytes().splitlines())

    host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "metric_interval_s": 3600.0})
    host.feed(envelopes([kit.proof_start()], close=False))
    time.sleep(1.05)
    host.tick()
    assert collections() == 0
    host.feed(envelopes([kit.proof_complete()])[1:])
    assert collections() == 1
    host.close()
    assert collections() == 2


@pytest.mark.parametrize(("raw", "expected"), [(None, 10.0), ("2500", 2.5)])
def test_the_interval_of_the_environment(monkeypatch: pytest.MonkeyPatch, raw: str | None, expected: float) -> None:
    if raw is not None:
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", raw)
    assert environment.metric_interval_s(10.0) == expected


def test_an_interval_of_zero_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "0")
    with pytest.raises(ps.ConfigError, match="OTEL_METRIC_EXPORT_INTERVAL: 0 is too short"):
        InlineHost(OtelPlugin(), {"file": str(tmp_path)})
