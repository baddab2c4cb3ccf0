"""A span as plain values: the mapping makes it, and every writer of spans takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import Attr, EventName

_SAMPLED = 0x01
_HAS_IS_REMOTE = 0x100
_IS_REMOTE = 0x200

_T = TypeVar("_T")


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """A third-party span that ours go under.

    Attributes:
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits.
        sampled: Whether it is exported.
        remote: Whether it came in a header or variable, not from this process.
        trace_state: Its W3C tracestate header.
        context: The OpenTelemetry context in which it was current, if it came from this process.
    """

    trace_id: str
    span_id: str
    sampled: bool
    remote: bool
    trace_state: str = ""
    context: object = None


class SpanRef(msgspec.Struct, frozen=True, gc=False):
    """A pointer to a span: from a metric, a log record, a span below it, or a span of another trace.

    Attributes:
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits.
        sampled: Whether the span is exported.
    """

    trace_id: str
    span_id: str
    sampled: bool


class SpanEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that happened in a span."""

    name: str
    time_unix_nano: int
    attributes: Attributes
    dropped_attributes: int = 0


class SpanValues(msgspec.Struct, kw_only=True):
    """One span; every value in it is safe to export.

    Attributes:
        name: Its name.
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits.
        parent_span_id: 16 lower-case hex digits, or empty for a root.
        root_span_id: The topmost of our spans above it, or itself. Sampling is decided once for that span.
        sampled: Whether it is exported.
        remote_parent: Whether its parent is in another process.
        trace_state: W3C tracestate.
        start_unix_nano: When it began.
        end_unix_nano: When it ended; `start_unix_nano` for a span that has just begun, never earlier.
        attributes: Its attributes.
        events: Its events, in order of time as far as known.
        dropped_events: The number of its events that are not in `events`.
        links: Spans of other traces that belong with it.
        error: Why it failed, or None.
        resource: The process that runs the prover, as sorted pairs.
        dropped_attributes: The number of its attributes that are left out, for a limit.
        dropped_links: The same for its links.
    """

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    root_span_id: str
    sampled: bool
    remote_parent: bool
    trace_state: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Attributes
    events: list[SpanEvent | RoundEvent]
    dropped_events: int
    links: list[SpanRef]
    error: str | None
    resource: tuple[tuple[str, str], ...]
    dropped_attributes: int = 0
    dropped_links: int = 0

    @property
    def is_root(self) -> bool:
        """Whether none of our other spans is above it."""
        return self.span_id == self.root_span_id

    @property
    def flags(self) -> int:
        """OTLP's flags: sampled, and whether the parent is in another process."""
        return _SAMPLED | _HAS_IS_REMOTE | (_IS_REMOTE if self.remote_parent else 0)


class SpanWriter(Protocol):
    """Takes spans. All calls come from one thread.

    Attributes:
        keeps_ids: Whether spans get the ids that they come with. If not, a span's ids are known once it starts.
    """

    keeps_ids: bool

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        """Begin a span whose ids are needed before it ends, and return where it really is.

        Each root is started: a proof, a session, or an interval outside of any proof. `parent` is the third-party span
        above it; of a span below another one of ours it is None.
        """
        ...

    def end_span(self, span: SpanValues) -> SpanRef:
        """Take a finished span, and return where it really is. Its parent was started before, or has ended."""
        ...


class _Nowhere:
    """Writes no spans, for runs that export only metrics or logs: those still need the bounds and ids of spans."""

    keeps_ids = True

    def start_span(self, span: SpanValues, parent: Parent | None) -> SpanRef:
        return SpanRef(span.trace_id, span.span_id, sampled=False)

    def end_span(self, span: SpanValues) -> SpanRef:
        return SpanRef(span.trace_id, span.span_id, sampled=False)


NOWHERE: SpanWriter = _Nowhere()


def keep_ends(items: list[_T], count: int) -> list[_T]:
    """Return the first and the last items, `count` in all."""
    if len(items) <= count:
        return items
    tail = count // 2
    return items[: count - tail] + items[len(items) - tail :]


def fit(span: SpanValues, encode: Callable[[SpanValues], bytes], max_bytes: int) -> bytes:
    """Encode a span; drop events from the middle until the result fits into `max_bytes`."""
    encoded = encode(span)
    while len(encoded) > max_bytes and span.events:
        span = _thin(span, len(span.events) // 2)
        encoded = encode(span)
    return encoded


def count_rounds(events: Iterable[object]) -> int:
    """Count the rounds among events, ours or the SDK's."""
    return sum(getattr(event, "name", None) == EventName.ROUND for event in events)


def recount(attributes: Attributes, gone: int) -> Attributes:
    """Return corrected values of the attributes that count rounds, after `gone` recorded rounds were left out."""
    recorded, dropped = attributes.get(Attr.ROUNDS_RECORDED), attributes.get(Attr.ROUNDS_DROPPED)
    if not (isinstance(recorded, int) and isinstance(dropped, int)):
        return {}
    return {Attr.ROUNDS_RECORDED: recorded - gone, Attr.ROUNDS_DROPPED: dropped + gone}


def _thin(span: SpanValues, keep: int) -> SpanValues:
    kept = keep_ends(span.events, keep)
    gone = count_rounds(span.events) - count_rounds(kept)
    return msgspec.structs.replace(
        span,
        events=kept,
        dropped_events=span.dropped_events + len(span.events) - len(kept),
        attributes={**span.attributes, **recount(span.attributes, gone)},
    )
