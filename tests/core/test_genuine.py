"""What the timeline makes of recordings that real provers made, against the truth beside them."""

from __future__ import annotations

from typing import Any

import pytest
from genuine import EXPECT, NAMES, envelope_lines, returned_at

from proofstream import events as ev
from proofstream.catalog import Catalog
from proofstream.envelopes import HOST, PRODUCER, Envelope
from proofstream.intervals import Closed, Interval, IntervalKind, Opened, Proof
from proofstream.timelines import Timelines
from proofstream.wire import Decoded, LineDecoder

NEAR_NS = 20_000_000


def feed(name: str, *, until: int | None = None, laid_out: bool = False) -> list[Interval]:
    """Feed a recording, or its first events and a lost connection, and return the intervals."""
    decoder = LineDecoder(Catalog())
    lines = [decoder.decode(line) for line in envelope_lines(name)][:until]
    timelines = Timelines()
    changes = [change for item in lines for change in timelines.feed(enveloped(item, laid_out=laid_out))]
    end = ev.SessionClosed(outcome="lost", reason="it was killed", refused=0)
    closing = Envelope(
        seq=len(lines), time_unix_nano=returned_at(name), session_id="genuine", origin=HOST, event=end, raw=b"{}"
    )
    changes += timelines.feed(closing)
    assert sum(isinstance(change, Closed) for change in changes) == sum(isinstance(c, Opened) for c in changes)
    return [change.interval for change in changes if isinstance(change, Opened)]


def enveloped(item: Decoded, *, laid_out: bool) -> Envelope:
    assert item.time_unix_nano is not None
    return Envelope(
        seq=0,
        time_unix_nano=item.time_unix_nano,
        time_source="reconstructed" if laid_out else None,
        session_id="genuine",
        origin=PRODUCER,
        event=item.event,
        raw=item.raw,
    )


def proofs_of(intervals: list[Interval]) -> list[Proof]:
    return [interval for interval in intervals if isinstance(interval, Proof)]


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_outcomes_are_the_true_ones(name: str) -> None:
    intervals = feed(name)
    expected: list[dict[str, Any]] = EXPECT[name]["proofs"]

    proofs = proofs_of(intervals)
    assert len(proofs) == len(expected)
    for proof, truth in zip(proofs, expected, strict=True):
        assert (proof.num_layers, proof.layers_opened, proof.rounds) == (
            truth["num_layers"],
            truth["layer_starts"],
            truth["rounds"],
        )
        assert proof.layers_closed >= truth["layer_ends"]
        assert proof.end_seen == truth["complete"]
        assert (proof.aborted_reason is None) == truth["complete"]
    starks = [interval for interval in intervals if interval.kind is IntervalKind.STARK_PROOF]
    assert len(starks) == EXPECT[name]["kinds"].get("StarkProofStart", 0)


@pytest.mark.parametrize("name", [name for name in NAMES if EXPECT[name]["proofs"]])
def test_times_are_the_true_ones(name: str) -> None:
    for proof, truth in zip(proofs_of(feed(name)), EXPECT[name]["measured"], strict=True):
        walked = proof.stages[1].end_unix_nano or 0
        if proof.end_seen:
            assert abs((proof.duration_ns or 0) - truth["start_to_complete_s"] * 1e9) < NEAR_NS
            assert proof.duration_source == "measured"
            assert abs(walked - proof.start_unix_nano - truth["start_to_last_layer_end_s"] * 1e9) < NEAR_NS
            after = (proof.stages[2].duration_ns or 0) / (proof.duration_ns or 1)
            assert abs(after - (1 - truth["start_to_last_layer_end_s"] / truth["start_to_complete_s"])) < 0.05


@pytest.mark.parametrize("name", ["mlp", "transformer-block"])
def test_a_prover_that_is_killed_in_its_commitments_died_in_no_layer(name: str) -> None:
    (proof,) = proofs_of(feed(name, until=-1))

    assert (proof.stage, proof.aborted_layer, proof.layers_left_behind) == ("after_layers", None, 7)
    measured = EXPECT[name]["measured"][0]
    silent = measured["start_to_complete_s"] - measured["start_to_last_layer_end_s"]
    assert proof.silent_ns == pytest.approx(silent * 1e9, abs=5 * NEAR_NS)


def test_the_error_in_the_walk_is_in_the_layer_where_it_stood() -> None:
    (proof,) = proofs_of(feed("error-in-walk"))

    assert proof.aborted_layer is not None
    assert (proof.stage, proof.aborted_layer.key, proof.layers_left_behind) == ("layers", 8, 3)


def test_without_times_the_whole_is_not_known() -> None:
    (proof,) = proofs_of(feed("mlp", laid_out=True))

    assert proof.duration_source == "unknown"
    assert [stage.duration_source for stage in proof.stages] == ["unknown", "derived", "unknown"]
