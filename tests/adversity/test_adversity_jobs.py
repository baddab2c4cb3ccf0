"""Jobs that die with their connection open, lines that are never meant, and clocks that are set back."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from proofstream import (
    PRODUCER,
    Closed,
    Envelope,
    IntervalKind,
    LayerKind,
    LayerStart,
    Opened,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SessionClosed,
    Timelines,
    encode_event,
)
from proofstream.silence import MAX_OPEN_JOBS, TOO_MANY
from proofstream.testing import START_UNIX_NANO, InlineHost, PluginHost, RecordingPlugin
from proofstream_console import ConsolePlugin
from proofstream_state_cost import StateCostPlugin

START = ProofStart(model_name="m", backend="cpu", num_layers=4, input_shape=(1, 1), output_shape=(1, 1))
LAYER = LayerStart(
    layer_idx=3,
    kind=LayerKind.MatMul,
    input_shape=(1, 1),
    output_shape=(1, 1),
    trace_cost=1,
    claim_value_approx=0.5,
    gpu_device=None,
)
COMPLETE = ProofComplete(duration_ms=1, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="sequential")
CLOSED = SessionClosed(outcome="lost", reason="the connection broke off", refused=0)
BATCH = 512
MOST_RATIO = 7.0
"""Four times as many jobs take four times as long where the cost is linear, and sixteen times where it is quadratic."""


def dying(jobs: int) -> list[Envelope]:
    """The stream of a connection whose jobs each start a proof and a layer, and die."""
    told: Iterator[tuple[ProofEvent, str | None]] = (
        (event, f"job-{job}") for job in range(jobs) for event in (START, LAYER)
    )
    return [
        Envelope(
            seq=seq,
            time_unix_nano=START_UNIX_NANO + seq * 1_000_000,
            session_id="s",
            origin=PRODUCER,
            event=event,
            raw=encode_event(event),
            job_id=job_id,
        )
        for seq, (event, job_id) in enumerate([*told, (CLOSED, None)])
    ]


class Follower(Protocol):
    """Takes the envelopes of a stream."""

    def feed(self, batch: tuple[Envelope, ...], /) -> object:
        """Take some."""
        ...


class Following:
    """The timelines alone."""

    def __init__(self) -> None:
        self.timelines = Timelines()

    def feed(self, batch: tuple[Envelope, ...], /) -> None:
        for envelope in batch:
            self.timelines.feed(envelope)


FOLLOWERS: dict[str, Callable[[], Follower]] = {
    "timelines": Following,
    "console": lambda: InlineHost(ConsolePlugin()),
    "state-cost": lambda: InlineHost(StateCostPlugin()),
}


def cpu_seconds(make: Callable[[], Follower], stream: list[Envelope]) -> float:
    follower = make()
    begun = time.thread_time()
    for start in range(0, len(stream), BATCH):
        follower.feed(tuple(stream[start : start + BATCH]))
    return time.thread_time() - begun


@pytest.mark.parametrize("name", FOLLOWERS)
def test_the_cost_of_jobs_that_die_grows_as_their_number(name: str) -> None:
    few, many = dying(1_250), dying(5_000)
    ratio = min(cpu_seconds(FOLLOWERS[name], many) / cpu_seconds(FOLLOWERS[name], few) for _ in range(3))
    assert ratio < MOST_RATIO


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWERS)
def test_the_cost_of_twenty_thousand_jobs_that_die_grows_as_their_number(name: str) -> None:
    few, many = dying(5_000), dying(20_000)
    ratio = min(cpu_seconds(FOLLOWERS[name], many) / cpu_seconds(FOLLOWERS[name], few) for _ in range(3))
    assert ratio < MOST_RATIO


def test_of_twenty_thousand_jobs_that_die_each_is_ended_once_and_counted() -> None:
    jobs = 20_000
    timelines = Timelines()
    opened: Counter[int] = Counter()
    closed: Counter[int] = Counter()
    reasons: Counter[str | None] = Counter()
    most_open = 0
    for envelope in dying(jobs):
        for change in timelines.feed(envelope):
            if isinstance(change, Opened):
                opened[change.interval.ordinal] += 1
            elif isinstance(change, Closed):
                closed[change.interval.ordinal] += 1
                if change.interval.kind is IntervalKind.PROOF:
                    reasons[change.interval.aborted_reason] += 1
        if envelope.seq % 1000 == 0:
            most_open = max(most_open, len(timelines.open_proofs))

    assert opened == closed == Counter(range(2 * jobs))
    assert most_open <= MAX_OPEN_JOBS
    assert reasons == {
        TOO_MANY: jobs - MAX_OPEN_JOBS,
        "the session was lost: the connection broke off": MAX_OPEN_JOBS,
    }
    session = timelines.session("s")
    assert (session.proofs, session.aborted, session.silent_jobs) == (jobs, jobs, jobs - MAX_OPEN_JOBS)


# Through the command


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proofstream", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def proof_spans(folder: Path) -> list[tuple[str, str | None, int, int]]:
    """Span id, reason, start and end of each proof of an ``--otlp-file`` folder."""
    found: list[tuple[str, str | None, int, int]] = []
    for path in folder.glob("traces*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            document: dict[str, Any] = json.loads(line)
            spans = [s for r in document["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]
            for span in spans:
                values = {each["key"]: each["value"] for each in span["attributes"]}
                if "proofstream.job.id" in values and "proofstream.layer.index" not in values:
                    reason = values.get("proofstream.aborted.reason", {}).get("stringValue")
                    start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
                    found.append((span["spanId"], reason, start, end))
    return sorted(found)


def check_dying_through_the_command(folder: Path, jobs: int) -> None:
    frames = (
        b'{"job_id":"job-%d","event":%b}\n' % (job, encode_event(e)) for job in range(jobs) for e in (START, LAYER)
    )
    (folder / "jobs.jsonl").write_bytes(b"".join(frames))
    first = run(folder, "run", "jobs.jsonl", "--otlp-file", "live", "--record", "recording.jsonl")
    assert first.returncode == 0, first.stderr
    assert "abandoned" not in first.stderr
    again = run(folder, "run", "recording.jsonl", "--otlp-file", "replayed")
    assert again.returncode == 0, again.stderr

    spans = proof_spans(folder / "live")
    assert len(spans) == jobs
    assert Counter(reason == TOO_MANY for _, reason, _, _ in spans) == {
        True: jobs - MAX_OPEN_JOBS,
        False: MAX_OPEN_JOBS,
    }
    assert all(reason is not None for _, reason, _, _ in spans)
    assert all(start <= end for _, _, start, end in spans)
    assert proof_spans(folder / "replayed") == spans


def test_jobs_that_die_are_told_alike_by_the_run_and_by_its_replay(tmp_path: Path) -> None:
    check_dying_through_the_command(tmp_path, MAX_OPEN_JOBS + 200)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_thousand_jobs_that_die_are_told_alike_by_the_run_and_by_its_replay(tmp_path: Path) -> None:
    check_dying_through_the_command(tmp_path, 20_000)


# Monstrous lines

MONSTERS: tuple[bytes, ...] = (
    b'{"X":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    b'{"Log":{"level":"Info","message":' + b'{"a":' * 1_000_000,
    b"{" + b",".join(b'"k%d":1' % number for number in range(10**6)) + b"}",
    b'{"StarkProofEnd":{"duration_ms":1e400}}',
    b'{"StarkProofEnd":{"duration_ms":%d}}' % 2**70,
    b'{"job_id":"' + b"x" * 10**6 + b'","event":{"StarkProofEnd":{"duration_ms":1}}}',
    b'{"' + b"X" * 10**6 + b'":1}',
    b'{"EventsLost":{"where":"x","counts":{' + b",".join(b'"k%d":1' % number for number in range(10**5)) + b"}}}",
)
ODDITIES: tuple[bytes, ...] = (
    b'{"StarkProofEnd":{"duration_ms":-0}}',
    rb'{"Log":{"level":"Info","message":"\ud800"}}',
    b'{"Log":{"level":"Info","level":"Warn","message":"a"}}',
    b'{"StarkProofEnd":{"duration_ms":1,' + b",".join(b'"k%d":1' % number for number in range(10**5)) + b"}}",
)


def test_a_monstrous_line_costs_itself_and_the_proof_around_it_is_whole(
    proofstream_host: Callable[..., PluginHost], tmp_path: Path
) -> None:
    plugin = RecordingPlugin()
    host = proofstream_host(plugin)
    stream = tmp_path / "hostile.jsonl"
    stream.write_bytes(b"\n".join([encode_event(START), *MONSTERS, *ODDITIES, encode_event(COMPLETE)]) + b"\n")
    host.feed(stream)
    report = host.close()

    assert report.refused == len(MONSTERS)
    kinds = Counter(plugin.kinds)
    assert (kinds["ProofStart"], kinds["ProofComplete"], kinds["StarkProofEnd"], kinds["Log"]) == (1, 1, 2, 2)
    (closed,) = (event for event in plugin.events if isinstance(event, SessionClosed))
    assert closed.refused == len(MONSTERS)


# Clocks that are set back


def test_no_interval_is_negative_and_each_contains_its_events_when_clocks_are_set_back() -> None:
    timelines = Timelines()
    now, ended, flagged = START_UNIX_NANO, 0, 0
    told: list[tuple[int, Any]] = []
    for step in range(1_998):
        event = (START, LAYER, COMPLETE)[step % 3]
        now += 3_600_000_000_000 if step % 2 else -3_599_000_000_000
        envelope = Envelope(
            seq=step, time_unix_nano=now, session_id="s", origin=PRODUCER, event=event, raw=b"{}", job_id="a"
        )
        told += [(now, change.interval) for change in timelines.feed(envelope)]
    for at, interval in told:
        if interval.end_unix_nano is not None:
            ended += 1
            flagged += interval.time_went_back
            assert interval.start_unix_nano <= interval.end_unix_nano
            assert at <= interval.end_unix_nano
    assert ended == len(told) == 1_998 // 3 * 4
    assert flagged > 0
