"""Durations and their worth: which may be summed up, and which may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from proofstream import Interval, Stage

KNOWN = frozenset({"measured", "reported", "derived"})
"""Durations of this worth are summed up and compared. Of others, only a lower bound is known, or nothing."""

LAID_OUT = "reconstructed"
"""Where the time of an event comes from that no clock timed."""


@dataclass(frozen=True, slots=True)
class Took:
    """A duration in nanoseconds, and its worth: `measured`, `reported`, `derived`, `at_least` or `unknown`."""

    ns: int
    source: str

    @property
    def is_known(self) -> bool:
        """Whether it may be summed up."""
        return self.source in KNOWN


def took(ended: Interval | Stage) -> Took:
    """Return how long something took that has ended."""
    return Took(ended.duration_ns or 0, ended.duration_source or "unknown")


@dataclass(slots=True)
class DurationTally:
    """Intervals of one kind that ended. The sums cover those whose duration is known.

    Attributes:
        count: How many ended.
        timed: How many of them are in the sums.
        total_ns: Their durations together, in nanoseconds.
        longest_ns: The longest one.
        sources: What the sums rest on: the worth of each duration in them.
    """

    count: int = 0
    timed: int = 0
    total_ns: int = 0
    longest_ns: int = 0
    sources: set[str] = field(default_factory=set[str])

    def add_duration(self, duration: Took) -> None:
        """Count an interval."""
        self.count += 1
        if not duration.is_known:
            return
        self.timed += 1
        self.total_ns += duration.ns
        self.longest_ns = max(self.longest_ns, duration.ns)
        self.sources.add(duration.source)

    @property
    def mean_ns(self) -> int:
        """The mean of the durations that are known."""
        return self.total_ns // self.timed if self.timed else 0


def sources_of(tallies: Iterable[DurationTally]) -> set[str]:
    """Return what the sums of all of these rest on."""
    return {source for tally in tallies for source in tally.sources}
