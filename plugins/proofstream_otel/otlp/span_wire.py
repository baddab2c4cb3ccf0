"""Encodes spans as OTLP protobuf, byte by byte: see `wire`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

from proofstream_otel.otlp.round_wire import EVENT, EVENT_ATTRIBUTE, encode_rounds
from proofstream_otel.otlp.wire import VARINTS, AttributesEncoder, field
from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.spans import SpanEvent, SpanRef, SpanValues, fit

MAX_SPAN_BYTES = 2**20
"""The largest encoded span. OTLP receivers accept requests of up to 4 MiB by default."""

_encode_attributes = AttributesEncoder(b"\x4a").encode
_encode_attributes_of_event = AttributesEncoder(EVENT_ATTRIBUTE).encode
_KIND_INTERNAL = b"\x30\x01"
_STATUS_ERROR = b"\x18\x02"
_DROPPED_ATTRIBUTES, _DROPPED_EVENTS, _DROPPED_LINKS = b"\x50", b"\x60", b"\x70"
_DROPPED_OF_EVENT = b"\x20"
_LINK, _STATUS = 13, 15
_MOST_KEPT = 256
"""So many names and ids are kept encoded. Spans of one proof share most of them."""

_pack_bounds = struct.Struct("<cQcQ").pack
_pack_time = struct.Struct("<cQ").pack
_pack_flags = struct.Struct("<2sI").pack


def encode_span(span: SpanValues) -> bytes:
    """Encode a span as an OTLP message; one that is too large loses events from the middle."""
    return fit(span, _encode, MAX_SPAN_BYTES)


def _encode(span: SpanValues) -> bytes:
    parts = [
        _trace(span.trace_id),
        field(2, bytes.fromhex(span.span_id)),
        _above(span.trace_state, span.parent_span_id),
        _name_and_kind(span.name),
        _pack_bounds(b"\x39", span.start_unix_nano, b"\x41", span.end_unix_nano),
    ]
    parts += _encode_attributes(span.attributes)
    if span.dropped_attributes:
        parts.append(_count(_DROPPED_ATTRIBUTES, span.dropped_attributes))
    parts += _encode_events(span.events)
    if span.dropped_events:
        parts.append(_count(_DROPPED_EVENTS, span.dropped_events))
    parts += map(_link, span.links)
    if span.dropped_links:
        parts.append(_count(_DROPPED_LINKS, span.dropped_links))
    if span.error is not None:
        parts.append(field(_STATUS, field(2, span.error.encode()) + _STATUS_ERROR))
    parts.append(_pack_flags(b"\x85\x01", span.flags))
    return b"".join(parts)


def _encode_events(events: Sequence[SpanEvent | RoundEvent]) -> list[bytes]:
    parts: list[bytes] = []
    rounds: list[RoundEvent] = []
    for event in events:
        if type(event) is RoundEvent:
            rounds.append(event)
            continue
        parts += encode_rounds(rounds, _event)
        rounds.clear()
        parts.append(_event(event))
    return parts + encode_rounds(rounds, _event)


@lru_cache(_MOST_KEPT)
def _trace(trace_id: str) -> bytes:
    return field(1, bytes.fromhex(trace_id))


@lru_cache(_MOST_KEPT)
def _above(trace_state: str, parent_span_id: str) -> bytes:
    state = field(3, trace_state.encode()) if trace_state else b""
    return state + (field(4, bytes.fromhex(parent_span_id)) if parent_span_id else b"")


@lru_cache(_MOST_KEPT)
def _name_and_kind(name: str) -> bytes:
    return field(5, name.encode()) + _KIND_INTERNAL


def _event(event: SpanEvent | RoundEvent) -> bytes:
    content = b"".join(
        (
            _pack_time(b"\x09", event.time_unix_nano),
            field(2, event.name.encode()),
            *_encode_attributes_of_event(event.attributes),
            _count(_DROPPED_OF_EVENT, event.dropped_attributes),
        )
    )
    return b"".join((EVENT, VARINTS[len(content)], content))


def _link(link: SpanRef) -> bytes:
    return field(_LINK, field(1, bytes.fromhex(link.trace_id)) + field(2, bytes.fromhex(link.span_id)))


def _count(tag: bytes, value: int) -> bytes:
    return tag + VARINTS[value] if value else b""
