"""What spans hold: one small proof down to the last byte, then the cases that differ from it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

import proofstream as ps
from proofstream.testing import START_UNIX_NANO, InlineHost, envelopes
from proofstream_otel import OtelPlugin
from proofstream_otel.traces.parents import parse_traceparent

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def export(kit: Any, folder: Path, items: Any, **config: Any) -> dict[str, Any]:
    """Export to a file; the spans by name."""
    host = InlineHost(OtelPlugin(), {"file": str(folder), **config})
    host.feed(items)
    host.close()
    return {span.name: span for span in kit.read_file(folder / "traces.jsonl")}


def at(ms: int) -> str:
    """A test time as OTLP JSON has it."""
    return str(START_UNIX_NANO + ms * 1_000_000)


def test_a_small_proof_is_exactly_this(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes(kit.small_proof(rounds=1)))
    host.close()
    layer, proof, session = [
        json.loads(line)["resourceSpans"][0] for line in (tmp_path / "traces.jsonl").read_bytes().splitlines()
    ]
    assert layer["scopeSpans"] == [
        {
            "scope": {"name": "proofstream", "version": "0"},
            "spans": [
                {
                    "traceId": "99bbd9c4db2f5e4772ce93435d9f0ac2",
                    "spanId": "939292eaa724693a",
                    "parentSpanId": "ea0c2c17af0cc896",
                    "flags": 257,
                    "name": "layer MatMul",
                    "kind": 1,
                    "startTimeUnixNano": at(2),
                    "endTimeUnixNano": at(4),
                    "attributes": [
                        {"key": "proofstream.layer.index", "value": {"intValue": "0"}},
                        {"key": "proofstream.layer.kind", "value": {"stringValue": "MatMul"}},
                        {
                            "key": "proofstream.layer.input_shape",
                            "value": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "4"}]}},
                        },
                        {
                            "key": "proofstream.layer.output_shape",
                            "value": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "2"}]}},
                        },
                        {"key": "proofstream.layer.trace_cost", "value": {"intValue": "8"}},
                        {"key": "proofstream.layer.claim", "value": {"doubleValue": 0.5}},
                        {"key": "proofstream.layer.proof_kind", "value": {"stringValue": "Sumcheck"}},
                        {"key": "proofstream.layer.final_claim", "value": {"doubleValue": 0.125}},
                        {"key": "proofstream.layer.reported_duration_ms", "value": {"intValue": "3"}},
                        {"key": "proofstream.rounds.total", "value": {"intValue": "1"}},
                        {"key": "proofstream.rounds.announced", "value": {"intValue": "1"}},
                        {"key": "proofstream.rounds.recorded", "value": {"intValue": "1"}},
                        {"key": "proofstream.rounds.dropped", "value": {"intValue": "0"}},
                    ],
                    "events": [
                        {
                            "timeUnixNano": at(3),
                            "name": "proofstream.sumcheck.round",
                            "attributes": [
                                {"key": "proofstream.round.index", "value": {"intValue": "0"}},
                                {"key": "proofstream.round.total", "value": {"intValue": "1"}},
                                {"key": "proofstream.round.degree", "value": {"intValue": "2"}},
                                {
                                    "key": "proofstream.round.coefficients",
                                    "value": {"stringValue": "1,2,3,4;10,11,12,13;100,101,102,103"},
                                },
                                {"key": "proofstream.round.claim", "value": {"doubleValue": 0.25}},
                            ],
                        }
                    ],
                    "droppedEventsCount": 0,
                    "links": [],
                    "status": {},
                }
            ],
        }
    ]
    assert proof["scopeSpans"][0]["spans"] == [
        {
            "traceId": "99bbd9c4db2f5e4772ce93435d9f0ac2",
            "spanId": "ea0c2c17af0cc896",
            "flags": 257,
            "name": "proof",
            "kind": 1,
            "startTimeUnixNano": at(1),
            "endTimeUnixNano": at(5),
            "attributes": [
                {"key": "proofstream.session.id", "value": {"stringValue": "test-session"}},
                {"key": "proofstream.time.source", "value": {"stringValue": "envelope"}},
                {"key": "proofstream.proof.ordinal", "value": {"intValue": "0"}},
                {"key": "proofstream.proof.model", "value": {"stringValue": "mlp"}},
                {"key": "proofstream.proof.backend", "value": {"stringValue": "cpu-gkr"}},
                {"key": "proofstream.proof.num_layers", "value": {"intValue": "1"}},
                {
                    "key": "proofstream.proof.input_shape",
                    "value": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "4"}]}},
                },
                {
                    "key": "proofstream.proof.output_shape",
                    "value": {"arrayValue": {"values": [{"intValue": "1"}, {"intValue": "2"}]}},
                },
                {"key": "proofstream.proof.reported_layer_proofs", "value": {"intValue": "1"}},
                {"key": "proofstream.proof.reported_weight_openings", "value": {"intValue": "0"}},
                {"key": "proofstream.proof.reported_weight_binding_mode", "value": {"stringValue": "sequential"}},
                {"key": "proofstream.proof.layers_opened", "value": {"intValue": "1"}},
                {"key": "proofstream.proof.layers_closed", "value": {"intValue": "1"}},
                {"key": "proofstream.rounds.total", "value": {"intValue": "1"}},
                {"key": "proofstream.lost_events", "value": {"intValue": "0"}},
                {"key": "proofstream.self_time", "value": {"doubleValue": 0.002}},
            ],
            "events": [],
            "droppedEventsCount": 0,
            "links": [{"traceId": "aa25336be0cfb3c7756637d748af9126", "spanId": "36fe2ea39528613d"}],
            "status": {},
        }
    ]
    resource = {pair["key"]: pair["value"]["stringValue"] for pair in session["resource"]["attributes"]}
    assert resource["service.name"] == "proofstream"
    assert resource["service.instance.id"] == "test-instance"


def test_the_trace_of_a_proof_is_published(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    derived = host.feed(envelopes(kit.small_proof()))
    host.close()
    proof = next(span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "proof")
    assert derived == [ps.TraceStarted(proof=0, trace_id=proof.trace_id, span_id=proof.span_id, sampled=True)]


def test_layers_of_one_proof_share_its_trace_and_two_proofs_share_none(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes([*kit.small_proof(), *kit.small_proof()]))
    host.close()
    spans = kit.read_file(tmp_path / "traces.jsonl")
    assert len({span.span_id for span in spans}) == len(spans) == 5
    by_trace: dict[str, list[str]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span.name)
    assert sorted(map(sorted, by_trace.values())) == [["layer MatMul", "proof"], ["layer MatMul", "proof"], ["session"]]


def test_a_log_line_is_on_the_innermost_open_span(kit: Any, tmp_path: Path) -> None:
    def log(message: str) -> ps.Log:
        return ps.Log(level=ps.LogLevel.Info, message=message)

    items = [log("before"), kit.proof_start(), log("in"), kit.layer_start(), log("deep"), kit.layer_end()]
    spans = export(kit, tmp_path, envelopes([*items, kit.proof_complete(), log("after")]))
    said = {
        name: [event.attributes["proofstream.log.message"] for event in span.events if event.name == "proofstream.log"]
        for name, span in spans.items()
    }
    assert {name: texts for name, texts in said.items() if texts} == {
        "session": ["before", "after"],
        "proof": ["in"],
        "layer MatMul": ["deep"],
    }


def test_a_circuit_and_its_tensors_are_numbers_on_the_proof(kit: Any, tmp_path: Path) -> None:
    node = ps.CircuitNode(
        layer_idx=0,
        node_id=1,
        kind=ps.LayerKind.MatMul,
        input_shape=(1, 4),
        output_shape=(1, 2),
        trace_cost=2**63,
        input_layers=[],
    )
    circuit = ps.CircuitCompiled(
        total_layers=2, input_shape=(1, 4), output_shape=(1, 2), nodes=[node, node], has_simd=False, simd_num_blocks=0
    )
    heatmap = ps.attention_heatmap(layer_idx=0, head_idx=1, num_heads=2, scores=[[0.0, 1.0], [0.5, float("nan")]])
    activation = ps.activation(
        layer_idx=0, node_id=1, kind=ps.LayerKind.MatMul, output_shape=(1, 4), values=[0, 1, 2, 3]
    )
    spans = export(kit, tmp_path, envelopes([circuit, activation, heatmap, *kit.small_proof()]))
    proof = spans["proof"]
    assert proof.attributes["proofstream.circuit.nodes"] == 2
    assert proof.attributes["proofstream.circuit.trace_cost.digits"] == str(2**64)
    events = {event.name: event.attributes for event in proof.events}
    assert events["proofstream.attention.heatmap"] == {
        "proofstream.layer.index": 0,
        "proofstream.attention.head": 1,
        "proofstream.attention.num_heads": 2,
        "proofstream.attention.seq_len": 2,
        "proofstream.stats.sample_size": 3,
        "proofstream.stats.mean": 0.5,
        "proofstream.stats.min": 0.0,
        "proofstream.stats.max": 1.0,
    }
    assert events["proofstream.layer.activation"]["proofstream.stats.sparsity"] == 0.25
    assert set(events) == {
        "proofstream.attention.heatmap",
        "proofstream.layer.activation",
        "proofstream.circuit.compiled",
    }


def test_an_unknown_kind_is_kept_as_it_was_written(kit: Any, tmp_path: Path) -> None:
    raw = b'{"Fused":{"note":"' + b"x" * 5000 + b'"}}'
    unknown = msgspec.structs.replace(envelopes([])[0], event=ps.UnknownEvent(kind="Fused"), raw=raw, origin="producer")
    items = envelopes([kit.proof_start()], close=False)
    spans = export(kit, tmp_path, [*items, unknown])
    (event,) = spans["proof"].events
    assert event.name == "proofstream.event"
    assert event.attributes["proofstream.event.kind"] == "Fused"
    assert event.attributes["proofstream.event.body"].startswith('{"Fused":{"note":"xxx')
    assert len(event.attributes["proofstream.event.body"]) == 1024


def test_weights_and_bindings_are_spans_of_the_proof(kit: Any, tmp_path: Path) -> None:
    parts = [
        ps.WeightOpeningStart(weight_node_id=7, eval_point_len=12),
        ps.WeightOpeningEnd(weight_node_id=7, duration_ms=5, commitment_hex="00ff"),
        ps.AggregatedBindingStart(num_claims=3, num_matrices=2),
        ps.AggregatedBindingEnd(duration_ms=9, estimated_calldata_felts=100),
    ]
    spans = export(kit, tmp_path, envelopes([kit.proof_start(), *parts, kit.proof_complete(duration_ms=40)]))
    assert spans["weight_opening"].attributes == {
        "proofstream.weight.node_id": 7,
        "proofstream.weight.eval_point_len": 12,
        "proofstream.weight.reported_duration_ms": 5,
        "proofstream.weight.commitment": "00ff",
    }
    assert spans["weight_binding"].attributes["proofstream.binding.estimated_calldata_felts"] == 100
    assert spans["weight_binding"].parent_span_id == spans["proof"].span_id
    assert spans["proof"].attributes["proofstream.proof.reported_duration_ms"] == 40


@pytest.mark.parametrize(("step_ns", "shown"), [(1_000_000, 0), (1_000, 5)])
def test_a_reported_duration_of_zero_is_left_out_beside_a_measured_millisecond(
    kit: Any, tmp_path: Path, step_ns: int, shown: int
) -> None:
    events = [
        kit.proof_start(),
        kit.layer_start(),
        msgspec.structs.replace(kit.layer_end(), duration_ms=0),
        ps.WeightOpeningStart(weight_node_id=7, eval_point_len=12),
        ps.WeightOpeningEnd(weight_node_id=7, duration_ms=0, commitment_hex="00ff"),
        ps.AggregatedBindingStart(num_claims=3, num_matrices=2),
        ps.AggregatedBindingEnd(duration_ms=0, estimated_calldata_felts=100),
        ps.StarkProofStart(num_activation_layers=1, num_add_layers=0, num_layernorm_layers=0),
        ps.StarkProofEnd(duration_ms=0),
        kit.proof_complete(duration_ms=0),
    ]
    spans = export(kit, tmp_path, envelopes(events, step_ns=step_ns))
    reported = [key for span in spans.values() for key in span.attributes if key.endswith("reported_duration_ms")]
    assert len(reported) == shown


def test_lost_events_and_refused_lines_are_counted_on_the_session(kit: Any, tmp_path: Path) -> None:
    lost = ps.EventsLost(where="intake", counts={"SumcheckRound": 3, "Log": 1})
    closed = ps.SessionClosed(outcome="lost", reason="connection reset", refused=2)
    spans = export(kit, tmp_path, envelopes([lost, closed], close=False))
    session = spans["session"]
    assert session.attributes["proofstream.lost_events"] == 4
    assert session.attributes["proofstream.session.outcome"] == "lost"
    assert session.attributes["proofstream.session.reason"] == "connection reset"
    assert session.attributes["proofstream.session.refused"] == 2
    assert session.events[0].attributes == {
        "proofstream.lost.where": "intake",
        "proofstream.lost.count": 4,
        "proofstream.lost.kinds": ["Log=1", "SumcheckRound=3"],
    }


def test_plugin_events_about_an_ended_session_do_not_reopen_it(kit: Any, tmp_path: Path) -> None:
    items = envelopes(kit.small_proof())
    late = msgspec.structs.replace(items[-1], event=ps.UnknownEvent(kind="Summary"), raw=b"{}", origin="other")
    health = ps.PluginHealth(
        plugin="otel", status="ready", reason=None, depth=0, delivered=1, dropped={}, counters={}, lag_s=0.0
    )
    spans = export(kit, tmp_path, [*items, late, msgspec.structs.replace(late, event=health, origin="host")])
    assert sorted(spans) == ["layer MatMul", "proof", "session"]
    assert len(kit.read_file(tmp_path / "traces.jsonl")) == 3


def test_a_session_that_resumes_after_its_end_has_another_span(kit: Any, tmp_path: Path) -> None:
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed([*envelopes(kit.small_proof()), *envelopes(kit.small_proof())])
    host.close()
    sessions = [span for span in kit.read_file(tmp_path / "traces.jsonl") if span.name == "session"]
    assert len({span.span_id for span in sessions}) == 2
    assert len({span.trace_id for span in sessions}) == 1


def test_two_jobs_interleave_without_touching_each_other(kit: Any, tmp_path: Path) -> None:
    def job(name: str, event: ps.ProofEvent) -> ps.Decoded:
        return ps.Decoded(event=event, raw=ps.encode_event(event), job_id=name)

    events = [job(name, event) for event in kit.small_proof() for name in ("a", "b")]
    host = InlineHost(OtelPlugin(), {"file": str(tmp_path)})
    host.feed(envelopes(events))
    host.close()
    spans = kit.read_file(tmp_path / "traces.jsonl")
    proofs = {span.attributes["proofstream.job.id"]: span for span in spans if span.name == "proof"}
    layers = [span for span in spans if span.name == "layer MatMul"]
    assert {layer.parent_span_id for layer in layers} == {proof.span_id for proof in proofs.values()}
    assert [len(layer.rounds()) for layer in layers] == [2, 2]


class TestParents:
    """The trace that a proof is in."""

    def test_a_traceparent_of_the_session_is_the_parent_of_all(self, kit: Any, tmp_path: Path) -> None:
        spans = export(kit, tmp_path, envelopes(kit.small_proof(), traceparent=TRACEPARENT))
        assert {span.trace_id for span in spans.values()} == {"0af7651916cd43dd8448eb211c80319c"}
        assert spans["proof"].parent_span_id == spans["session"].parent_span_id == "b7ad6b7169203331"
        assert spans["layer MatMul"].parent_span_id == spans["proof"].span_id

    def test_a_traceparent_of_the_proof_wins(self, kit: Any, tmp_path: Path) -> None:
        items = envelopes(kit.small_proof(), traceparent=TRACEPARENT)
        own = TRACEPARENT.replace("0af7", "ffff")
        items[1] = msgspec.structs.replace(items[1], traceparent=own)
        spans = export(kit, tmp_path, items)
        assert spans["proof"].trace_id.startswith("ffff")
        assert spans["session"].trace_id.startswith("0af7")

    def test_an_invalid_parent_makes_a_root_and_one_warning(
        self, kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        items = envelopes([*kit.small_proof(), *kit.small_proof()], traceparent="00-zz-1-01")
        spans = export(kit, tmp_path, items)
        assert spans["proof"].parent_span_id == ""
        assert [record.getMessage() for record in caplog.records] == [
            "traceparent '00-zz-1-01' is not valid; the trace begins here instead"
        ]

    def test_an_unsampled_parent_drops_the_proof_with_one_warning(
        self, kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        host = InlineHost(OtelPlugin(), {"file": str(tmp_path), "metrics": False, "logs": False})
        derived = host.feed(envelopes([*kit.small_proof(), *kit.small_proof()], traceparent=TRACEPARENT[:-2] + "00"))
        host.close()
        assert [event.sampled for event in derived if isinstance(event, ps.TraceStarted)] == [False, False]
        assert not (tmp_path / "traces.jsonl").exists()  # nothing was written to it
        assert host.health() == {"spans_unsampled": 5, "spans_written": 0, "lost_spans": 0}
        assert len([r for r in caplog.records if "is not sampled" in r.getMessage()]) == 1

    def test_the_current_span_wins_over_the_environment(
        self, kit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from opentelemetry.sdk.trace import TracerProvider

        plugin = OtelPlugin()
        with TracerProvider(shutdown_on_exit=False).get_tracer("app").start_as_current_span("request") as request:
            captured = plugin.proofstream_capture()
        monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
        items = envelopes(kit.small_proof(), traceparent=TRACEPARENT)
        items[0] = msgspec.structs.replace(items[0], captured={"otel": captured})
        spans = export(kit, tmp_path, items)
        assert spans["proof"].trace_id == f"{request.get_span_context().trace_id:032x}"
        assert spans["proof"].parent_span_id == f"{request.get_span_context().span_id:016x}"

    def test_nothing_is_captured_where_no_span_is_current(self) -> None:
        assert OtelPlugin().proofstream_capture() is None

    @pytest.mark.parametrize(
        "bad",
        [
            "",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        ],
    )
    def test_these_are_not_valid(self, bad: str) -> None:
        assert parse_traceparent(bad) is None

    def test_a_later_version_may_have_more_fields(self) -> None:
        parent = parse_traceparent("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
        assert parent is not None
        assert parent.sampled


class TestRounds:
    """How sumcheck rounds are exported."""

    def test_aggregate_keeps_only_counts(self, kit: Any, tmp_path: Path) -> None:
        spans = export(kit, tmp_path, envelopes(kit.small_proof(rounds=3)), rounds="aggregate")
        layer = spans["layer MatMul"]
        assert layer.events == []
        assert layer.dropped_events == 0
        counts = {key: value for key, value in layer.attributes.items() if ".rounds." in key}
        assert counts == {"proofstream.rounds.total": 3, "proofstream.rounds.announced": 3}

    def test_off_keeps_the_count_alone(self, kit: Any, tmp_path: Path) -> None:
        spans = export(kit, tmp_path, envelopes(kit.small_proof(rounds=3)), rounds="off")
        counts = {key: value for key, value in spans["layer MatMul"].attributes.items() if ".rounds." in key}
        assert counts == {"proofstream.rounds.total": 3}

    def test_a_round_without_a_layer_is_counted_on_the_proof(self, kit: Any, tmp_path: Path) -> None:
        items = [kit.proof_start(), kit.sumcheck_round(layer_idx=5), kit.proof_complete()]
        proof = export(kit, tmp_path, envelopes(items))["proof"]
        assert proof.attributes["proofstream.rounds.unplaced"] == 1
        assert proof.attributes["proofstream.rounds.total"] == 1
        assert len(proof.rounds()) == 1

    def test_degree_three_has_four_coefficients(self, kit: Any, tmp_path: Path) -> None:
        poly = ps.RoundPolyDeg3(c0=kit.element(1), c1=kit.element(2), c2=kit.element(3), c3=kit.element(4))
        event = ps.SumcheckRound(
            layer_idx=0, round=0, total_rounds=1, poly_deg2=None, poly_deg3=poly, claim_value_approx=None
        )
        items = [kit.proof_start(), kit.layer_start(), event, kit.layer_end(), kit.proof_complete()]
        (found,) = export(kit, tmp_path, envelopes(items))["layer MatMul"].events
        assert found.attributes["proofstream.round.degree"] == 3
        assert found.attributes["proofstream.round.coefficients"] == "1,2,3,4;2,3,4,5;3,4,5,6;4,5,6,7"
        assert "proofstream.round.claim" not in found.attributes


def test_an_ordinary_run_logs_nothing(kit: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    export(kit, tmp_path, envelopes(kit.small_proof()))
    assert caplog.records == []
