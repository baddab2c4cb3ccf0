"""Pacing: how often something may happen. Time is given by the caller, in seconds."""

from __future__ import annotations


class Bucket:
    """Lets `per_s` things pass per second on average, and `burst` at once."""

    def __init__(self, *, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._level = burst
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Whether one more may pass."""
        if self._at is not None:
            self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class Throttle:
    """Says whether `every_s` seconds have passed since it last said so."""

    def __init__(self, every_s: float, *, start: float) -> None:
        self._every_s = every_s
        self._last = start

    def due(self, now: float) -> bool:
        """Whether it is time again."""
        if 0 <= now - self._last < self._every_s:
            return False
        self._last = now
        return True
