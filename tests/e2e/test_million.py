"""A million events through all plugins: none is dropped, and memory stays small."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from proofstream import LayerKind, LayerStart, ProofComplete, ProofStart, SumcheckRound, encode_event

SMOL = Path(__file__).parents[1] / "data" / "wire" / "smollm2-135m-cpu.jsonl"
LIMIT_KIB = 300 * 1000
COPIES = 482


class Accepting(BaseHTTPRequestHandler):
    """A collector that accepts everything and keeps nothing."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Accepting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def replay(command: Any, stream: Path, endpoint: str) -> tuple[str, Counter[str]]:
    """Replay with every plugin. Returns the command's output, and how many spans and events of each name there are."""
    said_to = command.folder / "said.txt"
    peak_kib = 0
    words = ("run", stream, "--otlp-file", "out", "--otlp", endpoint, "--record", "proof.jsonl")
    with said_to.open("w") as stderr, command.start(*words, stderr=stderr.fileno()) as process:
        while process.poll() is None:
            peak_kib = max(peak_kib, high_water_kib(process.pid))
            time.sleep(0.1)
    said = said_to.read_text()
    assert process.returncode == 0, said
    assert 0 < peak_kib < LIMIT_KIB
    return said, Counter(names(command.folder / "out"))


def high_water_kib(pid: int) -> int:
    """Return the largest resident size so far, or 0 if the process has ended. It only grows: the last is the peak."""
    try:
        found = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return 0 if found is None else int(found[1])


def names(folder: Path) -> Iterator[str]:
    for path in folder.glob("traces*.jsonl"):
        with path.open("rb") as lines:
            for line in lines:
                for resource in json.loads(line)["resourceSpans"]:
                    for span in resource["scopeSpans"][0]["spans"]:
                        yield span["name"].split()[0]
                        yield from (event["name"] for event in span.get("events", ()))


def recorded(folder: Path) -> Counter[bytes]:
    with (folder / "proof.jsonl").open("rb") as lines:
        return Counter(line.partition(b'"event":{"')[2].partition(b'"')[0] for line in lines)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hundreds_of_proofs(proofstream_command: Any, endpoint: str, tmp_path: Path) -> None:
    stream = tmp_path / "many.jsonl"
    text = SMOL.read_bytes()
    with stream.open("wb") as file:
        for _ in range(COPIES):
            file.write(text)
    _, found = replay(proofstream_command, stream, endpoint)
    assert found["proof"] == COPIES
    assert found["layer"] == COPIES * 211
    assert found["proofstream.sumcheck.round"] == COPIES * 1230
    kept = recorded(tmp_path)
    assert kept[b"SumcheckRound"] == COPIES * 1230
    assert b"EventsLost" not in kept
    added = COPIES + 2  # TraceStarted of each proof, SessionOpened and SessionClosed
    assert kept.total() == COPIES * 2076 + added


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_layer_of_a_million_rounds(proofstream_command: Any, endpoint: str, tmp_path: Path) -> None:
    stream = tmp_path / "long.jsonl"
    start = ProofStart(model_name=None, backend="test", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
    layer = LayerStart(
        layer_idx=0,
        kind=LayerKind.MatMul,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=None,
        gpu_device=None,
    )
    complete = ProofComplete(duration_ms=0, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="none")
    with stream.open("wb") as file:
        file.write(encode_event(start) + b"\n" + encode_event(layer) + b"\n")
        for number in range(1_000_000):
            a_round = SumcheckRound(
                layer_idx=0,
                round=number,
                total_rounds=1_000_000,
                poly_deg2=None,
                poly_deg3=None,
                claim_value_approx=None,
            )
            file.write(encode_event(a_round) + b"\n")
        file.write(encode_event(complete) + b"\n")
    said, found = replay(proofstream_command, stream, endpoint)
    assert found["proofstream.sumcheck.round"] == 512
    assert recorded(tmp_path)[b"SumcheckRound"] == 1_000_000
    assert "1000000" in said.replace(",", "").replace("\N{NARROW NO-BREAK SPACE}", "").replace(" ", "")
