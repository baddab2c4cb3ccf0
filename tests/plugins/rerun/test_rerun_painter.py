"""The painter: which recording each event goes to, what late viewers get, and when rows are written."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rerun_bench import (
    Bench,
    Pages,
    activation,
    circuit,
    job,
    layer_end,
    layer_start,
    proof_complete,
    proof_start,
    sumcheck_round,
    whole_layer,
    whole_proof,
)

from proofstream import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    AttentionHeatmap,
    Decoded,
    Envelope,
    EventsLost,
    GpuReading,
    GpuSnapshot,
    GpuStatus,
    GpuTelemetry,
    LayerKind,
    LayerProofKind,
    Log,
    LogLevel,
    PluginHealth,
    ProofAborted,
    ProofEvent,
    StarkProofEnd,
    StarkProofStart,
    StateBytes,
    StateBytesMoved,
    StateProgramCost,
    SumcheckRound,
    TraceStarted,
    UnknownEvent,
    WeightOpeningEnd,
    WeightOpeningStart,
    encode_event,
)
from proofstream.testing import START_UNIX_NANO, envelopes, read_stream
from proofstream_rerun.open_recordings import LINGER_S, MAX_LINGERING, MAX_RUNNING
from proofstream_rerun.painter import MAX_HELD, MAX_HELD_BYTES, MAX_WAITING_BYTES
from proofstream_rerun.picture.canvas import MAX_ENTITIES
from proofstream_rerun.picture.layout import MAX_LAYERS
from proofstream_rerun.picture.texts import MAX_KINDS


@pytest.fixture
def bench() -> Bench:
    return Bench()


# A proof


def test_a_replay_gives_a_proofs_recording_the_same_id(bench: Bench) -> None:
    stream = envelopes(whole_proof(3))
    pages, again = bench.draw(stream), Bench().draw(stream)
    (recording,) = pages.recordings.values()
    assert list(again.recordings) == [recording.recording_id]
    assert recording.application_id == "proofstream: 3 layers"
    assert recording.name == "tiny on cpu, proof 0"
    assert recording.started_ns == START_UNIX_NANO + 1_000_000
    facts = recording.properties["proofstream"]
    assert (facts["model"], facts["backend"], facts["layers"]) == ("tiny", "cpu", 3)
    assert (facts["session"], facts["time_source"], facts["source"]) == ("test-session", "envelope", "test")
    assert facts["proofstream_version"]
    assert facts["rerun_version"]
    assert pages.calls[recording.recording_id][-1] == "end"


def test_progress_is_layers_left_behind_over_layers_announced(bench: Bench) -> None:
    pages = bench.draw(envelopes(whole_proof(4)))
    progress = pages.values(pages.named("tiny"), "proof/progress", "scalars")
    assert progress == [[0.0], [0.25], [0.5], [0.75], [1.0], [1.0], [1.0]]  # the last two span the rest of the proof


def test_a_walk_from_the_last_layer_to_the_first_leaves_a_trail_below_proved_layers(bench: Bench) -> None:
    pages = bench.draw(envelopes(whole_proof(4)))
    trail = pages.values(pages.named("tiny"), "gkr/trail", "strips")
    ends = [(strips[0][0][0], strips[0][1][0]) for strips in trail]
    assert [end for _, end in ends] == [ends[0][1]] * 4
    assert [start for start, _ in ends] == sorted((start for start, _ in ends), reverse=True)


def test_each_row_of_a_group_repeats_all_its_boxes(bench: Bench) -> None:
    pages = bench.draw(envelopes(whole_proof(3)))
    rows = pages.values(pages.named("tiny"), "gkr/layers/1", "centers")
    assert len(rows[-1]) == 1 + 3  # the node, and its rounds
    assert [len(row) for row in rows] == sorted(len(row) for row in rows)


def test_state_timelines_show_where_layers_stand(bench: Bench) -> None:
    stream = [
        proof_start(5),
        *whole_layer(4),
        layer_start(3),  # without an end event
        *whole_layer(2),
        layer_start(1),
        layer_end(1, LayerProofKind.Skipped),
        layer_start(0),
        ProofAborted(reason="no memory"),
    ]
    pages = bench.draw(envelopes(stream))
    recording = pages.named("tiny")
    assert pages.states(recording, "lanes/5_layers/4_MatMul") == ["proving", "proved"]
    assert pages.states(recording, "lanes/5_layers/3_MatMul") == ["proving", "end not seen"]
    assert pages.states(recording, "lanes/5_layers/1_MatMul") == ["proving", "skipped"]
    assert pages.states(recording, "lanes/5_layers/0_MatMul") == ["proving", "aborted"]


def test_many_layers_share_a_state_timeline(bench: Bench) -> None:
    bench.draw(envelopes([proof_start(100), *whole_layer(99)], close=False), close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    paths = [path for path in bench.pages.rows[recording] if path.startswith("lanes/5_layers/")]
    assert paths == ["lanes/5_layers/98-99"]
    assert bench.pages.states(recording, paths[0]) == ["proving", "partly done"]


def test_a_large_group_is_not_repeated_in_every_write(bench: Bench) -> None:
    walk = [event for index in range(97, 92, -1) for event in whole_layer(index, rounds=210)]
    rounds = [sumcheck_round(92, number, 210) for number in range(8)]
    stream = envelopes([proof_start(100), *walk, layer_start(92), *rounds], close=False)
    bench.draw(stream[:-8], close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    before = len(bench.pages.rows[recording]["gkr/layers/91-97"])
    for envelope in stream[-8:]:
        bench.draw([envelope], close=False)
        bench.write()
    drawn = bench.pages.values(recording, "gkr/layers/91-97", "centers")
    assert len(drawn) - before == 2
    bench.painter.close()
    beads = 1  # layer 91 has not been reached
    assert len(bench.pages.values(recording, "gkr/layers/91-97", "centers")[-1]) == 5 * 211 + 1 + 8 + beads


def test_an_aborted_proof_is_marked_where_it_died(bench: Bench) -> None:
    pages = bench.draw(envelopes([proof_start(3), *whole_layer(2), layer_start(1), ProofAborted(reason="no *memory*")]))
    recording = pages.named("tiny")
    assert pages.values(recording, "gkr/aborted", "labels") == [["aborted in layer 1 MatMul: no *memory*"]]
    assert pages.texts(recording, "logs/proof")[-1] == "proof aborted in layer 1 MatMul: no *memory*"
    assert "ABORTED in layer 1 MatMul" in pages.texts(recording, "proof/status")[-1]
    assert r"no \*memory\*" in pages.texts(recording, "proof/status")[-1]
    assert pages.values(recording, "logs/proof", "level")[-1] == ["ERROR"]
    assert pages.rows[recording]["gkr/cursor"][-1][2] == {"is_recursive": [False]}


def test_there_is_a_cursor_for_each_active_device(bench: Bench) -> None:
    stream = [proof_start(4), layer_start(3, device=0), layer_start(2, device=1), layer_end(3), layer_end(2)]
    for event in envelopes(stream, close=False):
        bench.draw([event], close=False)
        bench.write()
    recording = bench.pages.named("tiny")
    labels = bench.pages.values(recording, "gkr/cursor", "labels")
    assert labels == [["layer 3 MatMul"], ["layer 3 MatMul", "layer 2 MatMul"], ["layer 2 MatMul"], []]
    assert bench.pages.states(recording, "lanes/3_devices/gpu_0") == ["MatMul", None]


def test_time_never_goes_back_and_begins_with_the_proof(bench: Bench) -> None:
    stream = envelopes([activation(0), *whole_proof(3), Log(level=LogLevel.Info, message="late")])
    stepping = [
        Envelope(
            seq=e.seq,
            time_unix_nano=e.time_unix_nano - (1_500_000 if e.seq % 3 == 0 else 0),
            session_id=e.session_id,
            origin=e.origin,
            event=e.event,
            raw=e.raw,
        )
        for e in stream
    ]
    pages = bench.draw(stepping)
    for rows in pages.rows[pages.named("tiny")].values():
        times = [prover_ns for prover_ns, _, _ in rows]
        assert times == sorted(times)
        assert times[0] >= 0


# Which recording


def test_events_before_a_proof_belong_to_the_proof_that_follows(bench: Bench) -> None:
    log = Log(level=LogLevel.Warn, message="forward pass")
    pages = bench.draw(envelopes([*whole_proof(2), circuit(3), activation(0), *whole_proof(3)]))
    first, second = pages.named("proof 0"), pages.named("proof 1")
    assert "inference/mean" not in pages.rows[first]
    assert pages.values(second, "inference/mean", "values")[0]
    pages = Bench().draw(envelopes([log, *whole_proof(2)]))
    assert "forward pass" in pages.texts(pages.named("proof 0"), "logs/proof")


def test_events_after_a_proof_belong_to_it_until_the_next_one(bench: Bench) -> None:
    late, later = Log(level=LogLevel.Info, message="late"), Log(level=LogLevel.Info, message="later")
    pages = bench.draw(envelopes([*whole_proof(2), late, *whole_proof(2), later]))
    assert "late" in pages.texts(pages.named("proof 0"), "logs/proof")
    assert pages.texts(pages.named("proof 1"), "logs/proof")[-1] == "later"


def test_jobs_of_one_session_are_told_apart(bench: Bench) -> None:
    one, other = job(whole_proof(2), "one"), job(whole_proof(3), "other")
    mixed = [event for pair in zip(one, other, strict=False) for event in pair] + other[len(one) :]
    pages = bench.draw(envelopes(mixed))
    jobs = {recording.properties["proofstream"]["job"]: r for r, recording in pages.recordings.items()}
    assert set(jobs) == {"one", "other"}
    assert pages.values(jobs["one"], "proof/progress", "scalars")[-1] == [1.0]
    assert len(pages.values(jobs["other"], "gkr/rounds", "Round")) == 9


def test_a_session_without_a_proof_has_a_recording_of_its_own(bench: Bench) -> None:
    stream = [activation(0), activation(1), Log(level=LogLevel.Info, message="said")]
    pages = bench.draw(envelopes(stream))
    recording = pages.named("outside of any proof")
    assert pages.values(recording, "inference/mean", "values")[0][0]["shape"] == [2]
    assert pages.texts(recording, "logs/proof") == ["said"]
    assert bench.painter.counters()["drawn_proofs"] == 0


def test_a_stark_without_a_proof_is_shown_at_once(bench: Bench) -> None:
    start = StarkProofStart(num_activation_layers=1, num_add_layers=2, num_layernorm_layers=3)
    bench.draw(envelopes([Log(level=LogLevel.Info, message="before"), start], close=False), close=False)
    bench.write()
    recording = bench.pages.named("outside of any proof")
    assert bench.pages.states(recording, "lanes/4_parts/stark") == ["proving"]
    assert bench.pages.texts(recording, "logs/proof") == ["before"]
    bench.draw(envelopes([start, StarkProofEnd(duration_ms=320)])[2:])
    assert bench.pages.states(recording, "lanes/4_parts/stark") == ["proving", None]
    assert bench.pages.texts(recording, "logs/stark")[-1] == "STARK ended after 320 ms (reported)"


def test_a_stark_whose_job_fell_silent_ends_in_its_own_recording(bench: Bench) -> None:
    start = StarkProofStart(num_activation_layers=1, num_add_layers=2, num_layernorm_layers=3)
    lines = [Decoded(event=start, raw=encode_event(start), job_id=job) for job in ("silent", *["loud"] * 15)]
    stream = envelopes(lines, close=False, step_ns=300 * 10**9)
    pages = bench.draw(stream, close=False)
    bench.write()
    silent, loud = pages.recordings
    assert pages.states(silent, "lanes/4_parts/stark") == ["proving", None]
    assert pages.states(loud, "lanes/4_parts/stark")[-1] == "proving"


def test_weight_openings_and_bindings_have_state_timelines_and_lines(bench: Bench) -> None:
    stream = [
        proof_start(1),
        WeightOpeningStart(weight_node_id=7, eval_point_len=3),
        WeightOpeningStart(weight_node_id=8, eval_point_len=3),
        WeightOpeningEnd(weight_node_id=8, duration_ms=2, commitment_hex="aa"),
        WeightOpeningEnd(weight_node_id=7, duration_ms=3, commitment_hex="bb"),
        AggregatedBindingStart(num_claims=2, num_matrices=1),
        AggregatedBindingEnd(duration_ms=40, estimated_calldata_felts=1000),
        proof_complete(),
    ]
    pages = bench.draw(envelopes(stream))
    recording = pages.named("tiny")
    assert pages.states(recording, "lanes/4_parts/weight_openings") == ["opening", None]
    assert pages.states(recording, "lanes/4_parts/weight_binding") == ["binding", None]
    assert len(pages.texts(recording, "logs/weights")) == 4
    assert pages.values(recording, "proof/binding_ms", "scalars") == [[40.0]]


def test_measured_devices_are_drawn_in_every_open_recording(bench: Bench) -> None:
    reading = GpuReading(id="GPU-1", index=0, name="H200", state="ok", utilization=0.5, memory_used_bytes=2**30)
    start = job([proof_start(1)], "one") + job([proof_start(1)], "other")
    telemetry = GpuTelemetry(devices=[reading])
    stream: list[ProofEvent | Decoded] = [*start, telemetry, *job([proof_complete()], "one"), telemetry]
    pages = bench.draw(envelopes(stream))
    counts = sorted(len(rows["gpu/utilization/gpu_0"]) for rows in pages.rows.values())
    assert counts == [1, 2]
    assert all(rows["gpu/memory_gib/gpu_0"][0][2] == {"scalars": [1.0]} for rows in pages.rows.values())


def test_reported_figures_that_are_made_up_are_not_drawn(bench: Bench) -> None:
    def status(done: int, utilization: float, free: int) -> GpuStatus:
        device = GpuSnapshot(device_id=0, device_name="H200", utilization=utilization, free_memory_bytes=free)
        return GpuStatus(devices=[device], matmul_done=1, matmul_total=4, layers_done=done, layers_total=4)

    honest: list[ProofEvent] = [status(1, 0.9, 2**30), status(2, 0.8, 2**31)]
    made_up: list[ProofEvent] = [status(1, 0.25, 2**30), status(2, 0.5, 2**30)]
    pages = bench.draw(envelopes([proof_start(4), *made_up]))
    assert not [path for path in pages.rows[pages.named("tiny")] if path.startswith("gpu/")]
    pages = Bench().draw(envelopes([proof_start(4), *honest]))
    recording = pages.named("tiny")
    assert pages.values(recording, "gpu/reported/utilization/gpu_0", "scalars") == [[0.9], [0.8]]
    assert pages.values(recording, "gpu/reported/free_gib/gpu_0", "scalars") == [[2.0]]


def test_a_claim_that_is_halved_each_round_is_not_drawn(bench: Bench) -> None:
    def one_round(number: int, claim: float) -> SumcheckRound:
        return SumcheckRound(
            layer_idx=0, round=number, total_rounds=3, poly_deg2=None, poly_deg3=None, claim_value_approx=claim
        )

    claims = (0.5, 0.25, 0.7)  # the layer starts from 0.5
    rounds = [one_round(number, claim) for number, claim in enumerate(claims)]
    bench.draw(envelopes([proof_start(1), layer_start(0), *rounds[:2]], close=False), close=False)
    bench.write()
    bench.draw(envelopes([rounds[2], layer_end(0), proof_complete()])[1:])
    recording = bench.pages.named("tiny")
    ((first,), (second,), (third,)) = bench.pages.values(recording, "gkr/rounds", "scalars")
    assert (first, third) == (0.5, 0.7)
    assert math.isnan(second)


def test_a_duration_of_0_that_was_filled_in_is_not_written(bench: Bench) -> None:
    bound = [
        AggregatedBindingStart(num_claims=2, num_matrices=1),
        AggregatedBindingEnd(duration_ms=0, estimated_calldata_felts=9),
    ]
    opened = [
        WeightOpeningStart(weight_node_id=7, eval_point_len=3),
        WeightOpeningEnd(weight_node_id=7, duration_ms=0, commitment_hex="aa"),
    ]
    pages = bench.draw(envelopes([proof_start(1), *whole_layer(0), *opened, *bound, proof_complete()]))
    recording = pages.named("tiny")
    lines = [line for log in ("gkr", "weights", "proof") for line in pages.texts(recording, f"logs/{log}")]
    assert [line for line in lines if " 0 ms" in line] == []
    assert "[0] MatMul proved by Sumcheck in 1 ms (reported), 3 rounds seen, claim≈0.500000" in lines
    assert "opened weight 7, commitment aa" in lines
    assert "claims bound, about 9 field elements of calldata" in lines
    assert "proof/binding_ms" not in pages.rows[recording]


def test_state_programs_go_to_the_proof_that_they_name(bench: Bench) -> None:
    def cost(proof: int) -> StateProgramCost:
        group = StateBytes(group="mamba.conv", kind="recurrent", states=2, bytes=300)
        return StateProgramCost(
            proof=proof,
            circuit="c",
            convention="v",
            program="slot_zero",
            op="zero",
            recurrent_layers=2,
            bytes=300,
            states=[group],
        )

    moved = StateBytesMoved(
        circuit="c",
        convention="v",
        program="slot_zero",
        runs=2,
        sequences=3,
        bytes=900,
        states=[],
        timed_bytes=0,
        timed_ns=0,
    )
    pages = bench.draw(envelopes([*whole_proof(1), proof_start(1), cost(0), moved, moved, proof_complete(), cost(1)]))
    first, second = pages.named("proof 0"), pages.named("proof 1")
    assert "slot" in pages.texts(first, "state/programs")[-1]
    assert "state/moved/slot_zero_0" not in pages.rows[first]
    assert pages.values(second, "state/moved/slot_zero_0", "scalars") == [[900.0], [1800.0]]
    assert "300" in pages.texts(second, "state/programs")[-1]


def test_a_trace_becomes_a_property_and_stays_one_for_late_viewers(bench: Bench) -> None:
    trace = TraceStarted(proof=0, trace_id="ab" * 16, span_id="cd" * 8, sampled=True)
    bench.draw(envelopes([proof_start(1)], close=False), close=False)
    bench.write()
    bench.draw(envelopes([trace], close=False)[1:], close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    assert bench.pages.properties[recording]["trace"]["trace_id"] == "ab" * 16
    assert bench.pages.recordings[recording].properties["trace"]["span_id"] == "cd" * 8


def test_trouble_is_logged_once(bench: Bench) -> None:
    def health(status: str, dropped: int) -> PluginHealth:
        return PluginHealth(
            plugin="otel",
            status=status,
            reason=None,
            depth=0,
            delivered=1,
            dropped={"Log": dropped},
            counters={},
            lag_s=0.0,
        )

    lost = EventsLost(where="lane:rerun", counts={"SumcheckRound": 3})
    stream = [proof_start(1), health("ready", 0), health("ready", 5), health("ready", 5), health("failed", 5), lost]
    pages = bench.draw(envelopes(stream))
    assert pages.texts(pages.named("tiny"), "logs/host") == [
        "plugin otel is ready; 5 events dropped",
        "plugin otel is failed; 5 events dropped",
        "events lost in lane:rerun: 3 SumcheckRound",
    ]


def test_events_that_cannot_be_drawn_make_no_recording(bench: Bench) -> None:
    pages = bench.draw(envelopes([Decoded(event=UnknownEvent(kind="QuantumRound"), raw=b"{}")]))
    assert not pages.recordings


# Circuits


def test_a_circuit_that_comes_late_is_shown_and_the_layout_with_it(bench: Bench) -> None:
    bench.draw(envelopes([proof_start(6), *whole_layer(5)], close=False), close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    assert bench.pages.calls[recording] == ["begin", "write"]
    bench.draw(envelopes([circuit(6), *whole_layer(4)], close=False)[1:], close=False)
    bench.write()
    assert bench.pages.calls[recording][-1] == "show"
    assert bench.pages.statics[recording]["circuit/edges"] == 1
    rows = bench.pages.values(recording, "gkr/layers/5", "centers")
    assert len(rows[-1]) == 3  # rounds only: the circuit has the node


def test_unannounced_layers_find_room(bench: Bench) -> None:
    pages = bench.draw(envelopes([event for index in (40, 41, 90) for event in whole_layer(index)]))
    recording = pages.named("joined after its start")
    (path,) = (path for path in pages.rows[recording] if path.startswith("lanes/5_layers/90"))
    assert pages.states(recording, path)[0] == "proving"
    rounds = [len(row) for row in pages.values(recording, "gkr/rounds", "Round")]
    assert rounds == [1] * 9


def test_a_layer_without_room_is_counted(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        bench.draw(envelopes([proof_start(2), *whole_layer(2**60), *whole_layer(MAX_LAYERS)]))
    assert bench.painter.counters()["undrawn_marks"] == 2 * 5
    assert "10 undrawn marks" in caplog.text


def test_huge_announcements_are_bounded(bench: Bench) -> None:
    pages = bench.draw(envelopes([proof_start(2**63), layer_start(3), sumcheck_round(3, 2**40, 2**50), layer_end(3)]))
    recording = pages.named("tiny")
    assert pages.values(recording, "gkr/rounds", "Round") == [[2**40]]
    assert bench.painter.counters()["undrawn_marks"] == 1
    assert len(pages.rows[recording]) <= MAX_ENTITIES


# Activations and attention


def test_activations_become_one_tensor(bench: Bench) -> None:
    pages = bench.draw(envelopes([activation(0), activation(2, values=2), *whole_proof(3)]))
    (data,) = pages.values(pages.named("tiny"), "inference/activations", "data")
    assert data[0]["shape"] == [2, 4]
    (mean,) = pages.values(pages.named("tiny"), "inference/mean", "abscissa")
    assert mean[0]["buffer"] == [0, 2]


def test_activations_that_trickle_in_cost_bytes_in_proportion(bench: Bench) -> None:
    stream = envelopes([proof_start(64), layer_start(63), *(activation(i) for i in range(64))], close=False)
    for envelope in stream:
        bench.draw([envelope], close=False)
        bench.write()
    bench.draw(envelopes([layer_end(63), *whole_layer(62)])[1:])
    rows = bench.pages.values(bench.pages.named("tiny"), "inference/activations", "data")
    shapes = [row[0]["shape"][0] for row in rows]
    assert shapes[-1] == 64
    assert sum(shapes) <= 4 * 64


@pytest.mark.parametrize(
    ("scores", "seq_len", "shape"), [(16, 4, [1, 4, 4]), (12, 4, [1, 3, 4]), (7, 4, [1, 3, 3]), (0, 0, [1, 1, 1])]
)
def test_attention_need_not_be_square(bench: Bench, scores: int, seq_len: int, shape: list[int]) -> None:
    head = AttentionHeatmap(layer_idx=2, head_idx=0, num_heads=1, seq_len=seq_len, scores=[0.5] * scores)
    pages = bench.draw(envelopes([head, *whole_proof(3)]))
    (data,) = pages.values(pages.named("tiny"), "inference/attention/layer_002", "data")
    assert data[0]["shape"] == shape


def test_a_long_sequence_shows_its_first_queries_and_keys_in_matching_order(bench: Bench) -> None:
    scores: list[float | None] = [float(place) for place in range(100 * 100)]
    scores[3], scores[100] = 1e308, None
    head = AttentionHeatmap(layer_idx=2, head_idx=0, num_heads=1, seq_len=100, scores=scores)
    pages = bench.draw(envelopes([head, *whole_proof(3)]))

    (data,) = pages.values(pages.named("tiny"), "inference/attention/layer_002", "data")
    assert data[0]["shape"] == [1, 64, 64]
    drawn = data[0]["buffer"]
    assert drawn[:3] == [0.0, 1.0, 2.0]
    assert math.isnan(drawn[3])
    assert math.isnan(drawn[64])
    assert drawn[64 + 1] == 101.0
    assert bench.painter.counters()["undrawn_marks"] == 1


# Writing


def test_rows_wait_for_the_next_write(bench: Bench) -> None:
    stream = envelopes(whole_proof(3), close=False)
    bench.draw(stream[:5], close=False)
    assert not bench.pages.recordings
    bench.write()
    recording = bench.pages.named("tiny")
    bench.draw(stream[5:8], close=False)
    assert bench.pages.calls[recording] == ["begin", "write"]
    bench.draw(stream[8:], close=False)
    assert bench.pages.calls[recording] == ["begin", "write", "write"]  # the end of the proof makes a write due at once


def test_a_snapshot_shows_the_present_and_is_bounded(bench: Bench, wire_data: Path) -> None:
    stream = envelopes(read_stream(wire_data / "smollm2-135m-cpu.jsonl"))
    pages = bench.draw(stream, close=False)
    (recording,) = pages.recordings.values()
    late = Pages()
    late.begin_recording(recording)
    seen, missed = late.rows[recording.recording_id], pages.rows[recording.recording_id]
    assert seen.keys() == missed.keys()
    for path in seen:
        np.testing.assert_equal(seen[path][-1], missed[path][-1])  # NaN equals NaN here
    assert all(len(rows) <= 1024 for rows in seen.values())
    assert len(seen["gkr/trail"]) == 1
    assert late.statics[recording.recording_id].keys() >= {"/", "circuit/backbone", "circuit/labels", "circuit/graph"}


def test_ended_recordings_are_released(bench: Bench) -> None:
    count = MAX_LINGERING + 4
    stream = [event for name in range(count) for event in job(whole_proof(1), str(name))]
    bench.draw(envelopes(stream, close=False), close=False)
    ended = [recording for recording, calls in bench.pages.calls.items() if calls[-1] == "end"]
    assert len(ended) == 4


def test_a_recording_ends_a_while_after_the_next_proof_began(bench: Bench) -> None:
    cost = StateProgramCost(
        proof=0, circuit="c", convention="v", program="p", op="zero", recurrent_layers=1, bytes=7, states=[]
    )
    bench.draw(envelopes([*whole_proof(1), proof_start(1)], close=False), close=False)
    bench.draw(envelopes([cost], close=False)[1:], close=False)
    bench.write()
    bench.clock.advance(LINGER_S + 1)
    bench.painter.tick()
    first = bench.pages.named("proof 0")
    assert "7" in bench.pages.texts(first, "state/programs")[-1]
    assert bench.pages.calls[first][-1] == "end"
    bench.draw(envelopes([cost], close=False)[1:], close=False)
    bench.write()
    assert bench.painter.counters()["unplaced_events"] == 1


def test_held_events_beyond_the_bound_are_counted(bench: Bench) -> None:
    stream = [Log(level=LogLevel.Info, message="x")] * (MAX_HELD + 3)
    bench.draw(envelopes(stream, close=False), close=False)
    bench.write()
    assert bench.painter.counters()["unplaced_events"] == 3


def test_held_events_are_bounded_in_bytes_over_all_jobs(bench: Bench) -> None:
    size = MAX_HELD_BYTES // 8
    stream = [job([Log(level=LogLevel.Info, message="x" * size)], str(number))[0] for number in range(10)]
    bench.draw(envelopes(stream, close=False), close=False, batch=1)
    bench.write()
    assert bench.painter.counters()["unplaced_events"] == 3  # the JSON around each message takes the rest
    bench.draw(envelopes(job(whole_proof(1), "0"), close=False)[1:], close=False)  # its held event makes room
    bench.draw(envelopes([stream[8]], close=False)[1:], close=False)
    bench.write()
    assert bench.painter.counters()["unplaced_events"] == 3


def test_large_events_do_not_wait_for_the_next_write(bench: Bench) -> None:
    large = Log(level=LogLevel.Info, message="x" * (MAX_WAITING_BYTES // 4))
    for envelope in envelopes([proof_start(1), large, large, large], close=False):
        bench.draw([envelope], close=False)
    assert bench.painter.counters()["drawn_proofs"] == 0
    bench.draw(envelopes([large], close=False)[1:], close=False)
    assert bench.painter.counters()["drawn_proofs"] == 1


def test_the_quietest_recording_ends_when_too_many_proofs_are_open(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    starts = [event for number in range(MAX_RUNNING) for event in job([proof_start(1)], str(number))]
    # The second one is the quietest: the first one goes on.
    stream = [*starts, *job([layer_start(0)], "0"), *job(whole_proof(1), "new"), *job([layer_start(0)], "1")]
    with caplog.at_level("WARNING"):
        bench.draw(envelopes(stream, close=False), close=False)
        bench.write()
        bench.painter.close()
    counters = bench.painter.counters()
    assert (counters["drawn_proofs"], counters["unfinished_recordings"]) == (MAX_RUNNING + 1, 1)
    assert counters["unplaced_events"] == 1
    assert f"{MAX_RUNNING} recordings are open; the quietest one ends before its proof" in caplog.text
    assert "1 unfinished recordings, 1 unplaced events" in caplog.text


def attention(layers: int, heads: int) -> list[ProofEvent]:
    """Return heads of 16 KiB each, as they are drawn."""
    head = AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=heads, seq_len=64, scores=[0.5] * 64 * 64)
    return [replace(head, layer_idx=layer, head_idx=number) for layer in range(layers) for number in range(heads)]


@pytest.fixture
def small_room(monkeypatch: pytest.MonkeyPatch) -> int:
    """A small room for attention; gives how many heads fit in."""
    monkeypatch.setattr("proofstream_rerun.scene.inference.MAX_ATTENTION_BYTES", 64 * 64 * 64 * 4)
    return 64


def test_attention_is_bounded_in_bytes_over_all_open_recordings(small_room: int) -> None:
    bench = Bench()
    stream = [event for name in "abcde" for event in job([*attention(4, 4), proof_start(4)], name)]
    bench.draw(envelopes(stream, close=False), close=False)
    bench.write()
    drawn = sum(
        row[-1][2]["data"][0]["shape"][0]
        for rows in bench.pages.rows.values()
        for path, row in rows.items()
        if path.startswith("inference/attention/")
    )
    assert drawn == small_room
    assert bench.painter.counters()["undrawn_marks"] == 5 * 16 - small_room


def test_proofs_one_after_another_have_room_for_attention_each(small_room: int) -> None:
    bench = Bench()
    one = [*attention(4, small_room // 4), *whole_proof(4)]
    pages = bench.draw(envelopes([*one, *one, *one]))
    assert bench.painter.counters()["undrawn_marks"] == 0
    shapes = [
        pages.values(recording, f"inference/attention/layer_{layer:03d}", "data")[-1][0]["shape"]
        for recording in pages.recordings
        for layer in range(4)
    ]
    assert shapes == [[small_room // 4, 64, 64]] * 12


def test_a_line_about_losses_names_a_bounded_number_of_kinds(bench: Bench) -> None:
    counts = {f"Kind{number}": number + 1 for number in range(MAX_KINDS + 5)}
    pages = bench.draw(envelopes([proof_start(1), EventsLost(where="here", counts=counts), proof_complete()]))
    (line,) = pages.texts(pages.named("tiny"), "logs/host")
    assert line.count("Kind") == MAX_KINDS
    assert line.endswith(", 15 others")


def test_drawing_works_without_rerun() -> None:
    code = "import sys, proofstream_rerun.scene.scene; sys.exit('rerun' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


INDEX = st.integers(0, 12) | st.integers(0, 2**64 - 1)
EVENTS = st.one_of(
    st.builds(proof_start, st.integers(0, 40)),
    st.builds(layer_start, INDEX, st.sampled_from(LayerKind), st.none() | st.integers(0, 3)),
    st.builds(sumcheck_round, INDEX, st.integers(0, 300), st.integers(0, 300)),
    st.builds(layer_end, INDEX, st.sampled_from(LayerProofKind)),
    st.builds(activation, INDEX, st.integers(0, 5)),
    st.builds(circuit, st.integers(0, 30)),
    st.just(proof_complete()),
    st.builds(ProofAborted, reason=st.text(max_size=10)),
    st.builds(Log, level=st.sampled_from(LogLevel), message=st.text(max_size=10)),
    st.builds(WeightOpeningStart, weight_node_id=INDEX, eval_point_len=st.integers(0, 9)),
    st.builds(StarkProofEnd, duration_ms=st.integers(0, 9)),
)


@settings(max_examples=60, deadline=None)
@given(stream=st.lists(EVENTS | EVENTS.map(lambda event: job([event], "j")[0]), max_size=40), cuts=st.integers(1, 9))
def test_any_stream_is_drawn_within_bounds(stream: list[ProofEvent | Decoded], cuts: int) -> None:
    bench = Bench()
    made = envelopes(stream)
    for start in range(0, len(made), cuts):
        bench.draw(made[start : start + cuts], close=False)
        bench.write()
    bench.painter.close()
    for recording, calls in bench.pages.calls.items():
        assert (calls[0], calls[-1]) == ("begin", "end")
        progress = [value for (value,) in bench.pages.values(recording, "proof/progress", "scalars")]
        assert all(0 <= value <= 1 for value in progress)
    assert bench.painter.counters()["unplaced_events"] == 0
