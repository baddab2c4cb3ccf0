"""Puts the events that a plugin publishes or returns on the bus, within the plugin's share of the intake."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from proofstream.catalog import Catalog
from proofstream.counts import count_kind, counts_in_words
from proofstream.envelopes import HOST, Batch
from proofstream.events import EventsLost, ProofEvent, kind_of
from proofstream.intake import Posted
from proofstream.lanes import Lane
from proofstream.session import Session
from proofstream.waiting import wait_until

# How long a lane waits for room for the events that its plugin returned.
_WAIT_S = 2.0
_SAY_EVERY_S = 1.0


class Publisher:
    """One plugin's way to the bus. Any thread may publish.

    The intake is shared by all, so a plugin that publishes without end would take the room of the prover's events.
    Beyond its share, its own events are dropped, counted on it, and marked as lost once a second.

    Attributes:
        flooded: The plugin's events that were dropped because it published too fast, by kind.

    Args:
        name: The plugin's name.
        share: How many of its events may be between its hooks and the bus.
        catalog: The declared kinds.
        new_sender: Makes a sender for a session id; None stands for the host's own session.
        sessions: The open sessions by id.
        on_retired: Takes each sender, because the bus may refuse its events later.
    """

    def __init__(
        self,
        name: str,
        *,
        share: int,
        catalog: Catalog,
        new_sender: Callable[[str, str | None], Session],
        sessions: Mapping[str, Session],
        on_retired: Callable[[Session], None],
    ) -> None:
        self.flooded: dict[str, int] = {}
        self.sender: Session = new_sender(name, None)
        self._name = name
        self._share = share
        self._catalog = catalog
        self._new_sender = new_sender
        self._sessions = sessions
        self._on_retired = on_retired
        self._lock = threading.Lock()
        self._waiting = 0
        self._say_at = 0.0
        self._latest: Session | None = None
        self._unsaid: dict[str, int] = {}

    def publish(self, event: ProofEvent) -> None:
        """Publish one event: in the only open session, or in the host's own. Any thread; never waits."""
        self._post(self._sender_now(), event, (self._name,))

    def publish_returned(self, batch: Batch, events: Sequence[ProofEvent]) -> None:
        """Publish what the plugin returned for a batch, in that batch's session, or for a tick. Waits for room.

        Only the plugin's own lane calls this, so only its own queue grows while it waits.
        """
        lineage = (*batch[0].lineage, self._name) if batch else (self._name,)
        sender = self._sender_for(batch[-1].session_id) if batch else self._sender_now()
        at = batch[-1].time_unix_nano if batch else None
        for event in events:
            if not self._has_room:
                wait_until(lambda: self._has_room, deadline=time.monotonic() + _WAIT_S)
            self._post(sender, event, lineage, at)

    def _sender_now(self) -> Session:
        session_ids = list(self._sessions)
        return self._sender_for(session_ids[0]) if len(session_ids) == 1 else self.sender

    def _sender_for(self, session_id: str) -> Session:
        """Return a sender into a session, which may have ended: the producer's own would then drop the events."""
        latest = self._latest
        if latest is None or latest.session_id != session_id:
            self._latest = latest = self._new_sender(self._name, session_id)
            latest.dropped = self.sender.dropped  # the bus reads the drops of that one
            self._on_retired(latest)
        return latest

    @property
    def _has_room(self) -> bool:
        return self._waiting < self._share

    def _note_taken(self) -> None:
        """Make room again: the bus has the event, or the session did not accept it."""
        with self._lock:
            self._waiting -= 1

    def _post(self, sender: Session, event: ProofEvent, lineage: tuple[str, ...], at: int | None = None) -> None:
        if not self._is_declared(event):
            return
        with self._lock:
            if not self._has_room:
                for counts in (self.flooded, self._unsaid):
                    count_kind(counts, kind_of(event))
                return
            self._waiting += 1
            unsaid = self._losses_to_say()
        if unsaid:
            sender.post(Posted(event=EventsLost(where=f"plugin:{self._name}", counts=unsaid), origin=HOST))
        posted = Posted(event=event, origin=self._name, lineage=lineage, time_unix_nano=at, on_taken=self._note_taken)
        if not sender.post(posted):
            self._note_taken()

    def _losses_to_say(self) -> dict[str, int]:
        """Return the losses since the last mark. At most one mark a second: a flood of marks would be one as well."""
        now = time.monotonic()
        if not self._unsaid or now < self._say_at:
            return {}
        unsaid, self._unsaid = self._unsaid, {}
        self._say_at = now + _SAY_EVERY_S
        return unsaid

    def _is_declared(self, event: object) -> bool:
        """Return whether the plugin may publish the event; the bus would say neither which plugin it was nor why."""
        if not isinstance(event, ProofEvent):
            self.sender.report_refusal(f"published {type(event).__name__}, which is not an event")
            return False
        kind = kind_of(event)
        if kind not in self._catalog:
            self.sender.report_refusal(f"kind {kind} is not declared; return it from proofstream_event_types")
            return False
        return True


def flood_problems(publishers: Mapping[str, Publisher], lanes: Iterable[Lane]) -> Iterator[str]:
    """Return a line for each plugin that published faster than the bus, or another plugin, could take its events.

    Any thread: the counts are copied, because others add to them.
    """
    for name, publisher in publishers.items():
        if publisher.flooded:
            yield f"plugin {name} published too fast; dropped: {counts_in_words(dict(publisher.flooded))}"
    for lane in lanes:
        for name, counts in dict(lane.queue.flooded_by).items():
            words = counts_in_words(dict(counts))
            yield f"plugin {name} published faster than plugin {lane.name} took it; dropped: {words}"
