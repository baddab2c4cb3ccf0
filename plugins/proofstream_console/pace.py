"""Pacing: how often something may happen. The caller gives the time, in seconds."""

from __future__ import annotations


class Bucket:
    """Lets `per_s` things pass per second on average, and `burst` at once."""

    def __init__(self, *, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._level = burst
        self._at: float | None = None

    def lets_pass(self, now: float) -> bool:
        """Return whether one more may pass, and count it if so."""
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

    def is_due(self, now: float, *, at_least_s: float = 0.0) -> bool:
        """Return whether it is time again, and after `at_least_s` seconds, and start the next wait if so."""
        if 0 <= now - self._last < max(self._every_s, at_least_s):
            return False
        self._last = now
        return True
