"""Finds what was asked for and not delivered, while a host runs and when it ends."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence

from proofstream.bus import Bus
from proofstream.counts import counts_in_words
from proofstream.errors import in_parentheses
from proofstream.health import PluginStatus
from proofstream.lanes import Lane
from proofstream.session import Session
from proofstream.text import LONGEST_LINE, safe_text


class Wanted:
    """What the user of a host wants of its plugins, and what they fall short of. Any thread may ask.

    Args:
        lanes: The lanes.
        bus: The bus.
        asked: The plugins that the user asked for, which must have something to do.
        chosen: Those and the plugins that have settings, which must be usable.
        may_be_idle: Whether those that were asked for may have nothing to do, all the same.
    """

    def __init__(
        self,
        *,
        lanes: Sequence[Lane],
        bus: Bus,
        asked: Collection[str],
        chosen: Collection[str],
        may_be_idle: bool,
    ) -> None:
        self._lanes = lanes
        self._bus = bus
        self._asked = asked
        self._chosen = chosen
        self._may_be_idle = may_be_idle

    def useless(self) -> Iterator[tuple[Lane, str]]:
        """Return the plugins that get no events although they should, each with a line."""
        for lane in self._lanes:
            line = self._why_useless(lane)
            if line is not None:
                yield lane, safe_text(line, LONGEST_LINE)

    def _why_useless(self, lane: Lane) -> str | None:
        record = lane.record
        unusable = record.status in (PluginStatus.BROKEN, PluginStatus.MISSING)
        if record.status is PluginStatus.FAILED or (unusable and lane.name in self._chosen):
            return f"plugin {record.label} {record.status.value}: {record.reason}{in_parentheses(record.hint)}"
        if record.status is PluginStatus.IDLE and lane.name in self._asked and not self._may_be_idle:
            return f"plugin {record.label} was asked for and had nothing to do"
        return None

    def problems(self, *, lost_facts: Mapping[str, int], ended: bool) -> list[str]:
        """Return a line for each thing that was asked for and not delivered.

        Bulk events that the intake lost are a problem only where they are missing from an output that must be complete.

        Args:
            lost_facts: What was lost before the bus and is not bulk, by kind.
            ended: Whether the plugins have had their time to finish.
        """
        problems: list[str] = []
        useless = dict(self.useless())
        for lane in self._lanes:
            if lane in useless:
                problems.append(useless[lane])
            elif not self._is_excused(lane):
                problems.extend(_delays(lane, ended=ended))
            problems.extend(_losses(lane))
        if self._bus.faults:
            problems.append(f"faults while passing events on: {self._bus.faults}, the first: {self._bus.first_fault}")
        bulk_matters = any(lane.must_be_complete and lane.is_listening for lane in self._lanes)
        lost = dict(self._bus.lost_at_intake) if bulk_matters else lost_facts
        if lost:
            problems.append(f"lost before the bus: {counts_in_words(lost)}")
        return [safe_text(problem, LONGEST_LINE) for problem in problems]

    def _is_excused(self, lane: Lane) -> bool:
        return self._may_be_idle and lane.record.status is PluginStatus.IDLE


class Retired:
    """Counts the refused events of closed sessions.

    The bus may still refuse an event of the latest ones, so those are kept and read at the end.
    """

    _KEPT = 64

    def __init__(self) -> None:
        self._lock = threading.Lock()  # plugins' threads and sources' add sessions at the same time
        self._settled = 0
        self._recent: list[Session] = []

    def add_session(self, session: Session) -> None:
        """Add a session that was closed."""
        with self._lock:
            self._recent.append(session)
            if len(self._recent) > self._KEPT:
                self._settled += self._recent.pop(0).refused

    @property
    def refused(self) -> int:
        """The number of invalid lines and events of all closed sessions."""
        return self._settled + sum(session.refused for session in self._recent)


def _delays(lane: Lane, *, ended: bool) -> Iterator[str]:
    if ended and not lane.stopped.is_set():
        yield f"plugin {lane.record.label} did not finish in time and was abandoned"
    elif not ended and lane.record.status is PluginStatus.STALLED:
        yield f"plugin {lane.record.label} is stalled: {lane.record.reason}"


def _losses(lane: Lane) -> Iterator[str]:
    label = lane.record.label
    dropped = dict(lane.queue.dropped)
    if lane.queue.lost_facts or (dropped and lane.must_be_complete):
        yield f"plugin {label} was not given {counts_in_words(dropped)}"
    for name, count in lane.counters.items():
        if name.startswith("lost_") and count:
            yield f"plugin {label}: {count} {name.replace('_', ' ')}"
