"""The lines about GPUs: measured figures if there are any, and no session or proof because of them."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console

from proofstream import (
    PRODUCER,
    Envelope,
    GpuReading,
    GpuSnapshot,
    GpuStatus,
    GpuTelemetry,
    LayerKind,
    LayerStart,
    PluginHealth,
    ProofComplete,
    ProofEvent,
    ProofStart,
)
from proofstream.testing import envelopes
from proofstream_console import words
from proofstream_console.closing_report import closing_report
from proofstream_console.device_summary import MAX_DEVICES
from proofstream_console.formats import joules
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


# Energy


def spent(*stream: tuple[str | None, ProofEvent]) -> str:
    """The line about energy after events, each of a job or, without one, of the sampler, which samples each second."""
    summary = RunSummary(clock=lambda: 0.0)
    time = 0
    for job, event in stream:
        origin = "gpu" if job is None else PRODUCER
        time += (job is None) * 1_000_000_000
        envelope = Envelope(seq=0, time_unix_nano=time, session_id="s", origin=origin, event=event, raw=b"", job_id=job)
        summary.add_batch((envelope,))
    report = io.StringIO()
    Console(file=report, width=200, color_system=None).print(closing_report(summary, width=200))
    said = words.energy(summary.energy, summary.devices)
    rows = [line.split(maxsplit=1) for line in report.getvalue().splitlines()]
    assert [row[1].strip() for row in rows if row and row[0] == "energy"] == ([said] if said else [])
    return said


def sampled(*figures: Any) -> list[tuple[None, ProofEvent]]:
    """Samples of GPU 0, or of several GPUs, with these figures."""
    several: list[Any] = [row if isinstance(row, list) else [row] for row in figures]
    return [
        (None, sample(*(reading(**{"id": f"GPU-{index}", "index": index, **one}) for index, one in enumerate(row))))
        for row in several
    ]


NOT_SAID = "the prover does not say which GPUs it uses"
COUNTED = [{"energy_j": 100.0 * second, "power_w": 100.0} for second in range(1, 11)]
STANDING = [{"energy_j": 7.0, "power_w": 100.0}] * 10


def test_energy_by_the_counter_is_measured() -> None:
    assert spent(("a", START), *sampled(*COUNTED), ("a", COMPLETE)) == f"900 J, GPU 0: measured; {NOT_SAID}"


def test_energy_by_power_is_about_right_and_says_so() -> None:
    whole = spent(("a", START), *sampled(*STANDING), ("a", COMPLETE))
    assert whole == f"about 900 J, GPU 0: integrated from power; {NOT_SAID}"
    reset = [*COUNTED[:5], *COUNTED[:5]]
    assert spent(("a", START), *sampled(*reset), ("a", COMPLETE)) == (
        f"about 900 J, GPU 0: partly integrated from power; {NOT_SAID}"
    )


def test_energy_names_the_gpus_in_it_and_those_that_are_not() -> None:
    rows = [[one, {"power_w": 1000.0}, {"utilization": 0.5}] for one in COUNTED]
    assert spent(("a", START), *sampled(*rows), ("a", COMPLETE)) == (
        "about 9.90 kJ, GPU 0, GPU 1: partly integrated from power; without GPU 2; " + NOT_SAID
    )
    lost = [*COUNTED[:5], *[{"state": "lost"}] * 5]
    assert spent(("a", START), *sampled(*lost), ("a", COMPLETE)) == (
        "400 J, GPU 0: measured; GPU 0 only for a part of the time; " + NOT_SAID
    )
    layer = LayerStart(
        layer_idx=0,
        kind=LayerKind.MatMul,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=0.5,
        gpu_device=1,
    )
    assert spent(("a", START), ("a", layer), *sampled(*rows), ("a", COMPLETE)) == (
        "about 9.00 kJ, GPU 1: integrated from power"
    )


def test_energy_that_is_not_known_is_no_number() -> None:
    assert spent(("a", START), *sampled(*[{"utilization": 0.5}] * 5), ("a", COMPLETE)) == "not known for GPU 0"
    assert spent(("a", START), *sampled(*COUNTED[:1]), ("a", COMPLETE)) == ""
    assert spent(("a", START), ("a", COMPLETE)) == ""


def test_energy_of_proofs_at_once_is_divided_and_counted_once() -> None:
    both = [("a", START), ("b", START), *sampled(*COUNTED), ("a", COMPLETE), ("b", COMPLETE)]
    assert spent(*both, ("a", START), ("a", COMPLETE)) == (
        "900 J in 2 proofs, GPU 0: measured; not known for 1 more proof; "
        f"divided equally among proofs that ran at once; {NOT_SAID}"
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0.0, "0.00 J"),
        (1.234, "1.23 J"),
        (999.4, "999 J"),
        (999.6, "1.00 kJ"),
        (45_678.0, "45.7 kJ"),
        (3.6e6, "3.60 MJ"),
        (1e15, "1,000 TJ"),
        (-1.0, "?"),
        (float("nan"), "?"),
    ],
)
def test_joules(number: float, said: str) -> None:
    assert joules(number) == said
