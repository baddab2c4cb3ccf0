"""GPU figures on the spans of a proof and its layers, derived from the samples inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import proofstream as ps
from proofstream.testing import START_UNIX_NANO, InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.traces import describe
from proofstream_otel.traces.gpu_samples import MAX_SAMPLES, GpuSamples
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr

S = 1_000_000_000


def reading(device: str = "GPU-1", **figures: Any) -> ps.GpuReading:
    """A device's reading."""
    return ps.GpuReading(id=device, state="ok", **figures)


def sample(samples: GpuSamples, second: float, *devices: ps.GpuReading) -> None:
    """Add a sample."""
    samples.add_sample(round(second * S), ps.GpuTelemetry(devices=list(devices)))


def test_the_spans_of_a_proof_and_a_layer(kit: Any, tmp_path: Path) -> None:
    items = [kit.proof_start(), kit.layer_start(), kit.layer_end(), kit.proof_complete()]
    proof = envelopes(items, step_ns=10 * S)  # the proof from 10 s, the layer from 20 s to 30 s, until 40 s
    telemetry = [
        ps.Envelope(
            seq=0,
            time_unix_nano=START_UNIX_NANO + second * S,
            session_id="host",
            origin="gpu",
            event=ps.GpuTelemetry(
                devices=[reading(energy_j=100.0 * second, memory_used_bytes=second * 2**20, utilization=second / 40)]
            ),
            raw=b"",
        )
        for second in range(5, 45, 5)
    ]
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(sorted([*telemetry, *proof], key=lambda envelope: envelope.time_unix_nano))
    host.close()
    spans = {span.name: span.attributes for span in kit.read_file(tmp_path / "traces.jsonl")}
    assert {key: spans["layer MatMul"][key] for key in spans["layer MatMul"] if ".gpu." in key} == {
        Attr.GPU_ENERGY: 1000.0,
        Attr.GPU_ENERGY_SOURCE: "measured",
        Attr.GPU_ENERGY_DEVICES: ["GPU-1"],
        Attr.GPU_ENERGY_CHOSEN_BY: "all",
        Attr.GPU_PEAK_MEMORY: 30 * 2**20,
        Attr.GPU_MEAN_UTILIZATION: pytest.approx(25 / 40),
        Attr.GPU_SAMPLES: 3,
    }
    assert spans["proof"][Attr.GPU_SAMPLES] == 7
    assert not [key for key in spans["session"] if ".gpu." in key]


def test_an_interval_without_a_sample_has_no_figures() -> None:
    samples = GpuSamples()
    assert samples.attributes_of(0, 10) == {}
    sample(samples, 1, reading(energy_j=1.0))
    sample(samples, 9, reading(energy_j=2.0))
    assert samples.attributes_of(2 * S, 8 * S) == {}


def test_energy_says_what_it_rests_on() -> None:
    found = ps.GpuEnergy(
        joules=None, source=None, devices=(), missing=("GPU-1",), chosen_by="visible_devices", shared=False
    )
    assert safe.attributes(describe.energy_of(found)) == {
        Attr.GPU_ENERGY_MISSING: ["GPU-1"],
        Attr.GPU_ENERGY_CHOSEN_BY: "visible_devices",
    }
    shared = msgspec.structs.replace(found, joules=0.0, source="integrated", devices=("GPU-0",), shared=True)
    assert safe.attributes(describe.energy_of(shared)) == {
        Attr.GPU_ENERGY: 0.0,
        Attr.GPU_ENERGY_SOURCE: "integrated",
        Attr.GPU_ENERGY_DEVICES: ["GPU-0"],
        Attr.GPU_ENERGY_MISSING: ["GPU-1"],
        Attr.GPU_ENERGY_CHOSEN_BY: "visible_devices",
        Attr.GPU_ENERGY_SHARED: True,
    }
    assert describe.energy_of(None) == {}


def test_proofs_at_once_are_charged_once(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})

    def feed(second: int, event: ps.ProofEvent, job: str | None) -> None:
        origin = "gpu" if job is None else ps.PRODUCER
        time = START_UNIX_NANO + second * S
        host.feed(
            [ps.Envelope(seq=0, time_unix_nano=time, session_id="s", origin=origin, event=event, raw=b"", job_id=job)]
        )

    for job in ("a", "b"):
        feed(0, kit.proof_start(), job)
    for second in range(11):
        feed(second, ps.GpuTelemetry(devices=[reading(energy_j=7.0, power_w=100.0)]), None)
    for job in ("a", "b"):
        feed(10, kit.proof_complete(), job)
    host.close()
    proofs = [span.attributes for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof"]
    assert [proof[Attr.GPU_ENERGY] for proof in proofs] == [500.0, 500.0]
    assert [(proof[Attr.GPU_ENERGY_SOURCE], proof[Attr.GPU_ENERGY_SHARED]) for proof in proofs] == [
        ("integrated", True)
    ] * 2


def test_all_gpus_together_and_their_parts_once() -> None:
    samples = GpuSamples()
    mig = reading("MIG-1", parent_id="GPU-2", memory_used_bytes=2, energy_j=50.0)
    sample(samples, 0, reading(memory_used_bytes=1, utilization=0.5), reading("GPU-2", memory_used_bytes=3), mig)
    found = samples.attributes_of(0, S)
    assert found == {
        Attr.GPU_PEAK_MEMORY: 4,
        Attr.GPU_MEAN_UTILIZATION: 0.5,
        Attr.GPU_SAMPLES: 1,
    }
    only_mig = GpuSamples()
    sample(only_mig, 0, reading("GPU-2"), mig)
    assert only_mig.attributes_of(0, S)[Attr.GPU_PEAK_MEMORY] == 2


def test_the_latest_samples_are_kept() -> None:
    samples = GpuSamples()
    for second in range(2 * MAX_SAMPLES):
        sample(samples, second, reading())
    sample(samples, 5, reading())  # out of order
    assert samples.attributes_of(0, 2 * MAX_SAMPLES * S)[Attr.GPU_SAMPLES] == MAX_SAMPLES
