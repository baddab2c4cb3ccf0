"""Genuine streams, written at the times at which their prover emitted, get those times through the command."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from genuine import TimedLine, timed_lines

NS_PER_MS = 1_000_000
PROMISED_NS = 20 * NS_PER_MS
ATTEMPTS = 5


class Written(NamedTuple):
    """When a line was written: between these two times."""

    before: int
    after: int


class Prover:
    """Writes lines as their prover did.

    Attributes:
        overshoot_ns: By how much its longest sleep was longer than it asked for: what the machine costs everybody.
    """

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self.overshoot_ns = 0
        self._write = write

    def emit(self, lines: list[TimedLine]) -> list[Written]:
        begun = time.time_ns()
        written: list[Written] = []
        for line in lines:
            due = begun + line.time_unix_nano - lines[0].time_unix_nano
            if (wait_ns := due - time.time_ns()) > 0:
                time.sleep(wait_ns / 1e9)
                self.overshoot_ns = max(self.overshoot_ns, time.time_ns() - due)
            before = time.time_ns()
            self._write(line.line + b"\n")
            written.append(Written(before, time.time_ns()))
        return written


@contextmanager
def reading(command: Any, *words: str | Path, stdin: int = subprocess.DEVNULL) -> Generator[subprocess.Popen[str]]:
    """Run the command, from when it reads until it has ended well."""
    process: subprocess.Popen[str] = command.start(*words, stdin=stdin)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("proofstream: reading ")
        yield process
        _, err = process.communicate(timeout=30)
        assert process.returncode in (0, 130), err
    finally:
        process.kill()
        process.wait()


def recorded(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def emitted_in(envelopes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [envelope for envelope in envelopes if "origin" not in envelope]


def lateness_ns(envelopes: list[dict[str, Any]], written: list[Written]) -> int:
    """Return by how much the worst of the times lies outside of the time in which its line was written."""
    times: list[int] = [envelope["time_unix_nano"] for envelope in envelopes]
    return max(max(at - line.after, line.before - at) for at, line in zip(times, written, strict=True))


def through_standard_input(command: Any, lines: list[TimedLine], recording: Path) -> tuple[list[Written], int]:
    with reading(command, "run", "-", "--record", recording, "--no-console", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        prover = Prover(functools.partial(os.write, process.stdin.fileno()))
        written = prover.emit(lines)
    return written, prover.overshoot_ns


def through_a_followed_file(command: Any, lines: list[TimedLine], recording: Path) -> tuple[list[Written], int]:
    path = recording.with_suffix(".stream")
    with reading(command, "run", path, "--follow", "--record", recording, "--no-console") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"proofstream: waiting for {path}\n"
        with path.open("ab", buffering=0) as file:
            prover = Prover(file.write)
            written = prover.emit(lines)
        deadline = time.monotonic() + 10
        while lines[-1].line.decode() not in recording.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    return written, prover.overshoot_ns


@pytest.mark.parametrize("way", [through_standard_input, through_a_followed_file])
@pytest.mark.parametrize("name", ["mlp", "error-in-walk"])
def test_times_of_arrival_are_those_of_the_prover(
    name: str, way: Callable[..., tuple[list[Written], int]], proofstream_command: Any, tmp_path: Path
) -> None:
    lines = timed_lines(name)
    found: list[tuple[int, int]] = []
    for attempt in range(ATTEMPTS):
        recording = tmp_path / f"{attempt}.jsonl"
        written, overshoot_ns = way(proofstream_command, lines, recording)
        envelopes = emitted_in(recorded(recording))
        assert [json.dumps(e["event"]) for e in envelopes] == [json.dumps(json.loads(line.line)) for line in lines]
        times = [envelope["time_unix_nano"] for envelope in envelopes]
        assert sorted(set(times)) == times, "each lies after the one before it"
        late_ns = lateness_ns(envelopes, written)
        # A machine that lets the writer oversleep makes the reader late as well, at each of its steps.
        if late_ns <= PROMISED_NS + 5 * overshoot_ns:
            return
        found.append((late_ns, overshoot_ns))
    raise AssertionError(f"(late, overslept) in ns: {found}")


def test_what_waited_in_the_pipe_is_laid_out_and_what_came_later_is_not(
    proofstream_command: Any, tmp_path: Path
) -> None:
    *walk, complete = timed_lines("mlp")
    reader, writer = os.pipe()
    for line in walk:
        os.write(writer, line.line + b"\n")
    recording = tmp_path / "r.jsonl"
    with reading(proofstream_command, "run", "-", "--record", recording, "--no-console", stdin=reader):
        os.close(reader)
        before = time.time_ns()
        os.write(writer, complete.line + b"\n")
        after = time.time_ns()
        os.close(writer)
    opened, *_ = envelopes = recorded(recording)
    assert (opened["event"]["SessionOpened"]["time_source"], opened["time_source"]) == ("arrival", "reconstructed")
    emitted = emitted_in(envelopes)
    assert [e.get("time_source") for e in emitted] == ["reconstructed"] * len(walk) + [None]
    (said,) = [e["event"]["Log"]["message"] for e in envelopes if "Log" in e["event"]]
    assert said.startswith(f"{len(walk)} lines were written before reading began")
    assert before <= emitted[-1]["time_unix_nano"]
    laid_out = [e["time_unix_nano"] for e in emitted[:-1]]
    assert laid_out[-1] - laid_out[0] == pytest.approx(21 * NS_PER_MS, abs=100)
    assert laid_out[-1] < before < after
