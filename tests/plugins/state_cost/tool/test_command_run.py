"""``proofstream run`` with state costs: recordings, replays and exit statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from proofstream import (
    CircuitCompiled,
    Decoded,
    ProofComplete,
    ProofEvent,
    ProofStart,
    StateBytesMoved,
    StateDeclaration,
    StateProgramCost,
    StateProgramRun,
    encode_event,
    read_envelope_log,
)

DATA = Path(__file__).parents[3] / "data"
CIRCUIT = DATA / "state" / "qwen3.8-27b.toml"
STREAM = DATA / "wire" / "aborted-then-next.jsonl"
FORMATS = ("--set", "state-cost.formats=ssm_h_storage=f32")


@dataclass
class Finished:
    status: int
    err: str


@pytest.fixture
def proofstream_run(tmp_path: Path) -> Callable[..., Finished]:
    """Run ``proofstream run`` in a process of its own and an empty folder."""

    def run(*words: str | Path, stdin: IO[bytes] | int = subprocess.DEVNULL, **environ: str) -> Finished:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_"))}
        without = ("--no-plugin", "otel", "--no-plugin", "gpu", "--no-plugin", "rerun", "--no-console")
        ran = subprocess.run(
            [sys.executable, "-m", "proofstream", "run", *without, *map(str, words)],
            check=False,
            cwd=tmp_path,
            env=kept | environ,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Finished(ran.returncode, ran.stderr)

    return run


def events(path: Path) -> list[tuple[str, ProofEvent]]:
    return [(item.origin, item.event) for item in read_envelope_log(path) if isinstance(item, Decoded)]


def ours(path: Path) -> list[ProofEvent]:
    return [event for _, event in events(path) if isinstance(event, StateProgramCost | StateBytesMoved)]


def write(path: Path, *made: ProofEvent) -> None:
    path.write_bytes(b"".join(encode_event(event) + b"\n" for event in made))


def compiled(dtype: str = "f16") -> CircuitCompiled:
    return CircuitCompiled(
        total_layers=0,
        input_shape=(1, 1),
        output_shape=(1, 1),
        nodes=[],
        has_simd=False,
        simd_num_blocks=0,
        states=[StateDeclaration(id="l0.mix.h", kind="recurrent", section="main", format=dtype, elements=50)],
    )


START = ProofStart(model_name="digits", backend="cpu", num_layers=0, input_shape=(1, 1), output_shape=(1, 1))
COMPLETE = ProofComplete(duration_ms=1, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none")


def test_every_proof_of_a_stream_is_priced_and_recorded(
    proofstream_run: Callable[..., Finished], tmp_path: Path
) -> None:
    ran = proofstream_run(STREAM, "--state-cost", CIRCUIT, *FORMATS, "--record", "r.jsonl")

    assert ran.status == 0, ran.err
    starts = sum(isinstance(event, ProofStart) for _, event in events(tmp_path / "r.jsonl"))
    made = ours(tmp_path / "r.jsonl")
    assert starts > 1
    assert [event.proof for event in made if isinstance(event, StateProgramCost)] == [
        proof for proof in range(starts) for _ in range(4)
    ]
    assert {event.bytes for event in made if isinstance(event, StateProgramCost)} == {158859264}
    assert {origin for origin, event in events(tmp_path / "r.jsonl") if event in made} == {"state-cost"}


def test_a_replay_has_each_cost_once_asked_for_or_not(proofstream_run: Callable[..., Finished], tmp_path: Path) -> None:
    priced = (STREAM, "--state-cost", CIRCUIT, *FORMATS, "--record", "r.jsonl")
    assert proofstream_run(*priced).status == 0
    assert proofstream_run("r.jsonl", "--record", "kept.jsonl").status == 0
    assert proofstream_run("r.jsonl", "--state-cost", CIRCUIT, *FORMATS, "--record", "anew.jsonl").status == 0

    first = ours(tmp_path / "r.jsonl")
    assert ours(tmp_path / "kept.jsonl") == first
    assert ours(tmp_path / "anew.jsonl") == first
    assert first


@pytest.mark.parametrize("by_pipe", [False, True])
def test_states_of_a_producer_are_priced_unasked_and_once(
    proofstream_run: Callable[..., Finished], tmp_path: Path, by_pipe: bool
) -> None:
    write(tmp_path / "s.jsonl", compiled(), START, StateProgramRun(program="slot_zero", sequences=2), COMPLETE)
    assert proofstream_run("s.jsonl", "--record", "r.jsonl").status == 0
    first = ours(tmp_path / "r.jsonl")
    assert [type(event).__name__ for event in first] == ["StateProgramCost"] * 4 + ["StateBytesMoved"]

    if by_pipe:
        with (tmp_path / "r.jsonl").open("rb") as recording:
            again = proofstream_run("-", "--record", "again.jsonl", stdin=recording)
    else:
        again = proofstream_run("r.jsonl", "--record", "again.jsonl")
    assert again.status == 0, again.err
    assert ours(tmp_path / "again.jsonl") == first


def test_states_and_runs_of_a_stream(proofstream_run: Callable[..., Finished], tmp_path: Path) -> None:
    runs = [StateProgramRun(program="commit_accepted", sequences=4, duration_ns=200) for _ in range(3)]
    write(tmp_path / "s.jsonl", compiled(), START, *runs, COMPLETE)
    ran = proofstream_run("s.jsonl", "--plugin", "state-cost", "--record", "r.jsonl")

    assert ran.status == 0, ran.err
    made = ours(tmp_path / "r.jsonl")
    assert [(e.program, e.bytes) for e in made if isinstance(e, StateProgramCost)] == [
        ("verify_checkpoint", 100),
        ("verify_rollback", 100),
        ("commit_accepted", 100),
        ("slot_zero", 100),
    ]
    totals = [e for e in made if isinstance(e, StateBytesMoved)]
    assert sum(e.bytes for e in totals) == 1200
    assert (sum(e.timed_ns for e in totals), sum(e.runs for e in totals)) == (600, 3)

    again = proofstream_run("r.jsonl", "--record", "again.jsonl")
    assert again.status == 0
    assert ours(tmp_path / "again.jsonl") == made


def test_runs_without_a_circuit_count_as_not_delivered(
    proofstream_run: Callable[..., Finished], tmp_path: Path
) -> None:
    write(tmp_path / "s.jsonl", START, StateProgramRun(program="slot_zero", sequences=1), COMPLETE)
    asked = proofstream_run("s.jsonl", "--plugin", "state-cost")
    assert asked.status == 1
    assert "without a state circuit to price it by" in asked.err
    assert "lost_runs" in asked.err or "lost runs" in asked.err

    assert proofstream_run("s.jsonl").status == 0


def test_broken_states_do_not_end_the_run(proofstream_run: Callable[..., Finished], tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", compiled("f64"), START, COMPLETE)
    ran = proofstream_run("s.jsonl", "--state-cost", CIRCUIT, *FORMATS, "--record", "r.jsonl")
    assert ran.status == 0
    assert ran.err.count("the states of a circuit cannot be priced: state l0.mix.h: format 'f64'") == 1
    assert len(ours(tmp_path / "r.jsonl")) == 4


def test_the_environment_configures_it(proofstream_run: Callable[..., Finished], tmp_path: Path) -> None:
    environ = {"PROOFSTREAM_STATE_COST_FILE": str(CIRCUIT), "PROOFSTREAM_STATE_COST_FORMATS": "ssm_h_storage=f16"}
    ran = proofstream_run(STREAM, "--record", "r.jsonl", **environ)
    assert ran.status == 0, ran.err
    assert {e.bytes for e in ours(tmp_path / "r.jsonl") if isinstance(e, StateProgramCost)} == {83361792}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--state-cost", "nowhere"), "state-cost.file: nowhere: No such file or directory"),
        (("--state-cost", str(CIRCUIT)), "state l0.gdn.h: no dtype is given for its format {ssm_h_storage}"),
        (("--state-cost", "config.json"), "state-cost.convention: config.json is a model's config.json"),
        (("--state-cost", str(CIRCUIT), "--set", "state-cost.slots=x"), "state-cost.slots: input should be"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    words: tuple[str, ...], message: str, proofstream_run: Callable[..., Finished], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "mamba", "num_hidden_layers": 2, "conv_kernel": 4, "intermediate_size": 8, "state_size": 4}'
    )
    ran = proofstream_run(STREAM, *words, "--record", "r.jsonl")
    assert ran.status == 2
    said, *hints = ran.err.splitlines()
    assert message in said
    assert all(hint.startswith("proofstream: hint: ") for hint in hints)
    assert len(hints) <= 1
