"""The alert rules: promtool's unit tests of them, and the real Prometheus that evaluates them."""

from __future__ import annotations

import subprocess
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


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_alert_has_a_unit_test(path: Path) -> None:
    tests = (ROOT / "tests" / "grafana" / f"{path.stem}.test.yaml").read_text("utf-8")
    for alert in _alerts(path):
        assert f'"{alert}"' in tests or f"alertname: {alert}" in tests


def test_prometheus_evaluates_every_rule(kit: Any, prometheus: Any) -> None:
    groups = kit.get(f"{prometheus.url}/api/v1/rules", type="alert")["data"]["groups"]
    rules = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
    assert set(rules) == {alert for path in RULES for alert in _alerts(path)}
    assert "err" not in rules.values()
