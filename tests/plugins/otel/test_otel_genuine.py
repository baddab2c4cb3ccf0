"""Recordings that real provers made, through --otlp-file: every count and every time against the truth beside them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from genuine import EXPECT, NAMES, bare_lines, envelope_lines, timed_lines

from proofstream.testing import PluginHost

NEAR_S = 0.02
DURATIONS = ("proofstream.proof.duration", "proofstream.proof.last_duration")
WITH_PROOFS = [name for name in NAMES if EXPECT[name]["proofs"]]


def replay(kit: Any, folder: Path, lines: Iterable[bytes]) -> tuple[list[Any], list[Any]]:
    """Run a file with these lines; return the spans and the points of metrics."""
    folder.mkdir(exist_ok=True)
    file = folder / "recording.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    os.utime(file, (1_796_067_700, 1_796_067_700))
    out = folder / "otlp"
    host = PluginHost("otel", config={"otel": {"file": str(out)}}, live=False)
    host.feed(file)
    assert host.close().ok
    spans = kit.read_file(out / "traces.jsonl")
    return spans, kit.read_metric_file(out / "metrics.jsonl")


def seconds(span: Any) -> float:
    """How long a span is."""
    return float(span.end_unix_nano - span.start_unix_nano) / 1e9


def proofs_of(spans: list[Any]) -> list[Any]:
    """The spans of proofs, in the order in which they began."""
    return sorted(
        (span for span in spans if span.name == "proof"), key=lambda span: span.attributes["proofstream.proof.ordinal"]
    )


def inside(spans: list[Any], proof: Any, name: str) -> list[Any]:
    """The spans directly below a proof whose names begin so."""
    return [span for span in spans if span.parent_span_id == proof.span_id and span.name.startswith(name)]


def check_counts(name: str, spans: list[Any]) -> None:
    """Compare all that can be counted in the recording with the spans."""
    by_id = {(span.trace_id, span.span_id) for span in spans}
    assert all(not span.parent_span_id or (span.trace_id, span.parent_span_id) in by_id for span in spans)
    proofs = proofs_of(spans)
    assert len(proofs) == len(EXPECT[name]["proofs"])
    for proof, truth in zip(proofs, EXPECT[name]["proofs"], strict=True):
        layers = inside(spans, proof, "layer ")
        assert len(layers) == truth["layer_starts"]
        assert proof.attributes["proofstream.rounds.total"] == truth["rounds"]
        assert sum(layer.attributes["proofstream.rounds.total"] for layer in layers) == truth["rounds"]
        assert sum(len(layer.rounds()) for layer in layers) == truth["rounds"]
        assert truth["layer_ends"] <= proof.attributes["proofstream.proof.layers_closed"] <= truth["layer_starts"]
        assert (proof.status[0] == 0) == truth["complete"]
        for layer in layers:
            assert proof.start_unix_nano <= layer.start_unix_nano <= layer.end_unix_nano <= proof.end_unix_nano
    kinds: Counter[str] = Counter(EXPECT[name]["kinds"])
    assert len([span for span in spans if span.name == "stark_proof"]) == kinds["StarkProofStart"]
    noted = Counter(event.name for span in spans for event in span.events)
    assert noted["proofstream.layer.activation"] == kinds["LayerActivation"]
    assert noted["proofstream.event"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_without_times_the_counts_are_right_and_no_time_is_claimed(kit: Any, tmp_path: Path, name: str) -> None:
    spans, points = replay(kit, tmp_path, bare_lines(name))
    check_counts(name, spans)
    assert {kind: kit.values_of(points, kind) for kind in DURATIONS} == {kind: {} for kind in DURATIONS}
    for proof in proofs_of(spans):
        assert proof.attributes["proofstream.time.source"] == "reconstructed"
        assert proof.attributes["proofstream.duration.source"] == "unknown"
        assert "proofstream.self_time" not in proof.attributes
        assert "proofstream.aborted.silence" not in proof.attributes
        assert not inside(spans, proof, "before_layers") + inside(spans, proof, "after_layers")
    worth = {span.attributes["proofstream.duration.source"] for span in spans if span.name.startswith("layer")}
    assert worth <= {"reported", "unknown"}


@pytest.mark.parametrize("name", NAMES)
def test_with_times_counts_and_times_are_right(kit: Any, tmp_path: Path, name: str) -> None:
    spans, points = replay(kit, tmp_path, envelope_lines(name))
    check_counts(name, spans)
    for proof, truth in zip(proofs_of(spans), EXPECT[name]["measured"], strict=False):
        whole = truth.get("start_to_complete_s")
        if whole is None:
            continue
        assert seconds(proof) == pytest.approx(whole, abs=NEAR_S)
        assert "proofstream.duration.source" not in proof.attributes
        (after,) = inside(spans, proof, "after_layers")
        assert seconds(after) == pytest.approx(whole - truth["start_to_last_layer_end_s"], abs=NEAR_S)
    complete = [proof for proof in proofs_of(spans) if proof.status[0] == 0]
    total = sum(seconds(proof) for proof in complete)
    found = kit.values_of(points, DURATIONS[0])
    by_outcome = {series[-1]: value for series, value in found.items()}
    assert by_outcome.get("complete", 0) == pytest.approx(total)


@pytest.mark.parametrize("name", WITH_PROOFS)
def test_the_layers_and_what_surrounds_them_make_up_the_proof(kit: Any, tmp_path: Path, name: str) -> None:
    _, points = replay(kit, tmp_path, envelope_lines(name))
    whole = sum(kit.values_of(points, "proofstream.proof.duration").values())
    stages = kit.values_of(points, "proofstream.proof.phase.duration")
    if name == "error-in-walk":
        assert whole == 0, "the recording breaks off in it, so it took longer"
        assert {series[-1] for series in stages} == {"before_layers"}
    else:
        assert sum(stages.values()) == pytest.approx(whole)


def test_a_reported_duration_is_the_duration(kit: Any, tmp_path: Path) -> None:
    lines = [
        line.replace(b'"ProofComplete":{"duration_ms":0', b'"ProofComplete":{"duration_ms":1717')
        for line in bare_lines("mlp")
    ]
    assert lines != bare_lines("mlp")
    spans, points = replay(kit, tmp_path, lines)
    assert [list(kit.values_of(points, kind).values()) for kind in DURATIONS] == [[1.717], [1.717]]
    (proof,) = proofs_of(spans)
    assert proof.attributes["proofstream.duration.source"] == "reported"
    assert proof.attributes["proofstream.proof.reported_duration_ms"] == 1717
    assert "proofstream.self_time" not in proof.attributes, "it was not observed"


def killed_in_the_commitments(name: str) -> list[bytes]:
    """A recording of a prover that was killed 5.8 s after its last layer."""
    times = [timed.time_unix_nano for timed in timed_lines(name)][:-1]
    closed = {"SessionClosed": {"outcome": "lost", "reason": "connection reset", "refused": 0}}
    last = {
        "v": 1,
        "seq": len(times),
        "time_unix_nano": times[-1] + 5_800_000_000,
        "session_id": "genuine",
        "origin": "host",
        "event": closed,
    }
    return [*list(envelope_lines(name))[:-1], json.dumps(last).encode()]


@pytest.mark.parametrize("name", ["mlp", "transformer-block"])
def test_a_prover_that_is_killed_in_its_commitments_died_in_no_layer(kit: Any, tmp_path: Path, name: str) -> None:
    spans, points = replay(kit, tmp_path, killed_in_the_commitments(name))
    (proof,) = proofs_of(spans)
    reason = "the session was lost: connection reset"
    assert proof.status == (2, f"{reason}; after the last layer (7 of 7), after 5.8 s of silence")
    aborted = {key: value for key, value in proof.attributes.items() if ".aborted." in key}
    assert aborted == {
        "proofstream.aborted.reason": reason,
        "proofstream.aborted.phase": "after_layers",
        "proofstream.aborted.silence": 5.8,
    }
    assert {layer.status for layer in inside(spans, proof, "layer ")} == {(0, "")}
    (after,) = inside(spans, proof, "after_layers")
    assert seconds(after) == pytest.approx(5.8, abs=NEAR_S)
    outcomes = {series[-1] for series in kit.values_of(points, DURATIONS[0])}
    assert outcomes == {"aborted"}


@pytest.mark.parametrize(
    ("events", "where", "phase"),
    [
        (8, "before the first layer", "before_layers"),
        (12, "in layer 6 MatMul", "layers"),
        (18, "between layers, after 1 of 7", "layers"),
        (55, "after the last layer (7 of 7)", "after_layers"),
    ],
)
@pytest.mark.parametrize("timed", [True, False])
def test_where_a_recording_ends_is_where_the_proof_stood(
    kit: Any, tmp_path: Path, *, events: int, where: str, phase: str, timed: bool
) -> None:
    lines = list(envelope_lines("mlp")) if timed else bare_lines("mlp")
    (proof,) = proofs_of(replay(kit, tmp_path, lines[:events])[0])
    assert proof.status[0] == 2
    assert proof.status[1].endswith(f"; {where}")
    assert proof.attributes["proofstream.aborted.phase"] == phase
    assert ("proofstream.aborted.layer" in proof.attributes) == where.startswith("in layer")


def test_an_error_in_the_walk_is_in_the_layer_where_the_walk_stood(kit: Any, tmp_path: Path) -> None:
    (proof,) = proofs_of(replay(kit, tmp_path, envelope_lines("error-in-walk"))[0])
    assert proof.attributes["proofstream.aborted.layer"] == 8
    assert "; in layer 8 " in proof.status[1]
