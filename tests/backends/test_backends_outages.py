"""Collector, Jaeger and Prometheus go away in the middle and come back; what was promised is there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STREAM = Path(__file__).parents[1] / "data" / "wire" / "aborted-then-next.jsonl"


@pytest.fixture
def restored(collector: Any, jaeger: Any, prometheus: Any) -> Iterator[None]:
    """Whatever a test did to them, both run again after it."""
    yield
    for one in (jaeger.backend, prometheus.backend, collector.backend):
        if not one.is_running:
            one.start()


def finish(process: subprocess.Popen[str], rest: str) -> tuple[int, str]:
    _, err = process.communicate(rest, timeout=90)
    return process.returncode, err


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_nothing_is_lost_when_the_collector_goes_and_comes_back_during_a_run(
    kit: Any, command: Any, collector: Any, jaeger: Any, restored: None, tmp_path: Path, how: str
) -> None:
    lines = STREAM.read_text("utf-8").splitlines(keepends=True)
    half = len(lines) // 2
    process = command.start("run", "-", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console")
    process.stdin.write("".join(lines[:half]))
    process.stdin.flush()
    first = kit.eventually(lambda: kit.spans_in(tmp_path / "sent"))
    kit.eventually(lambda: jaeger.trace(first[0]["traceId"]))
    getattr(collector.backend, how)()
    process.stdin.write("".join(lines[half:-1]))
    process.stdin.flush()
    kit.eventually(lambda: len(kit.spans_in(tmp_path / "sent")) > len(first))
    collector.backend.start()
    status, err = finish(process, lines[-1])
    assert status == 0, err
    kit.assert_stored(jaeger, kit.spans_in(tmp_path / "sent"))


def test_what_the_collector_has_taken_outlives_jaeger_and_the_collector_itself(
    kit: Any, command: Any, collector: Any, jaeger: Any, restored: None, tmp_path: Path
) -> None:
    jaeger.backend.kill()
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console")
    assert result.status == 0, result.err
    collector.backend.kill()
    collector.backend.start()
    jaeger.backend.start()
    kit.assert_stored(jaeger, kit.spans_in(tmp_path / "sent"))


def test_what_the_collector_has_taken_outlives_prometheus_and_the_collector_itself(
    kit: Any, command: Any, collector: Any, prometheus: Any, restored: None, tmp_path: Path
) -> None:
    prometheus.backend.kill()
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console")
    assert result.status == 0, result.err
    collector.backend.kill()
    collector.backend.start()
    prometheus.backend.start()
    instance = kit.comparable(kit.spans_in(tmp_path / "sent")[0])["resource"]["service.instance.id"]
    which = f'{{instance="{instance}", proofstream_proof_outcome="complete"}}'
    (proofs,) = kit.eventually(lambda: prometheus.query(f"last_over_time(proofstream_proofs_total{which}[1h]) > 0"))
    assert proofs.value == 1


def test_a_run_without_a_collector_says_so(command: Any, collector: Any, restored: None, tmp_path: Path) -> None:
    collector.backend.stop()
    result = command("run", "-", "--otlp", collector.otlp_http, "--no-console", stdin=STREAM.read_text("utf-8"))
    assert result.status == 1
    assert re.search(r"not delivered: plugin otel .*: \d+ lost spans", result.err)
