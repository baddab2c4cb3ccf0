"""The alert rules: promtool's unit tests of them, and the real Prometheus that evaluates them."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TESTS = sorted((ROOT / "tests" / "grafana").glob("*.test.yaml"))
RULES = sorted((ROOT / "grafana" / "alerts").glob("*.yaml"))


def _alerts(path: Path) -> list[str]:
    return [rule["alert"] for group in yaml.safe_load(path.read_text("utf-8"))["groups"] for rule in group["rules"]]


def test_the_rules_are_in_order(backends: Path) -> None:
    result = subprocess.run(
        [backends / "promtool", "check", "rules", "--lint=all", "--lint-fatal", *RULES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_alerts_fire_when_they_should_and_else_not(backends: Path, path: Path) -> None:
    result = subprocess.run([backends / "promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def _fire_in(path: Path) -> set[str]:
    """The alerts that must fire somewhere in a file of unit tests."""
    tests = yaml.safe_load(path.read_text("utf-8"))["tests"]
    expected = [one for test in tests for one in test.get("alert_rule_test", []) if one["exp_alerts"]]
    samples = [one for test in tests for query in test.get("promql_expr_test", []) for one in query["exp_samples"]]
    names = [re.findall(r'alertname="(\w+)"', one["labels"]) for one in samples if one["value"] > 0]
    return {one["alertname"] for one in expected} | {name for found in names for name in found}


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_alert_fires_in_a_unit_test(path: Path) -> None:
    assert set(_alerts(path)) == _fire_in(ROOT / "tests" / "grafana" / f"{path.stem}.test.yaml")


def test_prometheus_evaluates_every_rule(kit: Any, prometheus: Any) -> None:
    def healths() -> dict[str, str]:
        groups = kit.get(f"{prometheus.url}/api/v1/rules", type="alert")["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    assert set(healths()) == {alert for path in RULES for alert in _alerts(path)}
    # Each group has its turn once in 15 s.
    kit.eventually(lambda: set(healths().values()) == {"ok"})


def _running(instance: str, time_unix_nano: int) -> dict[str, Any]:
    """OTLP of a process that has a running proof."""
    point: dict[str, Any] = {"timeUnixNano": str(time_unix_nano), "asInt": "1", "attributes": []}
    metric: dict[str, Any] = {"name": "proofstream.proofs.running", "unit": "{proof}"}
    metric["sum"] = {"aggregationTemporality": 2, "isMonotonic": False, "dataPoints": [point]}
    told = {"service.name": "p", "service.instance.id": instance}
    resource = {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in told.items()]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}


def _send(prometheus: Any, metrics: dict[str, Any]) -> None:
    request = urllib.request.Request(
        f"{prometheus.otlp}/v1/metrics", json.dumps(metrics).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
        assert answer.status == 200


def test_a_prometheus_that_was_away_takes_no_prover_for_gone(kit: Any, prometheus: Any) -> None:
    def states() -> list[str]:
        alerts = kit.get(f"{prometheus.url}/api/v1/alerts")["data"]["alerts"]
        gone = [alert for alert in alerts if alert["labels"]["alertname"] == "ProverGone"]
        return [alert["state"] for alert in gone if alert["labels"]["instance"] == "proves-on"]

    _send(prometheus, _running("proves-on", time.time_ns() - 10 * 60 * 10**9))
    prometheus.backend.stop()
    prometheus.backend.start()
    # It holds a running proof of which nothing has come for ten minutes, and asks again before it says so.
    assert kit.eventually(states) == ["pending"]
    _send(prometheus, _running("proves-on", time.time_ns()))
    kit.eventually(lambda: not states())
