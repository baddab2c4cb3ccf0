"""Reconstructed times: reproducible, never negative, and the latest one is the file's modification time."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.sources.lines import LineReader
from proofstream.sources.reconstruct import Reconstruction, scan
from proofstream.wire import Decoded, LineDecoder

DECODER = LineDecoder(Catalog())
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
PROOF_START = {
    "ProofStart": {"model_name": None, "backend": "x", "num_layers": 1, "input_shape": [1, 1], "output_shape": [1, 1]}
}
LOG = {"Log": {"level": "Info", "message": "SumcheckRound LayerEnd"}}

events: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(layer_start, small),
    st.builds(layer_end, small, durations),
    st.builds(sumcheck_round, small),
    st.builds(weight_start, small),
    st.builds(weight_end, small, durations),
    st.builds(stark_end, durations),
    st.sampled_from([STARK_START, PROOF_START, LOG]),
)
files = st.lists(st.builds(in_frame, events, st.sampled_from(["", "a"])), min_size=1, max_size=40).map(as_file)


def timed(content: bytes, mtime_ns: int) -> tuple[str, list[Decoded]]:
    found = scan([content], DECODER, max_line_bytes=10_000, mtime_ns=mtime_ns)
    assert found is not None
    reader = LineReader(DECODER, 10_000)
    reconstruction = Reconstruction(found)
    items = [*reader.read_bytes(content), *reader.finish()]
    return found.session_id, [reconstruction.timed(item) for item in items if isinstance(item, Decoded)]


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


@given(files)
def test_a_layer_takes_as_long_as_it_reported(content: bytes) -> None:
    _, decoded = timed(content, 2**62)
    begun: dict[tuple[str | None, int], int] = {}
    for item in decoded:
        event: Any = item.event
        name = type(event).__name__
        if name == "ProofStart":
            begun = {key: start for key, start in begun.items() if key[0] != item.job_id}
        elif name == "LayerStart":
            assert item.time_unix_nano is not None
            begun[item.job_id, event.layer_idx] = item.time_unix_nano
        elif name == "SumcheckRound" and (item.job_id, event.layer_idx) in begun:
            assert item.time_unix_nano == begun[item.job_id, event.layer_idx]
        elif name == "LayerEnd" and (item.job_id, event.layer_idx) in begun:
            assert item.time_unix_nano is not None
            took = item.time_unix_nano - begun.pop((item.job_id, event.layer_idx))
            assert took == (event.duration_ms * 1_000_000 if event.duration_ms <= 400 * 24 * 3600 * 1000 else 0)


def test_the_first_readable_line_decides() -> None:
    envelope = b'{"v":1,"time_unix_nano":5,"event":{"Log":{"level":"Info","message":"x"}}}\n'
    bare_line = b'{"Log":{"level":"Info","message":"x"}}\n'
    bad_bulk = b'{"SumcheckRound":{}}\n'
    assert scan([b"bad\n" + bad_bulk + envelope + bare_line], DECODER, max_line_bytes=1000, mtime_ns=1) is None
    assert scan([b"bad\n" + bare_line + envelope], DECODER, max_line_bytes=1000, mtime_ns=1) is not None
