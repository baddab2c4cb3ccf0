"""The energy of one GPU over time: from its counter, or where that is no use, integrated from its power draw."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import isfinite

import msgspec

MOST_APART_NS = 60_000_000_000
"""Power is integrated between samples that are no further apart than this: in between, anything may have happened."""

_MOST_WATTS = 100_000.0
_MOST_JOULES = 1e15
_NS_PER_S = 1e9


class Drawn(msgspec.Struct, frozen=True):
    """Energy in a stretch of time.

    Attributes:
        joules: As far as it is known.
        measured_ns: Time for which the counter gives it.
        integrated_ns: Time for which it is integrated from power.
    """

    joules: float
    measured_ns: float
    integrated_ns: float


class DeviceEnergy:
    """The energy that a GPU has drawn since its first sample, at each sample.

    Between two samples it is

    - the growth of the counter. If the counter had lagged behind, what was integrated meanwhile is taken off, so that
      nothing counts twice;
    - the mean of the two power draws times the time, if the counter is missing, fell (as after a reload of the driver),
      stands still although power is drawn, or grows faster than any GPU can draw;
    - else unknown.
    """

    def __init__(self) -> None:
        self._times = array("Q")
        # Sums since the first sample: joules, and the nanoseconds that are measured and integrated.
        self._sums = array("d"), array("d"), array("d")
        self._counter: float | None = None
        self._power: float | None = None
        self._standing_joules = 0.0
        self._standing_ns = 0

    def add_sample(self, time_unix_nano: int, *, energy_j: float | None, power_w: float | None) -> None:
        """Add a sample that is later than the last one; None is a figure that it lacks."""
        counter, power = _plausible(energy_j, _MOST_JOULES), _plausible(power_w, _MOST_WATTS)
        if counter is None and power is None:
            self._power = None  # nothing is known of what it drew on the way here
            return
        if not self._times:
            self._add_point(time_unix_nano, 0.0, 0, 0)
        elif not self._add_segment(time_unix_nano, counter, power):
            return
        self._counter, self._power = counter, power

    def _add_segment(self, time_unix_nano: int, counter: float | None, power: float | None) -> bool:
        """Add what was drawn since the last point. Return False to wait for a sample that tells."""
        length_ns = time_unix_nano - self._times[-1]
        by_power = self._by_power(length_ns, power)
        grown = None if counter is None or self._counter is None else counter - self._counter
        if grown is not None and 0 < grown <= _MOST_WATTS * length_ns / _NS_PER_S:
            self._count(time_unix_nano, length_ns, grown, by_power)
        elif grown == 0 and by_power is None and power is None:
            return False  # its counter may move yet, and then tells of all the time since the last point
        elif grown == 0 and by_power == 0:
            self._add_point(time_unix_nano, 0.0, length_ns, 0)
        elif by_power is not None:
            self._add_point(time_unix_nano, by_power, 0, length_ns)
            self._stand(grown, by_power, length_ns)
        else:
            self._add_point(time_unix_nano, 0.0, 0, 0)
            self._stand(None, 0.0, 0)
        return True

    def _by_power(self, length_ns: int, power: float | None) -> float | None:
        if power is None or self._power is None or length_ns > MOST_APART_NS:
            return None
        return (self._power + power) / 2 * length_ns / _NS_PER_S

    def _stand(self, grown: float | None, joules: float, length_ns: int) -> None:
        """Remember what was integrated while the counter stood still, until it moves."""
        if grown == 0:
            self._standing_joules += joules
            self._standing_ns += length_ns
        else:
            self._standing_joules, self._standing_ns = 0.0, 0

    def _count(self, time_unix_nano: int, length_ns: int, grown: float, by_power: float | None) -> None:
        """Add the growth of the counter. After a standstill it may cover the time of the standstill, too."""
        rest = grown - self._standing_joules
        had_lagged = self._standing_ns > 0 and (
            rest >= 0 if by_power is None else abs(rest - by_power) < abs(grown - by_power)
        )
        if had_lagged:
            waited = self._standing_ns
            self._add_point(time_unix_nano, rest, length_ns + waited, -waited)
        else:
            self._add_point(time_unix_nano, grown, length_ns, 0)
        self._stand(None, 0.0, 0)

    def _add_point(self, time_unix_nano: int, joules: float, measured_ns: int, integrated_ns: int) -> None:
        self._times.append(time_unix_nano)
        for column, more in zip(self._sums, (joules, measured_ns, integrated_ns), strict=True):
            column.append(more + (column[-1] if column else 0.0))

    def between(self, start_unix_nano: int, end_unix_nano: int) -> Drawn:
        """Return what was drawn from one time to another. Within a segment it is taken to be drawn evenly."""
        before, after = self._at(start_unix_nano), self._at(end_unix_nano)
        return Drawn(*(max(0.0, late - early) for early, late in zip(before, after, strict=True)))

    def _at(self, time_unix_nano: int) -> list[float]:
        """Return the sums at a time; those of the first or last point before or after all of them."""
        later = bisect_right(self._times, time_unix_nano)
        if later in (0, len(self._times)):
            return [column[max(0, later - 1)] for column in self._sums] if self._times else [0.0, 0.0, 0.0]
        early, late = self._times[later - 1], self._times[later]
        share = (time_unix_nano - early) / (late - early)
        return [column[later - 1] + share * (column[later] - column[later - 1]) for column in self._sums]

    def forget_before(self, time_unix_nano: int) -> None:
        """Forget the points before a time, except the last."""
        first = max(0, bisect_right(self._times, time_unix_nano) - 1)
        for column in (self._times, *self._sums):
            del column[:first]


def _plausible(figure: float | None, most: float) -> float | None:
    return figure if figure is not None and isfinite(figure) and 0 <= figure <= most else None
