"""Receivers that are away, rude or flooded, and the command between them and a prover that does not wait."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

import proofstream as ps

EVIL = "\x1b]52;c;cHdu\x07\x1b[2J\x9b31m\u202e\u2066\u2028\r"
MAX_VALUES = 100


def proof(name: str, layers: int = 5) -> bytes:
    """The lines of one proof."""
    shape = (1, 8)
    events: list[ps.ProofEvent] = [
        ps.ProofStart(model_name=name, backend="cpu", num_layers=layers, input_shape=shape, output_shape=shape)
    ]
    for index in range(layers):
        events.append(
            ps.LayerStart(
                layer_idx=index, kind=ps.LayerKind.MatMul, input_shape=shape, output_shape=shape, trace_cost=1,
                claim_value_approx=None, gpu_device=None,
            )
        )  # fmt: skip
        events.append(
            ps.LayerEnd(
                layer_idx=index, kind=ps.LayerProofKind.Sumcheck, final_claim_value_approx=None, duration_ms=1,
                rounds_completed=0,
            )
        )  # fmt: skip
    done = ps.ProofComplete(duration_ms=5, num_layer_proofs=layers, num_weight_openings=0, weight_binding_mode="x")
    return b"".join(ps.encode_event(event) + b"\n" for event in [*events, done])


class Collector:
    """A receiver on a given port. It notes requests for traces; `answer` gives status, reason, headers and body."""

    def __init__(self, port: int, answer: Callable[[], tuple[int, str, dict[str, str], bytes]]) -> None:
        self.requests = 0
        self.spans: list[str] = []
        self._answer = answer
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, reason, headers, content = collector.take(body, is_trace=self.path == "/v1/traces")
                self.send_response(status, reason)
                for key, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        return Handler

    def take(self, body: bytes, *, is_trace: bool) -> tuple[int, str, dict[str, str], bytes]:
        """Note a request and choose its answer."""
        status, reason, headers, content = self._answer()
        self.requests += is_trace
        if status == 200 and is_trace:
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans.extend(span.span_id.hex() for scope in group.scope_spans for span in scope.spans)
        return status, reason, headers, content

    def close(self) -> None:
        """Stop it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def well() -> tuple[int, str, dict[str, str], bytes]:
    """The answer of a receiver that is well."""
    return 200, "OK", {}, b""


@pytest.fixture
def port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def command(*arguments: str) -> Generator[subprocess.Popen[bytes]]:
    """A command that reads events from its standard input; killed if it has not ended by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "proofstream", "run", "-", "--no-console", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def emit(process: subprocess.Popen[bytes], lines: bytes) -> None:
    """Write events at once."""
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.flush()


def end(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """End the input; return the exit status and what was said."""
    _, said = process.communicate(timeout=60)
    return process.returncode, said.decode("utf-8", "replace")


@pytest.mark.parametrize("away_s", [3.0, pytest.param(45.0, marks=[pytest.mark.slow, pytest.mark.long])])
def test_a_collector_that_is_away_costs_nothing(port: int, away_s: float) -> None:
    with command("--otlp", f"http://127.0.0.1:{port}") as process:
        began, proofs, collector = time.monotonic(), 0, None
        while time.monotonic() - began < away_s + 2:
            emit(process, proof("m"))
            proofs += 1
            time.sleep(0.25)
            if collector is None and time.monotonic() - began > away_s:
                collector = Collector(port, well)
        status, said = end(process)
        assert collector is not None
        collector.close()
    assert "lost" not in said
    assert status == 0
    assert len(set(collector.spans)) == len(collector.spans) == 6 * proofs + 1


@pytest.mark.parametrize("wish", ["0", "-1", "garbage"])
def test_a_receiver_that_asks_for_no_pause_is_not_flooded(port: int, wish: str) -> None:
    began = time.monotonic()

    def busy() -> tuple[int, str, dict[str, str], bytes]:
        return (503, "Busy", {"Retry-After": wish}, b"") if time.monotonic() - began < 4 else well()

    collector = Collector(port, busy)
    with command("--otlp", f"http://127.0.0.1:{port}") as process:
        emit(process, proof("m"))
        time.sleep(max(0.0, began + 4 - time.monotonic()))
        requests = collector.requests
        status, said = end(process)
    collector.close()
    assert requests <= 5
    assert (status, len(collector.spans)) == (0, 7), said


@pytest.mark.parametrize("status", [200, 400, 503])
def test_what_a_receiver_writes_is_shown_without_its_controls(port: int, status: int) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=1, error_message="bad" + EVIL)
    content = bytes(ExportTraceServiceResponse(partial_success=partial).SerializeToString())
    reason = "bad" + EVIL.encode("utf-8").decode("latin-1").replace("\r", "")
    collector = Collector(port, lambda: (status, reason, {"Retry-After": "\x1b[2J"}, content))
    with command("--otlp", f"http://127.0.0.1:{port}") as process:
        emit(process, proof("m"))
        code, said = end(process)
    collector.close()
    assert code == 1
    assert "bad" in said
    assert [line for line in said.splitlines() if not line.isprintable()] == []
    assert "\r" not in said


@pytest.mark.parametrize("models", [400, pytest.param(2500, marks=[pytest.mark.slow, pytest.mark.long])])
def test_model_names_with_a_run_id_in_them_make_a_bounded_number_of_series(tmp_path: Path, models: int) -> None:
    with command("--otlp-file", str(tmp_path)) as process:
        for number in range(models):
            emit(process, proof(f"run-{number}", 1))
        emit(process, proof("the-real-model", 1))
        status, said = end(process)
    assert status == 0, said
    live: dict[tuple[str, int], set[str]] = defaultdict(set)
    latest: dict[tuple[str, str, int], int] = {}
    for metric, point in points(tmp_path / "metrics.jsonl"):
        attributes = {pair["key"]: pair["value"].get("stringValue", "") for pair in point["attributes"]}
        model = attributes.get("proofstream.proof.model", "")
        if point.get("flags"):
            continue
        live[metric, int(point["timeUnixNano"])].add(model)
        if metric == "proofstream.proofs" and attributes["proofstream.proof.outcome"] == "complete":
            latest[metric, model, int(point["startTimeUnixNano"])] = int(point["asInt"])
    assert max(map(len, live.values())) <= MAX_VALUES + 1
    final = max(time for _, time in live)
    assert "the-real-model" in live["proofstream.proof.duration", final]
    assert sum(latest.values()) == models + 1, "no proof is missing from the counts"
    assert [line for line in said.splitlines() if "more than 100 values" in line] != []


def points(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and data points of a file of metrics."""
    for line in path.read_bytes().splitlines():
        for group in json.loads(line)["resourceMetrics"]:
            for metric in group["scopeMetrics"][0]["metrics"]:
                (kind,) = metric.keys() & {"gauge", "sum", "histogram"}
                for point in metric[kind]["dataPoints"]:
                    yield metric["name"], point
