"""What a replayed file's state programs cost stands on the proofs' spans in Jaeger, although the answer came late."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SHAPES = {"input_shape": [1, 4], "output_shape": [1, 4]}
STATE = {"kind": "recurrent", "section": "main", "format": "f32", "lifetime": "sequence", "verify": "h_steps"}
PROOFS = 100


def _proof(elements: int) -> list[dict[str, Any]]:
    circuit = {"total_layers": 1, **SHAPES, "nodes": [], "has_simd": False, "simd_num_blocks": 0}
    states = [{**STATE, "id": "gdn.h", "elements": elements}]
    ends = {"duration_ms": 0, "num_layer_proofs": 0, "num_weight_openings": 0, "weight_binding_mode": "none"}
    return [
        {"CircuitCompiled": {**circuit, "states": states}},
        {"ProofStart": {"model_name": f"m{elements}", "backend": "cpu", "num_layers": 1, **SHAPES}},
        {"ProofComplete": ends},
    ]


def test_jaeger_has_the_costs_of_a_replayed_file(
    kit: Any, command: Any, collector: Any, jaeger: Any, tmp_path: Path
) -> None:
    events = [event for number in range(PROOFS) for event in _proof(number + 1)]
    (tmp_path / "proofs.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events), "utf-8")
    result = command(
        *("run", "proofs.jsonl", "--plugin", "state-cost", "--otlp", collector.otlp_http),
        *("--otlp-file", "sent", "--no-console"),
    )
    assert result.status == 0, result.err
    sent = kit.spans_in(tmp_path / "sent")
    kit.assert_stored(jaeger, sent)
    proofs = [kit.comparable(span) for span in sent if span["name"] == "proof"]
    assert len(proofs) == PROOFS
    for number, proof in enumerate(proofs):
        said = proof["attributes"]
        assert said["proofstream.state.circuit"] == f"m{number + 1}"
        assert said["proofstream.state.verify_checkpoint.bytes"] == 4 * (number + 1)
