"""The committed dashboards."""

from __future__ import annotations

import importlib
import json
import runpy
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from boards.naming import prometheus_name, strangers, used
from proofstream_otel.values.semconv import Metrics

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
BOARDS = {path.stem: json.loads(path.read_text("utf-8")) for path in FILES}
FOUND: dict[str, dict[str, Any]] = {
    f"{name}: {panel['title']}": panel
    for name, board in BOARDS.items()
    for panel in board["panels"]
    if panel["type"] != "row"
}
PANELS = [pytest.param(panel, id=name) for name, panel in FOUND.items()]
TABLES = [pytest.param(panel, id=name) for name, panel in FOUND.items() if panel["type"] == "table"]
RULES = [
    pytest.param(rule, id=rule["alert"])
    for path in sorted((ROOT / "grafana" / "alerts").glob("*.yaml"))
    for group in yaml.safe_load(path.read_text("utf-8"))["groups"]
    for rule in group["rules"]
]


# Grafana 13 takes both schemas from files; Grafana 11 and 12 take this one alone.
@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
def test_the_files_are_what_the_script_makes() -> None:
    made: dict[str, str] = runpy.run_path(str(ROOT / "scripts" / "dashboards.py"))["texts"]()
    assert {path.name: path.read_text("utf-8") for path in FILES} == made


def test_four_dashboards_have_titles_of_their_own() -> None:
    titles = {"Proof latency", "GPU beside proofs", "Pipeline health", "State traffic"}
    assert {board["title"] for board in BOARDS.values()} == titles
    assert len({board["uid"] for board in BOARDS.values()}) == 4
    assert all(board["description"] for board in BOARDS.values())


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert len(panel["description"]) > len("Of the chip.")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_asks_only_for_what_is_sent(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert strangers(target["expr"]) == []
        assert used(target["expr"])[0] or "otelcol_" in target["expr"]
        assert "rate(" not in target["expr"], "proofs are too rare for rates"


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_takes_its_data_from_the_chosen_source(panel: dict[str, Any]) -> None:
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert {source["uid"] for source in sources} == {"${prometheus}"}


@pytest.mark.parametrize("name", BOARDS)
def test_panels_lie_beside_one_another(name: str) -> None:
    cells: set[tuple[int, int]] = set()
    panels = BOARDS[name]["panels"]
    for panel in panels:
        at = panel["gridPos"]
        covered = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not covered & cells, panel["title"]
        cells |= covered
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("name", BOARDS)
def test_variables_ask_only_for_what_is_sent(name: str) -> None:
    for variable in BOARDS[name]["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = variable["definition"].removeprefix("label_values(").removesuffix(")").split(", ")
            assert strangers(f'{metric}{{{label}=~".*"}}') == []


def test_durations_have_exemplars_and_lead_to_traces() -> None:
    panels = {panel["title"]: panel for panel in BOARDS["proof-latency"]["panels"]}
    for title in ("Duration of proofs, percentiles", "Duration of proofs, spread", "Duration of a layer by kind, p95"):
        assert all(target["exemplar"] for target in panels[title]["targets"])
    (link,) = panels["Slowest kinds of layers"]["fieldConfig"]["defaults"]["links"]
    assert link["url"].startswith("/explore?")
    assert "${__data.fields.Kind}" in link["url"]
    assert "${jaeger}" in link["url"]
    panes = json.loads(unquote(link["url"].partition("panes=")[2]))
    (query,) = panes["proofs"]["queries"]
    assert (query["service"], query["operation"]) == ("${job}", "layer ${__data.fields.Kind}")
    (job,) = (one for one in BOARDS["proof-latency"]["templating"]["list"] if one["name"] == "job")
    assert not job.get("multi"), "a link can name one service"


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_turns_red_only_where_it_says_so(panel: dict[str, Any]) -> None:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert steps[0]["value"] is None
    assert [step["value"] for step in steps[1:]] == sorted(step["value"] for step in steps[1:])


@pytest.mark.parametrize("panel", TABLES)
def test_columns_of_a_table_have_names(panel: dict[str, Any]) -> None:
    *_, organize = panel["transformations"]
    named = set(organize["options"]["renameByName"])
    several = len(panel["targets"]) > 1
    assert {f"Value #{target['refId']}" if several else "Value" for target in panel["targets"]} <= named
    for target in panel["targets"]:
        assert used(target["expr"])[1] & named, "no label of it is shown"


@pytest.mark.parametrize("rule", RULES)
def test_an_alert_says_what_to_do(rule: dict[str, Any]) -> None:
    assert strangers(rule["expr"]) == []
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    assert len(rule["annotations"]["description"]) > 100


@pytest.mark.parametrize("rule", RULES)
def test_an_alert_is_explained(rule: dict[str, Any]) -> None:
    assert f"`{rule['alert']}`" in (ROOT / "docs" / "operating.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (Metrics.PROOF_DURATION, "proofstream_proof_duration_seconds"),
        (Metrics.PROOFS, "proofstream_proofs_total"),
        (Metrics.PROOF_PROGRESS, "proofstream_proof_progress_ratio"),
        (Metrics.STATUS, "hw_status"),
        (Metrics.ENERGY, "hw_energy_joules_total"),
        (Metrics.GPU_PCIE, "proofstream_gpu_pcie_throughput_bytes_per_second"),
        (Metrics.STATE_RUNS, "proofstream_state_program_runs_total"),
        (Metrics.STATE_MOVED, "proofstream_state_program_moved_bytes_total"),
    ],
)
def test_names_are_translated_as_prometheus_does(metric: Any, name: str) -> None:
    assert prometheus_name(metric) == name


def test_a_name_that_is_never_sent_is_found() -> None:
    query = 'sum by (le, proofstream_layer_knid) (increase(proofstream_layer_duration_bucket{job="a{b}"}[1h]))'
    assert strangers(query) == ["proofstream_layer_duration_bucket", "proofstream_layer_knid"]


@pytest.mark.filterwarnings("ignore:Prefer using dashboardv2:DeprecationWarning")
@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_of_grafanas_schema(name: str) -> None:
    dashboard = importlib.import_module("grafana_foundation_sdk.models.dashboard").Dashboard
    encoder = importlib.import_module("grafana_foundation_sdk.cog.encoder").JSONEncoder
    importlib.import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    read = dashboard.from_json(BOARDS[name])
    assert json.loads(json.dumps(read, cls=encoder)) == BOARDS[name]
    assert read.schema_version == 42
