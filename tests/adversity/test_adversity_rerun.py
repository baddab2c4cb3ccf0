"""Viewers that get many proofs, or do not read, cost a bounded number of threads, and each recording gets its end."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proofstream import (
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SumcheckRound,
    encode_event,
)

MOST_THREADS = 350
"""Without a release, each proof would leave two threads for each of its streams: 800 and more in the tests here."""

STEPS = 5
"""The steps of a proof's progress: its start, the end of each layer, its end, and the margin after that."""

_PACKAGE = importlib.util.find_spec("rerun_cli")
assert _PACKAGE is not None
assert _PACKAGE.submodule_search_locations is not None
PROGRAM = Path(_PACKAGE.submodule_search_locations[0]) / "rerun"


def small_proof(number: int) -> Iterator[ProofEvent]:
    """Yield the events of a proof with two layers of three rounds."""
    sides = (1, 8)
    yield ProofStart(model_name=f"m{number}", backend="cpu", num_layers=2, input_shape=sides, output_shape=sides)
    for layer in (1, 0):
        yield LayerStart(
            layer_idx=layer,
            kind=LayerKind.MatMul,
            input_shape=sides,
            output_shape=sides,
            trace_cost=64,
            claim_value_approx=0.5,
            gpu_device=None,
        )
        for place in range(3):
            yield SumcheckRound(
                layer_idx=layer,
                round=place,
                total_rounds=3,
                poly_deg2=None,
                poly_deg3=None,
                claim_value_approx=0.5,
            )
        yield LayerEnd(
            layer_idx=layer,
            kind=LayerProofKind.Sumcheck,
            final_claim_value_approx=0.5,
            duration_ms=1,
            rounds_completed=3,
        )
    yield ProofComplete(duration_ms=5, num_layer_proofs=2, num_weight_openings=0, weight_binding_mode="x")


def lines_of(numbers: range) -> bytes:
    """Return the lines of proofs that follow each other without a pause."""
    return b"".join(encode_event(event) + b"\n" for number in numbers for event in small_proof(number))


class Viewer:
    """Rerun's own program, which listens like a viewer and saves what it receives."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = int(found.getsockname()[1])
        self.saved = home / "seen.rrd"
        places = {"XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "data")}
        subprocess.run(
            [PROGRAM, "analytics", "disable"], env={**os.environ, **places}, check=True, capture_output=True, timeout=30
        )
        listening = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", str(self.saved)]
        self._process = subprocess.Popen(
            [PROGRAM, *listening], env={**os.environ, **places}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        ends = time.monotonic() + 20
        while not self._listens():
            assert time.monotonic() < ends
            time.sleep(0.05)

    def _listens(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.port)) == 0

    def suspend(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def steps_in(*paths: Path) -> int:
    """Count the steps of all proofs' progress in files: each proof has `STEPS`, the last one at its end."""
    # In one go by Rerun's own program: its reader in Python goes through the whole file for each recording.
    command: list[str | Path] = [PROGRAM, "rrd", "print", "--continue-on-error", "true", *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    found = re.findall(r"with (\d+) rows .* - /proof/progress - data columns: \[Scalars:scalars\]", done.stdout)
    return sum(map(int, found))


@pytest.fixture
def viewer(tmp_path: Path) -> Iterator[Viewer]:
    """A stand-in for a viewer."""
    one = Viewer(tmp_path)
    yield one
    one.kill()


class Command:
    """The command at work on a file of proofs, or on proofs that come through a pipe.

    Attributes:
        most_threads: The most threads that it had.
    """

    def __init__(self, folder: Path, *connections: str, source: str | Path = "-") -> None:
        flags = [flag for connection in connections for flag in ("--rerun", connection)]
        self.most_threads = 0
        self._said = folder / "said"
        with self._said.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "proofstream", "run", str(source), "--no-plugin", "console", *flags],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )
        self._watch = threading.Thread(
            target=self._count_threads, daemon=True
        )  # a test that fails does not wait for it
        self._watch.start()

    def _count_threads(self) -> None:
        tasks = Path(f"/proc/{self._process.pid}/task")
        while self._process.poll() is None:
            with contextlib.suppress(OSError):
                self.most_threads = max(self.most_threads, len(list(tasks.iterdir())))
            time.sleep(0.02)

    def send_proofs(self, numbers: range) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(lines_of(numbers))
        self._process.stdin.flush()

    def finish(self) -> int:
        """Send the end of the stream, and return the exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(500)
        finally:
            self._process.kill()
            self._watch.join()

    @property
    def said(self) -> str:
        return self._said.read_text("utf-8", "replace")


def eventually(holds: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true in time."""
    ends = time.monotonic() + 30
    while not holds():
        if time.monotonic() > ends:
            return False
        time.sleep(0.2)
    return True


def check_that_a_viewer_gets_each_end(folder: Path, viewer: Viewer, count: int) -> None:
    source = folder / "proofs.jsonl"
    source.write_bytes(lines_of(range(count)))
    command = Command(folder, f"127.0.0.1:{viewer.port}", "serve", source=source)

    assert command.finish() == 0, command.said
    assert command.most_threads < MOST_THREADS
    assert eventually(lambda: steps_in(viewer.saved) == STEPS * count)


def test_proofs_that_follow_fast_leave_nothing_behind_and_the_viewer_gets_each_end(
    tmp_path: Path, viewer: Viewer
) -> None:
    check_that_a_viewer_gets_each_end(tmp_path, viewer, 200)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_so_do_thousands_of_proofs(tmp_path: Path, viewer: Viewer) -> None:
    check_that_a_viewer_gets_each_end(tmp_path, viewer, 3000)


def test_a_viewer_that_stops_reading_beside_a_file_leaves_nothing_behind_either(tmp_path: Path, viewer: Viewer) -> None:
    count = 300
    folder = tmp_path / "out"
    folder.mkdir()
    command = Command(tmp_path, f"127.0.0.1:{viewer.port}", f"file:{folder / 'proof.rrd'}")
    command.send_proofs(range(1))
    assert eventually(lambda: steps_in(viewer.saved) == STEPS)
    viewer.suspend()
    command.send_proofs(range(1, count))

    assert command.finish() == 1
    assert "1 lost viewers" in command.said
    assert f"127.0.0.1:{viewer.port} does not read" in command.said
    assert command.most_threads < MOST_THREADS
    files = list(folder.iterdir())
    assert len(files) == count
    assert steps_in(*files) == STEPS * count


def test_a_second_run_leaves_the_recording_of_the_first_alone(tmp_path: Path) -> None:
    path, second = tmp_path / "proof.rrd", tmp_path / "proof-2.rrd"
    for expected in (path, second):
        before = path.read_bytes() if path.exists() else None
        command = Command(tmp_path, f"file:{path}")
        command.send_proofs(range(1))
        assert command.finish() == 0, command.said
        assert steps_in(expected) == STEPS
        assert before in {None, path.read_bytes()}
    assert f"{path} exists, so this run writes {second}" in command.said
