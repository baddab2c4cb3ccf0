"""Every stream, through the command, gives its expected trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from shape import LAYERS_SHARE, envelope_lines, shaped

from proofstream import ProofComplete

DATA = Path(__file__).parents[1] / "data" / "wire"
SHARED = Path(__file__).parents[3] / "shared" / "wire"
STREAMS = sorted({*DATA.glob("*.jsonl"), *SHARED.glob("*.jsonl")}) if SHARED.is_dir() else sorted(DATA.glob("*.jsonl"))
Span = dict[str, Any]
ROUND = "proofstream.sumcheck.round"
ERROR = 2


def expectation(stream: Path) -> dict[str, Any]:
    path = stream.with_suffix(".expect.json")
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def attributes(span: Span) -> dict[str, Any]:
    return {a["key"]: next(iter(a["value"].values())) for a in span.get("attributes", [])}


def by_name(spans: list[Span], name: str) -> list[Span]:
    found = [s for s in spans if s["name"].split()[0] == name]
    return sorted(found, key=lambda s: int(s["startTimeUnixNano"]))


def rounds(spans: list[Span]) -> int:
    return sum(event["name"] == ROUND for span in spans for event in span.get("events", []))


@pytest.mark.parametrize("stream", STREAMS, ids=lambda p: f"{p.parents[1].name}-{p.stem}")
def test_stream_becomes_the_expected_trace(
    stream: Path, proofstream_command: Any, spans_in: Callable[[Path], list[Span]], tmp_path: Path
) -> None:
    out = tmp_path / "otlp"
    result = proofstream_command("run", stream, "--otlp-file", out, "--no-console")
    expect = expectation(stream)
    refused = expect.get("rejected_lines", [])
    assert result.status == (1 if refused else 0), result.err
    for line in refused:
        assert f"line {line} refused: " in result.err
    assert result.err.count(" refused: ") == len(refused)
    spans = spans_in(out)
    if "proofs" in expect:
        check_proofs(expect, spans)
    session = attributes(by_name(spans, "session")[0])
    if "lost_events" in expect:
        assert int(session["proofstream.lost_events"]) == expect["lost_events"]
    if "stark" in expect:
        (stark,) = by_name(spans, "stark_proof")
        took = int(stark["endTimeUnixNano"]) - int(stark["startTimeUnixNano"])
        assert took == expect["stark_duration_ms"] * 1_000_000


def check_proofs(expect: dict[str, Any], spans: list[Span]) -> None:
    proofs = by_name(spans, "proof")
    assert len(proofs) == len(expect["proofs"])
    for proof, wanted in zip(proofs, expect["proofs"], strict=True):
        of_it = [s for s in spans if s["traceId"] == proof["traceId"]]
        layers = by_name(of_it, "layer")
        assert len(layers) == wanted["layers_started"]
        unended = [s for s in layers if attributes(s).get("proofstream.end_seen") is False]
        assert len(layers) - len(unended) == wanted["layers_ended"]
        assert rounds(layers) == wanted["rounds"]
        reported = sum(int(attributes(s).get("proofstream.layer.reported_duration_ms", 0)) for s in layers)
        assert reported == wanted["duration_ms_sum"]
        assert (proof["status"].get("code") == ERROR) is wanted["aborted"]
        for layer in layers:
            assert layer["parentSpanId"] == proof["spanId"]
            assert int(proof["startTimeUnixNano"]) <= int(layer["startTimeUnixNano"])
            assert int(layer["endTimeUnixNano"]) <= int(proof["endTimeUnixNano"])
    if "aborted_in_layer" in expect:
        (aborted,) = [p for p in proofs if p["status"].get("code") == ERROR]
        assert f"layer {expect['aborted_in_layer']}" in aborted["status"]["message"]
    if "layers_without_end" in expect:
        unended = [s for s in by_name(spans, "layer") if attributes(s).get("proofstream.end_seen") is False]
        assert sorted(int(attributes(s)["proofstream.layer.index"]) for s in unended) == expect["layers_without_end"]
        assert all(s["status"].get("code", 0) != ERROR for s in unended)


COMPLETE = ("smollm2-135m-cpu", "endless-and-holes", "aborted-then-next", "ws-job-frames-lagged")


@pytest.mark.parametrize("name", COMPLETE)
def test_a_proof_of_the_genuine_shape_is_as_long_as_it_was(
    name: str, proofstream_command: Any, spans_in: Callable[[Path], list[Span]], tmp_path: Path
) -> None:
    """The times are the envelopes'. What the proof reports, 0 on a CPU, and its layers' own times do not shorten it."""
    timed = shaped(DATA / f"{name}.jsonl")
    stream = tmp_path / "shaped.jsonl"
    stream.write_bytes(b"".join(envelope_lines(timed)))
    result = proofstream_command("run", stream, "--otlp-file", tmp_path / "otlp", "--no-console")
    assert result.status == 0, result.err
    spans = spans_in(tmp_path / "otlp")
    check_proofs(expectation(DATA / f"{name}.jsonl"), spans)
    complete = next(time for time, decoded in reversed(timed) if isinstance(decoded.event, ProofComplete))
    (proof,) = [span for span in by_name(spans, "proof") if span["status"].get("code") != ERROR]
    assert int(proof["endTimeUnixNano"]) == complete
    layers = [span for span in by_name(spans, "layer") if span["traceId"] == proof["traceId"]]
    ended = [s for s in layers if attributes(s).get("proofstream.end_seen") is not False]
    last_end = max(int(span["endTimeUnixNano"]) for span in ended)
    start = int(proof["startTimeUnixNano"])
    assert (complete - start) == LAYERS_SHARE * (last_end - start)


def test_the_same_file_gives_the_same_trace(
    proofstream_command: Any, spans_in: Callable[[Path], list[Span]], tmp_path: Path
) -> None:
    stream = DATA / "aborted-then-next.jsonl"
    for name in ("one", "two"):
        assert proofstream_command("run", stream, "--otlp-file", tmp_path / name, "--no-console").status == 0
    assert spans_in(tmp_path / "one") == spans_in(tmp_path / "two")


def test_replaying_a_recording_gives_the_same_trace(
    proofstream_command: Any, spans_in: Callable[[Path], list[Span]], tmp_path: Path
) -> None:
    text = (DATA / "ws-job-frames-lagged.jsonl").read_text()
    recording = tmp_path / "proof.jsonl"
    live = proofstream_command("run", "-", "--otlp-file", "live", "--record", recording, "--no-console", stdin=text)
    assert live.status == 0, live.err
    again = proofstream_command("run", recording, "--otlp-file", "again", "--no-console")
    assert again.status == 0, again.err
    first, second = spans_in(tmp_path / "live"), spans_in(tmp_path / "again")
    key = ("traceId", "spanId", "name", "startTimeUnixNano", "endTimeUnixNano")
    assert [[s[k] for k in key] for s in first] == [[s[k] for k in key] for s in second]
    assert len(first) > 20
