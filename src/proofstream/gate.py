"""The gate: holds back sources that can wait while a lane is behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from proofstream.lane_queue import QueueBounds

_POLL_S = 0.05


class Backlog(Protocol):
    """What is on its way from the sources to the slowest plugin that they wait for.

    Attributes:
        backlog: How many events.
        backlog_bytes: Their estimated memory, as far as the gate admitted them.
    """

    @property
    def backlog(self) -> int:
        """See above."""
        ...

    @property
    def backlog_bytes(self) -> int:
        """See above."""
        ...


class Gate:
    """Holds back sources that can wait, so that they never make a lane overflow.

    A chunk is admitted once everything in progress, from the intake to the fullest lane, leaves room for it below half
    a lane's bounds. Chunks are admitted one at a time, so the bound holds for any number of sources.

    Attributes:
        admitted_bytes: The estimated memory of everything admitted so far.
    """

    def __init__(self, backlog: Backlog, bounds: QueueBounds) -> None:
        self.admitted_bytes: int = 0
        self._backlog = backlog
        self._most_events = bounds.capacity // 2
        self._most_bytes = bounds.max_bulk_bytes // 2
        self._condition = threading.Condition()
        self._waiting = 0

    def admit(self, count: int, size: int, deliver: Callable[[], None], *, stopping: Callable[[], bool]) -> None:
        """Wait for room for `count` events of `size` bytes, or until the source is stopping, then call `deliver`."""
        with self._condition:
            self._waiting += 1
            try:
                while not self._has_room(count, size) and not stopping():
                    # With a timeout, because neither a lane that drains nor `stopping` notifies the gate.
                    self._condition.wait(_POLL_S)
                self.admitted_bytes += size
                # Still under the lock: the next source must find this chunk in the backlog.
                deliver()
            finally:
                self._waiting -= 1

    def _has_room(self, count: int, size: int) -> bool:
        backlog = self._backlog.backlog
        # A chunk larger than the bound goes in once the backlog is empty. Otherwise it would wait forever.
        if backlog == 0:
            return True
        return backlog + count <= self._most_events and self._backlog.backlog_bytes + size <= self._most_bytes

    def notify(self) -> None:
        """Wake the waiting sources, because there may be room now."""
        # Read without the lock: a source that starts to wait at this moment polls anyway.
        if self._waiting:
            with self._condition:
                self._condition.notify_all()
