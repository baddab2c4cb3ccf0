"""Peers that behave well and badly, test writes, and readers of what arrived."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rerun as rr
import rerun.blueprint as rrb
from rerun.chunk import RrdReader

from proofstream_rerun.connections import Viewer
from proofstream_rerun.outlets.fan_out import Outlets
from proofstream_rerun.outlets.probing import Answer, probe
from proofstream_rerun.sdk.recordings import Recording, Write
from proofstream_rerun.settings import Settings

_PACKAGE = importlib.util.find_spec("rerun_cli")
assert _PACKAGE is not None
assert _PACKAGE.submodule_search_locations is not None
PROGRAM = Path(_PACKAGE.submodule_search_locations[0]) / "rerun"
"""Rerun's program itself, without its Python wrapper, so that signals to its process id reach it."""

DEADLINE_S = 20.0


@pytest.fixture(scope="session", autouse=True)
def strict() -> Iterator[None]:
    """Make Rerun raise errors instead of warnings."""
    rr.set_strict_mode(True)
    yield
    rr.set_strict_mode(False)


@pytest.fixture(scope="session")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """An environment in which Rerun's program sends no usage data."""
    home = tmp_path_factory.mktemp("rerun-home")
    places = {"XDG_CONFIG_HOME": str(home / "config"), "XDG_DATA_HOME": str(home / "data"), "RERUN_STRICT": "1"}
    environ = {**os.environ, **places}
    subprocess.run([PROGRAM, "analytics", "disable"], env=environ, check=True, capture_output=True, timeout=30)
    return environ


def eventually(holds: Callable[[], bool], *, timeout_s: float = DEADLINE_S) -> bool:
    """Return whether a condition becomes true in time."""
    ends = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() >= ends:
            return False
        time.sleep(0.05)
    return True


def free_port() -> int:
    """Return a port of the loopback address that is not in use."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class SavingViewer:
    """Stands in for a viewer: Rerun's own program, which listens like one and saves what it receives to a file."""

    def __init__(self, port: int | None, path: Path, environ: Mapping[str, str], *sources: str) -> None:
        self.port = port
        self.path = path
        listening = [] if port is None else ["--port", str(port), "--bind", "127.0.0.1"]
        command = [str(PROGRAM), *sources, *listening, "--save", str(path)]
        self._process = subprocess.Popen(
            command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        assert eventually(self._is_up)

    def _is_up(self) -> bool:
        if self.port is None:
            return self.path.exists()
        return probe(Viewer("127.0.0.1", self.port), deadline_s=1) is Answer.SPEAKS

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self._process.pid}/stat")
        assert eventually(lambda: stat.read_text("ascii").rpartition(")")[2].split()[0] == "T")

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def rows(self) -> Counter[str]:
        try:
            return rows_of(self.path)
        except RuntimeError:  # the file is still being written and ends in the middle of a message
            return Counter()


class SilentPeer:
    """Accepts connections and stays silent. It is a separate process, so that a test's own exit paths cannot end it."""

    def __init__(self) -> None:
        code = (
            "import socket, time\n"
            "door = socket.create_server(('127.0.0.1', 0), backlog=50)\n"
            "print(door.getsockname()[1], flush=True)\n"
            "guests = []\n"
            "while True: guests.append(door.accept())\n"
        )
        self._process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def rows_of(path: Path) -> Counter[str]:
    """Count the rows of a file by `recording:entity`, or `recording:entity, static`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reader warns of a file without an index, as a killed process leaves it
        reader = RrdReader(path)
        recordings = reader.recordings()
        counts: Counter[str] = Counter()
        for recording in recordings:
            for chunk in reader.stream(store=recording):
                entity = chunk.entity_path.removeprefix("/")
                kind = ", static" if chunk.is_static else ""
                counts[f"{recording.recording_id}:{entity}{kind}"] += chunk.num_rows
    return counts


def recordings_of(path: Path) -> list[str]:
    """Return the ids of the recordings in a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(recording.recording_id for recording in RrdReader(path).recordings())


class Rows:
    """A test write: rows of one entity."""

    def __init__(self, entity: str, first: int, count: int) -> None:
        self._entity = entity
        self._numbers = np.arange(first, first + count)

    @property
    def size_bytes(self) -> int:
        return self._numbers.nbytes * 2

    def send(self, stream: rr.RecordingStream) -> None:
        stream.send_columns(
            self._entity,
            indexes=[rr.TimeColumn("event", sequence=self._numbers)],
            columns=rr.Scalars.columns(scalars=self._numbers.astype(float)),
        )


class Static:
    """A test write: static data."""

    size_bytes = 10

    def send(self, stream: rr.RecordingStream) -> None:
        stream.log("about", rr.TextDocument("about"), static=True)


class Kit:
    """Everything that tests of the outlets need, because they cannot import from a conftest.

    Attributes:
        environ: The environment for Rerun's program.
        told: The lines that outlets have shown to the user.
    """

    DEADLINE_S = DEADLINE_S
    PROGRAM = PROGRAM
    Rows = Rows
    eventually = staticmethod(eventually)
    free_port = staticmethod(free_port)
    recordings_of = staticmethod(recordings_of)
    rows_of = staticmethod(rows_of)

    def __init__(self, environ: Mapping[str, str], stack: contextlib.ExitStack) -> None:
        self.environ = dict(environ)
        self.told: list[str] = []
        self._stack = stack

    def viewer(self, path: Path, port: int | None = None) -> SavingViewer:
        """Start a stand-in for a viewer; it is killed at the end of the test."""
        viewer = SavingViewer(port or free_port(), path, self.environ)
        self._stack.callback(viewer.kill)
        return viewer

    @contextlib.contextmanager
    def reader(self, port: int, path: Path) -> Generator[SavingViewer]:
        """Connect to a server like a viewer and save what it sends to a file; killed at the end."""
        reader = SavingViewer(None, path, self.environ, f"rerun+http://127.0.0.1:{port}/proxy")
        try:
            yield reader
        finally:
            reader.kill()

    def silent_peer(self) -> SilentPeer:
        """Start a peer that accepts connections and stays silent."""
        peer = SilentPeer()
        self._stack.callback(peer.kill)
        return peer

    def outlets(self, *connections: str, live: bool = True, **settings: Any) -> Outlets:
        """Make outlets; they are closed at the end of the test at the latest."""
        outlets = Outlets(
            Settings(connections=connections, **settings),
            live=live,
            tell=self.told.append,
            log=logging.getLogger("proofstream.rerun.test"),
        )
        self._stack.callback(outlets.close, 2.0)
        return outlets

    def recording(
        self, recording_id: str = "first", snapshot: Callable[[], Sequence[Write]] = lambda: [Static()]
    ) -> Recording:
        """Make a recording with a static entity."""
        return Recording(
            application_id="proofstream-test",
            recording_id=recording_id,
            name=f"the {recording_id} one",
            started_ns=1_700_000_000_000_000_000,
            properties={"proof": {"model": "tiny", "layers": 3}},
            blueprint=lambda: rrb.Blueprint(rrb.TimeSeriesView(origin="/values")),
            snapshot=snapshot,
        )

    @contextlib.contextmanager
    def port_9876_unused(self) -> Generator[int]:
        """Look for the user's viewer on a free port instead of 9876; gives that port."""
        with pytest.MonkeyPatch.context() as patch:
            port = free_port()
            patch.setattr("proofstream_rerun.outlets.spawned_viewer.USUAL_PORT", port)
            yield port

    def kill(self, pid: int) -> None:
        """Kill a process that a test started indirectly."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def verify(self, path: Path) -> str:
        """Return the complaints of Rerun's own check of a file; empty if it passes."""
        done = self.run_program("rrd", "verify", str(path))
        return done.stderr if done.returncode else ""

    def run_program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Rerun's program until it ends."""
        return subprocess.run(
            [PROGRAM, *arguments], env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )

    def run_python(
        self, code: str, *arguments: str, timeout_s: float = 60.0, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run code in a separate interpreter until it ends."""
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


@pytest.fixture
def smol(wire_data: Path) -> Path:
    """The stream of a small language model: 2076 events of one proof."""
    return wire_data / "smollm2-135m-cpu.jsonl"


@pytest.fixture
def kit(quiet: Mapping[str, str]) -> Iterator[Kit]:
    """Peers, outlets and readers, which end with the test."""
    with contextlib.ExitStack() as stack:
        yield Kit(quiet, stack)


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    """Check that no outlet leaves a thread behind, except one that was abandoned on purpose."""
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("proofstream-rerun")]
    assert not [thread for thread in left if not _ends(thread)]


def _ends(thread: threading.Thread) -> bool:
    thread.join(5)
    return not thread.is_alive()
