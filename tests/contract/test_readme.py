"""What the README shows works as written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from proofstream import ProofComplete, ReportLine
from proofstream.hooks import Hooks
from proofstream.testing import InlineHost, envelopes

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
SESSION, PLUGIN = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_observing_ones_own_prover(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SESSION],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mlp on cpu: complete" in done.stderr
    assert "1 of 1" in done.stderr


def test_the_plugin_is_one() -> None:
    names: dict[str, object] = {}
    exec(compile(PLUGIN, "README.md", "exec"), names)
    counter = names["Counter"]
    assert isinstance(counter, type)
    hooks = Hooks(counter(), "counter")
    assert hooks.has("proofstream_consume")
    completed = ProofComplete(duration_ms=1, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none")
    assert InlineHost(counter()).feed(envelopes([completed])) == [ReportLine(text="1 proofs were completed")]


def test_the_proof_that_fails_does_so_for_the_reason_that_is_shown(tmp_path: Path) -> None:
    ((source, shown),) = re.findall(r"\$ proofstream run '(demo:[^']+)'\n((?:    .*\n)+)", README)
    command = [sys.executable, "-m", "proofstream", "run", f"{source}&pace=0", "--no-console", "--record", "r.jsonl"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    lines = [json.loads(line) for line in (tmp_path / "r.jsonl").read_text("utf-8").splitlines()]
    events = {kind: body for line in lines for kind, body in line["event"].items()}
    assert f"error: {events['ProofAborted']['reason']}\n" in shown
    assert "ProofComplete" not in events


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!https?://)([^)#]+)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (Path(__file__).parents[2] / link).exists()


def test_flags_exist() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "proofstream", "run", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    used = set(re.findall(r"proofstream run [^\n]*?(--[a-z-]+)", README))
    assert used
    assert {flag for flag in used if flag not in done.stdout} == set()
