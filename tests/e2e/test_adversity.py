"""The command and the library as processes: closed or full streams, signals, plugins that never end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

WIRE = Path(__file__).parents[1] / "data" / "wire"
MALFORMED = WIRE / "malformed.jsonl"
DEADLINE_S = 5.0
SLACK_S = 4.0
"""Time to start Python on a busy machine, in seconds."""

STUCK = """
import os, threading, time
from proofstream import hookimpl

WHERE = os.environ["STUCK_IN"]

class Plugin:
    @hookimpl
    def proofstream_configure(self):
        if WHERE == "configure":
            open("entered", "w").close()
            time.sleep(1000)
        if WHERE == "thread":
            threading.Thread(target=time.sleep, args=(1000,)).start()

    @hookimpl
    def proofstream_consume(self, batch):
        if WHERE == "consume":
            open("entered", "w").close()
            time.sleep(1000)

    @hookimpl
    def proofstream_unconfigure(self):
        if WHERE == "unconfigure":
            time.sleep(1000)
"""


@pytest.fixture
def stuck_command(proofstream_command: Any, tmp_path: Path) -> Any:
    """The command, with a plugin that gets stuck in the hook that STUCK_IN names."""
    (tmp_path / "stuck_plugin.py").write_text(STUCK)
    info = tmp_path / "stuck_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stuck-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[proofstream]\nstuck = stuck_plugin:Plugin\n")
    proofstream_command.env["PYTHONPATH"] = str(tmp_path)
    return proofstream_command


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["configure", "consume"])
def test_a_signal_ends_a_run_in_time_even_if_a_part_is_stuck(stuck_command: Any, tmp_path: Path, where: str) -> None:
    stuck_command.env["STUCK_IN"] = where
    process = stuck_command.start("run", "-", "--no-console", "--record", "r.jsonl", stdin=-1)
    wait_for(tmp_path / "entered")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - began < DEADLINE_S + SLACK_S
    assert process.returncode == 143
    assert "stuck (stuck-plugin 1.0) did not finish in time and was abandoned" in err


def test_a_thread_that_a_plugin_left_does_not_keep_the_process_alive(stuck_command: Any) -> None:
    stuck_command.env["STUCK_IN"] = "thread"
    assert stuck_command("run", MALFORMED, "--no-console", timeout_s=20).status == 1


@pytest.fixture
def full_pipe() -> Iterator[int]:
    """The writing end of a full pipe that is never read."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    yield write
    os.close(read)
    os.close(write)


def test_a_full_stderr_blocks_nothing(proofstream_command: Any, tmp_path: Path, full_pipe: int, spans_in: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "proofstream", "run", MALFORMED, "--no-console", "-vv", "--otlp-file", "out"],
        cwd=tmp_path,
        env=proofstream_command.env,
        stdin=subprocess.DEVNULL,
        stderr=full_pipe,
    )
    assert process.wait(timeout=30) == 1
    assert spans_in(tmp_path / "out")


@pytest.mark.parametrize("redirection", ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_missing_stderr_costs_nothing_but_itself(
    proofstream_command: Any, tmp_path: Path, redirection: str, spans_in: Any
) -> None:
    command = f'exec "$0" -m proofstream run "$1" --otlp-file out --record r.jsonl {redirection}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, MALFORMED],
        cwd=tmp_path,
        env=proofstream_command.env,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert spans_in(tmp_path / "out")
    assert '"SessionClosed"' in (tmp_path / "r.jsonl").read_text().splitlines()[-1]


def test_a_closed_stdin_is_reported(proofstream_command: Any, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m proofstream run - --no-console --record r.jsonl <&-', sys.executable],
        cwd=tmp_path,
        env=proofstream_command.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "cannot read standard input" in done.stderr


def test_a_listing_that_cannot_be_written_says_so(proofstream_command: Any) -> None:
    with Path("/dev/full").open("w") as full:
        process = proofstream_command.start("events", stdout=full.fileno())
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert err == "proofstream: error: No space left on device\n"


@pytest.mark.slow
def test_three_stuck_sessions_end_with_the_interpreter_in_the_time_of_one(tmp_path: Path) -> None:
    (tmp_path / "prover.py").write_text(
        "import time, proofstream\n"
        "class Stuck:\n"
        "    def __init__(self, name):\n"
        "        self.name = name\n"
        "    @proofstream.hookimpl\n"
        "    def proofstream_unconfigure(self):\n"
        "        time.sleep(1000)\n"
        "    @proofstream.hookimpl\n"
        "    def proofstream_consume(self):\n"
        "        pass\n"
        "sessions = [proofstream.open_session(plugins=[Stuck(f's{n}')]) for n in range(3)]\n"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "prover.py"], cwd=tmp_path, timeout=60, check=True)
    assert time.monotonic() - began < DEADLINE_S + SLACK_S


def test_a_signal_that_the_parent_ignores_does_not_end_a_run(proofstream_command: Any, tmp_path: Path) -> None:
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP; exec "$0" -m proofstream run - --no-console --record r.jsonl', sys.executable],
        cwd=tmp_path,
        env=proofstream_command.env,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    wait_for(tmp_path / "r.jsonl")
    process.send_signal(signal.SIGHUP)
    process.stdin.write(b'{"Log":{"level":"Info","message":"still here"}}\n')
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert "still here" in (tmp_path / "r.jsonl").read_text()


def test_events_of_many_simultaneous_peers_all_arrive(proofstream_command: Any, tmp_path: Path) -> None:
    process = proofstream_command.start("run", "unix:s", "--no-console", "-q", "--record", "r.jsonl")
    wait_for(tmp_path / "s")
    line = b'{"Log":{"level":"Info","message":"here I am"}}\n'
    for wave in range(3):
        peers = [socket.socket(socket.AF_UNIX) for _ in range(50)]
        try:
            for peer in peers:
                peer.settimeout(10)
                peer.connect(str(tmp_path / "s"))
                peer.sendall(line)
        finally:
            for peer in peers:
                peer.close()
        wait_for_count(tmp_path / "r.jsonl", "SessionClosed", 50 * (wave + 1))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
    assert (tmp_path / "r.jsonl").read_text().count("here I am") == 150


def wait_for_count(path: Path, text: str, count: int) -> None:
    deadline = time.monotonic() + 20
    while not path.exists() or path.read_text().count(text) < count:
        assert time.monotonic() < deadline, f"{count} {text} never came to {path.name}"
        time.sleep(0.05)


def test_the_library_logs_nothing_unless_the_application_asks(tmp_path: Path) -> None:
    (tmp_path / "prover.py").write_text(
        "import proofstream\n"
        "with proofstream.open_session(plugins=[]) as session:\n"
        "    session.emit_if(lambda: 1 / 0)\n"
        "    session.emit(None)\n"
        "    assert session.flush(5.0)\n"
        "    assert session.refused\n"
    )
    done = subprocess.run([sys.executable, "prover.py"], cwd=tmp_path, capture_output=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
