"""Durations and their worth: which may be summed up, and which may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from proofstream import Interval, Stage

KNOWN = frozenset({"measured", "reported", "derived"})
"""Durations of this worth are summed up and compared. Of others, only a lower bound is known, or nothing."""

_LEAST_REPORTED_NS = 1_000
"""What is reported to take less was reported to take 0 ms: only the order of the events says how long it took."""

_REPORTED_UNIT_NS = 1_000_000
"""Producers report whole milliseconds, rounded down."""

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

    @property
    def is_below_unit(self) -> bool:
        """Whether it is reported to take 0 ms, which is less than 1 ms."""
        return self.source == "reported" and self.ns < _LEAST_REPORTED_NS


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
        below_unit: How many of those are reported to take 0 ms.
        sources: What the sums rest on: the worth of each duration in them.
    """

    count: int = 0
    timed: int = 0
    total_ns: int = 0
    longest_ns: int = 0
    below_unit: int = 0
    sources: set[str] = field(default_factory=set[str])

    def add_duration(self, duration: Took) -> None:
        """Count an interval."""
        self.count += 1
        if not duration.is_known:
            return
        self.timed += 1
        self.below_unit += duration.is_below_unit
        self.total_ns += duration.ns
        self.longest_ns = max(self.longest_ns, duration.ns)
        self.sources.add(duration.source)

    def bound_ns(self, figure_ns: int, durations: int) -> int | None:
        """Return the least known bound of a figure that so many durations of it make up; None if the figure is known.

        It is not known if what is reported to take 0 ms may be more than all the rest.
        """
        hidden_ns = durations * _REPORTED_UNIT_NS
        return figure_ns + hidden_ns if self.below_unit and figure_ns < hidden_ns else None

    @property
    def mean_ns(self) -> int:
        """The mean of the durations that are known."""
        return self.total_ns // self.timed if self.timed else 0


def sources_of(tallies: Iterable[DurationTally]) -> set[str]:
    """Return what the sums of all of these rest on."""
    return {source for tally in tallies for source in tally.sources}
