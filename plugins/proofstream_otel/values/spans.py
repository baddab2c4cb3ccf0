"""A span as plain values: what the mapping makes, and what every writer takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from proofstream_otel.values.safe import Attributes
from proofstream_otel.values.semconv import Attr, EventName

_SAMPLED = 0x01
_HAS_IS_REMOTE = 0x100
_IS_REMOTE = 0x200

_T = TypeVar("_T")


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The span, made by somebody else, that ours go under.

    Attributes:
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits.
        sampled: Whether it is exported.
        remote: Whether it came in a header or variable, and not from this process.
        trace_state: Its W3C tracestate header.
        context: The OpenTelemetry context it was current in, where it came from this process.
    """

    trace_id: str
    span_id: str
    sampled: bool
    remote: bool
    trace_state: str = ""
    context: object = None


class SpanEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that happened in a span."""

    name: str
    time_unix_nano: int
    attributes: Attributes


class SpanLink(msgspec.Struct, frozen=True, gc=False):
    """A pointer to a span of another trace."""

    trace_id: str
    span_id: str


class SpanValues(msgspec.Struct, kw_only=True):
    """One span; every value in it is safe to export.

    Attributes:
        name: Its name.
        trace_id: 32 lower-case hex digits.
        span_id: 16 lower-case hex digits.
        parent_span_id: The same, or empty for a root.
        root_span_id: The first span of ours above it, itself if there is none: the one that sampling is decided for.
        remote_parent: Whether its parent is in another process.
        trace_state: W3C tracestate.
        start_unix_nano: When it began.
        end_unix_nano: When it ended, at least `start_unix_nano`; for a span that has just begun, the same.
        attributes: Its attributes.
        events: Its events, in order of time as far as known.
        dropped_events: Events that it had and that are not in `events`.
        links: Spans of other traces that belong with it.
        error: Why it failed, or None.
        resource: Who runs the prover, as sorted pairs.
    """

    name: str
    trace_id: str
    span_id: str
    parent_span_id: str
    root_span_id: str
    remote_parent: bool
    trace_state: str
    start_unix_nano: int
    end_unix_nano: int
    attributes: Attributes
    events: list[SpanEvent]
    dropped_events: int
    links: list[SpanLink]
    error: str | None
    resource: tuple[tuple[str, str], ...]

    @property
    def is_root(self) -> bool:
        """Whether no other span of ours is above it."""
        return self.span_id == self.root_span_id

    @property
    def flags(self) -> int:
        """The flags field of OTLP: sampled, and whether the parent is in another process."""
        return _SAMPLED | _HAS_IS_REMOTE | (_IS_REMOTE if self.remote_parent else 0)


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A root span as its writer began it.

    Attributes:
        trace_id: The trace it really is in.
        span_id: The id that it really has.
        sampled: Whether it and what is below it is exported.
    """

    trace_id: str
    span_id: str
    sampled: bool


class Writer(Protocol):
    """Where spans go. All calls come from one thread."""

    def start(self, span: SpanValues, parent: Parent | None) -> Started:
        """Begin a root span: a proof, a session, or an interval that stands on its own."""
        ...

    def end(self, span: SpanValues) -> None:
        """Take a finished span; roots were begun before, the others were not."""
        ...

    def counters(self) -> dict[str, int]:
        """What was written and what could not be."""
        ...

    def hurry(self) -> None:
        """Stop waiting in `end`, as `close` is about to come."""
        ...

    def begin_closing(self, timeout_s: float) -> None:
        """Begin to deliver what is left within `timeout_s` from now; `close` waits for it."""
        ...

    def close(self, timeout_s: float) -> None:
        """Deliver what can be delivered within `timeout_s` and count the rest as lost."""
        ...


class _Nowhere:
    """The writer where nobody wants spans, but their bounds and ids are needed for something else."""

    def start(self, span: SpanValues, parent: Parent | None) -> Started:
        return Started(trace_id=span.trace_id, span_id=span.span_id, sampled=False)

    def end(self, span: SpanValues) -> None:
        """Let go of it."""

    def counters(self) -> dict[str, int]:
        return {}

    def hurry(self) -> None:
        """Do nothing."""

    def begin_closing(self, timeout_s: float) -> None:
        """Do nothing."""

    def close(self, timeout_s: float) -> None:
        """Do nothing."""


NOWHERE: Writer = _Nowhere()


def keep_ends(items: list[_T], count: int) -> list[_T]:
    """The first and the last of the items, `count` in all."""
    if len(items) <= count:
        return items
    tail = count // 2
    return items[: count - tail] + items[len(items) - tail :]


def fit(span: SpanValues, encode: Callable[[SpanValues], bytes], max_bytes: int) -> bytes:
    """The encoded span; one that is too large goes without the middle of its events."""
    encoded = encode(span)
    while len(encoded) > max_bytes and span.events:
        span = _thin(span, len(span.events) // 2)
        encoded = encode(span)
    return encoded


def count_rounds(events: Iterable[object]) -> int:
    """How many of the events, ours or the SDK's, are rounds."""
    return sum(getattr(event, "name", None) == EventName.ROUND for event in events)


def recount(attributes: Attributes, gone: int) -> Attributes:
    """What the attributes that count rounds must say when `gone` of the recorded ones were left out."""
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
