"""What the dashboards show of a prover at work, asked of the real Prometheus."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BOARDS = [json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "grafana" / "dashboards").glob("*.json"))]
QUERIES = [
    pytest.param(target["expr"], id=f"{board['title']}: {panel['title']} {target['refId']}")
    for board in BOARDS
    for panel in board["panels"]
    for target in panel.get("targets", [])
]
CHOSEN = {
    "job": ".*",
    "model": ".*",
    "backend": ".*",
    "gpu": ".*",
    "circuit": ".*",
    "convention": ".*",
    "window": "1h",
    "__range": "1h",
    "__rate_interval": "1m",
}

SHAPES = {"input_shape": [1, 4], "output_shape": [1, 4]}
FELT = {"a": 1, "b": 2, "c": 3, "d": 4}
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


STATE = {"kind": "recurrent", "section": "main", "format": "f32", "lifetime": "sequence", "block": "mamba", "layer": 0}
CIRCUIT = {
    "total_layers": 4,
    **SHAPES,
    "nodes": [],
    "has_simd": False,
    "simd_num_blocks": 0,
    "states": [
        {**STATE, "id": "l0.mamba.h", "local": "h", "elements": 4096, "verify": "h_steps"},
        {**STATE, "id": "l0.mamba.conv", "local": "conv", "elements": 512, "verify": "conv_steps"},
    ],
}
STATE_BYTES = 4 * (4096 + 512)


def _start(model: str) -> dict[str, Any]:
    return {"ProofStart": {"model_name": model, "backend": "gpu-gkr", "num_layers": 4, **SHAPES}}


def _layer(index: int, kind: str) -> list[dict[str, Any]]:
    poly = {"c0": FELT, "c1": FELT, "c2": FELT}
    begin = {"layer_idx": index, "kind": kind, **SHAPES, "trace_cost": 64, "claim_value_approx": 0.5, "gpu_device": 0}
    step = {"layer_idx": index, "round": 0, "total_rounds": 1, "poly_deg2": poly, "poly_deg3": None}
    end = {"layer_idx": index, "kind": "Sumcheck", "final_claim_value_approx": 0.5, "duration_ms": 0}
    return [
        {"LayerStart": begin},
        {"SumcheckRound": {**step, "claim_value_approx": 0.5}},
        {"LayerEnd": {**end, "rounds_completed": 1}},
    ]


def _gpus(energy_j: float, free: int) -> list[dict[str, Any]]:
    device = {"device_id": 0, "device_name": "H200", "utilization": 0.75, "free_memory_bytes": free}
    status = {"devices": [device], "matmul_done": 1, "matmul_total": 2, "layers_done": 2, "layers_total": 4}
    return [{"GpuTelemetry": {"devices": [{**GPU, "energy_j": energy_j}]}}, {"GpuStatus": status}]


def _events() -> list[dict[str, Any]]:
    """A whole proof, one that is aborted by the next, and one that goes on, beside an engine that runs programs."""
    return [
        {"CircuitCompiled": CIRCUIT},
        _start("tiny"),
        {"StateProgramRun": {"program": "verify_checkpoint", "sequences": 8, "duration_ns": 1000}},
        {"StateProgramRun": {"program": "verify_checkpoint", "sequences": 4, "duration_ns": 500}},
        *_gpus(1000.0, 7_000_000),
        *_layer(3, "MatMul"),
        *_layer(2, "Activation"),
        {"WeightOpeningStart": {"weight_node_id": 3, "eval_point_len": 2}},
        {"WeightOpeningEnd": {"weight_node_id": 3, "duration_ms": 0, "commitment_hex": "deadbeef01020304"}},
        {"AggregatedBindingStart": {"num_claims": 1, "num_matrices": 1}},
        {"AggregatedBindingEnd": {"duration_ms": 0, "estimated_calldata_felts": 9001}},
        {"StarkProofStart": {"num_activation_layers": 1, "num_add_layers": 0, "num_layernorm_layers": 0}},
        {"StarkProofEnd": {"duration_ms": 0}},
        {"PhaseStart": {"name": "commit"}},
        {"PhaseEnd": {"name": "commit", "duration_ns": 5_000_000}},
        {
            "ProofComplete": {
                "duration_ms": 0,
                "num_layer_proofs": 2,
                "num_weight_openings": 1,
                "weight_binding_mode": "sequential",
            }
        },
        _start("tiny"),
        *_layer(3, "MatMul"),
        _start("tiny"),
        *_gpus(1500.0, 6_000_000),
        *_gpus(2000.0, 5_000_000),
        *_layer(3, "MatMul"),
        _layer(2, "MatMul")[0],
    ]


def _asked(expr: str) -> str:
    """A query as Grafana sends it, with the variables filled in."""
    return re.sub(r"\$(\w+)", lambda match: CHOSEN[match[1]], expr)


@pytest.fixture(scope="module")
def at_work(
    kit: Any, collector: Any, prometheus: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[subprocess.Popen[str]]:
    """A prover in the middle of its third proof, seen by Prometheus."""
    command = kit.Command(tmp_path_factory.mktemp("at-work"))
    process = command.start(
        "run", "-", "--otlp", collector.otlp_http, "--no-console",
        "--set", "otel.metric_interval_s=1", "--set", 'otel.phase_metrics=["commit"]',
    )  # fmt: skip
    assert process.stdin is not None
    lines = [json.dumps(event) + "\n" for event in _events()]
    # Lines that wait in the pipe before reading begins have no time of their own, and no duration of theirs is known.
    kit.eventually(lambda: prometheus.query("proofstream_plugin_ready_ratio > 0"))
    in_a_layer = next(number for number, line in enumerate(lines) if "LayerEnd" in line)
    process.stdin.write("".join(lines[:in_a_layer]))
    process.stdin.flush()
    # What comes at once takes no time at all, and then nothing has a share of it.
    kit.eventually(lambda: prometheus.query('proofstream_proofs_running{proofstream_proof_model="tiny"} > 0'))
    process.stdin.write("".join(lines[in_a_layer:]))
    process.stdin.flush()
    kit.eventually(lambda: prometheus.query('proofstream_proofs_total{proofstream_proof_outcome="aborted"} > 0'))
    yield process
    _, err = process.communicate(timeout=30)
    assert "refused" not in err


@pytest.mark.parametrize("expr", QUERIES)
def test_a_query_returns_data(kit: Any, at_work: subprocess.Popen[str], prometheus: Any, expr: str) -> None:
    found = kit.eventually(lambda: prometheus.query(_asked(expr)), within_s=20)
    assert at_work.poll() is None
    assert any(math.isfinite(one.value) for one in found)


def _value(kit: Any, prometheus: Any, board: str, title: str, ref_id: str = "A") -> float:
    (expr,) = (
        target["expr"]
        for made in BOARDS
        for panel in made["panels"]
        for target in panel.get("targets", [])
        if (made["title"], panel["title"], target["refId"]) == (board, title, ref_id)
    )
    only = _asked(expr).replace('proofstream_proof_model=~".*"', 'proofstream_proof_model="tiny"')
    (sample,) = kit.eventually(lambda: prometheus.query(only))
    return float(sample.value)


@pytest.mark.parametrize(
    ("board", "title", "expected"),
    [
        ("Proof latency", "Proofs running", 1),
        ("Proof latency", "Progress", 0.25),
        ("Proof latency", "Proofs completed", 1),
        ("Proof latency", "Proofs aborted", 1),
        ("Proof latency", "Aborted share", 0.5),
        ("Proof latency", "Calldata of the last weight binding", 9001),
        ("GPU beside proofs", "Memory in use, share", 0.5),
        ("GPU beside proofs", "GPUs lost", 0),
        ("Pipeline health", "Plugins down", 0),
        ("Pipeline health", "Events lost", 0),
        ("State traffic", "Moved", 12 * STATE_BYTES),
        ("State traffic", "Bandwidth by program", 8 * STATE_BYTES / 1e-6),
        ("State traffic", "Sequences per run", 6),
    ],
)
def test_a_number_is_right(
    kit: Any, at_work: subprocess.Popen[str], prometheus: Any, board: str, title: str, expected: float
) -> None:
    assert at_work.poll() is None
    assert _value(kit, prometheus, board, title) == pytest.approx(expected)


def test_bytes_per_sequence_are_those_of_each_program(
    kit: Any, at_work: subprocess.Popen[str], prometheus: Any
) -> None:
    expr = next(
        t["expr"] for b in BOARDS for p in b["panels"] if p["title"] == "Bytes per sequence" for t in p["targets"]
    )
    found = kit.eventually(lambda: prometheus.query(_asked(expr)))
    assert at_work.poll() is None
    programs = {"verify_checkpoint", "verify_rollback", "commit_accepted", "slot_zero"}
    assert {one.labels["proofstream_state_program"]: one.value for one in found} == dict.fromkeys(programs, STATE_BYTES)


def test_a_meter_that_stands_still_or_is_missing_gives_way_to_power(backends: Path, tmp_path: Path) -> None:
    expr = next(t["expr"] for b in BOARDS for p in b["panels"] if p["title"] == "Total energy" for t in p["targets"])
    series = {
        'hw_energy_joules_total{hw_id="meter"}': "0+1000x60",
        'hw_power_watts{hw_id="meter"}': "777x60",
        'hw_energy_joules_total{hw_id="still"}': "5x60",
        'hw_power_watts{hw_id="still"}': "100x60",
        'hw_power_watts{hw_id="without"}': "50x60",
        'hw_energy_joules_total{hw_id="unknown"}': "5x60",
    }
    joules = {"meter": 60_000, "still": 60_000, "without": 30_000}
    given = [{"series": name.replace("{", '{job="p", instance="a", '), "values": v} for name, v in series.items()]
    expected = [{"labels": f'{{hw_id="{gpu}"}}', "value": value} for gpu, value in joules.items()]
    asked = {"expr": _asked(expr.replace("$__range", "10m")), "eval_time": "10m", "exp_samples": expected}
    test = {"interval": "10s", "input_series": given, "promql_expr_test": [asked]}
    path = tmp_path / "energy.test.yaml"
    path.write_text(json.dumps({"rule_files": [], "tests": [test]}), "utf-8")
    result = subprocess.run([backends / "promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_last_exemplar_leads_to_a_trace_of_jaeger(
    kit: Any, at_work: subprocess.Popen[str], prometheus: Any, jaeger: Any
) -> None:
    found = kit.eventually(
        lambda: prometheus.exemplars('proofstream_proof_duration_seconds_bucket{proofstream_proof_model="tiny"}')
    )
    assert at_work.poll() is None
    spans = kit.eventually(lambda: jaeger.trace(found[-1]["trace_id"]))
    assert "proof" in {span["name"] for span in spans}
