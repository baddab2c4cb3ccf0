"""The intake: the bounded queue that every event enters first, from any thread.

A prover's thread pays for a time stamp, a bound check and one append. It takes no lock, wakes no thread and never
waits. Above the bound only facts enter. Events that do not fit are dropped and counted by kind.
"""

from __future__ import annotations

import _thread
import itertools
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from proofstream.counts import MOST_KINDS, OTHER_KINDS, count_kind
from proofstream.envelopes import NO_CAPTURES, PRODUCER
from proofstream.events import EventsLost, ProofEvent, is_sheddable, kind_of
from proofstream.trace_ids import TraceNote
from proofstream.wire import Decoded

HARD_FACTOR = 16
"""A queue holds at most this many times its capacity, whatever the events are. Above its capacity only facts enter."""

# However large events are, this many may wait: what a proof of large events has to say about itself.
_FEWEST = 64


class Wakeup:
    """A binary semaphore: any number of `set` calls wake one `wait` call. Cheaper than `threading.Event`."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        # Held means "not set". Unlike an RLock, a bare lock may be released by a thread that did not acquire it.
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or else the next one that waits."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # already set

    def wait(self, timeout_s: float) -> bool:
        """Wait to be woken. Returns False if that did not happen in time."""
        return self._lock.acquire(timeout=timeout_s)


class KindCounts:
    """Counts events by kind. Any thread may count, without a lock; only one thread may read.

    ``next`` on an ``itertools.count`` is a single step of the interpreter, so threads lose no count to one another,
    as they would with ``+= 1``. The only way to read such a counter advances it by one, which the reader remembers.
    """

    __slots__ = ("_counters", "_known")

    def __init__(self) -> None:
        self._counters: dict[str, itertools.count[int]] = {}
        self._known: dict[str, int] = {}

    def count_event(self, kind: str) -> None:
        """Count one event."""
        counter = self._counters.get(kind)
        if counter is None:
            kind = kind if len(self._counters) < MOST_KINDS else OTHER_KINDS
            # setdefault, so that two threads that meet a kind at the same time share one counter.
            counter = self._counters.setdefault(kind, itertools.count())
        next(counter)

    def take_counts(self) -> dict[str, int]:
        """Return what was counted since the last call, by kind."""
        fresh: dict[str, int] = {}
        for kind, counter in list(self._counters.items()):
            count = next(counter)
            known = self._known.get(kind, 0)
            self._known[kind] = count + 1  # the `next` above took one number
            if count > known:
                fresh[kind] = count - known
        return fresh


class Posted(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event made in Python, with details that `session.emit` has no arguments for."""

    event: ProofEvent | None = None
    make: Callable[[], ProofEvent] | None = None
    """Makes the event when the bus reaches it. Used instead of `event`."""
    origin: str = PRODUCER
    parent_job_id: str | None = None
    captured: Mapping[str, object] = NO_CAPTURES
    trace_note: TraceNote | None = None
    lineage: tuple[str, ...] = ()
    time_unix_nano: int | None = None
    time_source: str | None = None
    at_latest: bool = False
    """Stamp it with the time of its session's latest event. When a recording is replayed, that differs from now."""
    on_taken: Callable[[], None] | None = None
    """Called on the bus's thread once the event has left the intake."""

    def now(self) -> ProofEvent | None:
        """Return the event. Makes it if it is to be made late."""
        return self.event if self.make is None else self.make()


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """Decoded lines of one session that a source delivered at once."""

    lines: Sequence[Decoded]
    memory_bytes: int


class Gap:
    """A place in a session where events are missing. It stands in the intake, and grows until the bus reaches it."""

    __slots__ = ("_counts", "_lock", "_reached")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()
        self._reached = False

    def widen(self, counts: Mapping[str, int]) -> bool:
        """Count events that are missing here. Returns False if the bus was here already: a new gap is needed then."""
        with self._lock:
            if self._reached:
                return False
            for kind, count in counts.items():
                count_kind(self._counts, kind, count)
            return True

    def close(self) -> Mapping[str, int]:
        """End the gap. Returns the counts by kind."""
        with self._lock:
            self._reached = True
        return self._counts

    def event(self) -> EventsLost:
        """Return the event that takes the place of a closed gap."""
        return EventsLost(where="intake", counts=self._counts)


class EventSender(Protocol):
    """The session that an item belongs to, as the bus sees it."""

    session_id: str
    dropped: KindCounts
    last_time_unix_nano: int | None
    behind_ns: int
    """How long after its time its latest event came that was read from a stream."""
    phases: int
    """How many phases have begun since its latest proof began."""
    model_name: str | None
    """What the user calls the models of its proofs for which the prover gives no name."""
    ended: bool
    """True once the session's end has passed the bus. Only events that plugins derived may still follow."""

    def refuse_event(self, kind: str, reason: str) -> None:
        """Count and report an event that failed the bus's check."""
        ...

    def seen(self, time_unix_nano: int) -> None:
        """Remember the time of the latest event."""
        ...

    def fit_to_intake(self) -> None:
        """Read the intake's capacity again."""
        ...


class SenderInJob:
    """A session as one of its jobs sends: made once for a job, so that each event costs no more than `emit` does."""

    __slots__ = ("job_id", "sender")

    def __init__(self, sender: EventSender, job_id: str) -> None:
        self.sender: EventSender = sender
        self.job_id: str = job_id


class IntakeItem(msgspec.Struct, gc=False):
    """What waits for the bus.

    No tuple, which the garbage collector would count: a burst of events would start collections on the prover's thread,
    and each of them takes a hundred times as long as an `emit`.

    Attributes:
        monotonic_ns: When it arrived, on the monotonic clock.
        sender: The session, or one of its jobs.
        what: The event or events.
    """

    monotonic_ns: int
    sender: EventSender | SenderInJob
    what: ProofEvent | Posted | Chunk


class Intake:
    """The bounded deque in front of the bus.

    The bound is checked by those who append, since ``deque(maxlen=...)`` would silently drop the oldest items.

    Attributes:
        items: The deque. Producers append on the right, the bus takes from the left.
        capacity: How many items fit now before only facts do: as many as was configured, or fewer while they are large.
        hard_capacity: How many items fit now at most.
        clock: Returns monotonic nanoseconds.
        overflowed: Set when an event was dropped. The bus then clears it and reads the sessions' counts.
        lost_facts: Counts the dropped events that are not bulk. The sessions' counts do not tell: events of some kinds,
            such as Log, are bulk or not by their content.
        listening: False while no plugin would receive an event.
        wakeup: Wakes the bus.
    """

    __slots__ = (
        "_counting",
        "_in_chunks",
        "_max_bytes",
        "_mean_bytes",
        "_most",
        "capacity",
        "clock",
        "hard_capacity",
        "items",
        "listening",
        "lost_facts",
        "overflowed",
        "wakeup",
    )

    def __init__(self, *, capacity: int, clock: Callable[[], int], max_bytes: int = sys.maxsize) -> None:
        self.items: deque[IntakeItem] = deque()
        self._in_chunks = 0
        self._counting = threading.Lock()
        self.capacity: int = capacity
        self.hard_capacity: int = HARD_FACTOR * capacity
        self._most = capacity
        self._max_bytes = max_bytes
        self._mean_bytes = 1
        self.clock: Callable[[], int] = clock
        self.overflowed: bool = False
        self.lost_facts: KindCounts = KindCounts()
        self.listening: bool = True
        self.wakeup: Wakeup = Wakeup()

    @property
    def lag_s(self) -> float:
        """How many seconds the oldest item has waited. 0 if none waits."""
        try:
            return (self.clock() - self.items[0].monotonic_ns) / 1e9
        except IndexError:
            return 0.0

    @property
    def depth(self) -> int:
        """How many events wait."""
        return len(self.items) + self._in_chunks

    def append_chunk(self, sender: EventSender, lines: Sequence[Decoded], memory_bytes: int) -> None:
        """Append decoded lines regardless of the bound."""
        self._count_in_chunks(len(lines) - 1)
        self.items.append(IntakeItem(self.clock(), sender, Chunk(lines, memory_bytes)))

    def take_item(self) -> IntakeItem:
        """Take the oldest item. Only for the bus."""
        item = self.items.popleft()
        if isinstance(item.what, Chunk):
            self._count_in_chunks(1 - len(item.what.lines))
        return item

    def _count_in_chunks(self, change: int) -> None:
        with self._counting:
            self._in_chunks += change

    def has_room_for(self, event: object, *, after: int = 0) -> bool:
        """Return whether the event still enters: any event below the bound, and a fact up to `HARD_FACTOR` times it.

        Args:
            event: The event.
            after: How many events will enter before it.
        """
        depth = self.depth + after
        if depth < self.capacity:
            return True
        return depth < self.hard_capacity and isinstance(event, ProofEvent) and not is_sheddable(event)

    def note_loss(self, event: object) -> None:
        """Count an event that is lost, if it is a fact. Any thread."""
        if not isinstance(event, ProofEvent):
            self.lost_facts.count_event(type(event).__name__)
        elif not is_sheddable(event):
            self.lost_facts.count_event(kind_of(event))

    def fit_to(self, mean_bytes: int) -> bool:
        """Adapt the capacities to the size of the latest events. Return whether they changed.

        An event made in Python has no size until the bus encodes it, and `emit` has no time to estimate one. So the
        number of events is bounded by the mean size of those before: the latest if they are large, else a slow mean.

        Args:
            mean_bytes: The mean memory of the events of one round.
        """
        self._mean_bytes = max(1, mean_bytes, self._mean_bytes * 15 // 16)
        fitting = max(_FEWEST, self._max_bytes // self._mean_bytes)
        capacity, hard = min(self._most, fitting * 3 // 4), min(HARD_FACTOR * self._most, fitting)
        # Small changes are not worth the visit to every session.
        if _is_close(capacity, self.capacity) and _is_close(hard, self.hard_capacity):
            return False
        self.capacity, self.hard_capacity = capacity, hard
        return True

    def append_item(self, sender: EventSender, what: ProofEvent | Posted) -> None:
        """Append one item regardless of the bound. Only for rare items that must not be lost."""
        self.items.append(IntakeItem(self.clock(), sender, what))


def _is_close(one: int, other: int) -> bool:
    return abs(one - other) * 8 <= other
