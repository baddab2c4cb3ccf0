"""The mapping's promise: for any events, every span ends once, in its trace, and every event is kept."""

from __future__ import annotations

import logging
from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import proofstream as ps
from proofstream.testing import envelopes
from proofstream_otel.settings import Settings
from proofstream_otel.traces.mapping import SpanMapper
from proofstream_otel.traces.parents import Parents
from proofstream_otel.values.spans import Parent, SpanRef, SpanValues

LAYERS = st.integers(0, 2)
NUMBERS = st.none() | st.integers(0, 2)
NAMES = st.sampled_from(["commit", "fold"])
SHAPE = (1, 1)


class KeepingWriter:
    """A writer that samples all spans and keeps them."""

    keeps_ids = True

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[SpanValues] = []

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        """Keep the id."""
        assert span.is_root
        self.started.append(span.span_id)
        return SpanRef(span.trace_id, span.span_id, sampled=True)

    def end_span(self, span: SpanValues) -> SpanRef:
        """Keep the span."""
        self.ended.append(span)
        return SpanRef(span.trace_id, span.span_id, sampled=span.sampled)


def layer_start(layer_idx: int) -> ps.LayerStart:
    """The start of a layer."""
    return ps.LayerStart(
        layer_idx=layer_idx,
        kind=ps.LayerKind.Mul,
        input_shape=SHAPE,
        output_shape=SHAPE,
        trace_cost=0,
        claim_value_approx=None,
        gpu_device=None,
    )


def layer_end(layer_idx: int) -> ps.LayerEnd:
    """The end of a layer."""
    return ps.LayerEnd(
        layer_idx=layer_idx,
        kind=ps.LayerProofKind.Linear,
        final_claim_value_approx=None,
        duration_ms=2**40,
        rounds_completed=0,
    )


def sumcheck_round(layer_idx: int) -> ps.SumcheckRound:
    """A round without a polynomial."""
    return ps.SumcheckRound(
        layer_idx=layer_idx, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=None
    )


START = ps.ProofStart(model_name=None, backend="", num_layers=0, input_shape=SHAPE, output_shape=SHAPE)
COMPLETE = ps.ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="")
events = st.one_of(
    st.sampled_from(
        [
            START,
            COMPLETE,
            ps.Log(level=ps.LogLevel.Warn, message="lagged 3 events"),
            ps.ProofAborted(reason="gone"),
            ps.GpuStatus(devices=[], matmul_done=0, matmul_total=0, layers_done=0, layers_total=0),
            ps.WeightOpeningStart(weight_node_id=1, eval_point_len=1),
            ps.WeightOpeningEnd(weight_node_id=1, duration_ms=1, commitment_hex=""),
            ps.StarkProofStart(num_activation_layers=0, num_add_layers=0, num_layernorm_layers=0),
            ps.StarkProofEnd(duration_ms=1),
            ps.activation(layer_idx=0, node_id=0, kind=ps.LayerKind.Add, output_shape=SHAPE, values=[1]),
            ps.EventsLost(where="intake", counts={"Log": 2}),
            ps.SessionClosed(outcome="lost", reason=None, refused=0),
        ]
    ),
    st.builds(ps.PhaseStart, name=NAMES, phase=NUMBERS, parent=NUMBERS, layer_idx=st.none() | LAYERS),
    st.builds(ps.PhaseEnd, name=NAMES, phase=NUMBERS, failed=st.none() | st.just("no")),
    st.builds(ps.PhaseProgress, name=NAMES, phase=NUMBERS, done=LAYERS, total=st.just(2)),
    LAYERS.map(layer_start),
    LAYERS.map(layer_end),
    LAYERS.map(sumcheck_round),
)
shifts_us = st.integers(-3000, 3000)
steps = st.lists(st.tuples(events, st.sampled_from([None, "a"]), shifts_us), max_size=40)


def run(given_steps: list[tuple[ps.ProofEvent, str | None, int]]) -> KeepingWriter:
    """Map events of one session, with jobs and unordered times, and close."""
    writer = KeepingWriter()
    mapper = SpanMapper(writer, Parents(logging.getLogger("test")), Settings().span_limits)
    items = envelopes([event for event, _, _ in given_steps], close=False)
    mapper.map_event(items[0])
    for envelope, (_, job, shift) in zip(items[1:], given_steps, strict=True):
        time_unix_nano = envelope.time_unix_nano + shift * 1000
        mapper.map_event(msgspec.structs.replace(envelope, job_id=job, time_unix_nano=time_unix_nano))
    mapper.close("the end")
    return writer


@given(steps)
def test_every_span_ends_once_and_hangs_together(given_steps: list[tuple[ps.ProofEvent, str | None, int]]) -> None:
    writer = run(given_steps)
    ids = [span.span_id for span in writer.ended]
    assert len(set(ids)) == len(ids)
    assert Counter(span.span_id for span in writer.ended if span.is_root) == Counter(writer.started)
    by_id = {span.span_id: span for span in writer.ended}
    for number, span in enumerate(writer.ended):
        assert 0 < span.start_unix_nano <= span.end_unix_nano
        for event in span.events:
            assert event.time_unix_nano <= span.end_unix_nano
            if event.name in ("proofstream.sumcheck.round", "proofstream.log"):
                assert span.start_unix_nano <= event.time_unix_nano
        if span.is_root:
            continue
        above = by_id[span.parent_span_id]
        assert above.trace_id == span.trace_id
        if above.name != "session":  # that begins with its first event, which may be the end of something longer
            assert above.start_unix_nano <= span.start_unix_nano
        if not {span.name[:5], above.name[:5]} & {"phase"}:  # a phase may outlive its proof, and a layer its phase
            assert span.end_unix_nano <= above.end_unix_nano
            assert number < ids.index(above.span_id), "a span is written before the one above it"


@given(steps)
def test_every_event_is_an_edge_or_is_noted(given_steps: list[tuple[ps.ProofEvent, str | None, int]]) -> None:
    kept = [(event, job, shift) for event, job, shift in given_steps if not isinstance(event, ps.SessionClosed)]
    writer = run(kept)
    kinds = Counter(type(event) for event, _, _ in kept)
    names = Counter(event.name for span in writer.ended for event in span.events)
    assert names["proofstream.sumcheck.round"] == kinds[ps.SumcheckRound]
    assert names["proofstream.log"] == kinds[ps.Log]
    assert names["proofstream.layer.activation"] == kinds[ps.LayerActivation]
    assert names["proofstream.events_lost"] == kinds[ps.EventsLost]
    others = [
        event.attributes["proofstream.event.kind"]
        for span in writer.ended
        for event in span.events
        if event.name == "proofstream.event"
    ]
    assert others == ["ProofComplete"] * len(others)  # of proofs that the next one interrupted
    statuses = sum(int(str(span.attributes.get("proofstream.gpu_status.count", 0))) for span in writer.ended)
    assert statuses == kinds[ps.GpuStatus]
