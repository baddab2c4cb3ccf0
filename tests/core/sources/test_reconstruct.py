"""Reconstructed times: reproducible, never negative, and the latest one is the file's modification time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from genuine import bare_lines
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.sources.lines import LineReader
from proofstream.sources.reconstruct import Reconstruction, scan
from proofstream.wire import Decoded, LineDecoder

DECODER = LineDecoder(Catalog())
NS_PER_MS = 1_000_000
small = st.integers(0, 3)
durations = st.one_of(st.integers(0, 5000), st.integers(0, 2**64 - 1))


def layer_start(i: int) -> dict[str, Any]:
    shape = {"input_shape": [1, 1], "output_shape": [1, 1]}
    rest = {"trace_cost": 1, "claim_value_approx": 0.0, "gpu_device": None}
    return {"LayerStart": {"layer_idx": i, "kind": "MatMul", **shape, **rest}}


def layer_end(i: int, ms: int) -> dict[str, Any]:
    rest = {"kind": "Sumcheck", "final_claim_value_approx": 0.0, "rounds_completed": 0}
    return {"LayerEnd": {"layer_idx": i, "duration_ms": ms, **rest}}


def sumcheck_round(i: int) -> dict[str, Any]:
    rest = {"round": 0, "total_rounds": 1, "poly_deg2": None, "poly_deg3": None, "claim_value_approx": 0.0}
    return {"SumcheckRound": {"layer_idx": i, **rest}}


def weight_start(i: int) -> dict[str, Any]:
    return {"WeightOpeningStart": {"weight_node_id": i, "eval_point_len": 1}}


def weight_end(i: int, ms: int) -> dict[str, Any]:
    return {"WeightOpeningEnd": {"weight_node_id": i, "duration_ms": ms, "commitment_hex": ""}}


def stark_end(ms: int) -> dict[str, Any]:
    return {"StarkProofEnd": {"duration_ms": ms}}


def in_frame(event: dict[str, Any], job: str) -> dict[str, Any]:
    return {"job_id": job, "event": event} if job else event


def as_file(lines: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(line) for line in lines).encode()


STARK_START = {"StarkProofStart": {"num_activation_layers": 1, "num_add_layers": 1, "num_layernorm_layers": 1}}


def proof_start(layers: int) -> dict[str, Any]:
    shape = {"input_shape": [1, 1], "output_shape": [1, 1]}
    return {"ProofStart": {"model_name": None, "backend": "x", "num_layers": layers, **shape}}


def proof_complete(layers: int, ms: int) -> dict[str, Any]:
    rest = {"num_weight_openings": 0, "weight_binding_mode": "x"}
    return {"ProofComplete": {"duration_ms": ms, "num_layer_proofs": layers, **rest}}


def phase_start(name: str, number: int | None = None) -> dict[str, Any]:
    return {"PhaseStart": {"name": name, "phase": number}}


def phase_end(name: str, ns: int | None, number: int | None = None) -> dict[str, Any]:
    return {"PhaseEnd": {"name": name, "phase": number, "duration_ns": ns}}


def aborted() -> dict[str, Any]:
    return {"ProofAborted": {"reason": "x"}}


LOG = {"Log": {"level": "Info", "message": "SumcheckRound LayerEnd"}}

events: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(layer_start, small),
    st.builds(layer_end, small, durations),
    st.builds(sumcheck_round, small),
    st.builds(weight_start, small),
    st.builds(weight_end, small, durations),
    st.builds(stark_end, durations),
    st.builds(proof_start, small),
    st.builds(phase_start, st.sampled_from("ab"), st.none() | small),
    st.builds(phase_end, st.sampled_from("ab"), st.none() | durations, st.none() | small),
    st.builds(proof_complete, small, durations),
    st.sampled_from([STARK_START, aborted(), LOG, {"PhaseProgress": {"done": 1}}]),
)
files = st.lists(st.builds(in_frame, events, st.sampled_from(["", "a"])), min_size=1, max_size=40).map(as_file)


def timed(content: bytes, mtime_ns: int) -> tuple[str, list[Decoded]]:
    found = scan([content], DECODER, max_line_bytes=10_000, mtime_ns=mtime_ns)
    assert found is not None
    reader = LineReader(DECODER, 10_000)
    reconstruction = Reconstruction(found)
    items = [*reader.read_bytes(content), *reader.finish()]
    return found.session_id, [
        item.at(at)
        for item, at in zip(items, reconstruction.times_of(items), strict=True)
        if isinstance(item, Decoded) and at is not None
    ]


def times(decoded: list[Decoded]) -> list[int]:
    return [item.time_unix_nano for item in decoded if item.time_unix_nano is not None]


@given(files, st.integers(-10, 2**62))
def test_times_are_reproducible_never_negative_and_end_at_the_files_time(content: bytes, mtime_ns: int) -> None:
    first, second = timed(content, mtime_ns), timed(content, mtime_ns)
    assert first == second
    found = times(first[1])
    assert len(found) == len(first[1])
    assert min(found) >= 0
    assert max(found) == max(0, mtime_ns)


def offsets_ms(*lines: dict[str, Any]) -> list[int]:
    """Return how many milliseconds after the first event each one lies."""
    found = times(timed(as_file(list(lines)), 2**62)[1])
    return [round((time - found[0]) / NS_PER_MS) for time in found]


def test_a_genuine_proof_that_does_not_report_its_duration_ends_with_its_layers() -> None:
    _, decoded = timed(b"\n".join(bare_lines("mlp")), 2**62)
    start, end = span_of_proof(decoded)
    assert end - start == pytest.approx(21 * NS_PER_MS, abs=100)


def test_a_genuine_proof_ends_as_long_after_its_start_as_it_reports() -> None:
    content = b"\n".join(bare_lines("mlp"))
    assert content.count(b'"ProofComplete":{"duration_ms":0') == 1
    _, decoded = timed(
        content.replace(b'"ProofComplete":{"duration_ms":0', b'"ProofComplete":{"duration_ms":1717'), 2**62
    )
    start, end = span_of_proof(decoded)
    assert end - start == 1717 * NS_PER_MS
    last_layer = max(time for time, item in zip(times(decoded), decoded, strict=True) if is_a(item, "LayerEnd"))
    assert last_layer - start == pytest.approx(21 * NS_PER_MS, abs=100)
    assert times(decoded)[-1] == 2**62


def span_of_proof(decoded: list[Decoded]) -> tuple[int, int]:
    (start,) = [item.time_unix_nano for item in decoded if is_a(item, "ProofStart")]
    (end,) = [item.time_unix_nano for item in decoded if is_a(item, "ProofComplete")]
    assert start is not None
    assert end is not None
    return start, end


def is_a(item: Decoded, kind: str) -> bool:
    return type(item.event).__name__ == kind


def test_a_proof_that_reports_less_than_its_layers_ends_with_them() -> None:
    assert offsets_ms(proof_start(1), layer_start(0), layer_end(0, 30), proof_complete(1, 20)) == [0, 0, 30, 30]


def test_what_follows_a_proof_follows_its_end() -> None:
    lines = [proof_start(1), layer_start(0), layer_end(0, 3), proof_complete(1, 20), STARK_START, stark_end(5)]
    assert offsets_ms(*lines) == [0, 0, 3, 20, 20, 25]


def test_a_stark_proof_inside_a_proof_keeps_its_own_length() -> None:
    lines = [proof_start(0), STARK_START, stark_end(50), proof_complete(0, 40), LOG]
    assert offsets_ms(*lines) == [0, 0, 50, 50, 50]


def test_a_proof_inside_another_job_ends_before_what_surrounds_it() -> None:
    inner = [in_frame(proof_start(0), "b"), in_frame(proof_complete(0, 500), "b")]
    lines = [in_frame(proof_start(0), "a"), *inner, in_frame(proof_complete(0, 600), "a")]
    assert offsets_ms(*lines) == [0, 0, 500, 600]


def test_a_duration_that_cannot_be_true_ends_a_proof_with_its_layers() -> None:
    lines = [proof_start(1), layer_start(0), layer_end(0, 3), proof_complete(1, 500 * 24 * 3600 * 1000)]
    assert offsets_ms(*lines) == [0, 0, 3, 3]


def test_proofs_that_overlap_without_job_ids_are_told_apart_by_their_layers() -> None:
    walks = [proof_start(1), layer_start(0), layer_end(0, 10), proof_start(2), layer_start(0), layer_end(0, 4)]
    assert offsets_ms(*walks, proof_complete(1, 30), layer_start(1))[-2:] == [30, 30]
    assert offsets_ms(*walks, layer_start(1), layer_end(1, 6), proof_complete(1, 30), proof_complete(2, 40))[-3:] == [
        *(20, 30, 50),
    ]


def test_an_aborted_proof_lends_its_start_to_no_other() -> None:
    lines = [proof_start(1), layer_start(0), layer_end(0, 10), aborted(), proof_start(1), proof_complete(0, 7)]
    assert offsets_ms(*lines) == [0, 0, 10, 10, 10, 17]


def test_a_proof_whose_start_is_not_in_the_file_says_nothing_about_its_length() -> None:
    assert offsets_ms(layer_start(0), layer_end(0, 10), proof_complete(1, 70)) == [0, 10, 10]


def test_a_phase_takes_as_long_as_it_reports_or_as_what_it_holds() -> None:
    second = 1000 * NS_PER_MS
    inner = [layer_start(0), layer_end(0, 10)]
    assert offsets_ms(phase_start("walk"), *inner, phase_end("walk", None), LOG) == [0, 0, 10, 10, 10]
    assert offsets_ms(phase_start("walk"), *inner, phase_end("walk", second), LOG) == [0, 0, 10, 1000, 1000]
    at_once = [phase_start("a", 1), phase_start("a", 2), phase_end("a", second, 1), phase_end("a", second // 2, 2)]
    assert offsets_ms(*at_once, LOG) == [0, 0, 1000, 500, 1000]
    nested = [phase_start("a"), phase_end("a", second), phase_start("a"), phase_end("a", second), phase_end("a", None)]
    assert offsets_ms(phase_start("a"), *nested) == [0, 0, 1000, 1000, 2000, 2000]


def test_many_jobs_are_forgotten_alike_in_both_passes() -> None:
    jobs = [str(number) for number in range(5000)]
    starts = [in_frame(layer_start(0), job) for job in jobs]
    rounds = [in_frame(sumcheck_round(0), "first"), sumcheck_round(0)]
    content = as_file([*rounds, *starts, in_frame(layer_end(0, 9), jobs[-1]), layer_end(0, 5)])
    assert max(times(timed(content, 2**62)[1])) == 2**62


@given(files)
def test_a_layer_takes_as_long_as_it_reported(content: bytes) -> None:
    _, decoded = timed(content, 2**62)
    begun: dict[tuple[str | None, int], int] = {}
    for item in decoded:
        event: Any = item.event
        name = type(event).__name__
        if name in ("ProofStart", "ProofComplete", "ProofAborted"):
            begun = {key: start for key, start in begun.items() if key[0] != item.job_id}
        elif name == "LayerStart":
            assert item.time_unix_nano is not None
            begun[item.job_id, event.layer_idx] = item.time_unix_nano
        elif name == "SumcheckRound" and (item.job_id, event.layer_idx) in begun:
            assert item.time_unix_nano == begun[item.job_id, event.layer_idx]
        elif name == "LayerEnd" and (item.job_id, event.layer_idx) in begun:
            assert item.time_unix_nano is not None
            took = item.time_unix_nano - begun.pop((item.job_id, event.layer_idx))
            assert took == max(1, event.duration_ms * 1_000_000 if event.duration_ms <= 400 * 24 * 3600 * 1000 else 0)


def test_the_first_readable_line_decides() -> None:
    envelope = b'{"v":1,"time_unix_nano":5,"event":{"Log":{"level":"Info","message":"x"}}}\n'
    bare_line = b'{"Log":{"level":"Info","message":"x"}}\n'
    bad_bulk = b'{"SumcheckRound":{}}\n'
    assert scan([b"bad\n" + bad_bulk + envelope + bare_line], DECODER, max_line_bytes=1000, mtime_ns=1) is None
    assert scan([b"bad\n" + bare_line + envelope], DECODER, max_line_bytes=1000, mtime_ns=1) is not None
