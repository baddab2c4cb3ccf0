"""What was sent is what Jaeger has: span by span, event by event, with the Collector between."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

WIRE = Path(__file__).parents[1] / "data" / "wire"
STREAMS = sorted(path.stem for path in WIRE.glob("*.jsonl"))


@pytest.mark.parametrize("name", STREAMS)
def test_jaeger_has_the_trace_of_every_stream(
    kit: Any, command: Any, collector: Any, jaeger: Any, tmp_path: Path, name: str
) -> None:
    # From standard input every session is a new one, so no other test has sent this trace.
    result = command(
        "run", "-", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console",
        stdin=(WIRE / f"{name}.jsonl").read_text("utf-8"),
    )  # fmt: skip
    assert result.status == (1 if name == "malformed" else 0), result.err
    kit.assert_stored(jaeger, kit.spans_in(tmp_path / "sent"))


@pytest.mark.parametrize("transport", ["otlp_http", "otlp_grpc"])
def test_jaeger_has_the_trace_of_a_real_proof(
    kit: Any, command: Any, collector: Any, jaeger: Any, tmp_path: Path, transport: str
) -> None:
    result = command(
        "run", "demo:digits", "--otlp", getattr(collector, transport), "--otlp-file", "sent", "--no-console"
    )
    assert result.status == 0, result.err
    sent = kit.spans_in(tmp_path / "sent")
    assert Counter(span["name"].split()[0] for span in sent)["proof"] == 1
    assert any(event["name"] == "proofstream.sumcheck.round" for span in sent for event in span["events"])
    kit.assert_stored(jaeger, sent)


def test_jaeger_lists_the_service_and_its_operations(kit: Any, command: Any, collector: Any, jaeger: Any) -> None:
    result = command("run", "demo:digits", "--otlp", collector.otlp_http, "--no-console")
    assert result.status == 0, result.err

    def operations() -> set[str]:
        answer = kit.get(f"{jaeger.url}/api/v3/operations", service="proofstream")
        return {one["name"] for one in answer["operations"]}

    kit.eventually(lambda: {"session", "proof", "layer MatMul"} <= operations())


def test_jaeger_has_the_sums_of_short_phases(
    kit: Any, command: Any, collector: Any, jaeger: Any, tmp_path: Path
) -> None:
    events = [{"PhaseStart": {"name": "commit"}}, {"PhaseStart": {"name": "hash"}}, {"PhaseEnd": {"name": "hash"}}]
    lines = [
        json.dumps(
            {"v": 1, "seq": seq, "time_unix_nano": 10**18 + at_us * 1000, "session_id": tmp_path.name, "event": event}
        )
        for seq, (at_us, event) in enumerate(
            zip((0, 10, 60, 5000), [*events, {"PhaseEnd": {"name": "commit"}}], strict=True)
        )
    ]
    words = ("run", "-", "--otlp", collector.otlp_http, "--otlp-file", "sent", "--no-console")
    result = command(*words, stdin="\n".join(lines) + "\n")
    assert result.status == 0, result.err
    sent = kit.spans_in(tmp_path / "sent")
    (commit,) = [kit.comparable(span) for span in sent if span["name"] == "phase commit"]
    assert commit["attributes"]["proofstream.phase.summed.durations"] == [5e-05]
    kit.assert_stored(jaeger, sent)
