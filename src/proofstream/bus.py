"""The bus: the one thread that takes the intake, checks and numbers events, and hands them to the lanes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from proofstream.envelopes import HOST, NO_CAPTURES, PRODUCER, Envelope
from proofstream.errors import WireError, describe
from proofstream.events import EventsLost, ProofEvent, SessionClosed, kind_of
from proofstream.intake import EventSender, Intake, IntakeItem, Posted
from proofstream.lanes import Lane
from proofstream.wire import Decoded, LineDecoder, check_event, encode_event

POLL_S = 0.05
"""How long an idle bus sleeps: an emit wakes nobody."""
TICK_S = 0.5
"""How often the bus looks after the lanes."""
_DRAIN = 1024
_LAST_ROUND_S = 0.5


class Gate:
    """Where sources that can wait are held back, so that no lane overflows on their account.

    A chunk is let in when everything that waits, from the intake to the fullest lane, leaves room for it below half a
    lane's capacity. Chunks are let in one at a time, so that the sum holds for any number of sources.
    """

    def __init__(self, bus: Bus, *, high_water: int) -> None:
        self._bus = bus
        self._high_water = high_water
        self._condition = threading.Condition()
        self._waiting = 0

    def admit(self, size: int, put: Callable[[], None], *, stopping: Callable[[], bool]) -> None:
        """Wait for room for `size` items, then call `put`; a source that is told to stop waits no longer."""
        with self._condition:
            self._waiting += 1
            try:
                while self._bus.backlog + size > self._high_water and self._bus.backlog > 0 and not stopping():
                    self._condition.wait(POLL_S)
                put()
            finally:
                self._waiting -= 1

    def notify(self) -> None:
        """There may be room now."""
        if self._waiting:
            with self._condition:
                self._condition.notify_all()


class Bus:
    """Takes the intake, makes envelopes, feeds lanes.

    Args:
        intake: Where events come in.
        decoder: Checks the events that were made in Python.
        lanes: Whom to hand them to.
        wall_clock: Nanoseconds since the epoch; read once, so that a clock that is set cannot reorder events.
        on_tick: Called every half second, on the bus's thread.
    """

    def __init__(
        self,
        *,
        intake: Intake,
        decoder: LineDecoder,
        lanes: Sequence[Lane],
        wall_clock: Callable[[], int],
        on_tick: Callable[[], None],
        lane_capacity: int,
    ) -> None:
        self.gate: Gate = Gate(self, high_water=lane_capacity // 2)
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
        self._senders: set[EventSender] = set()
        self._stop = False
        self._give_up = False
        self._thread = threading.Thread(target=self._run, name="proofstream-bus", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread once the intake is empty; what is left there when the time is up counts as lost."""
        self._stop = True
        self._intake.wakeup.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            self._give_up = True
            self._thread.join(_LAST_ROUND_S)
            self._count_rest()

    def _count_rest(self) -> None:
        for _, _, what in list(self._intake.items):
            if not (isinstance(what, Posted) and what.origin == HOST):
                self._lose(_kind_of(what))

    def _lose(self, kind: str, count: int = 1) -> None:
        self.lost_at_intake[kind] = self.lost_at_intake.get(kind, 0) + count

    @property
    def backlog(self) -> int:
        """Events between a source and the slowest plugin that anybody waits for."""
        behind = max((lane.depth for lane in self._lanes if lane.holds), default=0)
        return len(self._intake.items) + self._in_flight + behind

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is in the intake, in flight, or in a lane."""
        seq = self._seq
        # Asked once more afterwards: a lane may publish something just before it comes to rest.
        return self._is_empty and all(lane.is_at_rest for lane in self._lanes) and self._is_empty and self._seq == seq

    @property
    def _is_empty(self) -> bool:
        return not self._intake.items and not self._in_flight

    def watch(self, sender: EventSender) -> None:
        """Report what the intake could not hold of this session's events."""
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
            except Exception as error:  # noqa: BLE001 - whatever it is, as a logging filter that raises, all depend on this thread
                self._fault(error)
                self._in_flight = 0
            self.gate.notify()
            if worked:
                continue
            if self._stop:
                return
            self._intake.wakeup.wait(POLL_S)

    def _fault(self, error: Exception) -> None:
        self.faults += 1
        if self.faults == 1:
            self.first_fault = describe(error)

    def _drain(self) -> bool:
        items = self._intake.items
        count = min(_DRAIN, len(items))
        if not count and not self._intake.overflowed:
            return False
        self._in_flight = count
        envelopes: list[Envelope] = []
        for _ in range(count):
            item = items.popleft()
            try:
                self._pass(item, envelopes)
            except Exception as error:  # noqa: BLE001 - as above, and the others of this round must not be lost with it
                self._fault(error)
                self._lose(_kind_of(item[2]))
        if self._intake.overflowed:
            self._intake.overflowed = False
            for sender in list(self._senders):
                self._report_losses(sender, envelopes)
        for lane in self._lanes:
            lane.feed(envelopes)
        self._in_flight = 0
        return True

    def _pass(self, item: IntakeItem, envelopes: list[Envelope]) -> None:
        monotonic_ns, sender, what = item
        if sender.ended and not (isinstance(what, Posted) and what.lineage):
            self._lose(_kind_of(what))  # emitted on another thread while the session was being closed
            return
        try:
            envelope = self._envelope(monotonic_ns, sender, what)
        except WireError as error:
            sender.refuse_event(_kind_of(what), str(error))
            return
        if isinstance(envelope.event, SessionClosed):
            self._report_losses(sender, envelopes)
            self._senders.discard(sender)
            sender.ended = isinstance(what, Posted)  # what was recorded may go on after its end
        sender.seen(envelope.time_unix_nano)
        envelopes.append(envelope)

    def _envelope(self, monotonic_ns: int, sender: EventSender, what: ProofEvent | Posted | Decoded) -> Envelope:
        now = self._anchor + monotonic_ns
        if isinstance(what, Decoded):
            time_unix_nano = now if what.time_unix_nano is None else what.time_unix_nano
            lineage = _recorded_lineage(what)
            return self._number(sender, what, time_unix_nano=time_unix_nano, origin=what.origin, lineage=lineage)
        if isinstance(what, Posted):
            checked = check_event(what.now(), self._decoder)
            own_time = sender.last_time_unix_nano if what.at_latest else what.time_unix_nano
            return self._number(
                sender,
                checked,
                time_unix_nano=now if own_time is None else own_time,
                origin=what.origin,
                lineage=what.lineage,
                captured=what.captured,
            )
        return self._number(sender, check_event(what, self._decoder), time_unix_nano=now, origin=PRODUCER)

    def _number(
        self,
        sender: EventSender,
        decoded: Decoded,
        *,
        time_unix_nano: int,
        origin: str,
        lineage: tuple[str, ...] = (),
        captured: Mapping[str, object] = NO_CAPTURES,
    ) -> Envelope:
        seq = self._seq
        self._seq = seq + 1
        return Envelope(
            seq=seq,
            time_unix_nano=time_unix_nano,
            session_id=sender.session_id,
            origin=origin,
            event=decoded.event,
            raw=decoded.raw,
            job_id=decoded.job_id,
            traceparent=decoded.traceparent,
            captured=captured,
            lineage=lineage,
        )

    def _report_losses(self, sender: EventSender, envelopes: list[Envelope]) -> None:
        """Say in the session what the intake could not hold since that was last said."""
        fresh = sender.dropped.take_counts()
        if not fresh:
            return
        for kind, count in fresh.items():
            self._lose(kind, count)
        event = EventsLost(where="intake", counts=fresh)
        decoded = Decoded(event=event, raw=encode_event(event))
        now = self._anchor + self._intake.clock()
        envelopes.append(self._number(sender, decoded, time_unix_nano=now, origin=HOST))


def _kind_of(what: object) -> str:
    event = what.event if isinstance(what, Posted | Decoded) else what
    return kind_of(event) if isinstance(event, ProofEvent) else type(event).__name__


def _recorded_lineage(decoded: Decoded) -> tuple[str, ...]:
    """A recorded event of a plugin still descends from that plugin."""
    return () if decoded.origin in (PRODUCER, HOST) else (decoded.origin,)


def wait_until(
    condition: Callable[[], bool], *, deadline: float, wakeups: Iterable[float] = (0.001, 0.005, 0.02)
) -> bool:
    """Poll a condition until a moment of the monotonic clock; the last pause repeats."""
    pauses = iter(wakeups)
    pause = next(pauses)
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = next(pauses, pause)
    return True
