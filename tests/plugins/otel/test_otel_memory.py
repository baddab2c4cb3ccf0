"""A million events take little memory, whatever their shape, and every dropped event is counted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PEAK = r"""
import re
from pathlib import Path

def peak_mib():
    # The process's own high-water mark; getrusage starts from the size of the parent process.
    return int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) // 1024
"""

MANY_PROOFS = (
    PEAK
    + """
import sys
from pathlib import Path
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"file": sys.argv[1], "max_file_bytes": 2**30})
lines = list(read_stream(Path(sys.argv[2])))
for part in range(482):
    host.feed(envelopes(lines, session_id=str(part)))
host.close(20.0)
health = host.health()
print(health["spans_written"], health["lost_spans"], peak_mib())
"""
)

ONE_LAYER = (
    PEAK
    + """
import sys
from proofstream import *
from proofstream.testing import InlineHost, envelopes
from proofstream_otel import OtelPlugin

host = InlineHost(OtelPlugin(), {"file": sys.argv[1]})
shape = (1, 1)
element = SecureField(a=1, b=2, c=3, d=4)
poly = RoundPoly(c0=element, c1=element, c2=element)
start = ProofStart(model_name=None, backend="cpu", num_layers=1, input_shape=shape, output_shape=shape)
layer = LayerStart(
    layer_idx=0, kind=LayerKind.MatMul, input_shape=shape, output_shape=shape, trace_cost=1,
    claim_value_approx=None, gpu_device=None,
)
host.feed(envelopes([start, layer], close=False))
for part in range(1000):
    rounds = [
        SumcheckRound(layer_idx=0, round=1000 * part + i, total_rounds=10**6, poly_deg2=poly, poly_deg3=None,
                      claim_value_approx=0.5)
        for i in range(1000)
    ]
    host.feed(envelopes(rounds, close=False)[1:])
host.close()
health = host.health()
print(health["spans_written"], health["lost_spans"], peak_mib())
"""
)


def run(code: str, *arguments: str) -> tuple[int, int, int]:
    """Spans written, spans lost, and the largest size of the process in MiB."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=550, check=True
    )
    written, lost, size_mib = map(int, done.stdout.split())
    return written, lost, size_mib


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_events_of_many_proofs(kit: Any, tmp_path: Path) -> None:
    written, lost, size_mib = run(MANY_PROOFS, str(tmp_path), str(kit.WIRE / "smollm2-135m-cpu.jsonl"))
    assert (written, lost) == (482 * 214, 0)
    assert size_mib < 300


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_million_rounds_of_one_layer(kit: Any, tmp_path: Path) -> None:
    written, lost, size_mib = run(ONE_LAYER, str(tmp_path))
    assert (written, lost) == (3, 0)
    assert size_mib < 300
    layer = next(span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "layer MatMul")
    assert layer.attributes["proofstream.rounds.total"] == 10**6
    assert [event.attributes["proofstream.round.index"] for event in layer.rounds()] == [
        *range(256),
        *range(10**6 - 256, 10**6),
    ]
