"""Spans that are encoded byte by byte are the ones that protobuf's own messages would be, for any values."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from proofstream import Interval, LayerKind, RoundPoly, RoundPolyDeg3, SecureField, SumcheckRound
from proofstream_otel.otlp.protobuf import fill_attributes
from proofstream_otel.otlp.span_wire import MAX_SPAN_BYTES, encode_span
from proofstream_otel.values import safe
from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.spans import SpanEvent, SpanRef, SpanValues

from stories import BEGIN, Teller, layer_start, proof_start  # isort: skip


def by_messages(span: SpanValues) -> Span:
    """Make the message by protobuf's own means, from each event's attributes."""
    message = Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id),
        trace_state=span.trace_state,
        flags=span.flags,
        name=span.name,
        kind=Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start_unix_nano,
        end_time_unix_nano=span.end_unix_nano,
        dropped_attributes_count=span.dropped_attributes,
        dropped_events_count=span.dropped_events,
        dropped_links_count=span.dropped_links,
    )
    fill_attributes(message.attributes, span.attributes)
    for event in span.events:
        added = message.events.add(
            name=event.name, time_unix_nano=event.time_unix_nano, dropped_attributes_count=event.dropped_attributes
        )
        fill_attributes(added.attributes, event.attributes)
    for link in span.links:
        message.links.add(trace_id=bytes.fromhex(link.trace_id), span_id=bytes.fromhex(link.span_id))
    if span.error is not None:
        message.status.code = Status.STATUS_CODE_ERROR
        message.status.message = span.error
    return message


u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 20) | st.integers(0, 2**64 - 1) | st.sampled_from([127, 128, 4095, 4096, 2**53 - 1, 2**53])
time = st.integers(1, 2**63 - 1)
claim = st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 0.5, 0.25, 0.125])
element = st.builds(SecureField, u32, u32, u32, u32)
a_round = st.builds(
    SumcheckRound,
    layer_idx=st.just(0),
    round=u64,
    total_rounds=u64,
    poly_deg2=st.none() | st.builds(RoundPoly, element, element, element),
    poly_deg3=st.none() | st.builds(RoundPolyDeg3, element, element, element, element),
    claim_value_approx=claim,
)


@st.composite
def layers(draw: st.DrawFn) -> Interval:
    """Draw a layer with a starting claim, by which a round's claim may be a placeholder."""
    teller = Teller()
    teller.tell(proof_start(), msgspec.structs.replace(layer_start(0), claim_value_approx=draw(claim)))
    return teller.layer(0)


anything = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(LayerKind)
attributes = st.dictionaries(
    st.text(max_size=8) | st.sampled_from(["a", "b"]),
    anything | st.sampled_from([0, 1, 0.0, 1.0, False, True]) | st.lists(anything, max_size=4) | st.text(min_size=200),
    max_size=8,
).map(safe.attributes)
text = st.text().map(safe.text)
count = st.integers(0, 2**32 - 1)
trace_id = st.binary(min_size=16, max_size=16).map(bytes.hex)
span_id = st.binary(min_size=8, max_size=8).map(bytes.hex)
spans = st.builds(
    SpanValues,
    name=text,
    trace_id=trace_id,
    span_id=span_id,
    parent_span_id=st.just("") | span_id,
    root_span_id=span_id,
    sampled=st.just(True),
    remote_parent=st.booleans(),
    trace_state=st.just("") | text,
    start_unix_nano=time,
    end_unix_nano=time,
    attributes=attributes,
    events=st.lists(
        st.builds(SpanEvent, text, time, attributes, count)
        | st.builds(RoundEvent, time, a_round, st.none() | layers()),
        max_size=6,
    ),
    dropped_events=count,
    links=st.lists(st.builds(SpanRef, trace_id, span_id, st.booleans()), max_size=3),
    error=st.none() | text,
    resource=st.just(()),
    dropped_attributes=count,
    dropped_links=count,
)


@settings(max_examples=500, deadline=None)
@given(spans)
def test_the_bytes_are_the_message(span: SpanValues) -> None:
    assert Span.FromString(encode_span(span)) == by_messages(span)


def test_a_span_that_is_too_large_loses_rounds_from_the_middle() -> None:
    one = SecureField(2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1)
    rounds: list[Any] = [
        RoundEvent(
            BEGIN + index,
            SumcheckRound(
                layer_idx=0, round=index, total_rounds=9000, poly_deg2=RoundPoly(one, one, one), claim_value_approx=0.5
            ),
            None,
        )
        for index in range(9000)
    ]
    span = SpanValues(
        name="layer",
        trace_id="1" * 32,
        span_id="2" * 16,
        parent_span_id="",
        root_span_id="2" * 16,
        sampled=True,
        remote_parent=False,
        trace_state="",
        start_unix_nano=BEGIN,
        end_unix_nano=BEGIN + 9000,
        attributes={"proofstream.rounds.recorded": 9000, "proofstream.rounds.dropped": 0},
        events=rounds,
        dropped_events=0,
        links=[],
        error=None,
        resource=(),
    )

    encoded = encode_span(span)
    found = Span.FromString(encoded)

    assert len(encoded) <= MAX_SPAN_BYTES
    kept = [event.time_unix_nano - BEGIN for event in found.events]
    assert kept[:2] == [0, 1]
    assert kept[-2:] == [8998, 8999]
    assert found.dropped_events_count == 9000 - len(kept)
    counts = {pair.key: pair.value.int_value for pair in found.attributes}
    assert counts["proofstream.rounds.recorded"] == len(kept)
