"""Silence: how long proofs say nothing, and when that is longer than usual."""

from __future__ import annotations

SHORTEST_UNUSUAL_NS = 60 * 10**9
"""A silence below a minute is never called unusual: stages without events are common, and short."""

UNUSUAL_FACTOR = 3
"""A silence of so many times the longest one before, in the same stage, is unusual."""


LONGEST_BELIEVABLE_NS = 24 * 3600 * 10**9
"""A longer gap between two events is a clock that was set, and says nothing about silence."""


class Silences:
    """The longest silence so far, by stage of the proofs."""

    def __init__(self) -> None:
        self._longest: dict[str | None, int] = {}

    def add_silence(self, stage: str | None, silent_ns: int) -> None:
        """Count a silence that has ended."""
        if self._longest.get(stage, 0) < silent_ns <= LONGEST_BELIEVABLE_NS:
            self._longest[stage] = silent_ns

    def longest_ns(self, stage: str | None) -> int:
        """Return the longest silence in a stage, in nanoseconds; 0 if there was none."""
        return self._longest.get(stage, 0)

    def is_unusual(self, stage: str | None, silent_ns: int) -> bool:
        """Return whether a silence in a stage is longer than usual."""
        return silent_ns >= max(SHORTEST_UNUSUAL_NS, UNUSUAL_FACTOR * self.longest_ns(stage))
