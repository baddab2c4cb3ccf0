"""Replay at the pace of the events' own times."""

from __future__ import annotations

import threading
import time

_LONGEST_WAIT_S = 0.2
_NS_PER_S = 1_000_000_000


class Pacer:
    """Says how long an event still has to wait.

    Args:
        speed: How many times as fast as the events say.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._anchor: tuple[int, float] | None = None

    def due_in_s(self, time_unix_nano: int) -> float:
        """Seconds until the event is due; at most 0 if it is. The first event is due at once."""
        now = time.monotonic()
        if self._anchor is None:
            self._anchor = time_unix_nano, now
        first, begun = self._anchor
        return begun + (time_unix_nano - first) / _NS_PER_S / self._speed - now


class StopFlag:
    """Set by another thread to end a source's loops."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask to stop."""
        self._event.set()

    def __bool__(self) -> bool:
        """Whether it was asked."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Sleep so long, or a fifth of a second if that is shorter, or until asked to stop."""
        self._event.wait(min(seconds, _LONGEST_WAIT_S))
