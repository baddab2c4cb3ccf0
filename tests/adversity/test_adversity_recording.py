"""Recordings under attack: a prover that is killed, one that is too fast, a disk or a file that is gone."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proofstream import Decoded, read_envelope_log

ZST = pytest.param(
    ".zst",
    marks=pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed"),
)
LIMIT_S = 60.0
EVERY_S = 0.2
# A busy machine may let the command wait this long before it reads a line.
SLACK_S = 0.6


def line(tag: str, /, **fields: Any) -> str:
    return json.dumps({tag: fields}) + "\n"


START = line("ProofStart", model_name="m", backend="cpu", num_layers=1, input_shape=[1, 8], output_shape=[1, 8])
LAYER = line(
    "LayerStart",
    layer_idx=0,
    kind="MatMul",
    input_shape=[1, 8],
    output_shape=[1, 8],
    trace_cost=64,
    claim_value_approx=0.5,
    gpu_device=None,
)
END = line("ProofComplete", duration_ms=5, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="x")


def sumcheck_round(index: int, total: int) -> str:
    field = {"a": 1, "b": 2, "c": 3, "d": 4}
    return line(
        "SumcheckRound",
        layer_idx=0,
        round=index,
        total_rounds=total,
        poly_deg2={"c0": field, "c1": field, "c2": field},
        poly_deg3=None,
        claim_value_approx=0.5,
    )


def environment(**settings: object) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_", "TRACEPARENT"))}
    return kept | {f"PROOFSTREAM_{key.upper()}": str(value) for key, value in settings.items()}


@contextmanager
def command(folder: Path, *words: object, **settings: object) -> Generator[subprocess.Popen[str]]:
    """Run the command in `folder`, with settings from the environment. It is killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "proofstream", *map(str, words)],
        cwd=folder,
        env=environment(**settings),
        text=True,
        bufsize=1,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def recorded(path: Path) -> Counter[str]:
    """Count the events of a recording by kind."""
    return Counter(type(item.event).__name__ for item in read_envelope_log(path) if isinstance(item, Decoded))


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def missing(err: str, kind: str) -> int:
    """Return how many events of a kind the report of a run calls missing."""
    return sum(int(n) for n in re.findall(rf"(?:was not given|lost before the bus:) .*?(\d+) {kind}\b", err))


@pytest.mark.parametrize("suffix", ["", ".gz", ZST])
def test_a_slow_proof_that_is_killed_loses_at_most_its_last_second(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"r.jsonl{suffix}"
    with command(tmp_path, "run", "-", "--no-console", "--record", path) as process:
        assert process.stdin is not None
        process.stdin.write(START + LAYER)
        # Nothing follows: the first lines are there on their own.
        wait_until(lambda: path.exists() and recorded(path)["ProofStart"] == 1)
        sent = 0
        until = time.monotonic() + 2.4
        while time.monotonic() < until:
            process.stdin.write(sumcheck_round(sent, 10**6))
            sent += 1
            time.sleep(EVERY_S)
        process.send_signal(signal.SIGKILL)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
    kinds = recorded(path)
    assert (kinds["ProofStart"], kinds["LayerStart"]) == (1, 1)
    assert sent - kinds["SumcheckRound"] <= (1.0 + SLACK_S) / EVERY_S


def test_a_pipe_waits_for_its_recording(tmp_path: Path) -> None:
    total = 10_000
    text = START + LAYER + "".join(sumcheck_round(index, total) for index in range(total)) + END
    with command(tmp_path, "run", "-", "--no-console", "--record", "r.jsonl", lane_capacity=512) as process:
        _, err = process.communicate(text, timeout=LIMIT_S)
    assert process.returncode == 0, err
    kinds = recorded(tmp_path / "r.jsonl")
    assert kinds["SumcheckRound"] == total
    assert kinds["EventsLost"] == 0


IN_PROCESS = """
import logging, sys
from proofstream import SumcheckRound, open_session
logging.basicConfig(format="%(message)s", level=logging.WARNING)
round = SumcheckRound(layer_idx=0, round=0, total_rounds=9, poly_deg3=None, claim_value_approx=0.5, poly_deg2=None)
with open_session(plugins=["record"], config={"record": {"path": sys.argv[1]}}) as session:
    for _ in range(int(sys.argv[2])):
        session.emit(round)
"""


def in_process(folder: Path, recording: str, *, total: int, **settings: object) -> str:
    """Emit rounds as fast as Python can into a session that is recorded; return what is logged."""
    ended = subprocess.run(
        [sys.executable, "-c", IN_PROCESS, recording, str(total)],
        cwd=folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def test_a_prover_that_outruns_its_recording_is_told_what_is_missing(tmp_path: Path) -> None:
    total = 100_000
    logged = in_process(tmp_path, "r.jsonl", total=total, intake_capacity=1000, lane_capacity=64)
    kept = recorded(tmp_path / "r.jsonl")["SumcheckRound"]
    assert kept < total
    assert kept + missing(logged, "SumcheckRound") == total
    assert len(logged.splitlines()) <= 2


@pytest.mark.parametrize("words", [["--record", "r.jsonl"], ["--set", "record.path=r.jsonl"], ["--otlp-file", "spans"]])
def test_holes_in_what_a_socket_sent_are_exit_1_if_a_recording_was_asked_for(words: list[str], tmp_path: Path) -> None:
    total = 30_000
    with command(
        tmp_path, "run", "tcp://127.0.0.1:0", "--once", "--no-console", *words, intake_capacity=50, lane_capacity=2
    ) as process:
        assert process.stderr is not None
        found = (re.search(r"127\.0\.0\.1:([1-9]\d*)", text) for text in process.stderr)
        port = next(int(match[1]) for match in found if match)
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall((START + LAYER + "".join(sumcheck_round(i, total) for i in range(total)) + END).encode())
        _, err = process.communicate(timeout=LIMIT_S)
    if (tmp_path / "r.jsonl").exists():
        kept = recorded(tmp_path / "r.jsonl")["SumcheckRound"]
        assert kept < total
        assert kept + missing(err, "SumcheckRound") == total
        assert process.returncode == 1
    else:
        assert "SumcheckRound" not in err


def test_what_the_provers_own_server_skipped_is_not_a_hole_of_ours(tmp_path: Path) -> None:
    lagged = line("Log", level="Warn", message="lagged 604406 events")
    with command(tmp_path, "run", "-", "--no-console", "--record", "r.jsonl") as process:
        _, err = process.communicate(START + lagged + END, timeout=LIMIT_S)
    assert process.returncode == 0, err
    kinds = recorded(tmp_path / "r.jsonl")
    assert (kinds["ProofStart"], kinds["ProofComplete"], kinds["EventsLost"]) == (1, 1, 0)


def test_a_recording_and_its_folders_are_private(tmp_path: Path) -> None:
    in_process(tmp_path, "new/r.jsonl", total=1)
    with command(tmp_path, "run", "-", "--no-console", "--record", "r.jsonl.gz") as process:
        process.communicate(START + END, timeout=LIMIT_S)
    kept = [tmp_path / name for name in ("new", "new/r.jsonl", "r.jsonl.gz")]
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in kept] == [0, 0, 0]


def test_a_recording_that_is_removed_meanwhile_is_exit_1_and_a_harmless_line(tmp_path: Path) -> None:
    path = tmp_path / "\x1b]52;c;aGk=\x07r.jsonl"
    with command(tmp_path, "run", "-", "--no-console", "--record", path) as process:
        assert process.stdin is not None
        process.stdin.write(START)
        wait_until(lambda: path.exists() and recorded(path)["ProofStart"] == 1)
        path.unlink()
        _, err = process.communicate(END, timeout=LIMIT_S)
    assert process.returncode == 1
    assert "r.jsonl was removed while it was written" in err
    assert "lost events" in err
    assert all(text.isprintable() for text in err.splitlines())
