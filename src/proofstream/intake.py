"""The intake: where everything that happens enters, on whatever thread it happens.

A prover's thread pays for a time stamp, a bound check and one append; it takes no lock, wakes nobody and never waits.
What does not fit is counted by kind.
"""

from __future__ import annotations

import _thread
import itertools
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import msgspec

from proofstream.envelopes import NO_CAPTURES, PRODUCER
from proofstream.events import ProofEvent
from proofstream.wire import Decoded


class Wakeup:
    """A binary semaphore: any number of `set` calls wake one `wait` call. Cheaper than an Event."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiter, or the next one to wait."""
        try:
            self._lock.release()
        except RuntimeError:
            return  # it was set already

    def wait(self, timeout_s: float) -> bool:
        """Wait to be woken; returns whether that happened in time."""
        return self._lock.acquire(timeout=timeout_s)


class KindCounts:
    """Counts by kind, added to from any thread without a lock and read from one thread.

    ``next`` on an itertools.count is one step of the interpreter, so that no addition is lost between threads; a
    reading takes a number itself, and remembers that it did.
    """

    __slots__ = ("_counters", "_known")

    def __init__(self) -> None:
        self._counters: dict[str, itertools.count[int]] = {}
        self._known: dict[str, int] = {}

    def count_event(self, kind: str) -> None:
        """Count one."""
        counter = self._counters.get(kind)
        if counter is None:
            counter = self._counters.setdefault(kind, itertools.count())
        next(counter)

    def take_counts(self) -> dict[str, int]:
        """What was counted since the last call, by kind."""
        fresh: dict[str, int] = {}
        for kind, counter in list(self._counters.items()):
            count = next(counter)
            known = self._known.get(kind, 0)
            self._known[kind] = count + 1
            if count > known:
                fresh[kind] = count - known
        return fresh


class Posted(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event made in Python with more to say than `session.emit` has."""

    event: ProofEvent | None = None
    make: Callable[[], ProofEvent] | None = None
    """Makes the event when its turn has come, in the place of `event`."""
    origin: str = PRODUCER
    captured: Mapping[str, object] = NO_CAPTURES
    lineage: tuple[str, ...] = ()
    time_unix_nano: int | None = None
    at_latest: bool = False
    """It happens at the time of its session's latest event, which is not now when a recording is replayed."""

    def now(self) -> ProofEvent | None:
        """The event, made now if it was not before."""
        return self.event if self.make is None else self.make()


class EventSender(Protocol):
    """Whom an item came from: the session it belongs to."""

    session_id: str
    dropped: KindCounts
    last_time_unix_nano: int | None
    ended: bool
    """Whether its own end has passed the bus: only what plugins derived from its events may still follow."""

    def refuse_event(self, kind: str, reason: str) -> None:
        """Count and report an event that the bus's check did not let through."""
        ...

    def seen(self, time_unix_nano: int) -> None:
        """Remember the time of the latest event."""
        ...


IntakeItem: TypeAlias = tuple[int, EventSender, ProofEvent | Posted | Decoded]
"""Monotonic nanoseconds of its arrival, the session, and what came."""


class Intake:
    """The bounded deque in front of the bus.

    Attributes:
        items: The deque; producers append, the bus takes from the left.
        capacity: How many items fit.
        overflowed: Set when something was dropped; the bus then reads the sessions' tallies and clears it.
        listening: Whether any plugin is there to hear what is sent.
        wakeup: Wakes the bus.
    """

    __slots__ = ("capacity", "clock", "items", "listening", "overflowed", "wakeup")

    def __init__(self, *, capacity: int, clock: Callable[[], int]) -> None:
        self.items: deque[IntakeItem] = deque()
        self.capacity: int = capacity
        self.clock: Callable[[], int] = clock
        self.overflowed: bool = False
        self.listening: bool = True
        self.wakeup: Wakeup = Wakeup()

    def append_item(self, sender: EventSender, what: ProofEvent | Posted | Decoded) -> None:
        """Append one item, whatever the bound: for what is rare and must not be lost."""
        self.items.append((self.clock(), sender, what))
