"""Gathers the events of an open span within bounds: keeps the first and the last ones."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Generic, TypeAlias, TypeVar

from proofstream import Envelope, Interval, SumcheckRound
from proofstream_otel.traces import describe
from proofstream_otel.values import safe
from proofstream_otel.values.rounds import RoundEvent
from proofstream_otel.values.semconv import Attr
from proofstream_otel.values.span_limits import Rounds, SpanLimits
from proofstream_otel.values.spans import SpanEvent, keep_ends

_T = TypeVar("_T")
_Event: TypeAlias = SpanEvent | RoundEvent
_time_of = attrgetter("time_unix_nano")

MAX_BYTES = 256 * 2**20
"""The most memory that the events of all open spans take, in bytes."""

_ROUND_BYTES = 800
_NOTE_BYTES = 400
_NUMBER_BYTES = 16
"""What a round and an event of another kind take in memory, beside the texts of the latter."""


class EventBudget:
    """The memory for the events of all open spans.

    Args:
        log: Is told once that it is used up.
        max_bytes: Its size.
    """

    def __init__(self, log: logging.Logger | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._log = log
        self._left = self._max_bytes = max_bytes
        self._is_said = False

    def take_bytes(self, size: int) -> bool:
        """Take memory for an event, or give it back if the size is negative. Return False if too little is left."""
        if size <= self._left:
            self._left -= size
            return True
        if self._log is not None and not self._is_said:
            self._log.warning(
                "events of open spans take more than %d MiB: further ones are left out and counted on their spans",
                self._max_bytes // 2**20,
            )
        self._is_said = True
        return False


class FirstAndLast(Generic[_T]):
    """Keeps the first and the last items of a sequence, `limit` in all.

    Attributes:
        seen: The number of items added.
    """

    __slots__ = ("_head", "_head_size", "_limit", "_tail", "seen")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head_size = limit - limit // 2
        self._head: list[_T] = []
        self._tail: deque[_T] | None = None  # most spans have few events
        self.seen = 0

    def append(self, item: _T) -> None:
        """Add an item."""
        self.extend((item,))

    def extend(self, items: Sequence[_T]) -> None:
        """Add items, in order."""
        self.seen += len(items)
        room = self._head_size - len(self._head)
        if room >= len(items):
            self._head += items
            return
        self._head += items[:room]
        if self._tail is None:
            self._tail = deque(maxlen=self._limit // 2)
        self._tail.extend(items[room:])

    @property
    def room(self) -> int:
        """How many more items are kept without one being left out."""
        return self._limit - len(self)

    @property
    def is_full(self) -> bool:
        """Whether one item is left out for each further one."""
        return not self.room

    def left_out_for(self, item: _T) -> _T | None:
        """Return the item that is left out if this one is added, or None."""
        if self.seen < self._limit or not self.is_full:
            return None
        return self._tail[0] if self._tail else item

    def __iter__(self) -> Iterator[_T]:
        return iter([*self._head, *(self._tail or ())])

    def __len__(self) -> int:
        return len(self._head) + (len(self._tail) if self._tail else 0)


class BoundedEvents:
    """The events of one open span.

    Rounds are described only when the span is written: by then most rounds of a long layer have been dropped.
    """

    __slots__ = ("_announced", "_budget", "_bytes", "_interval", "_limits", "_notes", "_rounds")

    def __init__(self, limits: SpanLimits, interval: Interval | None, budget: EventBudget) -> None:
        self._limits = limits
        self._budget = budget
        self._bytes = 0
        self._interval = interval
        self._rounds: FirstAndLast[RoundEvent] = FirstAndLast(limits.max_rounds)
        # Each with whether it came before the span's own start, as a circuit does that describes the proof behind it.
        self._notes: FirstAndLast[tuple[SpanEvent, bool]] = FirstAndLast(limits.max_notes)
        self._announced: int | None = None

    def add_event(self, envelope: Envelope) -> None:
        """Add an event that happened in the span."""
        event = envelope.event
        if isinstance(event, SumcheckRound):
            self.add_rounds((envelope,))
            return
        name, attributes = describe.note_of(envelope)
        note = _event(name, envelope.time_unix_nano, attributes), self._is_ahead(envelope)
        left_out = self._notes.left_out_for(note)
        if self._take(_size_of(note[0]) - (0 if left_out is None else _size_of(left_out[0]))):
            self._notes.append(note)
        else:
            self._notes.seen += 1

    def add_rounds(self, envelopes: Sequence[Envelope]) -> None:
        """Add sumcheck rounds that happened in the span."""
        layer = self._interval
        rounds = [
            RoundEvent(envelope.time_unix_nano, event, layer)
            for envelope in envelopes
            if type(event := envelope.event) is SumcheckRound
        ]
        self._announced = rounds[-1].round.total_rounds
        # All rounds count the same, so one in place of another takes no more.
        more = min(len(rounds), self._rounds.room)
        if not more or self._take(more * _ROUND_BYTES):
            self._rounds.extend(rounds)
        elif len(rounds) == 1:
            self._rounds.seen += 1
        else:  # there is memory for some of them
            for envelope in envelopes:
                self.add_rounds((envelope,))

    def export(self, start_unix_nano: int, end_unix_nano: int) -> tuple[list[_Event], int, dict[str, object]]:
        """Return the events in order of time, the number of dropped ones, and attributes that count them.

        Where a clock was set back, events lie outside of the span's start and end. They are moved to the nearer one.
        The memory goes back to the budget, so call this once.
        """
        if not self._notes.seen and not self._rounds.seen:
            return [], 0, {}
        self.release()
        notes = list(self._notes)
        # The limit on all events drops rounds before it drops anything else.
        kept = keep_ends(list(self._rounds), self._limits.max_events - len(notes))
        events: list[_Event] = [*(note for note, _ in notes), *kept]
        events.sort(key=_time_of)
        moved = 0
        if events and not (start_unix_nano <= events[0].time_unix_nano and events[-1].time_unix_nano <= end_unix_nano):
            events = _all_inside(notes, kept, start_unix_nano, end_unix_nano)
            moved = sum(Attr.EVENT_TIME in event.attributes for event in events)
        wanted = self._notes.seen + (self._rounds.seen if self._limits.rounds.on_spans else 0)
        counts = self._counts(len(kept), self._notes.seen - len(notes))
        return events, wanted - len(events), {**counts, Attr.EVENTS_MOVED: moved or None}

    def release(self) -> None:
        """Give the memory back to the budget."""
        self._take(-self._bytes)

    def _take(self, size: int) -> bool:
        taken = self._budget.take_bytes(size)
        if taken:
            self._bytes += size
        return taken

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


def _size_of(note: SpanEvent) -> int:
    """Return about how much memory an event takes."""
    size = _NOTE_BYTES
    for value in note.attributes.values():
        if isinstance(value, str):
            size += len(value)
        elif not isinstance(value, list):
            size += _NUMBER_BYTES
        else:
            size += sum(len(part) if isinstance(part, str) else _NUMBER_BYTES for part in value)
    return size


def _event(name: str, time_unix_nano: int, attributes: dict[str, object]) -> SpanEvent:
    return SpanEvent(name, safe.timestamp(time_unix_nano), safe.attributes(attributes))


def _all_inside(
    notes: list[tuple[SpanEvent, bool]], rounds: list[RoundEvent], start_unix_nano: int, end_unix_nano: int
) -> list[_Event]:
    described = [SpanEvent(each.name, safe.timestamp(each.time_unix_nano), each.attributes) for each in rounds]
    found = [*notes, *((event, False) for event in described)]
    found.sort(key=lambda pair: pair[0].time_unix_nano)
    return [_inside(event, 0 if is_ahead else start_unix_nano, end_unix_nano) for event, is_ahead in found]


def _inside(event: SpanEvent, start_unix_nano: int, end_unix_nano: int) -> SpanEvent:
    """Return the event if it is between start and end, else one moved there that says when it happened."""
    time_unix_nano = min(max(event.time_unix_nano, start_unix_nano), end_unix_nano)
    if time_unix_nano == event.time_unix_nano:
        return event
    return SpanEvent(event.name, time_unix_nano, {**event.attributes, Attr.EVENT_TIME: str(event.time_unix_nano)})
