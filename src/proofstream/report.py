"""Reports what was asked for and not delivered when a host ends."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from proofstream.bus import Bus
from proofstream.counts import counts_in_words
from proofstream.errors import in_parentheses
from proofstream.health import PluginStatus
from proofstream.lanes import Lane
from proofstream.session import Session
from proofstream.text import safe_text

_LONGEST_LINE = 1000


@dataclass(kw_only=True, slots=True)
class Report:
    """The end of a host.

    Attributes:
        problems: One line for each thing that was asked for and not delivered.
        refused: The number of lines and events that were not valid.
    """

    problems: list[str] = field(default_factory=list[str])
    refused: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything that was asked for was delivered."""
        return not self.problems and not self.refused

    def fill(
        self,
        *,
        lanes: Sequence[Lane],
        asked: Collection[str],
        wanted: Collection[str],
        bus: Bus,
        refused: int,
        lost_facts: Mapping[str, int],
    ) -> None:
        """Fill the report in for a host that has stopped.

        Bulk events that the intake lost are a problem only where they are missing from an output that must be complete.

        Args:
            lanes: The lanes.
            asked: The plugins that the user asked for, which must have had something to do.
            wanted: Those and the plugins that have settings, which must be usable.
            bus: The bus.
            refused: The number of invalid lines and events.
            lost_facts: What was lost before the bus and is not bulk, by kind.
        """
        self.refused = refused
        for lane in lanes:
            self.problems.extend(_lane_problems(lane, asked=lane.name in asked, wanted=lane.name in wanted))
        if bus.faults:
            self.problems.append(f"faults while passing events on: {bus.faults}, the first: {bus.first_fault}")
        bulk_matters = any(lane.must_be_complete and lane.is_listening for lane in lanes)
        lost = bus.lost_at_intake if bulk_matters else lost_facts
        if lost:
            self.problems.append(f"lost before the bus: {counts_in_words(lost)}")
        self.problems = [safe_text(problem, _LONGEST_LINE) for problem in self.problems]


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


def _lane_problems(lane: Lane, *, asked: bool, wanted: bool) -> list[str]:
    record = lane.record
    problems: list[str] = []
    unusable = record.status in (PluginStatus.BROKEN, PluginStatus.MISSING)
    if record.status is PluginStatus.FAILED or (unusable and wanted):
        problems.append(f"plugin {record.label} {record.status.value}: {record.reason}{in_parentheses(record.hint)}")
    elif record.status is PluginStatus.IDLE and asked:
        problems.append(f"plugin {record.label} was asked for and had nothing to do")
    elif not lane.stopped.is_set():
        problems.append(f"plugin {record.label} did not finish in time and was abandoned")
    dropped = lane.queue.dropped
    if lane.queue.lost_facts or (dropped and lane.must_be_complete):
        problems.append(f"plugin {record.label} was not given {counts_in_words(dropped)}")
    lost = {name: n for name, n in lane.counters.items() if name.startswith("lost_") and n}
    problems.extend(f"plugin {record.label}: {n} {name.replace('_', ' ')}" for name, n in lost.items())
    return problems
