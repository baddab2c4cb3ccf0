"""The places of spans in their traces: which span is above which, also after the one above has ended."""

from __future__ import annotations

from proofstream_otel.values.spans import SpanRef, SpanValues, SpanWriter


class Place:
    """What the spans below a span need to know of it.

    Args:
        span: The span, as it begins.
        above: The place of the span of ours above it; None for a root.
        ref: Where the span really is, if that is known already.

    Attributes:
        span: The span as it began; None once it has ended, since a span with its events is large.
        above: The place of the span of ours above it; None for a root.
        ref: Where the span really is; None as long as its writer has not told.
        root_span_id: The topmost of our spans above it, or itself.
        trace_state: W3C tracestate.
        resource: The process that runs the prover.
        is_left_out: Whether there will be no such span, so that the spans below it hang from the one above.
    """

    __slots__ = ("above", "is_left_out", "ref", "resource", "root_span_id", "span", "trace_state")

    def __init__(self, span: SpanValues, above: Place | None, ref: SpanRef | None) -> None:
        self.span: SpanValues | None = span
        self.above: Place | None = above
        self.ref: SpanRef | None = ref
        self.root_span_id: str = span.root_span_id
        self.trace_state: str = span.trace_state
        self.resource: tuple[tuple[str, str], ...] = span.resource
        self.is_left_out: bool = False

    @property
    def known_ref(self) -> SpanRef:
        """The span itself or, if it is left out or its ids are not known yet, the nearest one above."""
        place: Place = self
        while place.above is not None and (place.ref is None or place.is_left_out):
            place = place.above
        assert place.ref is not None  # a root is started as it begins
        return place.ref

    def start(self, writer: SpanWriter) -> SpanRef:
        """Return where the span really is; let the writer start it if that is not known, and those above it before."""
        waiting: list[Place] = []
        place: Place | None = self
        while place is not None and place.ref is None:
            waiting.append(place)
            place = _shown_above(place)
        for one in reversed(waiting):  # no recursion: a producer may nest phases by the thousand
            assert one.span is not None  # a span that has ended has its ids
            _hang_up(one.span, _shown_above(one))
            one.ref = writer.start_span(one.span, None)
            one.trace_state = one.span.trace_state
        assert self.ref is not None
        return self.ref

    def end(self, span: SpanValues, writer: SpanWriter) -> None:
        """Let the writer end the span, which is complete now."""
        above = _shown_above(self)
        if above is not None and above.ref is None:
            above.start(writer)
        _hang_up(span, above)
        self.ref = writer.end_span(span)
        self.span = None


def _hang_up(span: SpanValues, above: Place | None) -> None:
    """Put a span below the nearest one above that is not left out."""
    if above is not None and above.ref is not None:
        span.trace_id, span.parent_span_id, span.sampled = above.ref.trace_id, above.ref.span_id, above.ref.sampled
        span.trace_state = above.trace_state


def _shown_above(place: Place) -> Place | None:
    """Return the nearest place above that is not left out."""
    above = place.above
    while above is not None and above.is_left_out:
        above = above.above
    place.above = above  # phases may be many and deep: one look is enough
    return above
