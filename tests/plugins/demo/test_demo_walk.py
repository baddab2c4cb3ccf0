"""Tests the events of a walk: their order, their figures, and their intervals in the timeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
import pytest

from proofstream import (
    ActivationStats,
    AttentionHeatmap,
    Catalog,
    CircuitCompiled,
    Closed,
    GpuStatus,
    Interval,
    IntervalKind,
    LayerActivation,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    LineDecoder,
    Phase,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    Proof,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SumcheckRound,
    Timelines,
    WeightOpeningEnd,
    WeightOpeningStart,
    encode_event,
    kind_of,
    matmul_trace_cost,
)
from proofstream.testing import envelopes
from proofstream_demo.circuit import MatMul, evaluate_circuit
from proofstream_demo.commitment import PUZZLES
from proofstream_demo.field import embed
from proofstream_demo.models import Example, attention_weights, digits, transformer
from proofstream_demo.proof import GkrProof
from proofstream_demo.prover import prove
from proofstream_demo.sumcheck import sum_at_bits

E = TypeVar("E", bound=ProofEvent)


def of(kind: type[E], events: Iterable[ProofEvent]) -> list[E]:
    return [event for event in events if isinstance(event, kind)]


def only(kind: type[E], events: Iterable[ProofEvent]) -> E:
    (event,) = of(kind, events)
    return event


@pytest.fixture(scope="module")
def run(example: Example) -> tuple[GkrProof, list[ProofEvent]]:
    events: list[ProofEvent] = []
    return prove(example.model, example.inputs, emit=events.append), events


@pytest.fixture(scope="module")
def events(run: tuple[GkrProof, list[ProofEvent]]) -> list[ProofEvent]:
    return run[1]


def expected_kinds(example: Example, events: Sequence[ProofEvent]) -> list[str]:
    """List the kinds in the order of a real walk, with as many rounds as the proof has."""
    circuit = example.model.circuit
    kinds = ["PhaseStart", "PhaseEnd", "CircuitCompiled", *["LayerActivation"] * len(circuit.layers)]
    kinds += [*["AttentionHeatmap"] * len(example.model.attention), "ProofStart"]
    for index in reversed(range(len(circuit.layers))):
        rounds = [r for r in of(SumcheckRound, events) if r.layer_idx == index]
        kinds += ["LayerStart", *["SumcheckRound"] * len(rounds), "LayerEnd", "GpuStatus"]
    grind = ["PhaseStart", *["PhaseProgress"] * PUZZLES, "PhaseEnd"]
    opening = ["PhaseProgress", "WeightOpeningStart", *grind, "WeightOpeningEnd"]
    return [*kinds, "PhaseStart", *opening * len(circuit.weights), "PhaseProgress", "PhaseEnd", "ProofComplete"]


def test_events_come_in_the_order_of_a_real_walk(example: Example, events: list[ProofEvent]) -> None:
    assert [kind_of(event) for event in events] == expected_kinds(example, events)
    last_to_first = list(reversed(range(len(example.model.circuit.layers))))
    assert [event.layer_idx for event in of(LayerStart, events)] == last_to_first
    assert [event.layer_idx for event in of(LayerEnd, events)] == last_to_first


def test_rounds_are_those_of_the_proof(run: tuple[GkrProof, list[ProofEvent]]) -> None:
    proof, events = run
    for index, reductions in enumerate(proof.layers):
        rounds = [event for event in of(SumcheckRound, events) if event.layer_idx == index]
        sent = [polynomial for reduction in reductions for polynomial in reduction.rounds]
        assert [event.round for event in rounds] == list(range(len(sent)))
        assert {event.total_rounds for event in rounds} <= {len(sent)}
        for event, polynomial in zip(rounds, sent, strict=True):
            poly = event.poly_deg2 or event.poly_deg3
            assert poly is not None
            coefficients = [getattr(poly, name) for name in ("c0", "c1", "c2", "c3") if hasattr(poly, name)]
            assert [[c.a, c.b, c.c, c.d] for c in coefficients] == polynomial.tolist()
            assert event.claim_value_approx == pytest.approx(int(sum_at_bits(polynomial)[0]) / (2**31 - 1))


DEGREES = {
    LayerKind.MatMul: {"poly_deg2"},
    LayerKind.Mul: {"poly_deg3"},
    LayerKind.Activation: {"poly_deg3"},
    LayerKind.Add: set[str](),
    LayerKind.Input: set[str](),
}
PROOF_KINDS = {
    LayerKind.MatMul: LayerProofKind.Sumcheck,
    LayerKind.Mul: LayerProofKind.Sumcheck,
    LayerKind.Activation: LayerProofKind.Sumcheck,
    LayerKind.Add: LayerProofKind.Linear,
    LayerKind.Input: LayerProofKind.Skipped,
}


def test_each_kind_of_layer_has_its_degree_and_its_way_of_proof(events: list[ProofEvent]) -> None:
    ends = {event.layer_idx: event for event in of(LayerEnd, events)}
    for start in of(LayerStart, events):
        rounds = [event for event in of(SumcheckRound, events) if event.layer_idx == start.layer_idx]
        given = {name for event in rounds for name in ("poly_deg2", "poly_deg3") if getattr(event, name) is not None}
        assert given == DEGREES[start.kind]
        assert ends[start.layer_idx].kind is PROOF_KINDS[start.kind]
        assert ends[start.layer_idx].rounds_completed == len(rounds)


def test_progress_counts_up_and_utilization_is_unknown(example: Example, events: list[ProofEvent]) -> None:
    layers = example.model.circuit.layers
    statuses = of(GpuStatus, events)
    assert [status.layers_done for status in statuses] == list(range(1, len(layers) + 1))
    assert {status.layers_total for status in statuses} == {len(layers)}
    assert statuses[-1].matmul_done == statuses[-1].matmul_total == sum(isinstance(x, MatMul) for x in layers)
    (device,) = {status.devices[0] for status in statuses}
    assert (device.device_name, device.utilization, device.free_memory_bytes) == ("CPU (numpy)", None, None)


def test_figures_of_the_end_are_counts(example: Example, events: list[ProofEvent]) -> None:
    complete = only(ProofComplete, events)
    layers = example.model.circuit.layers
    assert complete.num_layer_proofs == len(layers) - 1
    assert complete.num_weight_openings == len(example.model.circuit.weights)
    assert complete.duration_ms >= max(end.duration_ms for end in of(LayerEnd, events))


def test_weights_are_opened_with_the_commitments_of_the_proof(
    example: Example, run: tuple[GkrProof, list[ProofEvent]]
) -> None:
    proof, events = run
    weighted = example.model.circuit.weighted
    starts, ends = of(WeightOpeningStart, events), of(WeightOpeningEnd, events)
    assert [start.weight_node_id for start in starts] == [index for index, _ in weighted]
    assert [end.commitment_hex for end in ends] == [proof.commitments[name][:8].hex() for _, name in weighted]
    for start, (_, name) in zip(starts, weighted, strict=True):
        rows, cols = example.model.circuit.weights[name].shape
        assert start.eval_point_len == (rows - 1).bit_length() + (cols - 1).bit_length()


def test_phases_have_numbers_names_durations_and_progress(example: Example, events: list[ProofEvent]) -> None:
    names = [name for _, name in example.model.circuit.weighted]
    starts, ends = of(PhaseStart, events), of(PhaseEnd, events)
    assert [start.name for start in starts] == ["forward pass", "weight commitments", *["grind"] * len(names)]
    assert [start.phase for start in starts] == list(range(1, len(starts) + 1))
    assert [start.attributes for start in starts[2:]] == [{"weight": name} for name in names]
    assert {(end.name, end.phase) for end in ends} == {(start.name, start.phase) for start in starts}
    assert all(end.failed is None and end.duration_ns for end in ends)
    commitments = [event for event in of(PhaseProgress, events) if event.phase == 2]
    assert [(event.done, event.total) for event in commitments] == [
        (done, len(names)) for done in range(len(names) + 1)
    ]
    grind = [event for event in of(PhaseProgress, events) if event.phase == 3]
    assert [(event.done, event.total) for event in grind] == [(done, PUZZLES) for done in range(1, PUZZLES + 1)]


def test_the_timeline_finds_the_work_on_the_weights_in_the_proof_after_its_layers(events: list[ProofEvent]) -> None:
    timelines = Timelines()
    changes = [change for envelope in envelopes(events) for change in timelines.feed(envelope)]
    closed = [change.interval for change in changes if isinstance(change, Closed)]
    (commitments,) = [phase for phase in closed if isinstance(phase, Phase) and phase.name == "weight commitments"]
    (proof,) = [interval for interval in closed if isinstance(interval, Proof)]
    assert commitments.parent is proof
    assert [stage.name for stage in proof.stages] == ["before_layers", "layers", "after_layers"]
    after = proof.stages[-1]
    assert after.start_unix_nano < commitments.start_unix_nano
    for phase in [phase for phase in closed if isinstance(phase, Phase) and phase.name == "grind"]:
        assert phase.path == [commitments, phase]
        assert phase.start_unix_nano > after.start_unix_nano


def test_the_compiled_circuit_is_the_one_that_is_walked(example: Example, events: list[ProofEvent]) -> None:
    compiled, started = only(CircuitCompiled, events), only(ProofStart, events)
    layers = example.model.circuit.layers
    assert compiled.total_layers == started.num_layers == len(compiled.nodes) == len(layers)
    assert [node.input_layers for node in compiled.nodes] == [layer.inputs for layer in layers]
    nodes = {node.layer_idx: node for node in compiled.nodes}
    for start in of(LayerStart, events):
        node = nodes[start.layer_idx]
        assert (start.kind, start.input_shape, start.output_shape, start.trace_cost) == (
            node.kind,
            node.input_shape,
            node.output_shape,
            node.trace_cost,
        )
    assert started.model_name == example.model.name
    assert (started.input_shape, started.output_shape) == (layers[0].shape, layers[-1].shape)


def test_trace_costs_count_the_products() -> None:
    events: list[ProofEvent] = []
    example = digits()
    prove(example.model, example.inputs, emit=events.append)
    costs = [node.trace_cost for node in only(CircuitCompiled, events).nodes]
    assert costs == [64, matmul_trace_cost(1, 64, 32), 32, matmul_trace_cost(1, 32, 10)]


def test_activations_are_the_values_of_their_layers(example: Example, events: list[ProofEvent]) -> None:
    values = evaluate_circuit(example.model.circuit, example.inputs)
    for event, matrix in zip(of(LayerActivation, events), values, strict=True):
        flat = embed(matrix).reshape(-1).tolist()
        assert event.output_sample == tuple(flat[:128])
        assert event.output_shape == matrix.shape
        assert isinstance(event.stats, ActivationStats)
        assert event.stats.max == max(flat)


def test_heat_maps_show_the_shares_of_each_row() -> None:
    example = transformer()
    events: list[ProofEvent] = []
    prove(example.model, example.inputs, emit=events.append)
    values = evaluate_circuit(example.model.circuit, example.inputs)
    maps = of(AttentionHeatmap, events)
    assert [(event.head_idx, event.num_heads, event.seq_len) for event in maps] == [(0, 2, 8), (1, 2, 8)]
    for event in maps:
        scores = np.abs(values[event.layer_idx])
        shown = np.array(event.scores).reshape(8, 8)
        assert np.allclose(shown.sum(axis=1), 1.0)
        assert np.allclose(shown * scores.sum(axis=1, keepdims=True), scores)


def test_a_row_of_zeros_has_no_shares() -> None:
    assert attention_weights(np.array([[0, 0], [1, -3]])) == [[0.0, 0.0], [0.25, 0.75]]


def test_every_event_survives_the_wire(events: list[ProofEvent]) -> None:
    decoder = LineDecoder(Catalog())
    for event in events:
        assert decoder.decode(encode_event(event)).event == event


def test_the_timeline_finds_every_layer_closed_and_every_round_in_its_layer(
    example: Example, events: list[ProofEvent]
) -> None:
    timelines = Timelines()
    changes = [change for envelope in envelopes(events) for change in timelines.feed(envelope)]
    closed: list[Interval] = [change.interval for change in changes if isinstance(change, Closed)]
    layers = [interval for interval in closed if interval.kind is IntervalKind.LAYER]
    assert [interval.key for interval in layers] == list(reversed(range(len(example.model.circuit.layers))))
    assert all(interval.aborted_reason is None and interval.closed is not None for interval in closed)
    assert sum(interval.rounds for interval in layers) == len(of(SumcheckRound, events))
