"""The bus: one thread that drains the intake, checks and numbers events, and feeds the lanes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from proofstream.counts import count_kind
from proofstream.envelopes import HOST, NO_CAPTURES, PRODUCER, RECONSTRUCTED, Envelope, memory_of
from proofstream.errors import WireError, describe
from proofstream.events import EventsLost, PhaseEnd, PhaseStart, ProofEvent, ProofStart, SessionClosed, kind_of
from proofstream.intake import EventSender, Intake, IntakeItem, Posted, SenderInJob
from proofstream.lane_queue import QueueBounds
from proofstream.lanes import Lane
from proofstream.open_intervals import MOST_SHOWN_PHASES
from proofstream.threads import start_thread
from proofstream.trace_ids import TraceNote
from proofstream.wire import Decoded, LineDecoder, check_event, encode_event

POLL_S = 0.05
"""How long an idle bus sleeps. It has to poll, because `emit` wakes no thread: that would cost the prover's time."""
TICK_S = 0.5
"""How often the bus checks on the lanes."""
# Items per round. Few enough that ticks stay on time and lanes get the start of a burst early.
_DRAIN = 1024
# A round of large events ends here: they are encoded, decoded and held all at once.
_ROUND_BYTES = 8 * 2**20
# How long `stop` lets the current round finish after its timeout.
_LAST_ROUND_S = 0.5


class Gate:
    """Holds back sources that can wait, so that they never make a lane overflow.

    A chunk is admitted once everything in progress, from the intake to the fullest lane, leaves room for it below half
    a lane's bounds. Chunks are admitted one at a time, so the bound holds for any number of sources.

    Attributes:
        admitted_bytes: The estimated memory of everything admitted so far.
    """

    def __init__(self, bus: Bus, bounds: QueueBounds) -> None:
        self.admitted_bytes: int = 0
        self._bus = bus
        self._most_events = bounds.capacity // 2
        self._most_bytes = bounds.max_bulk_bytes // 2
        self._condition = threading.Condition()
        self._waiting = 0

    def admit(self, count: int, size: int, deliver: Callable[[], None], *, stopping: Callable[[], bool]) -> None:
        """Wait for room for `count` events of `size` bytes, or until the source is stopping, then call `deliver`."""
        with self._condition:
            self._waiting += 1
            try:
                while not self._has_room(count, size) and not stopping():
                    # With a timeout, because neither a lane that drains nor `stopping` notifies the gate.
                    self._condition.wait(POLL_S)
                self.admitted_bytes += size
                # Still under the lock: the next source must find this chunk in the backlog.
                deliver()
            finally:
                self._waiting -= 1

    def _has_room(self, count: int, size: int) -> bool:
        backlog = self._bus.backlog
        # A chunk larger than the bound goes in once the backlog is empty. Otherwise it would wait forever.
        if backlog == 0:
            return True
        return backlog + count <= self._most_events and self._bus.backlog_bytes + size <= self._most_bytes

    def notify(self) -> None:
        """Wake the waiting sources, because there may be room now."""
        # Read without the lock: a source that starts to wait at this moment polls anyway.
        if self._waiting:
            with self._condition:
                self._condition.notify_all()


class Bus:
    """Drains the intake, makes envelopes and feeds the lanes.

    Args:
        intake: Where events arrive.
        decoder: Checks the events that were made in Python.
        lanes: The lanes to feed.
        wall_clock: Returns nanoseconds since the epoch. Called once, so that setting the system clock cannot reorder
            events.
        on_tick: Called every half second, on the bus's thread.
        bounds: The bounds of a lane. The gate holds sources back at half of them.
    """

    def __init__(
        self,
        *,
        intake: Intake,
        decoder: LineDecoder,
        lanes: Sequence[Lane],
        wall_clock: Callable[[], int],
        on_tick: Callable[[], None],
        bounds: QueueBounds,
    ) -> None:
        self.gate: Gate = Gate(self, bounds)
        self.lost_at_intake: dict[str, int] = {}
        self.faults: int = 0
        self.first_fault: str = ""
        self._intake = intake
        self._decoder = decoder
        self._lanes = lanes
        self._anchor = wall_clock() - intake.clock()
        self._on_tick = on_tick
        self._seq = 0
        self._in_flight = 0
        self._passed_bytes = 0
        self._senders: set[EventSender] = set()
        self._stop = False
        self._give_up = False
        self._thread = threading.Thread(target=self._run, name="proofstream-bus", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        start_thread(self._thread)

    @property
    def is_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    def stop(self, timeout_s: float) -> None:
        """End the thread once the intake is empty. Whatever is left there after `timeout_s` counts as lost."""
        if not self.is_started:
            return
        self._stop = True
        self._intake.wakeup.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._give_up = True
            self._thread.join(_LAST_ROUND_S)
            self._count_rest()

    def _count_rest(self) -> None:
        for _, _, what in list(self._intake.items):
            _note_taken(what)
            self._lose_item(what)
        for sender in list(self._senders):
            for kind, count in sender.dropped.take_counts().items():
                self._lose(kind, count)

    def _lose_item(self, what: ProofEvent | Posted | Decoded) -> None:
        # The host's own events describe the run. Missing ones are not data that anyone sent.
        if not (isinstance(what, Posted) and what.origin == HOST):
            self._intake.note_loss(_event_of(what))
            self._lose(_kind_of(what))

    def _lose(self, kind: str, count: int = 1) -> None:
        count_kind(self.lost_at_intake, kind, count)

    @property
    def backlog(self) -> int:
        """Events on their way from a source to the slowest plugin that sources wait for."""
        behind = max((lane.depth for lane in self._lanes if lane.holds), default=0)
        return len(self._intake.items) + self._in_flight + behind

    @property
    def backlog_bytes(self) -> int:
        """The estimated memory of the events that the gate admitted and the slowest plugin has not taken."""
        behind = max((lane.queue.waiting_bytes for lane in self._lanes if lane.holds), default=0)
        return self.gate.admitted_bytes - self._passed_bytes + behind

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is in the intake, in progress or in a lane."""
        seq = self._seq
        # Check the intake again after the lanes: a lane may publish an event just before it comes to rest.
        return self._is_empty and all(lane.is_at_rest for lane in self._lanes) and self._is_empty and self._seq == seq

    @property
    def _is_empty(self) -> bool:
        return not self._intake.items and not self._in_flight

    def watch(self, sender: EventSender) -> None:
        """Start reporting the events of this session that the intake could not hold."""
        self._senders.add(sender)

    # On the bus's own thread

    def _run(self) -> None:
        ticked = time.monotonic()
        while not self._give_up:
            worked = True
            try:
                worked = self._drain()
                now = time.monotonic()
                if now - ticked >= TICK_S:
                    ticked = now
                    self._on_tick()
            except BaseException as error:  # noqa: BLE001 - such as a logging filter that raises; every plugin needs this thread
                self._fault(error)
                self._in_flight = 0
            self.gate.notify()
            if worked:
                continue
            # Stop only after a round that found nothing, so that everything emitted before is delivered.
            if self._stop:
                return
            self._intake.wakeup.wait(POLL_S)

    def _fault(self, error: BaseException) -> None:
        self.faults += 1
        if self.faults == 1:
            self.first_fault = describe(error)

    def _drain(self) -> bool:
        count = min(_DRAIN, len(self._intake.items))
        if not count and not self._intake.overflowed:
            return False
        # Set before the first item is taken: the backlog must never look empty while items are between the two.
        self._in_flight = count
        envelopes, size, admitted = self._take_round(count)
        if self._intake.overflowed:
            # Cleared before the counts are read: a drop in between sets it again, and the next round reports it.
            self._intake.overflowed = False
            for sender in list(self._senders):
                self._report_losses(sender, envelopes)
        try:
            for lane in self._lanes:
                lane.feed(envelopes)
        finally:
            self._passed_bytes += admitted
            self._in_flight = 0
        if envelopes and self._intake.fit_to(size // len(envelopes)):
            for sender in list(self._senders):
                sender.fit_to_intake()
        return True

    def _take_round(self, count: int) -> tuple[list[Envelope], int, int]:
        """Take up to `count` items; return their envelopes, their memory in bytes, and what the gate admitted of it."""
        items = self._intake.items
        envelopes: list[Envelope] = []
        size = admitted = 0
        for _ in range(count):
            if size > _ROUND_BYTES:
                break
            item = items.popleft()
            admitted += memory_of(len(item[2].raw)) if isinstance(item[2], Decoded) else 0
            try:
                size += self._pass(item, envelopes)
            except BaseException as error:  # noqa: BLE001 - as above, also a Rust panic; and the rest of this round must not be lost with it
                self._fault(error)
                self._lose_item(item[2])
        return envelopes, size, admitted

    def _pass(self, item: IntakeItem, envelopes: list[Envelope]) -> int:
        """Check and number one item, and add it to the envelopes. Return its memory in bytes, or 0 if it is dropped."""
        monotonic_ns, by, what = item
        sender, job_id = (by.sender, by.job_id) if isinstance(by, SenderInJob) else (by, None)
        _note_taken(what)
        if sender.ended and not (isinstance(what, Posted) and what.lineage):
            self._lose_item(what)  # emitted by another thread while the session was being closed
            return 0
        try:
            decoded = what if isinstance(what, Decoded) else self._checked(what)
        except WireError as error:
            sender.refuse_event(_kind_of(what), str(error))
            return 0
        is_end = isinstance(decoded.event, SessionClosed)
        if is_end:
            # Before the end gets its number: the losses belong in front of it, and numbers only ever increase.
            self._report_losses(sender, envelopes)
        envelope = self._envelope(monotonic_ns, sender, job_id, what, decoded)
        if is_end:
            self._senders.discard(sender)
            sender.ended = isinstance(what, Posted)  # a recorded session may continue after its recorded end
        sender.seen(envelope.time_unix_nano)
        envelopes.append(envelope)
        return envelope.memory_bytes

    def _checked(self, what: ProofEvent | Posted) -> Decoded:
        return check_event(what.now() if isinstance(what, Posted) else what, self._decoder)

    def _envelope(
        self,
        monotonic_ns: int,
        sender: EventSender,
        job_id: str | None,
        what: ProofEvent | Posted | Decoded,
        decoded: Decoded,
    ) -> Envelope:
        now = self._anchor + monotonic_ns
        if isinstance(what, Decoded):
            time_unix_nano = now if what.time_unix_nano is None else what.time_unix_nano
            sender.behind_ns = now - time_unix_nano
            lineage = _recorded_lineage(what)
            return self._number(sender, what, time_unix_nano=time_unix_nano, origin=what.origin, lineage=lineage)
        if isinstance(what, Posted):
            own_time = sender.last_time_unix_nano if what.at_latest else what.time_unix_nano
            time_unix_nano = now if own_time is None else own_time
            time_source = what.time_source
            if own_time is None and abs(sender.behind_ns) > _LATE_NS and isinstance(decoded.event, SessionClosed):
                time_unix_nano, time_source = now - sender.behind_ns, RECONSTRUCTED
            return self._number(
                sender,
                decoded,
                time_unix_nano=time_unix_nano,
                time_source=time_source,
                origin=what.origin,
                lineage=what.lineage,
                captured=what.captured,
                trace_note=what.trace_note,
                job_id=job_id,
                parent_job_id=what.parent_job_id,
            )
        return self._number(sender, decoded, time_unix_nano=now, origin=PRODUCER, job_id=job_id)

    def _number(
        self,
        sender: EventSender,
        decoded: Decoded,
        *,
        time_unix_nano: int,
        origin: str,
        time_source: str | None = None,
        lineage: tuple[str, ...] = (),
        captured: Mapping[str, object] = NO_CAPTURES,
        trace_note: TraceNote | None = None,
        job_id: str | None = None,
        parent_job_id: str | None = None,
    ) -> Envelope:
        seq = self._seq
        self._seq = seq + 1
        model_name, crowded = None, False
        if type(decoded.event) in _CROWDING:
            model_name, crowded = _given_name(sender, decoded), _is_crowded(sender, decoded.event)
        return Envelope(
            seq=seq,
            time_unix_nano=time_unix_nano,
            session_id=sender.session_id,
            origin=origin,
            event=decoded.event,
            raw=decoded.raw,
            job_id=decoded.job_id if job_id is None else job_id,
            parent_job_id=decoded.parent_job_id if parent_job_id is None else parent_job_id,
            time_source=decoded.time_source if time_source is None else time_source,
            traceparent=decoded.traceparent,
            model_name=model_name,
            captured=captured,
            trace_note=trace_note,
            lineage=lineage,
            crowded=crowded,
        )

    def _report_losses(self, sender: EventSender, envelopes: list[Envelope]) -> None:
        """Add an event to the session that counts what the intake dropped since the last such event."""
        fresh = sender.dropped.take_counts()
        if not fresh:
            return
        for kind, count in fresh.items():
            self._lose(kind, count)  # first, so that they count even if the event cannot be made
        event = EventsLost(where="intake", counts=fresh)
        decoded = Decoded(event=event, raw=encode_event(event))
        now = self._anchor + self._intake.clock()
        envelopes.append(self._number(sender, decoded, time_unix_nano=now, origin=HOST))


_LATE_NS = 1_000_000_000
"""Events that come this long after the times that they bring are told later, or by another clock. Then the end of
their session, as this machine's clock tells it, is not the end of what they tell of: it follows the last of them."""

_CROWDING = frozenset({ProofStart, PhaseStart, PhaseEnd})


def _is_crowded(sender: EventSender, event: ProofEvent) -> bool:
    """Return whether the event starts or ends one of more phases than a proof shows one by one."""
    if isinstance(event, ProofStart):
        sender.phases = 0
        return False
    sender.phases += isinstance(event, PhaseStart)
    return sender.phases > MOST_SHOWN_PHASES


def _given_name(sender: EventSender, decoded: Decoded) -> str | None:
    """Return what the user calls the model of a proof that begins; None if the prover itself gave it a name."""
    event = decoded.event
    if not isinstance(event, ProofStart) or event.model_name:
        return None
    return sender.model_name or decoded.model_name


def _note_taken(what: ProofEvent | Posted | Decoded) -> None:
    if isinstance(what, Posted) and what.on_taken is not None:
        what.on_taken()


def _event_of(what: object) -> object:
    return what.event if isinstance(what, Posted | Decoded) else what


def _kind_of(what: object) -> str:
    event = _event_of(what)
    return kind_of(event) if isinstance(event, ProofEvent) else type(event).__name__


def _recorded_lineage(decoded: Decoded) -> tuple[str, ...]:
    """Return the lineage of a recorded event: one that a plugin derived still descends from that plugin."""
    return () if decoded.origin in (PRODUCER, HOST) else (decoded.origin,)
