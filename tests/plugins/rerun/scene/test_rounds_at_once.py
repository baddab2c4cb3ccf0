"""Rounds that are drawn together look as if each had been drawn by itself, whatever comes between them."""

from __future__ import annotations

from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rerun_bench import Bench, layer_end, layer_start, proof_complete, proof_start

from proofstream import ProofEvent, RoundPoly, RoundPolyDeg3, SecureField, SumcheckRound, Timelines
from proofstream.testing import envelopes
from proofstream_rerun import painter
from proofstream_rerun.scene.layer import MAX_ROUNDS

MANY_LAYERS = 60
"""So many layers that neighbours share an entity; fewer show rounds while they come."""

limb = st.sampled_from([0, 1, 2**31 - 2, 2**32 - 1])
element = st.builds(SecureField, limb, limb, limb, limb)
index = st.sampled_from([0, 1, 5, 70, 4095, 4096, 2**40])
device = st.sampled_from([None, 0, 1])


def run_of(first: SumcheckRound, step: int, count: int) -> list[ProofEvent]:
    """Return rounds that differ in their numbers alone."""
    return [replace(first, round=max(0, first.round + step * number)) for number in range(count)]


def layer_of(layer: int, on: int | None, run: list[ProofEvent], more: list[ProofEvent]) -> list[ProofEvent]:
    """Return a layer that begins and has the rounds of a run twice, with something in between."""
    own: list[ProofEvent] = [replace(event, layer_idx=layer) for event in run]
    return [layer_start(layer, device=on), *own, *more, *own]


runs: st.SearchStrategy[list[ProofEvent]] = st.builds(
    run_of,
    st.builds(
        SumcheckRound,
        layer_idx=index,
        round=st.sampled_from([0, 1, 3, MAX_ROUNDS - 3, 2**40]),
        total_rounds=st.sampled_from([0, 1, 8, 12, MAX_ROUNDS, 2**40]),
        poly_deg2=st.none() | st.builds(RoundPoly, element, element, element),
        poly_deg3=st.none() | st.builds(RoundPolyDeg3, element, element, element, element),
        claim_value_approx=st.sampled_from([None, 0.0, 0.25, 1.0]),
    ),
    st.sampled_from([1, 1, 1, 0, -1, 2]),
    st.integers(1, 12),
)
nothing: list[ProofEvent] = []
layers_with_rounds = st.builds(layer_of, index, device, runs, st.just(nothing) | runs)
others: st.SearchStrategy[ProofEvent] = (
    st.builds(layer_end, index) | st.builds(proof_start, st.sampled_from([3, MANY_LAYERS])) | st.just(proof_complete())
)
stories = st.lists(layers_with_rounds | layers_with_rounds | runs | st.lists(others, max_size=1), max_size=12)


def drawn(story: list[ProofEvent], times: list[int], batch: int) -> Any:
    stream = [
        replace(envelope, time_unix_nano=envelope.time_unix_nano + times[place % len(times)])
        for place, envelope in enumerate(envelopes(story))
    ]
    bench = Bench()
    pages = bench.draw(stream, batch=batch)
    # NaN is not equal to itself.
    return {recording: repr(dict(rows)) for recording, rows in pages.rows.items()}, bench.painter.counters()


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([3, MANY_LAYERS]),
    stories,
    st.lists(st.sampled_from([0, 0, 1, -(10**9), 10**6, 2**63]), min_size=1, max_size=7),
    st.sampled_from([1, 7, 512]),
)
def test_rounds_drawn_together_look_as_if_drawn_one_by_one(
    layers: int, story: list[list[ProofEvent]], times: list[int], batch: int
) -> None:
    events = [proof_start(layers), layer_start(1), *(event for part in story for event in part)]
    with mock.patch.object(painter, "MAX_WAITING_ROWS", 40):
        together = drawn(events, times, batch)
        with mock.patch.object(Timelines, "feed_rounds", return_value=None):
            one_by_one = drawn(events, times, batch)

    assert together == one_by_one
