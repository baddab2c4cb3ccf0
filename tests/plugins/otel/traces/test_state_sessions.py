"""State-program costs in real runs, with each plugin on a lane of its own: in a live session and in a replay."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream import hookimpl
from proofstream.testing import envelopes
from proofstream_otel import OtelPlugin

PROOFS = 300
BYTES = "proofstream.state.slot_zero.bytes"
CIRCUIT = Path(__file__).parents[3] / "data" / "state" / "small.toml"
FORMATS = "ssm_h_storage=f32,kv_cache_dtype=bf16"


class Pricer:
    """Answers each proof's start with the cost of one program, and each run with the bytes that it moved."""

    derives = ("StateProgramCost", "StateBytesMoved")

    def __init__(self) -> None:
        self._proofs = 0

    @hookimpl
    def proofstream_consume(self, batch: ps.Batch) -> Iterable[ps.ProofEvent]:
        """Answer."""
        return [answer for envelope in batch if (answer := self._answer(envelope.event)) is not None]

    def _answer(self, event: ps.ProofEvent) -> ps.ProofEvent | None:
        about = {"circuit": "nano", "convention": "vllm", "program": "slot_zero"}
        if isinstance(event, ps.ProofStart):
            self._proofs += 1
            return ps.StateProgramCost(
                proof=self._proofs - 1, op="zero", recurrent_layers=2, bytes=100 + self._proofs, states=[], **about
            )
        if isinstance(event, ps.StateProgramRun):
            moved = 96 * event.sequences
            return ps.StateBytesMoved(
                runs=1, sequences=event.sequences, bytes=moved, states=[], timed_bytes=moved, timed_ns=10, **about
            )
        return None


def test_proofs_of_a_live_session_that_take_no_time(kit: Any, tmp_path: Path) -> None:
    session = ps.open_session(plugins=[OtelPlugin(file=str(tmp_path)), Pricer()])
    with session:
        for _ in range(20):
            with session.proof(num_layers=1, model_name="mlp"):
                session.emit(kit.layer_start())
            session.emit(ps.StateProgramRun(program="slot_zero", sequences=2, duration_ns=10))
    spans = kit.read_file(tmp_path / "traces.jsonl")
    assert [s.attributes[BYTES] for s in spans if s.name == "proof"] == list(range(101, 121))
    (of_session,) = (span for span in spans if span.name == "session")
    assert of_session.events == []
    points = kit.read_metric_file(tmp_path / "metrics.jsonl")
    key = ("nano", "vllm", "slot_zero")
    assert kit.values_of(points, "proofstream.state.program.moved") == {key: 96 * 2 * 20}
    assert kit.values_of(points, "proofstream.state.program.bandwidth")[key] == pytest.approx(192 / 10e-9)


@pytest.fixture
def replayed(kit: Any, tmp_path: Path) -> Path:
    """A file of a few thousand events: many proofs in no time."""
    path = tmp_path / "many.jsonl"
    lines = [envelope.raw for envelope in envelopes(kit.small_proof(6) * PROOFS)[1:-1]]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_every_proof_of_a_replay(kit: Any, replayed: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proofstream", "run", str(replayed), "--no-console", "--otlp-file", str(tmp_path)]
    pricing = ["--state-cost", str(CIRCUIT), "--set", f"state-cost.formats={FORMATS}"]
    done = subprocess.run([*command, *pricing], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    spans = kit.read_file(tmp_path / "traces.jsonl")
    proofs = [span for span in spans if span.name == "proof"]
    assert [span.attributes["proofstream.proof.ordinal"] for span in proofs] == list(range(PROOFS))
    assert {span.attributes[BYTES] for span in proofs} == {10752}
    assert {span.attributes["proofstream.state.circuit"] for span in proofs} == {"small"}
    assert spans[-1].name == "session"
    assert spans[-1].events == []
