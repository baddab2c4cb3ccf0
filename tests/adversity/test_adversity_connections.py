"""Hostile peers of a listener: silent ones, browsers, half lines without end, and streams of countless sessions."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from proofstream import ProofComplete, ProofStart
from proofstream.wire import encode_event

DEADLINE_S = 60.0
PROOF = b"".join(
    encode_event(event) + b"\n"
    for event in (
        ProofStart(model_name="m", backend="b", num_layers=0, input_shape=(1, 1), output_shape=(1, 1)),
        ProofComplete(duration_ms=1, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none"),
    )
)
HALF_LINE_BYTES = 16 * 2**20


class Listening:
    """A command that listens on a free port and records what it gets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_"))}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "proofstream", "run", "tcp://127.0.0.1:0", "--record", "r.jsonl"],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self.wait_for(self.log_path, b"listening on tcp://")
        address = self.log.partition("listening on tcp://")[2].split()[0]
        self.port = int(address.rpartition(":")[2])

    @property
    def log_path(self) -> Path:
        return self.folder / "err.txt"

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    @property
    def recording(self) -> Path:
        return self.folder / "r.jsonl"

    @property
    def memory_mib(self) -> float:
        """The most memory that the process has taken so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)

    def send(self, data: bytes) -> None:
        with self.connect() as peer:
            peer.sendall(data)

    def wait_for(self, path: Path, text: bytes, times: int = 1) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not path.exists() or path.read_bytes().count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} did not come {times} times: {self.log[-2000:]}"
            assert self.process.poll() is None, self.log
            time.sleep(0.05)

    def wait_for_proofs(self, count: int) -> None:
        self.wait_for(self.recording, b'"event":{"ProofComplete":', count)

    def stop(self) -> Counter[str]:
        """Stop the command. Returns the kinds of the recorded events."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(DEADLINE_S)
        return Counter(next(iter(json.loads(text)["event"])) for text in self.recording.read_bytes().splitlines())


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Listening]:
    started = Listening(tmp_path)
    yield started
    started.process.kill()
    started.process.wait(DEADLINE_S)


def test_more_silent_peers_than_places_lock_no_prover_out(listening: Listening) -> None:
    soft = 1200
    with ExitStack() as stack:
        with suppress(OSError):  # the system may not let this process open so many
            for _ in range(soft):
                stack.enter_context(listening.connect())
        for count in range(1, 11):
            listening.send(PROOF)
            listening.wait_for_proofs(count)
    assert listening.stop()["ProofComplete"] == 10
    # One line for each kind of complaint, and at the end its count.
    assert sum("to make room" in line or "was refused" in line for line in listening.log.splitlines()) <= 4


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS"])
def test_a_web_page_cannot_make_a_browser_report_proofs(listening: Listening, method: str) -> None:
    head = f"{method} / HTTP/1.1\r\nHost: evil.example:7777\r\nContent-Type: text/plain\r\n\r\n".encode()
    for _ in range(50):
        with suppress(ConnectionError):
            listening.send(head + PROOF * 10)
    listening.send(PROOF)
    listening.wait_for_proofs(1)
    assert listening.stop()["ProofStart"] == 1
    told = [line for line in listening.log.splitlines() if "HTTP" in line]
    assert len(told) == 2
    assert told[1] == f"{told[0]} (49 more)"


@pytest.mark.parametrize("count", [8, pytest.param(64, marks=[pytest.mark.slow, pytest.mark.long])])
def test_half_lines_of_16_mib_stay_within_the_budget(listening: Listening, count: int) -> None:
    before = listening.memory_mib
    half = PROOF[:20] + b'"' + b"x" * (HALF_LINE_BYTES - 64)
    with ExitStack() as stack:
        peers = [stack.enter_context(listening.connect()) for _ in range(count)]
        for peer in peers:
            peer.sendall(half)
        listening.send(PROOF)
        listening.wait_for_proofs(1)
        for peer in peers:
            peer.sendall(b'"\n' + PROOF)
        listening.wait_for_proofs(count + 1)
        assert listening.memory_mib - before < 128
    assert listening.stop()["ProofComplete"] == count + 1
    assert "all connections together may hold 33554432 bytes of unfinished lines" in listening.log


def test_a_stream_cannot_open_sessions_without_bound(listening: Listening) -> None:
    line = b'{"v":1,"time_unix_nano":7,"session_id":"s%d","event":{"Log":{"level":"Warn","message":"x"}}}\n'
    with listening.connect() as peer:
        peer.sendall(b"".join(line % number for number in range(5_000)))
        peer.sendall(line % 5_000)
        listening.wait_for(listening.recording, b'"session_id":"s5000"')
        closed = listening.recording.read_bytes().count(b'"SessionClosed"')
        assert closed >= 5_001 - 64
    kinds = listening.stop()
    assert kinds["Log"] == 5_001
    assert kinds["SessionOpened"] == kinds["SessionClosed"] == 5_001
