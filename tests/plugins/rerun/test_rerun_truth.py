"""Recordings say nothing that is not so: about times, claims, states and layers, also of proofs of a real prover."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from genuine import FOLDER, envelope_lines
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
from rerun_file import File

from proofstream import (
    AttentionHeatmap,
    Envelope,
    LayerKind,
    PhaseEnd,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    RoundPoly,
    SecureField,
    SumcheckRound,
)
from proofstream.catalog import Catalog
from proofstream.testing import envelopes
from proofstream.wire import LineDecoder
from proofstream_rerun.picture.canvas import BEYOND
from proofstream_rerun.picture.field import M31_PRIME
from proofstream_rerun.scene.phase_lanes import MAX_DEPTH

MS = 1_000_000


@pytest.fixture
def bench() -> Bench:
    return Bench()


def genuine(name: str) -> list[Envelope]:
    """Return a recording of a real prover with its true times."""
    decoder = LineDecoder(Catalog())
    lines = [decoder.decode(line) for line in envelope_lines(name)]
    times = [line.time_unix_nano or 0 for line in lines]
    stream = envelopes(lines)
    return [
        replace(envelope, time_unix_nano=time)
        for envelope, time in zip(stream, [times[0], *times, times[-1]], strict=True)
    ]


def laid_out(events: Iterable[ProofEvent]) -> list[Envelope]:
    """Return events whose times no clock gave."""
    stream = envelopes(events)
    return [replace(envelope, time_source="reconstructed") for envelope in stream]


def drawn(stream: Iterable[Envelope]) -> tuple[Pages, str]:
    """Draw a stream; return everything and the id of its only recording."""
    pages = Bench().draw(stream)
    (recording,) = pages.recordings
    return pages, recording


def said(pages: Pages, recording: str) -> list[str]:
    """Return every text of a recording."""
    texts = [path for path, rows in pages.rows[recording].items() if "text" in rows[0][2]]
    return [text for path in texts for text in pages.texts(recording, path)]


def times_of(pages: Pages, recording: str, entity: str) -> list[int]:
    """Return when each row of an entity is, in nanoseconds since the proof began."""
    return [prover_ns for prover_ns, _, _ in pages.rows[recording][entity]]


def bars(pages: Pages, recording: str, worth: str) -> dict[int, float]:
    """Return the last bars of layer times, by layer, in ms."""
    found: dict[int, float] = {}
    for path, rows in pages.rows[recording].items():
        if path.startswith(f"time/{worth}/"):
            values = rows[-1][2]
            found |= dict(zip(values["abscissa"][0]["buffer"], values["values"][0]["buffer"], strict=True))
    return found


# Times


def test_a_genuine_proofs_time_is_the_true_one_and_most_of_it_comes_after_its_layers() -> None:
    stream = genuine("mlp")
    (began_ns,), (completed_ns,) = (
        [envelope.time_unix_nano for envelope in stream if isinstance(envelope.event, kind)]
        for kind in (ProofStart, ProofComplete)
    )
    true_ms = (completed_ns - began_ns) / MS
    pages, recording = drawn(stream)
    head = pages.texts(recording, "proof/status")[-1].splitlines()
    assert head[2:4] == ["| **model** | **not named** |", "| **outcome** | **complete** |"]
    assert true_ms > 1700
    assert head[4].startswith(f"| **time** | **{true_ms:,.1f} ms".replace(".", r"\."))
    assert r"\(measured\)" in head[4]
    lane = pages.states(recording, "lanes/1_proof")
    assert lane == ["before_layers", "layers", "after_layers", "complete", "complete"]
    _, began, left, ended, beyond = times_of(pages, recording, "lanes/1_proof")
    assert (ended - left) / ended > 0.98
    assert beyond == pytest.approx(ended * (1 + BEYOND))
    assert began < left
    assert times_of(pages, recording, "proof/progress")[-1] == beyond  # the plot does not end with the last layer


def test_a_genuine_file_without_times_has_nothing_measured(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PROOFSTREAM_", "RERUN"))}
    subprocess.run(
        [
            sys.executable,
            "-m",
            "proofstream",
            "run",
            FOLDER / "mlp.jsonl",
            "--rerun",
            f"file:{tmp_path / 'p.rrd'}",
            "-q",
        ],
        env=kept,
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    file = File(tmp_path / "p.rrd")
    texts = [line for entity in file.entities.values() for lines in entity.values("text") for line in lines]
    assert [line for line in texts if "measured" in line] == []
    assert not file.below("time/measured/")
    assert file.below("time/reported/")
    assert "the whole is not known" in file.texts("proof/status")[-1]
    assert file.entities["lanes/1_proof"].values("state")[-1] == ["complete; when is not known"]


def test_a_laid_out_proof_takes_as_long_as_its_producer_reports() -> None:
    complete = ProofComplete(
        duration_ms=1717, num_layer_proofs=3, num_weight_openings=0, weight_binding_mode="sequential"
    )
    pages, recording = drawn(laid_out([*whole_proof(3)[:-1], complete]))
    assert not [text for text in said(pages, recording) if "measured" in text]
    assert r"\(reported\)" in pages.texts(recording, "proof/status")[-1].splitlines()[4]
    assert pages.states(recording, "lanes/1_proof")[-1] == "complete"


@pytest.mark.parametrize("is_laid_out", [False, True])
def test_each_layers_time_is_a_bar_by_its_worth(is_laid_out: bool) -> None:
    events = [proof_start(3), *whole_layer(2, rounds=4), *whole_layer(1, rounds=0), *whole_layer(0), proof_complete()]
    pages, recording = drawn(laid_out(events) if is_laid_out else envelopes(events))
    worth, other = ("reported", "measured") if is_laid_out else ("measured", "reported")
    assert bars(pages, recording, worth) == {2: 5.0, 1: 1.0, 0: 4.0}
    assert bars(pages, recording, other) == {}


def test_layers_whose_ends_were_not_observed_have_bars_of_their_own_kind() -> None:
    unseen_start = [sumcheck_round(2, 0), replace(layer_end(2), duration_ms=0)]
    superseded = [layer_start(1), sumcheck_round(1, 0)]
    pages, recording = drawn(envelopes([proof_start(3), *unseen_start, *superseded, *whole_layer(0), proof_complete()]))
    assert bars(pages, recording, "measured").keys() == {0}
    assert bars(pages, recording, "at_most").keys() == {1}


def test_the_slowest_layers_are_named_first() -> None:
    events = [event for layer in range(30) for event in whole_layer(layer, rounds=layer)]
    pages, recording = drawn(envelopes([proof_start(30), *events, proof_complete()]))
    document = pages.texts(recording, "proof/status")[-1]
    rows = document[document.index("slowest layers") :].splitlines()[2:12]
    assert [row.split("|")[1].split()[0] for row in rows] == [str(layer) for layer in range(29, 19, -1)]
    assert rows[0].strip("|").strip() == r"29 MatMul | 30\.0 ms \(measured\)"


# Rounds and claims


def test_every_round_of_a_burst_has_a_row_of_its_own_on_the_timeline_of_events() -> None:
    walk = [event for layer in range(8) for event in whole_layer(layer, rounds=270)]
    stream = envelopes([proof_start(8), *walk, proof_complete()], step_ns=0)
    pages, recording = drawn(stream)
    rows = pages.rows[recording]["gkr/rounds"]
    assert len({seq for _, seq, _ in rows}) == len(rows) == 2160
    assert len({prover_ns for prover_ns, _, _ in rows}) == 1


def test_the_claims_of_a_genuine_proof_are_those_of_its_polynomials() -> None:
    """This producer halves a layer's claim once a round; only the first round's is true."""
    stream = genuine("mlp")
    pages, recording = drawn(stream)
    rounds = [envelope.event for envelope in stream if isinstance(envelope.event, SumcheckRound)]
    plotted = [claim for (claim,) in pages.values(recording, "gkr/rounds", "scalars")]
    sums = [(sum_[0][0] / M31_PRIME) for sum_ in pages.values(recording, "gkr/rounds", "p0_plus_p1")]
    assert plotted == sums
    first = [place for place, event in enumerate(rounds) if event.round == 0]
    reported = np.array([event.claim_value_approx for event in rounds], np.float64)
    np.testing.assert_allclose(np.array(plotted)[first], reported[first], atol=1e-6)
    others = [place for place in range(len(rounds)) if place not in first]
    assert not np.isclose(np.array(plotted)[others], reported[others], atol=1e-4).any()


def test_a_round_with_a_polynomial_shows_its_claim_not_the_reported_one() -> None:
    zero, one = SecureField(a=0, b=0, c=0, d=0), SecureField(a=1, b=0, c=0, d=0)
    with_one = replace(sumcheck_round(0, 0), poly_deg2=RoundPoly(c0=one, c1=zero, c2=zero), claim_value_approx=0.9)
    pages, recording = drawn(envelopes([proof_start(1), layer_start(0), with_one, sumcheck_round(0, 1), layer_end(0)]))
    assert pages.values(recording, "gkr/rounds", "scalars")[0] == [2 / M31_PRIME]


# States


def test_an_aborted_genuine_proof_has_a_visible_end_where_it_died() -> None:
    pages, recording = drawn(genuine("error-in-walk"))
    lane = "lanes/5_layers/08_MatMul"
    assert pages.states(recording, lane) == ["proving", "aborted"]
    aborted_ns = times_of(pages, recording, lane)[-1]
    last_ns = max(time for path in pages.rows[recording] for time in times_of(pages, recording, path))
    assert last_ns >= aborted_ns * (1 + BEYOND) * 0.999
    assert pages.states(recording, "lanes/1_proof")[-2:] == ["aborted", "aborted"]
    status = pages.texts(recording, "proof/status")[-1].splitlines()
    assert status[3].startswith("| **outcome** | **ABORTED in layer 8 MatMul")


def test_a_proof_that_died_after_its_layers_did_not_die_in_one() -> None:
    stream = envelopes([*whole_proof(3)[:-1], ProofAborted(reason="killed")])
    late = [replace(envelope, time_unix_nano=envelope.time_unix_nano + 5000 * MS) for envelope in stream[-2:]]
    pages, recording = drawn([*stream[:-2], *late])
    (line,) = (line for line in pages.texts(recording, "logs/proof") if "aborted" in line)
    assert line == "proof aborted after the last layer (3 of 3), after 5,001.0 ms of silence: killed"
    assert pages.states(recording, "lanes/1_proof") == ["before_layers", "layers", "after_layers", "aborted", "aborted"]
    layers = [path for path in pages.rows[recording] if path.startswith("lanes/5_layers/")]
    assert [pages.states(recording, path)[-1] for path in layers] == ["proved"] * 3
    assert pages.values(recording, "gkr/aborted", "labels")[0][0].startswith("aborted after the last layer (3 of 3)")


def test_unannounced_layers_are_over_when_the_proof_completes() -> None:
    pages, recording = drawn(envelopes([proof_start(9), *whole_layer(1), *whole_layer(0), proof_complete()]))
    assert pages.states(recording, "lanes/1_proof")[-3:] == ["after_layers", "complete", "complete"]
    last_layer_ns = times_of(pages, recording, "lanes/5_layers/0_MatMul")[-1]
    assert times_of(pages, recording, "lanes/1_proof")[-3] == last_layer_ns


# Phases


def test_phases_have_a_lane_for_each_depth(bench: Bench) -> None:
    commits = [
        PhaseStart(name="weight commitments"),
        *(
            event
            for _ in range(2)
            for event in (PhaseStart(name="commit"), sumcheck_round(0, 0), PhaseEnd(name="commit"))
        ),
        PhaseEnd(name="weight commitments"),
    ]
    pages = bench.draw(envelopes([*whole_proof(2)[:-1], *commits, proof_complete()]))
    recording = pages.named("tiny")
    assert pages.states(recording, "lanes/2_phases/depth_0") == ["weight commitments", None]
    assert pages.states(recording, "lanes/2_phases/depth_1") == ["commit", None, "commit", None]
    began, ended = times_of(pages, recording, "lanes/2_phases/depth_0")
    assert ended - began == 7 * MS
    assert pages.texts(recording, "logs/phases")[-1] == "phase weight commitments: 7.0 ms (measured)"
    assert pages.texts(recording, "logs/phases")[0] == "phase weight commitments > commit: 2.0 ms (measured)"


def test_phases_that_run_at_once_share_a_lane(bench: Bench) -> None:
    stream = [
        proof_start(1),
        PhaseStart(name="a", phase=1, layer_idx=0),
        PhaseStart(name="b", phase=2, parent=9),
        PhaseEnd(name="a", phase=1),
        PhaseEnd(name="b", phase=2, failed="no memory"),
        proof_complete(),
    ]
    pages = bench.draw(envelopes(job(stream, "j")))
    recording = pages.named("tiny")
    states = [s for lane in ("depth_0", "depth_1") for s in pages.states(recording, f"lanes/2_phases/{lane}")]
    assert {"a", "b"} <= {word for state in states if state for word in state.split(", ")}
    assert pages.texts(recording, "logs/phases")[-1].endswith("aborted: no memory")
    assert pages.values(recording, "logs/phases", "level")[-1] == ["ERROR"]


def test_a_phase_after_the_proofs_end_is_drawn_with_it_and_does_not_move_its_end(bench: Bench) -> None:
    stream = envelopes([*whole_proof(2), PhaseStart(name="attention proof"), PhaseEnd(name="attention proof")])
    pages = bench.draw(stream)
    (recording,) = pages.recordings
    assert pages.states(recording, "lanes/2_phases/depth_0") == ["attention proof", None]
    ended = pages.rows[recording]["lanes/1_proof"][-2]
    assert ended[2]["state"] == ["complete"]
    assert ended[0] < times_of(pages, recording, "lanes/2_phases/depth_0")[0]
    assert bench.painter.counters()["unplaced_events"] == 0


def test_a_running_phase_is_shown_at_the_next_write(bench: Bench) -> None:
    bench.draw(envelopes([proof_start(1), PhaseStart(name="commit")], close=False), close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    assert bench.pages.states(recording, "lanes/2_phases/depth_0") == ["commit"]


def test_phases_that_are_only_summed_up_are_not_drawn(bench: Bench) -> None:
    short = [event for _ in range(500) for event in (PhaseStart(name="inverse"), PhaseEnd(name="inverse"))]
    stream = envelopes([proof_start(1), PhaseStart(name="all"), *short, PhaseEnd(name="all")], step_ns=MS // 10)
    pages = bench.draw(stream)
    recording = pages.named("tiny")
    assert pages.states(recording, "lanes/2_phases/depth_0") == ["all", None]
    assert "lanes/2_phases/depth_1" not in pages.rows[recording]
    assert len(pages.texts(recording, "logs/phases")) == 1


def test_phases_deep_inside_others_are_counted(bench: Bench) -> None:
    starts = [PhaseStart(name=f"p{number}") for number in range(MAX_DEPTH + 2)]
    pages = bench.draw(envelopes([proof_start(1), *starts, proof_complete()]))
    lanes = [path for path in pages.rows[pages.named("tiny")] if path.startswith("lanes/2_phases/")]
    assert len(lanes) == MAX_DEPTH
    assert bench.painter.counters()["undrawn_marks"] == 2


# Layers, activations and layouts


def test_a_bead_stands_for_a_layer_until_the_walk_reaches_it(bench: Bench) -> None:
    bench.draw(envelopes([proof_start(2), *whole_layer(1, rounds=0)], close=False), close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    one, two = (bench.pages.values(recording, f"gkr/layers/{index}", "half_sizes") for index in (1, 0))
    assert [len(row) for row in one] == [1] * len(one)
    assert one[0][0][0] < one[-1][0][0]  # a bead, then the layer's box
    assert [len(row) for row in two] == [1]
    assert "circuit/nodes" not in bench.pages.statics[recording]


def test_a_circuit_that_comes_late_takes_the_beads_away(bench: Bench) -> None:
    bench.draw(envelopes([proof_start(3)], close=False), close=False)
    bench.write()
    bench.draw(envelopes([circuit(3), layer_start(2)], close=False)[1:], close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    assert [bench.pages.values(recording, f"gkr/layers/{index}", "centers")[-1] for index in range(3)] == [[]] * 3


def test_boxes_of_all_kinds_stand_on_the_line_through_them(bench: Bench) -> None:
    kinds = [LayerKind.Activation, LayerKind.LayerNorm, LayerKind.Attention, LayerKind.MatMul]
    layers = [event for index, kind in enumerate(kinds) for event in (layer_start(index, kind), layer_end(index))]
    pages = bench.draw(envelopes([proof_start(4), *layers, proof_complete()]))
    recording = pages.named("tiny")
    assert {pages.values(recording, f"gkr/layers/{index}", "centers")[-1][0][1] for index in range(4)} == {0.0}


def test_missing_samples_have_a_colour_that_no_value_has(bench: Bench) -> None:
    pages = bench.draw(envelopes([activation(0, values=16), activation(1, values=64), *whole_proof(2)]))
    recording = pages.named("tiny")
    ((tensor,),) = pages.values(recording, "inference/activations", "data")
    values = np.array(tensor["buffer"]).reshape(tensor["shape"])
    assert np.isnan(values[0, 16:]).all()
    (((low, high),),) = pages.values(recording, "inference/activations", "value_range")
    assert (np.nanmin(values) - low) / (high - low) >= 0.2  # the viewer draws NaN like the lowest end of the range
    assert high == 1.0


@pytest.mark.parametrize("scores", [[0.25, 0.75, 0.5], [0.5, 0.5, 0.5]])
def test_missing_scores_have_a_colour_that_no_score_has(bench: Bench, scores: list[Any]) -> None:
    head = AttentionHeatmap(layer_idx=1, head_idx=0, num_heads=1, seq_len=2, scores=[*scores, None])
    pages = bench.draw(envelopes([head, *whole_proof(2)]))
    (((low, high),),) = pages.values(pages.named("tiny"), "inference/attention/layer_001", "value_range")
    assert (min(scores) - low) / (high - low) >= 0.2
    assert high == max(scores)


def test_attention_of_layers_that_come_later_gets_views_too(bench: Bench) -> None:
    head = AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=1, seq_len=1, scores=[0.5])
    bench.draw(envelopes([head, proof_start(3)], close=False), close=False)
    bench.write()
    recording = bench.pages.named("tiny")
    assert bench.pages.recordings[recording].application_id == "proofstream: 3 layers and attention of 1"
    bench.draw(envelopes([replace(head, layer_idx=2), layer_start(2)], close=False)[1:], close=False)
    bench.write()
    assert bench.pages.calls[recording][-1] == "show"


def test_two_proofs_of_different_shape_do_not_share_a_layout(bench: Bench) -> None:
    pages = bench.draw(envelopes([*whole_proof(3), *whole_proof(12)]))
    ids = {recording.application_id for recording in pages.recordings.values()}
    assert ids == {"proofstream: 3 layers", "proofstream: 12 layers"}


def test_a_phase_whose_start_was_not_seen_took_what_its_producer_reports(bench: Bench) -> None:
    pages = bench.draw(envelopes([PhaseEnd(name="commit", duration_ns=3 * MS)]))
    (recording,) = pages.recordings
    assert pages.texts(recording, "logs/phases") == ["phase commit: 3.0 ms (reported)"]
