"""The command with and without GPUs, in another process that finds the fake library as it would find NVIDIA's."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

STREAM = Path(__file__).parents[2] / "data" / "wire" / "smollm2-135m-cpu.jsonl"
NO_DRIVER = "there is no NVIDIA driver on this machine (libnvidia-ml.so.1 was not found)"


@dataclass
class Finished:
    status: int
    err: str


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Finished]:
    """Run proofstream; without a machine, no driver is found."""

    def run(*words: str | Path, machine: Any = None) -> Finished:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "OTEL_", "FAKE_NVML_"))}
        nowhere = tmp_path / "no driver"
        nowhere.mkdir(exist_ok=True)
        # A library that cannot be loaded stands for none, also on a machine that has one.
        (nowhere / "libnvidia-ml.so.1").write_bytes(b"")
        environ = {**kept, "LD_LIBRARY_PATH": str(nowhere)} if machine is None else {**kept, **machine.environ()}
        ran = subprocess.run(
            [sys.executable, "-m", "proofstream", "run", "--no-plugin", "otel", *map(str, words)],
            check=False,
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Finished(ran.returncode, ran.stderr)

    return run


def envelopes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(path: Path) -> list[str]:
    return [next(iter(envelope["event"])) for envelope in envelopes(path)]


def test_the_recording_of_a_proof_has_a_sample_a_second_and_its_replay_no_other(
    command: Callable[..., Finished], away: Any, tmp_path: Path
) -> None:
    ran = command("demo:transformer?pace=3", "--gpu", "--record", "r.jsonl", machine=away)
    assert ran.status == 0, ran.err

    lived = envelopes(tmp_path / "r.jsonl")
    order = kinds(tmp_path / "r.jsonl")
    during = lived[order.index("ProofStart") : order.index("ProofComplete")]
    samples = [e for e in during if "GpuTelemetry" in e["event"]]
    seconds = (during[-1]["time_unix_nano"] - during[0]["time_unix_nano"]) / 1e9
    assert abs(len(samples) - seconds) <= 2
    assert {e["origin"] for e in samples} == {"gpu"}
    gaps = [b["time_unix_nano"] - a["time_unix_nano"] for a, b in itertools.pairwise(samples)]
    assert all(gap >= 0.8e9 for gap in gaps[1:]), "the first follows at once, the others a second apart"
    (device,) = samples[0]["event"]["GpuTelemetry"]["devices"]
    assert (device["id"], device["power_w"], device["utilization"]) == ("GPU-00000000", 250.5, 0.5)

    asked_before = len(away.calls)
    replayed = command("r.jsonl", "--record", "again.jsonl", machine=away)
    assert replayed.status == 0, replayed.err
    assert "broken off" not in replayed.err
    assert len(away.calls) == asked_before
    again = envelopes(tmp_path / "again.jsonl")
    assert [e["event"] for e in again] == [e["event"] for e in lived[order.index("SessionOpened") :]]


def test_asked_for_while_a_recording_is_replayed(command: Callable[..., Finished], away: Any) -> None:
    ran = command(STREAM, "--gpu", machine=away)

    assert ran.status == 2
    assert "this is a recording" in ran.err
    assert ran.err.count("\n") == 1
    assert away.calls == []


def test_without_a_driver_nothing_is_said(command: Callable[..., Finished], tmp_path: Path) -> None:
    ran = command("demo:digits", "--no-console", "--record", "r.jsonl")

    reading, heading, result = ran.err.splitlines()
    assert (ran.status, reading) == (0, "proofstream: reading demo:digits with record")
    assert (heading, result.split()[0]) == ("proofstream: the results, and what to do with them:", "r.jsonl")
    assert "GpuTelemetry" not in kinds(tmp_path / "r.jsonl")


def test_without_a_driver_one_line_says_so_with_verbose(command: Callable[..., Finished]) -> None:
    ran = command("demo:digits", "--no-console", "--verbose")

    assert ran.status == 0
    said = [line for line in ran.err.splitlines() if "GPU" in line or "NVIDIA" in line]
    assert said == [f"proofstream: GPUs are not measured: {NO_DRIVER}"]


def test_without_a_driver_asking_for_it_is_an_error(command: Callable[..., Finished]) -> None:
    ran = command("demo:digits", "--gpu")

    assert ran.status == 2
    assert NO_DRIVER in ran.err
    assert ran.err.count("\n") == 1


def test_it_can_be_switched_off(command: Callable[..., Finished], away: Any) -> None:
    ran = command("demo:digits", "--no-gpu", machine=away)

    assert ran.status == 0
    assert away.calls == []


def test_a_gpu_that_is_lost_does_not_fail_the_run(command: Callable[..., Finished], away: Any, tmp_path: Path) -> None:
    away.set(count=2, _0__power="!15")
    ran = command("demo:digits?pace=1", "--gpu", "--no-console", "--record", "r.jsonl", machine=away)

    assert ran.status == 0
    assert "proofstream: GPU 0 (GPU-00000000) is lost: it no longer answers\n" in ran.err
    samples = [e["event"]["GpuTelemetry"] for e in envelopes(tmp_path / "r.jsonl") if "GpuTelemetry" in e["event"]]
    assert {tuple(device["state"] for device in sample["devices"]) for sample in samples} == {("lost", "ok")}


def test_energy_that_no_counter_measured_says_so_and_names_its_gpus(
    command: Callable[..., Finished], away: Any
) -> None:
    # The first counter stands still at 250.5 W; the second GPU has none; the third has no power figure either.
    away.set(count=3, _1__energy="!3", _2__energy="!3", _2__power="!3")
    ran = command("demo:transformer?pace=2", "--gpu", machine=away)
    assert ran.status == 0, ran.err

    report = " ".join(ran.err.split())
    found = re.search(r"energy about ([\d.]+) kJ, GPU 0, GPU 1: integrated from power; without GPU 2;", report)
    took = re.search(r"complete in ([\d.]+) s", report)
    assert found is not None, report
    assert took is not None, report
    assert 0 < float(found[1]) * 1000 <= 2 * 250.5 * (float(took[1]) + 1)
