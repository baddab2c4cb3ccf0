"""Paces a replay by the events' own times, and lets another thread stop a source."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

# Bounds each sleep, so that a source also notices within this time that the host is stopping.
_LONGEST_WAIT_S = 0.2
_NS_PER_S = 1_000_000_000
# The interpreter lets a thread that returns from a system call wait for this long while another one computes. With its
# default of 5 ms, each read would wait that long for every busy plugin.
_SWITCH_S = 0.0005
# A pause of which somebody who watches wants to know that it is one.
_LONG_PAUSE_S = 30.0
_LONGEST_SAID_S = 10 * 366 * 86_400


class Pacer:
    """Computes how long an event still has to wait.

    Args:
        speed: The factor by which the replay is faster than the original.
        max_pause_s: The longest that an event waits after the one before, in seconds; None for as long as it takes.
    """

    def __init__(self, speed: float, *, max_pause_s: float | None = None) -> None:
        self._speed = speed
        self._max_pause_s = max_pause_s
        self._anchor: tuple[int, float] | None = None

    def due_in_s(self, time_unix_nano: int) -> float:
        """Return the seconds until the event is due, 0 or less if it is due. The first event is due at once."""
        now = time.monotonic()
        if self._anchor is None:
            self._anchor = time_unix_nano, now
        first, begun = self._anchor
        due_in_s = begun + (time_unix_nano - first) / _NS_PER_S / self._speed - now
        if self._max_pause_s is not None and due_in_s > self._max_pause_s:
            due_in_s = self._max_pause_s
            self._anchor = time_unix_nano, now + due_in_s
        return due_in_s


def long_pause(seconds: float) -> str | None:
    """Return a line about a pause that begins now; None if it is not long enough to be worth one."""
    if seconds < _LONG_PAUSE_S:
        return None
    if seconds > _LONGEST_SAID_S:
        return "the next event is more than ten years away; --max-pause SECONDS shortens such pauses"
    length = timedelta(seconds=round(seconds))
    until = datetime.now().astimezone() + length
    return f"the next event comes in {length}, at {until:%Y-%m-%d %H:%M:%S}; --max-pause SECONDS shortens such pauses"


@contextmanager
def short_switches() -> Generator[None]:
    """Let no thread keep the interpreter for long, so that one that stamps what arrives is not late."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_S))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class StopFlag:
    """A flag that another thread sets to end a source's loops."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask the source to stop."""
        self._event.set()

    def __bool__(self) -> bool:
        """Return whether the source was asked to stop."""
        return self._event.is_set()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, for a fifth of a second, or until asked to stop, whichever is shortest."""
        self._event.wait(min(seconds, _LONGEST_WAIT_S))
