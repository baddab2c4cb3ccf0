"""Stamps the lines of a live stream that were read at once, which all have one time of arrival.

Lines without a time of their own are spaced by their order, 1 ns apart, so that whatever ends, ends after it began.
What begins and ends within them was not measured: the producer knows better how long a layer took, and where lines of
several milliseconds arrive at once, because their writer buffers or this process was late, it is laid out by that.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

from proofstream.envelopes import RECONSTRUCTED
from proofstream.events import (
    AggregatedBindingEnd,
    AggregatedBindingStart,
    LayerEnd,
    LayerStart,
    PhaseEnd,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofStart,
    StarkProofEnd,
    StarkProofStart,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.sources.lines import LineResult
from proofstream.sources.reconstruct import NS_PER_MS, Layout, believed_ns, interval_key
from proofstream.wire import Decoded

_STARTS = frozenset({LayerStart, WeightOpeningStart, AggregatedBindingStart, StarkProofStart, PhaseStart})
_ENDS = frozenset({LayerEnd, WeightOpeningEnd, AggregatedBindingEnd, StarkProofEnd, PhaseEnd})
_BOUNDARIES = _STARTS | _ENDS | {ProofStart, ProofComplete, ProofAborted}
# An arrival that may be late by less than this, or by less than this part of the interval that it ends, is believed.
_FINE_NS = 2 * NS_PER_MS
_FINE_PART = 20
# Times of arrival are promised to be this close to the truth.
_PROMISED_NS = 20 * NS_PER_MS
# Reported durations that exceed the time that there was are rounded up, unless they exceed it so many times.
_MOST_EXCESS = 2


class Stamped(NamedTuple):
    """One line with its time.

    Attributes:
        item: The event or refusal.
        at: Its time, in nanoseconds since the epoch, for the case that it has none of its own.
        source: `reconstructed` if that time follows from reported durations; None if it is the time of arrival.
    """

    item: LineResult
    at: int
    source: str | None


class _Open(NamedTuple):
    """The latest interval that has begun."""

    job_id: str | None
    key: Hashable
    began: int


class Stamper:
    """Stamps the lines of one stream. Times of lines that were read together never precede those that were read before.

    Args:
        begins_unix_nano: When reading began, in nanoseconds since the epoch.
    """

    def __init__(self, begins_unix_nano: int) -> None:
        self._latest = begins_unix_nano
        self._open: _Open | None = None

    def stamp(self, items: Sequence[LineResult], arrived: int, *, absent_at: int | None = None) -> list[Stamped]:
        """Stamp lines that were read at once.

        Args:
            items: What they hold, in order.
            arrived: When they were read, in nanoseconds since the epoch.
            absent_at: When they were known not to be there yet; None if that is not known.
        """
        timeless = [item for item in items if not _has_time(item)]
        times = iter(self._stamp_timeless(timeless, arrived, absent_at))
        return [Stamped(item, arrived, None) if _has_time(item) else next(times) for item in items]

    def _stamp_timeless(self, items: Sequence[LineResult], arrived: int, absent_at: int | None) -> list[Stamped]:
        if not items:
            return []
        spacing = len(items) - 1
        laid_out = _lay_out(items, room=arrived - self._latest - 1 - spacing)
        begins = max(self._latest + 1, arrived - laid_out.total - spacing)
        times = [begins + offset + index for index, offset in enumerate(laid_out.offsets)]
        lateness = max(laid_out.total, 0 if absent_at is None else arrived - absent_at)
        moved = self._pull_head(items, times, lateness, absent_at or 0)
        self._remember(items, times)
        return [
            Stamped(item, time, RECONSTRUCTED if index < moved or index in laid_out.estimated else None)
            for index, (item, time) in enumerate(zip(items, times, strict=True))
        ]

    def _pull_head(self, items: Sequence[LineResult], times: list[int], lateness: int, absent_at: int) -> int:
        """Move the end of the interval that was open before, and what stands before it, to where the producer ends it.

        Only if lines were so late that their arrival tells little about it. Returns how many lines were moved.
        """
        index = self._end_of_open(items)
        if self._open is None or index is None or lateness < _FINE_NS:
            return 0
        end = items[index]
        assert isinstance(end, Decoded)
        reported = believed_ns(end.event)
        time = max(self._open.began + reported, absent_at, self._latest + 1 + index)
        is_believed = lateness * _FINE_PART < times[index] - self._open.began
        if not reported or is_believed or times[index] - time < NS_PER_MS:
            return 0
        times[: index + 1] = range(time - index, time + 1)
        return index + 1

    def _end_of_open(self, items: Sequence[LineResult]) -> int | None:
        if self._open is None:
            return None
        for index, item in enumerate(items):
            if isinstance(item, Decoded) and type(item.event) in _BOUNDARIES:
                is_it = type(item.event) in _ENDS and self._is_open(item)
                return index if is_it else None
        return None

    def _is_open(self, item: Decoded) -> bool:
        return self._open is not None and (item.job_id, interval_key(item.event)) == self._open[:2]

    def _remember(self, items: Sequence[LineResult], times: Sequence[int]) -> None:
        self._latest = max(times)
        for item, time in zip(items, times, strict=True):
            if not isinstance(item, Decoded):
                continue
            if type(item.event) in _STARTS:
                self._open = _Open(item.job_id, interval_key(item.event), time)
            elif type(item.event) in _ENDS and self._is_open(item):
                self._open = None


class _LaidOut(NamedTuple):
    """Lines as their producer's durations place them.

    Attributes:
        offsets: How far each lies behind the first one, in nanoseconds.
        total: How far the last of them lies behind it.
        estimated: Which of them, counted from 0, have times that say more about these durations than about the arrival.
    """

    offsets: Sequence[int]
    total: int
    estimated: Collection[int]


def _lay_out(items: Sequence[LineResult], *, room: int) -> _LaidOut:
    """Lay lines out by the durations of what begins and ends within them, if these are at all possible in the room."""
    layout = Layout(lone_ends=False)
    offsets: list[int] = []
    placed: list[int] = []
    estimated: set[int] = set()
    # One line cannot hold anything, and most lines arrive alone.
    for index, item in enumerate(items) if len(items) > 1 else ():
        if not isinstance(item, Decoded):
            offsets.append(layout.total_ns)
            continue
        placed.append(index)
        offsets.append(layout.place(item))
        if layout.began is not None:
            estimated.update(range(placed[layout.began], index + 1))
    total = layout.total_ns
    if total < NS_PER_MS:
        return _LaidOut([0] * len(items), 0, estimated)
    if total > _MOST_EXCESS * room:
        return _LaidOut([0] * len(items), 0, ())
    if total > room:
        offsets = [offset * room // total for offset in offsets]
        total = room
    estimated.update(index for index, offset in enumerate(offsets) if total - offset > _PROMISED_NS)
    return _LaidOut(offsets, total, estimated)


def _has_time(item: LineResult) -> bool:
    return isinstance(item, Decoded) and item.time_unix_nano is not None
