"""The lines about GPUs: measured figures if there are any, and no session or proof because of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from proofstream import (
    GpuReading,
    GpuSnapshot,
    GpuStatus,
    GpuTelemetry,
    PluginHealth,
    ProofComplete,
    ProofEvent,
    ProofStart,
)
from proofstream.testing import envelopes
from proofstream_console import words
from proofstream_console.device_summary import MAX_DEVICES
from proofstream_console.news import PluginTrouble
from proofstream_console.run_summary import RunSummary

GIB = 2**30
START = ProofStart(model_name=None, backend="gpu", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
COMPLETE = ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="x")
REPORTED = GpuStatus(
    devices=[GpuSnapshot(device_id=0, device_name="NVIDIA H100", utilization=0.9, free_memory_bytes=GIB)],
    matmul_done=0,
    matmul_total=0,
    layers_done=0,
    layers_total=0,
)


def reading(**figures: Any) -> GpuReading:
    facts: dict[str, Any] = {"id": "GPU-1", "index": 0, "name": "NVIDIA H200", "state": "ok"}
    return GpuReading(**facts | figures)


def sample(*readings: GpuReading) -> GpuTelemetry:
    return GpuTelemetry(devices=list(readings))


def used(busy: float, gib: int, **figures: Any) -> GpuTelemetry:
    return sample(
        reading(utilization=busy, memory_used_bytes=gib * GIB, memory_total_bytes=100 * GIB, power_w=700.4, **figures)
    )


def fed(*events: ProofEvent) -> RunSummary:
    summary = RunSummary(clock=lambda: 0.0)
    summary.add_batch(tuple(envelopes(events, close=False)[1:]))
    return summary


def lines(*events: ProofEvent, whole_run: bool = False) -> list[str]:
    return list(words.device_lines(fed(*events).devices, whole_run=whole_run))


def test_measured_figures_take_the_place_of_reported_ones() -> None:
    less_free = msgspec.structs.replace(
        REPORTED, devices=[msgspec.structs.replace(REPORTED.devices[0], free_memory_bytes=GIB // 2)]
    )
    assert lines(START, REPORTED) == ["NVIDIA H100 · 90 % busy (reported)"]
    assert lines(START, REPORTED, less_free) == ["NVIDIA H100 · 0.5 GiB free memory · 90 % busy (reported)"]
    assert lines(START, REPORTED, less_free, used(0.5, 12)) == [
        "GPU 0 NVIDIA H200 · 50 % busy · 12.0 GiB of 100.0 GiB memory · 700 W (measured)"
    ]


def test_figures_of_the_whole_run_count_only_while_proofs_run() -> None:
    run = (used(0.0, 90), START, used(0.5, 12), used(1.0, 30), used(0.75, 20), COMPLETE, used(0.0, 95))

    assert lines(*run, whole_run=True) == [
        "GPU 0 NVIDIA H200 · 75 % busy while proving · at most 30.0 GiB of 100.0 GiB memory (measured)"
    ]


@pytest.mark.parametrize("whole_run", [True, False])
def test_absent_figures_are_not_shown_as_zero(whole_run: bool) -> None:
    absent = sample(reading(name=None, index=None))

    assert lines(START, absent, whole_run=whole_run) == ["GPU (measured)"]


def test_zero_is_shown_where_it_was_measured() -> None:
    assert lines(START, sample(reading(utilization=0.0, memory_used_bytes=0, power_w=0.0))) == [
        "GPU 0 NVIDIA H200 · 0 % busy · 0.0 GiB memory · 0 W (measured)"
    ]


def test_a_lost_gpu_says_so_and_shows_no_old_figures() -> None:
    assert lines(START, used(0.5, 12), sample(reading(state="lost"))) == [
        "GPU 0 NVIDIA H200 · lost: it has stopped answering (measured)"
    ]


def test_mig_instances_are_labelled_mig() -> None:
    part = reading(id="MIG-1", parent_id="GPU-1", index=3, name="NVIDIA H200 MIG 1g.18gb", memory_used_bytes=GIB)

    assert lines(sample(reading(), part)) == [
        "GPU 0 NVIDIA H200 (measured)",
        "MIG 3 NVIDIA H200 MIG 1g.18gb · 1.0 GiB memory (measured)",
    ]


def test_telemetry_alone_opens_no_session_and_counts_no_event() -> None:
    summary = fed(used(0.5, 12), used(0.5, 12))

    assert summary.is_empty
    assert not summary.was_opened
    assert (summary.totals.sessions, summary.totals.events) == (0, 0)


def test_the_number_of_devices_that_are_remembered_is_bounded() -> None:
    many = [sample(reading(id=f"GPU-{number}")) for number in range(100)]

    assert len(fed(*many).devices.measured) == MAX_DEVICES


def test_hostile_names_are_made_safe() -> None:
    (line,) = lines(sample(reading(id="x" * 100_000, name="\x1b[2J" + "y" * 100_000)))

    assert "\x1b" not in line
    assert len(line) < 200


def test_a_plugin_that_broke_before_a_session_was_opened_makes_no_news() -> None:
    broken = PluginHealth(
        plugin="gpu", status="broken", reason="no driver", depth=0, lag_s=0.0, delivered=0, dropped={}, counters={}
    )

    assert [item for item in fed(broken).news.take_news() if isinstance(item, PluginTrouble)] == []
    assert [item for item in fed(START, broken).news.take_news() if isinstance(item, PluginTrouble)] == [
        PluginTrouble(broken)
    ]
