"""Python provers that run as programs of their own, and what of them arrived in the folder in which they ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

PROVER = """
import atexit, multiprocessing, os, signal, sys, threading, time
from pathlib import Path
from proofstream import LayerKind, current_session, hookimpl, open_session

class Slow:
    name = "slow"
    def __init__(self, configure_s=0.0):
        self.configure_s = configure_s
    @hookimpl
    def proofstream_configure(self):
        time.sleep(self.configure_s)
    @hookimpl
    def proofstream_consume(self, batch):
        pass

def prove(session, number):
    with session.proof(model_name=f"m{number}", num_layers=1) as proof:
        with proof.layer(0, kind=LayerKind.MatMul) as layer:
            for index in range(5):
                layer.round(index, total_rounds=5)

def observed(*plugins, **config):
    config = {"record": {"path": "r.jsonl"}, "otel": {"file": "otlp"}, **config}
    return open_session(plugins=["record", "otel", *plugins], config=config)

def observed_in(folder):
    Path(folder).mkdir()
    return observed(record={"path": f"{folder}/r.jsonl"}, otel={"file": f"{folder}/otlp"})
"""


def run(
    code: str, folder: Path, *, close_timeout_s: float = 10.0, configure_timeout_s: float = 20.0
) -> subprocess.CompletedProcess[str]:
    """Run a prover as a file of its own, which processes that it spawns can import, and return how it ended."""
    script = folder / "prover.py"
    script.write_text(PROVER + code, "utf-8")
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", script.name],
        cwd=folder,
        env={
            **os.environ,
            "PROOFSTREAM_CLOSE_TIMEOUT_S": str(close_timeout_s),
            "PROOFSTREAM_CONFIGURE_TIMEOUT_S": str(configure_timeout_s),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def recorded(folder: Path) -> Counter[str]:
    """Count the events of a recording, by kind."""
    events = [json.loads(line)["event"] for line in (folder / "r.jsonl").read_text("utf-8").splitlines()]
    return Counter(kind for event in events for kind in event)


def spans(folder: Path) -> Counter[str]:
    """Count the spans of a trace, by name."""
    found: Counter[str] = Counter()
    for line in (folder / "otlp" / "traces.jsonl").read_text("utf-8").splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            found.update(span["name"] for scope in resource["scopeSpans"] for span in scope["spans"])
    return found


def assert_proofs(folder: Path, number: int) -> None:
    """Check that so many whole proofs of one session are in the recording and in the trace."""
    kinds = recorded(folder)
    assert (kinds["ProofStart"], kinds["SumcheckRound"], kinds["LayerEnd"]) == (number, 5 * number, number)
    assert (kinds["ProofComplete"], kinds["SessionClosed"]) == (number, 1)
    assert spans(folder)["proof"] == number
