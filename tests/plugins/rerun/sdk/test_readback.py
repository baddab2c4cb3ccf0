"""Compares recordings, read back with Rerun's own reader, with the streams that they were made from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rerun_file import TIMELINES, File

from proofstream import (
    Envelope,
    LayerActivation,
    LayerEnd,
    LayerStart,
    Log,
    ProofEvent,
    ProofStart,
    SumcheckRound,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_rerun import RerunPlugin
from proofstream_rerun.picture.field import M31_PRIME, coefficients, limbs, sum_over_bits


def draw(stream: Path, folder: Path) -> tuple[list[Envelope], list[File]]:
    """Draw a stream into files; return its envelopes and the files."""
    made = envelopes(read_stream(stream))
    host = InlineHost(RerunPlugin(connections=(f"file:{folder / 'proof.rrd'}",)), live=False)
    host.feed(made)
    assert {name: count for name, count in host.health().items() if name.startswith(("lost_", "un")) and count} == {}
    host.close()
    paths = sorted(folder.glob("*.rrd"), key=lambda path: (len(path.name), path.name))
    return made, [File(path) for path in paths]


def of_type(stream: list[Envelope], *types: type[ProofEvent]) -> Iterator[Envelope]:
    """Return the envelopes of some kinds of events."""
    return (envelope for envelope in stream if isinstance(envelope.event, types))


@pytest.fixture(scope="module")
def smol(wire_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Envelope], File]:
    """A proof of 211 layers, and its file."""
    stream, (file,) = draw(wire_data / "smollm2-135m-cpu.jsonl", tmp_path_factory.mktemp("smol"))
    return stream, file


def test_every_row_has_three_timelines(smol: tuple[list[Envelope], File]) -> None:
    _, file = smol
    drawn = {path: entity for path, entity in file.entities.items() if entity.rows}
    assert len(drawn) > 40
    assert all(entity.timelines == TIMELINES for entity in drawn.values())
    for entity in drawn.values():
        assert entity.times("prover_time") == sorted(entity.times("prover_time"))


def test_there_are_few_entities_for_many_layers(smol: tuple[list[Envelope], File]) -> None:
    _, file = smol
    assert len(file.entities) < 100
    assert (file.application_id, file.blueprints > 0) == ("proofstream: 211 layers and activations", True)
    assert {path for path, entity in file.entities.items() if entity.is_static} >= {
        "",
        "circuit/backbone",
        "circuit/labels",
        "circuit/graph",
    }


def test_every_round_has_a_row_with_its_polynomial(smol: tuple[list[Envelope], File]) -> None:
    stream, file = smol
    expected = list(of_type(stream, SumcheckRound))
    rounds = file.entities["gkr/rounds"]
    (start,) = of_type(stream, ProofStart)
    assert rounds.times("event") == [envelope.seq for envelope in expected]
    assert rounds.times("wall_time") == [envelope.time_unix_nano for envelope in expected]
    assert rounds.times("prover_time") == [e.time_unix_nano - start.time_unix_nano for e in expected]
    for (_, values), envelope in zip(rounds.rows, expected, strict=True):
        event = envelope.event
        assert isinstance(event, SumcheckRound)
        polynomial = [limbs(coefficient) for coefficient in coefficients(event)]
        assert (values["Layer"], values["Round"]) == ([event.layer_idx], [event.round])
        assert [values[f"c{place}"] for place in range(3)] == [[list(c)] for c in polynomial]
        assert values["p0_plus_p1"] == [list(sum_over_bits(polynomial))]
        assert values["scalars"] == [sum_over_bits(polynomial)[0] / M31_PRIME]


def test_progress_goes_from_zero_to_all_layers(smol: tuple[list[Envelope], File]) -> None:
    stream, file = smol
    layers = sum(1 for _ in of_type(stream, LayerEnd))
    progress = [value for (value,) in file.entities["proof/progress"].values("scalars")]
    np.testing.assert_allclose(progress, [*np.arange(layers + 1) / layers, 1.0, 1.0])


def test_the_last_rows_hold_all_layers_and_bars(smol: tuple[list[Envelope], File]) -> None:
    stream, file = smol
    groups = file.below("gkr/layers/")
    boxes = sum(len(entity.values("centers")[-1]) for entity in groups.values())
    layers, rounds = (sum(1 for _ in of_type(stream, kind)) for kind in (LayerEnd, SumcheckRound))
    assert boxes == layers + rounds
    for entity in groups.values():
        for _, values in entity.rows:
            assert len(values["centers"]) == len(values["half_sizes"]) == len(values["colors"])
    timelines = file.below("lanes/5_layers/")
    assert timelines.keys() == groups.keys()
    assert all(entity.values("state")[-1] == ["proved"] for entity in timelines.values())


def test_the_walk_is_logged_layer_by_layer(smol: tuple[list[Envelope], File]) -> None:
    stream, file = smol
    walk = list(of_type(stream, LayerStart, LayerEnd))
    log = file.entities["logs/gkr"]
    assert log.times("event") == [envelope.seq for envelope in walk]
    claims = file.entities["gkr/claims"]
    assert claims.times("event") == log.times("event")
    at = file.entities["lanes/3_devices/prover"].values("state")
    kinds = [e.event.kind.value for e in walk if isinstance(e.event, LayerStart)]
    assert [state[0] for state in at if state] == kinds


def test_activations_are_drawn_once(smol: tuple[list[Envelope], File]) -> None:
    stream, file = smol
    events = [e.event for e in of_type(stream, LayerActivation)]
    ((tensor,),) = file.entities["inference/activations"].values("data")
    first = events[0]
    assert isinstance(first, LayerActivation)
    assert tensor["shape"] == [len(events), len(first.output_sample)]
    sample = np.array(first.output_sample, np.int64)
    signed = np.where(sample > 2**30, sample - (2**31 - 1), sample)
    shares = tensor["buffer"][: len(sample)]
    np.testing.assert_allclose(shares, signed / np.abs(signed).max(), rtol=1e-6)
    ((means,),) = file.entities["inference/mean"].values("values")
    assert means["buffer"] == [e.stats.mean for e in events if isinstance(e, LayerActivation)]


def test_an_aborted_proof_and_the_next_one_have_a_file_each(wire_data: Path, tmp_path: Path) -> None:
    stream, (first, second) = draw(wire_data / "aborted-then-next.jsonl", tmp_path)
    assert first.recording_id != second.recording_id
    assert "lanes/5_layers/09_MatMul" in first.entities or "lanes/5_layers/09_RMSNorm" in first.entities
    (died,) = (path for path in first.below("lanes/5_layers/") if path.startswith("09"))
    assert first.entities[f"lanes/5_layers/{died}"].values("state")[-1] == ["aborted"]
    assert first.entities["gkr/aborted"].values("labels")[-1][0].startswith("aborted in layer 9 ")
    assert "gkr/aborted" not in second.entities
    assert [value for (value,) in first.entities["proof/progress"].values("scalars")][-1] == pytest.approx(12 / 22)
    assert [value for (value,) in second.entities["proof/progress"].values("scalars")][-1] == 1.0
    rounds = [len(file.entities["gkr/rounds"].rows) for file in (first, second)]
    assert rounds == [46, 90]
    starts = list(of_type(stream, ProofStart))
    (begun,) = (row for row in second.entities["proof/progress"].rows if row[1]["scalars"] == [0.0])
    assert begun[0]["event"] == starts[1].seq
    assert "inference/mean" in first.entities
    assert "inference/mean" not in second.entities  # the stream has activations of the first proof only


def test_layers_without_an_end_and_missing_layers(wire_data: Path, tmp_path: Path) -> None:
    _, (file,) = draw(wire_data / "endless-and-holes.jsonl", tmp_path)
    timelines = file.below("lanes/5_layers/")
    states = {int(path.partition("_")[0]): entity.values("state")[-1] for path, entity in timelines.items()}
    assert {index for index, state in states.items() if state == ["end not seen"]} == {7, 15}
    assert set(range(17)) - set(states) == {3, 11}
    assert len(file.entities["gkr/trail"].values("strips")[-1]) >= 5  # broken at four layers
    assert any("its end was not seen" in line for line in file.texts("logs/gkr"))


def test_a_job_on_a_socket_that_lost_events(wire_data: Path, tmp_path: Path) -> None:
    stream, (file,) = draw(wire_data / "ws-job-frames-lagged.jsonl", tmp_path)
    (lagged,) = of_type(stream, Log)
    assert isinstance(lagged.event, Log)
    assert lagged.event.message in file.texts("logs/proof")
    levels = dict(zip(file.texts("logs/proof"), file.entities["logs/proof"].values("level"), strict=True))
    assert levels[lagged.event.message] == ["WARN"]
    assert len(file.below("lanes/5_layers/")) == 22


def test_a_stark_without_a_proof(wire_data: Path, tmp_path: Path) -> None:
    _, (file,) = draw(wire_data / "stark-without-proof.jsonl", tmp_path)
    states = file.entities["lanes/4_parts/stark"].values("state")
    assert states[0] == ["proving"]
    assert not states[-1]
    assert file.texts("logs/stark")[-1] == "STARK ended after 320 ms (reported)"
    ((tensor,),) = file.entities["inference/activations"].values("data")
    assert tensor["shape"] == [5, 3]
    assert "circuit/backbone" not in file.entities


def test_every_kind_of_event_is_drawn(wire_data: Path, tmp_path: Path) -> None:
    stream, files = draw(wire_data / "serde-all-variants.jsonl", tmp_path)
    paths = {path for file in files for path in file.entities}
    assert paths >= {
        "circuit/edges",
        "gkr/rounds",
        "gkr/round",
        "gkr/claims",
        "inference/attention/layer_006",
        "inference/mean",
        "lanes/4_parts/weight_openings",
        "lanes/4_parts/weight_binding",
        "lanes/4_parts/stark",
        "logs/weights",
        "logs/stark",
        "logs/gkr",
        "logs/proof",
        "proof/binding_ms",
        "proof/status",
    }
    weights = list(of_type(stream, WeightOpeningStart, WeightOpeningEnd))
    assert sum(len(file.entities["logs/weights"].rows) for file in files) == len(weights)
    rounds = [e.event for e in of_type(stream, SumcheckRound)]
    cubic = [e for e in rounds if isinstance(e, SumcheckRound) and e.poly_deg3 is not None]
    found = [c3[0] for file in files for c3 in file.entities["gkr/rounds"].values("c3") if c3]
    assert found == [list(limbs(coefficients(event)[3])) for event in cubic]
