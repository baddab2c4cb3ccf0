"""The provisioning files that Grafana reads at its start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from boards.naming import strangers

ROOT = Path(__file__).parents[2]
PROVISIONING = ROOT / "grafana" / "provisioning"


def _load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return loaded


@pytest.fixture
def sources() -> dict[str, dict[str, Any]]:
    return {one["uid"]: one for one in _load(PROVISIONING / "datasources" / "proofstream.yaml")["datasources"]}


@pytest.fixture
def services() -> dict[str, Any]:
    found: dict[str, Any] = _load(ROOT / "compose.yaml")["services"]
    return found


def test_sources_are_the_services_of_compose(sources: dict[str, dict[str, Any]], services: dict[str, Any]) -> None:
    assert set(sources) == {"prometheus", "jaeger"}
    for uid, source in sources.items():
        host, port = source["url"].removeprefix("http://").split(":")
        assert source["type"] == uid
        assert any(one.split(":")[-1] == port for one in services[host]["ports"])


def test_metrics_and_traces_lead_to_one_another(sources: dict[str, dict[str, Any]]) -> None:
    (exemplars,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert (exemplars["name"], exemplars["datasourceUid"]) == ("trace_id", "jaeger")
    to_metrics = sources["jaeger"]["jsonData"]["tracesToMetrics"]
    assert to_metrics["datasourceUid"] == "prometheus"
    for tag in to_metrics["tags"]:
        assert tag["value"] == tag["key"].replace(".", "_")
        assert strangers(f'proofstream_proofs_total{{{tag["value"]}="x"}}') == []
    for query in to_metrics["queries"]:
        promql = query["query"].replace("{$$__tags}", "")
        assert "$" not in promql, "Grafana puts an environment variable there"
        assert strangers(promql) == []


def test_dashboards_and_alerts_are_read_from_where_compose_puts_them(services: dict[str, Any]) -> None:
    (provider,) = _load(PROVISIONING / "dashboards" / "proofstream.yaml")["providers"]
    mounts = [volume.split(":") for volume in services["grafana"]["volumes"] if volume.startswith("./")]
    folders = {inside: ROOT / outside for outside, inside, *_ in mounts}
    assert folders["/etc/grafana/provisioning"] == PROVISIONING
    assert {json.loads(path.read_text("utf-8"))["uid"] for path in folders[provider["options"]["path"]].iterdir()}
    assert any("grafana/alerts" in volume for volume in services["prometheus"]["volumes"])
    (rules,) = _load(ROOT / "deploy" / "prometheus.yaml")["rule_files"]
    assert sorted((ROOT / "deploy").glob(rules))
