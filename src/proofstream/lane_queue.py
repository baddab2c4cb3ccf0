"""The bounded queue between the bus and one plugin's thread.

Two bounds hold, in events and in bytes. Beyond the lower of each, bulk events are dropped; beyond the upper, facts too.
Each gap is marked in its place by an `EventsLost`, and every dropped event is counted by kind. Another plugin's events
may fill only a share: beyond it, they are dropped and counted on that plugin.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from proofstream.counts import count_kind
from proofstream.envelopes import HOST, Batch, Envelope, EnvelopeRun, memory_of
from proofstream.events import EventsLost, PluginHealth
from proofstream.intake import HARD_FACTOR
from proofstream.wire import encode_event

BATCH_SIZE = 512

# A batch of large events ends after so many bytes of JSON, so that a plugin sees a heat map of 1 MB soon, and not 511
# of its like beside it.
_BATCH_RAW_BYTES = 2**20
# Bulk may fill an eighth of the bytes, to leave room for facts.
_BULK_SHARE = 8
# The events of one other plugin may fill a quarter of the capacity. The gate holds sources back at one half, so
# a plugin that publishes without end does not hold them back for ever.
_PUBLISHER_SHARE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueBounds:
    """The bounds of a queue.

    Attributes:
        capacity: How many events may wait before bulk is dropped.
        max_bytes: How many bytes of memory all waiting events may take. Bulk may fill one eighth of it.
        keeps_bulk: Whether bulk is dropped only where facts are.
        publishers: The plugins whose events may fill only a share of the queue.
    """

    capacity: int
    max_bytes: int
    keeps_bulk: bool = False
    publishers: Collection[str] = ()

    @property
    def max_bulk_bytes(self) -> int:
        """How many bytes may wait before bulk is dropped."""
        return self.max_bytes // _BULK_SHARE


class LaneQueue:
    """One plugin's queue. The bus adds, the lane's thread takes; a deque makes both safe without a lock.

    Each counter is written by one of the two threads and only read by the other. Only drops need a lock: at the end,
    the lane drops what waits while the bus may still drop what arrives.

    Attributes:
        dropped: The events that were dropped, by kind.
        lost_facts: How many of them were facts.
        flooded_by: The events that were dropped because one other plugin had published too many, by its name.
        hit_byte_bound: True once events were dropped because of their size and not because of their number.

    Args:
        owner: The plugin's name.
        bounds: The queue's bounds.
    """

    def __init__(self, owner: str, bounds: QueueBounds) -> None:
        self.dropped: dict[str, int] = {}
        self.lost_facts: int = 0
        self.flooded_by: dict[str, dict[str, int]] = {}
        self.hit_byte_bound: bool = False
        self._owner = owner
        self._bounds = bounds
        self._runs: deque[EnvelopeRun] = deque()
        self._dropping = threading.Lock()
        self._gaps: dict[str, tuple[Envelope, dict[str, int]]] = {}
        self._added = self._taken = 0
        self._raw_added = 0
        self._raw_taken = 0
        self._published: dict[str, int] = {}
        self._published_taken: dict[str, int] = {}
        self._arrivals: deque[tuple[int, float]] = deque()

    def __len__(self) -> int:
        return self._added - self._taken

    @property
    def waiting_bytes(self) -> int:
        """An estimate of the memory that the waiting events take."""
        return memory_of(self._raw_added - self._raw_taken, len(self))

    # On the bus's thread

    def offer_run(self, run: EnvelopeRun) -> None:
        """Add envelopes, or drop and count those that have no room: the same as `offer` for each of them."""
        bounds = self._bounds
        if (
            not self._gaps
            and len(self) + len(run.envelopes) <= bounds.capacity
            and self.waiting_bytes + run.memory_bytes <= bounds.max_bulk_bytes
            and self._publisher_of(run.lineage) is None
        ):
            self._append_run(run)
            return
        for envelope in run.envelopes:
            self.offer(envelope)

    def offer(self, envelope: Envelope) -> None:
        """Add an envelope, or drop and count it."""
        # The newest is the one to drop: nothing in the queue has to be found and moved, and the gap has one place.
        if not self._has_room(envelope):
            self.drop(envelope)
            return
        publisher = self._publisher_of(envelope.lineage)
        if publisher is not None and not self._has_share(publisher):
            # Not marked in its place: in a flood, there would be as many marks as events.
            count_kind(self.flooded_by.setdefault(publisher, {}), envelope.kind)
            return
        if self._gaps:
            self._close_gaps()
        self._append(envelope)

    def _has_room(self, envelope: Envelope) -> bool:
        bounds, depth, waiting = self._bounds, len(self), self.waiting_bytes
        if depth < bounds.capacity and waiting < bounds.max_bulk_bytes:
            return True
        # An empty queue takes any event, however large.
        too_large = depth > 0 and waiting + envelope.memory_bytes > bounds.max_bytes
        if too_large or depth >= bounds.capacity * HARD_FACTOR:
            self.hit_byte_bound = self.hit_byte_bound or too_large
            return False
        has_room = bounds.keeps_bulk or not envelope.is_sheddable
        self.hit_byte_bound = self.hit_byte_bound or (not has_room and depth < bounds.capacity)
        return has_room

    def _publisher_of(self, lineage: tuple[str, ...]) -> str | None:
        """Return the active plugin that published events. A recording may name others, which publish nothing now."""
        return lineage[-1] if lineage and lineage[-1] in self._bounds.publishers else None

    def _has_share(self, publisher: str) -> bool:
        added = self._published.get(publisher, 0)
        if added - self._published_taken.get(publisher, 0) >= max(1, self._bounds.capacity // _PUBLISHER_SHARE):
            return False
        self._published[publisher] = added + 1
        return True

    def _append(self, envelope: Envelope) -> None:
        self._append_run(EnvelopeRun([envelope], len(envelope.raw)))

    def _append_run(self, run: EnvelopeRun) -> None:
        # Counted first: a queue must never look empty while it is not.
        self._raw_added += run.raw_bytes
        self._added += len(run.envelopes)
        self._runs.append(run)

    def drop(self, envelope: Envelope) -> None:
        """Count an event that the plugin does not get. Health and losses describe the run, so they are not missed."""
        if isinstance(envelope.event, PluginHealth | EventsLost):
            return
        with self._dropping:
            if not envelope.is_sheddable:
                self.lost_facts += 1
            count_kind(self.dropped, envelope.kind)
            _, counts = self._gaps.get(envelope.session_id, (envelope, {}))
            count_kind(counts, envelope.kind)
            self._gaps[envelope.session_id] = (envelope, counts)

    def _close_gaps(self) -> None:
        """Put an EventsLost in the place of missing events, under the number of the last of them."""
        with self._dropping:
            gaps, self._gaps = self._gaps, {}
        for last, counts in sorted(gaps.values(), key=lambda gap: gap[0].seq):
            self._append(lost_envelope(last, where=f"lane:{self._owner}", counts=counts))

    def note_arrival(self, delivered: int) -> None:
        """Remember when the queue grew, once for each feeding; forget the times of delivered envelopes."""
        arrivals = self._arrivals
        while arrivals and arrivals[0][0] <= delivered:
            arrivals.popleft()
        if self._added > (arrivals[-1][0] if arrivals else delivered):
            arrivals.append((self._added, time.monotonic()))

    def lag_s(self, delivered: int) -> float:
        """Return how many seconds the oldest envelope has been here that is not delivered; 0 without one."""
        since = next((at for added, at in tuple(self._arrivals) if added > delivered), None)
        return 0.0 if since is None else time.monotonic() - since

    # On the lane's thread

    def take_batch(self) -> Batch:
        """Return the next envelopes, of one session and one lineage.

        Derived events belong to their batch's session and descend from all of the batch. Otherwise the result would
        depend on where batches happen to be cut.
        """
        runs, batch, raw_bytes = self._runs, list[Envelope](), 0
        while runs and len(batch) < BATCH_SIZE and raw_bytes < _BATCH_RAW_BYTES:
            run = runs[0]
            if batch and not run.goes_with(batch[0].session_id, batch[0].lineage):
                break
            if len(batch) + len(run.envelopes) > BATCH_SIZE or raw_bytes + run.raw_bytes > _BATCH_RAW_BYTES:
                run = self._cut(run, BATCH_SIZE - len(batch), _BATCH_RAW_BYTES - raw_bytes)
            else:
                runs.popleft()
            batch += run.envelopes
            raw_bytes += run.raw_bytes
        self._note_taken(batch, raw_bytes)
        return tuple(batch)

    def _cut(self, run: EnvelopeRun, most: int, most_bytes: int) -> EnvelopeRun:
        """Take the beginning of the first run: so many envelopes, or until they have so many bytes of JSON."""
        count = size = 0
        for envelope in run.envelopes[:most]:
            if size >= most_bytes:
                break
            count += 1
            size += len(envelope.raw)
        if count == len(run.envelopes):
            self._runs.popleft()
        else:
            # The bus only appends, so the first run is still the first.
            self._runs[0] = EnvelopeRun(run.envelopes[count:], run.raw_bytes - size)
        return EnvelopeRun(run.envelopes[:count], size)

    def _note_taken(self, batch: list[Envelope], raw_bytes: int) -> None:
        self._taken += len(batch)
        self._raw_taken += raw_bytes
        publisher = self._publisher_of(batch[0].lineage) if batch else None
        if publisher is not None:
            self._published_taken[publisher] = self._published_taken.get(publisher, 0) + len(batch)

    def drop_all(self) -> None:
        """Drop and count all that waits."""
        for envelope in self._take_all():
            self.drop(envelope)

    def clear(self) -> None:
        """Forget all that waits, uncounted: the plugin failed or sits the run out, and that is said."""
        for _ in self._take_all():
            pass

    def _take_all(self) -> Iterator[Envelope]:
        while self._runs:
            run = self._runs.popleft()
            self._taken += len(run.envelopes)
            self._raw_taken += run.raw_bytes
            yield from run.envelopes


def lost_envelope(last: Envelope, *, where: str, counts: dict[str, int]) -> Envelope:
    """Return an envelope that reports missing events, in the place of the last of them."""
    event = EventsLost(where=where, counts=counts)
    return Envelope(
        seq=last.seq,
        time_unix_nano=last.time_unix_nano,
        session_id=last.session_id,
        origin=HOST,
        event=event,
        raw=encode_event(event),
    )
