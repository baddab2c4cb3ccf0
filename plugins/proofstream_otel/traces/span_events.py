"""Gathers the events of an open span within bounds: keeps the first and the last ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

from proofstream import Envelope, Interval, SumcheckRound
from proofstream_otel.traces import describe
from proofstream_otel.values import safe
from proofstream_otel.values.semconv import Attr, EventName
from proofstream_otel.values.span_limits import Rounds, SpanLimits
from proofstream_otel.values.spans import SpanEvent, keep_ends

_T = TypeVar("_T")


class FirstAndLast(Generic[_T]):
    """Keeps the first and the last items of a sequence, `limit` in all.

    Attributes:
        seen: The number of items added.
    """

    __slots__ = ("_head", "_head_size", "_tail", "seen")

    def __init__(self, limit: int) -> None:
        self._head_size = limit - limit // 2
        self._head: list[_T] = []
        self._tail: deque[_T] = deque(maxlen=limit // 2)
        self.seen = 0

    def append(self, item: _T) -> None:
        """Add an item."""
        self.seen += 1
        if len(self._head) < self._head_size:
            self._head.append(item)
        else:
            self._tail.append(item)

    def __iter__(self) -> Iterator[_T]:
        yield from self._head
        yield from self._tail

    def __len__(self) -> int:
        return len(self._head) + len(self._tail)


class BoundedEvents:
    """The events of one open span.

    Rounds become span events only when the span ends: by then most rounds of a long layer have been dropped.
    """

    __slots__ = ("_announced", "_interval", "_limits", "_notes", "_rounds")

    def __init__(self, limits: SpanLimits, interval: Interval | None) -> None:
        self._limits = limits
        self._interval = interval
        self._rounds: FirstAndLast[tuple[int, SumcheckRound]] = FirstAndLast(limits.max_rounds)
        # Each with whether it came before the span's own start, as a circuit does that describes the proof behind it.
        self._notes: FirstAndLast[tuple[SpanEvent, bool]] = FirstAndLast(limits.max_notes)
        self._announced: int | None = None

    def add_event(self, envelope: Envelope) -> None:
        """Add an event that happened in the span."""
        event = envelope.event
        if isinstance(event, SumcheckRound):
            self._announced = event.total_rounds
            self._rounds.append((envelope.time_unix_nano, event))
        else:
            name, attributes = describe.note_of(envelope)
            self._notes.append((_event(name, envelope.time_unix_nano, attributes), self._is_ahead(envelope)))

    def export(self, start_unix_nano: int, end_unix_nano: int) -> tuple[list[SpanEvent], int, dict[str, object]]:
        """Return the events in order of time, the number of dropped ones, and attributes that count them.

        Where a clock was set back, events lie outside of the span's start and end. They are moved to the nearer one.
        """
        notes = list(self._notes)
        # The limit on all events drops rounds before it drops anything else.
        kept = keep_ends(list(self._rounds), self._limits.max_events - len(notes))
        rounds = [_event(EventName.ROUND, time, describe.round_of(event, self._interval)) for time, event in kept]
        found = [*notes, *((event, False) for event in rounds)]
        found.sort(key=lambda pair: pair[0].time_unix_nano)
        events = [_inside(event, 0 if is_ahead else start_unix_nano, end_unix_nano) for event, is_ahead in found]
        moved = sum(Attr.EVENT_TIME in event.attributes for event in events)
        wanted = self._notes.seen + (self._rounds.seen if self._limits.rounds.on_spans else 0)
        counts = self._counts(len(rounds), self._notes.seen - len(notes))
        return events, wanted - len(events), {**counts, Attr.EVENTS_MOVED: moved or None}

    def _is_ahead(self, envelope: Envelope) -> bool:
        opened = None if self._interval is None else self._interval.opened
        return opened is not None and envelope.seq < opened.seq

    def _counts(self, recorded: int, notes_dropped: int) -> dict[str, object]:
        counts: dict[str, object] = {Attr.NOTES_DROPPED: notes_dropped or None}
        if self._rounds.seen and self._limits.rounds is not Rounds.OFF:
            counts[Attr.ROUNDS_ANNOUNCED] = self._announced
        if self._rounds.seen and self._limits.rounds.on_spans:
            counts[Attr.ROUNDS_RECORDED] = recorded
            counts[Attr.ROUNDS_DROPPED] = self._rounds.seen - recorded
        return counts


def _event(name: str, time_unix_nano: int, attributes: dict[str, object]) -> SpanEvent:
    return SpanEvent(name, safe.timestamp(time_unix_nano), safe.attributes(attributes))


def _inside(event: SpanEvent, start_unix_nano: int, end_unix_nano: int) -> SpanEvent:
    """Return the event if it is between start and end, else one moved there that says when it happened."""
    time_unix_nano = min(max(event.time_unix_nano, start_unix_nano), end_unix_nano)
    if time_unix_nano == event.time_unix_nano:
        return event
    return SpanEvent(event.name, time_unix_nano, {**event.attributes, Attr.EVENT_TIME: event.time_unix_nano})
