"""Overload: 64 connections send more than plugins can take. Facts are complete, only bulk is dropped and counted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PEERS = 64
EVENTS_PER_S = 5_000
LAYERS = 7
ROUNDS = 64
FACTS = ("ProofStart", "LayerStart", "LayerEnd", "ProofComplete")
DEADLINE_S = 120.0

# Sends whole proofs in turns over all its connections, at a fixed rate. It measures how long its writes block, and how
# late it wakes up from sleeping: so long does a busy machine keep any process waiting.
SENDER = """
import json, socket, sys, time
from pathlib import Path

address, peers, proof = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).read_bytes()
per_s, seconds = map(float, sys.argv[4:])
def connect():
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(address)
    return peer
connections = [connect() for _ in range(peers)]
longest, pause, sent, due = 0.0, 0.0, 0, time.monotonic()
for number in range(round(per_s * seconds)):
    begun, early = time.monotonic(), due - time.monotonic()
    if early > 0:
        time.sleep(early)
        pause = max(pause, time.monotonic() - begun - early)
    begun = time.monotonic()
    connections[number % peers].sendall(proof)
    longest = max(longest, time.monotonic() - begun)
    sent += 1
    due += 1 / per_s
for connection in connections:
    connection.close()
print(json.dumps({"proofs": sent, "longest_write_s": longest, "longest_pause_s": pause}))
"""


def line(tag: str, /, **fields: object) -> bytes:
    return json.dumps({tag: fields}, separators=(",", ":")).encode() + b"\n"


def proof() -> bytes:
    """Return one proof as a prover writes it: two facts a layer, and many rounds between them."""
    shapes = {"input_shape": [1, 576], "output_shape": [1, 576]}
    field = {"a": 1165650432, "b": 582825216, "c": 4522707, "d": 2131470720}
    lines = [line("ProofStart", model_name="m", backend="b", num_layers=LAYERS, **shapes)]
    for layer in range(LAYERS):
        lines.append(
            line(
                "LayerStart",
                layer_idx=layer,
                kind="MatMul",
                trace_cost=1,
                claim_value_approx=0.5,
                gpu_device=None,
                **shapes,
            )
        )
        lines += [
            line(
                "SumcheckRound",
                layer_idx=layer,
                round=number,
                total_rounds=ROUNDS,
                poly_deg2={"c0": field, "c1": field, "c2": field},
                poly_deg3=None,
                claim_value_approx=0.5,
            )
            for number in range(ROUNDS)
        ]
        lines.append(
            line(
                "LayerEnd",
                layer_idx=layer,
                kind="MatMul",
                final_claim_value_approx=0.5,
                duration_ms=1,
                rounds_completed=ROUNDS,
            )
        )
    lines.append(
        line(
            "ProofComplete",
            duration_ms=1,
            num_layer_proofs=LAYERS,
            num_weight_openings=0,
            weight_binding_mode="aggregated",
        )
    )
    return b"".join(lines)


@dataclass
class Listening:
    """A command that listens on a Unix socket and records what it gets."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def socket(self) -> str:
        return str(self.folder / "s.sock")

    @property
    def recording(self) -> Path:
        return self.folder / "r.jsonl"

    @property
    def log(self) -> str:
        return (self.folder / "err.txt").read_text()

    def wait_for(self, text: str, where: str, times: int = 1) -> None:
        deadline = time.monotonic() + DEADLINE_S
        path = self.folder / where
        while not path.exists() or path.read_bytes().count(text.encode()) < times:
            assert time.monotonic() < deadline, f"{text} did not come {times} times: {self.log}"
            assert self.process.poll() is None, self.log
            time.sleep(0.2)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(DEADLINE_S)


@pytest.fixture
def listening(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Listening]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_"))}
    flags: list[str] = getattr(request, "param", ["--no-console"])
    with (tmp_path / "err.txt").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "proofstream", "run", f"unix:{tmp_path}/s.sock", "--record", "r.jsonl", *flags],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )
    started = Listening(tmp_path, process)
    started.wait_for("listening on", "err.txt")
    yield started
    process.kill()
    process.wait(DEADLINE_S)


def overload(listening: Listening, seconds: float) -> float:
    """Send proofs at full rate, and check what the recording holds. Returns how long a write blocked, in seconds.

    The longest time that the machine kept the sender from running is taken off.
    """
    block = proof()
    (listening.folder / "proof.jsonl").write_bytes(block)
    per_s = PEERS * EVENTS_PER_S / block.count(b"\n")
    sender = subprocess.run(
        [sys.executable, "-c", SENDER, listening.socket, str(PEERS), "proof.jsonl", str(per_s), str(seconds)],
        cwd=listening.folder,
        capture_output=True,
        check=True,
        timeout=DEADLINE_S + seconds,
    )
    report = json.loads(sender.stdout)
    proofs: int = report["proofs"]
    listening.wait_for('"event":{"ProofComplete":', "r.jsonl", proofs)
    listening.stop()
    counts, lost = judge(listening.recording)
    assert {kind: counts[kind] for kind in FACTS} == {
        "ProofStart": proofs,
        "LayerStart": proofs * LAYERS,
        "LayerEnd": proofs * LAYERS,
        "ProofComplete": proofs,
    }
    assert counts["SumcheckRound"] + lost["SumcheckRound"] == proofs * LAYERS * ROUNDS
    assert set(lost) == {"SumcheckRound"}
    assert f"not delivered: lost before the bus: {lost['SumcheckRound']} SumcheckRound\n" in listening.log
    assert counts["SessionOpened"] == PEERS
    blocked: float = report["longest_write_s"] - report["longest_pause_s"]
    return blocked


def judge(recording: Path) -> tuple[Counter[str], Counter[str]]:
    """Return what a recording holds and what it says is missing, by kind. Checks where the gaps stand."""
    counts: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    rounds: Counter[str] = Counter()
    for text in recording.read_bytes().splitlines():
        envelope = json.loads(text)
        ((kind, body),) = envelope["event"].items()
        session = envelope["session_id"]
        counts[kind] += 1
        if kind == "EventsLost":
            lost.update(body["counts"])
            rounds[session] += body["counts"].get("SumcheckRound", 0)
        elif kind == "SumcheckRound":
            rounds[session] += 1
        elif kind == "LayerEnd":
            # Every gap stands inside its layer.
            assert rounds.pop(session) == ROUNDS
    return counts, lost


def test_an_overload_of_2_seconds_costs_no_fact(listening: Listening) -> None:
    # Other tests may run on the machine, and two seconds are too short to see how long it keeps processes waiting.
    assert overload(listening, 2.0) < 1.0


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_overload_of_30_seconds_costs_no_fact_and_blocks_no_prover(listening: Listening) -> None:
    assert overload(listening, 30.0) < 0.1


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("listening", [["--console"], ["--console", "--otlp-file", "otlp"]], indirect=True)
def test_an_overload_of_30_seconds_costs_no_fact_with_several_plugins(listening: Listening) -> None:
    # They share one interpreter with the listener, so its turn may come late.
    assert overload(listening, 30.0) < 1.0
