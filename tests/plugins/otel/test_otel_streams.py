"""Every recorded stream, through ``--otlp-file``, against the figures that a correct reader finds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from proofstream.testing import InlineHost
from proofstream_otel import OtelPlugin


def export(kit: Any, name: str, folder: Path) -> tuple[list[Any], dict[str, Any]]:
    """Replay a stream into a file; return its spans, and the expected figures."""
    host = InlineHost(OtelPlugin(), {"file": str(folder)})
    host.feed(kit.stream(name))
    host.close()
    assert host.health()["lost_spans"] == 0
    expected = kit.WIRE / f"{name}.expect.json"
    return kit.read_file(folder / "traces.jsonl"), json.loads(expected.read_text()) if expected.exists() else {}


def named(spans: list[Any], name: str) -> list[Any]:
    """The spans of a name, or whose name begins with it and a space."""
    return [span for span in spans if span.name == name or span.name.startswith(f"{name} ")]


STREAMS = [
    "smollm2-135m-cpu",
    "endless-and-holes",
    "aborted-then-next",
    "ws-job-frames-lagged",
    "stark-without-proof",
]


@pytest.mark.parametrize("name", STREAMS)
def test_proofs_layers_and_rounds_are_those_of_the_stream(kit: Any, tmp_path: Path, name: str) -> None:
    spans, expected = export(kit, name, tmp_path)
    proofs = sorted(named(spans, "proof"), key=lambda span: span.start_unix_nano)
    assert len(proofs) == len(expected["proofs"])
    for proof, about in zip(proofs, expected["proofs"], strict=True):
        layers = [span for span in named(spans, "layer") if span.parent_span_id == proof.span_id]
        assert len(layers) == about["layers_started"]
        assert sum(len(layer.rounds()) for layer in layers) == about["rounds"]
        assert sum("proofstream.end_seen" not in layer.attributes for layer in layers) == about["layers_ended"]
        reported = sum(layer.attributes.get("proofstream.layer.reported_duration_ms", 0) for layer in layers)
        assert reported == about["duration_ms_sum"]
        assert (proof.status[0] == 2) == about["aborted"]


def test_a_layer_without_an_end_is_marked_but_not_an_error(kit: Any, tmp_path: Path) -> None:
    spans, expected = export(kit, "endless-and-holes", tmp_path)
    endless = [span for span in named(spans, "layer") if span.attributes.get("proofstream.end_seen") is False]
    assert sorted(span.attributes["proofstream.layer.index"] for span in endless) == expected["layers_without_end"]
    assert {span.status for span in endless} == {(0, "")}
    seen = {span.attributes["proofstream.layer.index"] for span in named(spans, "layer")}
    assert seen.isdisjoint(expected["layers_without_any_event"])
    assert named(spans, "proof")[0].attributes["proofstream.proof.num_layers"] == expected["num_layers"]


def test_an_aborted_proof_is_an_error_that_names_its_layer(kit: Any, tmp_path: Path) -> None:
    spans, expected = export(kit, "aborted-then-next", tmp_path)
    aborted = [span for span in named(spans, "proof") if span.status[0] == 2]
    assert [span.attributes["proofstream.aborted.layer"] for span in aborted] == [expected["aborted_in_layer"]]
    assert aborted[0].status == (2, "another proof started; in layer 9 MatMul")
    assert [span.status for span in named(spans, "layer") if span.status[0]] == [(2, "another proof started")]
    session = named(spans, "session")[0]
    assert session.attributes["proofstream.session.proofs"] == 2
    assert session.attributes["proofstream.session.aborted"] == 1


def test_lost_events_are_counted_on_the_session(kit: Any, tmp_path: Path) -> None:
    spans, expected = export(kit, "ws-job-frames-lagged", tmp_path)
    assert [s.attributes["proofstream.lost_events"] for s in named(spans, "session")] == [expected["lost_events"]]
    proof = named(spans, "proof")[0]
    assert proof.attributes["proofstream.job.id"]
    logs = [event for span in spans for event in span.events if event.name == "proofstream.log"]
    assert [event.attributes for event in logs] == [
        {"proofstream.log.level": "Warn", "proofstream.log.message": "lagged 17 events"}
    ]


def test_a_stark_proof_outside_of_any_proof_has_a_trace_of_its_own(kit: Any, tmp_path: Path) -> None:
    spans, expected = export(kit, "stark-without-proof", tmp_path)
    starks = named(spans, "stark_proof")
    assert len(starks) == expected["stark"]
    assert starks[0].attributes["proofstream.stark.reported_duration_ms"] == expected["stark_duration_ms"]
    session = named(spans, "session")[0]
    assert starks[0].parent_span_id == ""
    assert starks[0].trace_id != session.trace_id
    assert starks[0].links == [(session.trace_id, session.span_id)]
    assert Counter(event.name for event in session.events) == {"proofstream.layer.activation": 5}


def test_every_variant_is_somewhere_in_the_trace(kit: Any, tmp_path: Path) -> None:
    spans, _ = export(kit, "serde-all-variants", tmp_path)
    assert {span.name.partition(" ")[0] for span in spans} == {
        "session",
        "proof",
        "layer",
        "weight_opening",
        "weight_binding",
        "stark_proof",
    }
    events = Counter(event.name for span in spans for event in span.events)
    lines = [json.loads(line) for line in (kit.WIRE / "serde-all-variants.jsonl").read_text().splitlines()]
    kinds = Counter(kind for line in lines for kind in line)
    assert events["proofstream.log"] == kinds["Log"]
    assert events["proofstream.sumcheck.round"] == kinds["SumcheckRound"]
    assert events["proofstream.attention.heatmap"] == kinds["AttentionHeatmap"]
    assert events["proofstream.layer.activation"] == kinds["LayerActivation"]
    assert events["proofstream.circuit.compiled"] == kinds["CircuitCompiled"]
    statuses = sum(span.attributes.get("proofstream.gpu_status.count", 0) for span in spans)
    assert statuses == kinds["GpuStatus"]


def test_a_replay_gives_the_same_bytes(kit: Any, tmp_path: Path) -> None:
    for folder in ("first", "second"):
        export(kit, "aborted-then-next", tmp_path / folder)
    assert (tmp_path / "first" / "traces.jsonl").read_bytes() == (tmp_path / "second" / "traces.jsonl").read_bytes()


def test_the_placeholders_of_real_producers_are_not_published(kit: Any, tmp_path: Path) -> None:
    spans, _ = export(kit, "smollm2-135m-cpu", tmp_path)
    proof = named(spans, "proof")[0]
    assert "proofstream.proof.reported_duration_ms" not in proof.attributes
    assert proof.attributes["proofstream.gpu_status.count"] == 211
    assert not [key for span in spans for key in span.attributes if "utilization" in key]
    with_rounds = [span for span in named(spans, "layer") if span.attributes["proofstream.rounds.total"]]
    assert not [span for span in with_rounds if "proofstream.layer.reported_rounds" in span.attributes]
