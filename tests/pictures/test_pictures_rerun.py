"""The viewer draws proofs of every size whole, in frame and without complaints. The pictures are kept for review."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from genuine import envelope_lines
from PIL import Image

from proofstream import (
    CircuitCompiled,
    CircuitNode,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    ProofComplete,
    ProofEvent,
    ProofStart,
    RoundPoly,
    SecureField,
    SumcheckRound,
)
from proofstream.testing import InlineHost, envelopes
from proofstream_rerun import RerunPlugin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

KINDS = (
    LayerKind.RMSNorm,
    LayerKind.Attention,
    LayerKind.Add,
    LayerKind.MatMul,
    LayerKind.Activation,
    LayerKind.MatMul,
)
RED = (0xFF, 0x3B, 0x30)


def record(source: str | Path, path: Path) -> None:
    """Run the command on a source and write the recording to a file."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "RERUN"))}
    done = subprocess.run(
        [sys.executable, "-m", "proofstream", "run", str(source), "--rerun", f"file:{path}", "--quiet"],
        env=kept,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""


def assert_right(picture: Any) -> None:
    """Check that no view complains, nothing is cut off, and the 3D view is not mostly empty."""
    assert picture.complaints == {}
    assert picture.cut_off() == []
    assert picture.share() > 0.01
    assert max(picture.extent()) > 0.5


def coloured(picture: Any, rgb: tuple[int, int, int]) -> int:
    """Count the pixels of the 3D view that have roughly a colour."""
    pixels = np.asarray(Image.open(picture.scene).convert("RGB"), np.int16)
    return int((np.abs(pixels - rgb).max(axis=2) < 40).sum())


@pytest.mark.parametrize(
    ("name", "source", "share"),
    [
        ("digits", "demo:digits", 0.15),
        ("transformer", "demo:transformer", 0.2),
        ("smollm2", "smollm2-135m-cpu.jsonl", 0.6),
    ],
)
def test_a_proof_while_it_runs_and_when_it_is_done(
    name: str, source: str, share: float, viewer: Any, wire_data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "proof.rrd"
    record(wire_data / source if source.endswith(".jsonl") else source, path)
    (recording,) = viewer.open(path)
    viewer.show(recording, share=share)
    running = viewer.shoot(f"{name}-running")
    viewer.show(recording)
    finished = viewer.shoot(f"{name}-finished")
    for picture in (running, finished):
        assert_right(picture)
    assert running.share() < finished.share()


def test_an_aborted_proof_is_red_and_the_next_one_is_not(viewer: Any, wire_data: Path, tmp_path: Path) -> None:
    record(wire_data / "aborted-then-next.jsonl", tmp_path / "proof.rrd")
    (aborted,) = viewer.open(tmp_path / "proof.rrd")
    viewer.show(aborted)
    red = viewer.shoot("aborted")
    viewer.close()
    (completed,) = viewer.open(tmp_path / "proof-2.rrd")
    viewer.show(completed)
    green = viewer.shoot("after-aborted")
    for picture in (red, green):
        assert_right(picture)
    assert coloured(red, RED) > 100
    assert coloured(green, RED) == 0


def record_events(events: Iterable[ProofEvent], path: Path) -> None:
    """Write the recording of some events to a file; its name makes it another session than others."""
    host = InlineHost(RerunPlugin(), {"connections": [f"file:{path}"]})
    host.feed(envelopes(events, session_id=path.stem))
    host.close()


@pytest.mark.parametrize(("layers", "rounds"), [(3, 210), (12, 210), (281, 13), (450, 210)])
def test_proofs_of_extreme_sizes(layers: int, rounds: int, viewer: Any, tmp_path: Path) -> None:
    path = tmp_path / "proof.rrd"
    record_events(proof_of(layers, rounds), path)
    (recording,) = viewer.open(path)
    viewer.show(recording)
    assert_right(viewer.shoot(f"{layers}-layers"))


@pytest.mark.parametrize("name", ["mlp", "error-in-walk"])
def test_a_genuine_proof_without_a_circuit(name: str, viewer: Any, tmp_path: Path) -> None:
    stream = tmp_path / "stream.jsonl"
    stream.write_bytes(b"".join(line + b"\n" for line in envelope_lines(name)))
    record(stream, tmp_path / "proof.rrd")
    (recording,) = viewer.open(tmp_path / "proof.rrd")
    viewer.show(recording)
    assert_right(viewer.shoot(f"genuine-{name}"))


def test_a_second_file_in_one_viewer_has_a_camera_of_its_own(viewer: Any, tmp_path: Path) -> None:
    for layers in (3, 281):
        record_events(proof_of(layers, 6), tmp_path / f"{layers}.rrd")
    (small,) = viewer.open(tmp_path / "3.rrd")
    (large,) = (one for one in viewer.open(tmp_path / "281.rrd") if one.store_id != small.store_id)
    viewer.show(large)
    assert_right(viewer.shoot("second-file"))


def test_phases_before_in_and_after_a_proof(viewer: Any, tmp_path: Path) -> None:
    record_events(with_phases(), tmp_path / "proof.rrd")
    (recording,) = viewer.open(tmp_path / "proof.rrd")
    viewer.show(recording)
    assert_right(viewer.shoot("phases"))


def with_phases() -> Iterator[ProofEvent]:
    """Yield a proof that commits to its weights after its layers, in three steps, and is followed by one more phase."""
    *walk, complete = proof_of(6, 8)
    yield from walk
    yield PhaseStart(name="weight commitments")
    for _ in range(3):
        yield from phase("commit")
    yield PhaseEnd(name="weight commitments")
    yield complete
    yield from phase("attention proof")


def phase(name: str) -> Iterator[ProofEvent]:
    """Yield a phase of some milliseconds."""
    yield PhaseStart(name=name)
    yield from (PhaseProgress(name=name, done=done, total=9) for done in range(9))
    yield PhaseEnd(name=name)


def proof_of(layers: int, rounds: int) -> Iterator[ProofEvent]:
    """Yield a proof with a circuit, with the same number of rounds in every layer."""
    shape = (1, 64)
    kinds = [KINDS[layer % len(KINDS)] for layer in range(layers)]
    nodes = [
        CircuitNode(
            layer_idx=layer,
            node_id=layer,
            kind=kind,
            input_shape=shape,
            output_shape=shape,
            trace_cost=64 << (layer % 20),
            input_layers=[before for before in (layer - 1, layer - 3 * (kind is LayerKind.Add)) if 0 <= before < layer],
        )
        for layer, kind in enumerate(kinds)
    ]
    yield CircuitCompiled(
        total_layers=layers, input_shape=shape, output_shape=shape, nodes=nodes, has_simd=False, simd_num_blocks=0
    )
    yield ProofStart(model_name="extreme", backend="cpu", num_layers=layers, input_shape=shape, output_shape=shape)
    chance = random.Random(1)
    for node in reversed(nodes):
        yield from walk_of(node, rounds, chance)
    yield ProofComplete(
        duration_ms=1000, num_layer_proofs=layers, num_weight_openings=0, weight_binding_mode="aggregated"
    )


def walk_of(node: CircuitNode, rounds: int, chance: random.Random) -> Iterator[ProofEvent]:
    """Yield the events of one layer's reduction."""
    yield LayerStart(
        layer_idx=node.layer_idx,
        kind=node.kind,
        input_shape=node.input_shape,
        output_shape=node.output_shape,
        trace_cost=node.trace_cost,
        claim_value_approx=chance.random(),
        gpu_device=None,
    )
    one = SecureField(1, 2, 3, 4)
    for number in range(rounds):
        yield SumcheckRound(
            layer_idx=node.layer_idx,
            round=number,
            total_rounds=rounds,
            poly_deg2=RoundPoly(c0=one, c1=one, c2=one),
            poly_deg3=None,
            claim_value_approx=chance.random(),
        )
    yield LayerEnd(
        layer_idx=node.layer_idx,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=chance.random(),
        duration_ms=rounds,
        rounds_completed=rounds,
    )
