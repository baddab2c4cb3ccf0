"""The bus: one thread that drains the intake, checks and numbers events, and feeds the lanes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from proofstream.counts import count_kind
from proofstream.envelopes import HOST, memory_of
from proofstream.errors import WireError, describe
from proofstream.events import EventsLost, ProofEvent, SessionClosed, kind_of
from proofstream.fast_events import FastEvents
from proofstream.gate import Gate
from proofstream.intake import Chunk, EventSender, Intake, Posted, SenderInJob
from proofstream.lane_queue import QueueBounds
from proofstream.lanes import Lane
from proofstream.numbering import BY_THEMSELVES, Numbering, Round, special_lines
from proofstream.threads import start_thread
from proofstream.wire import Decoded, LineDecoder, check_event, encode_event

POLL_S = 0.1
"""How long the bus sleeps after it has taken all there was, unless a source or a lane wakes it.

It has to poll, because `emit` wakes no thread: that would cost the prover's time. It sleeps while a program emits, too:
to take events at once would mean to take the interpreter's lock from the program for a few of them, again and again,
and to wake every lane for these.
"""
TICK_S = 0.5
"""How often the bus checks on the lanes."""
# Items per round. Few enough that ticks stay on time and lanes get the start of a burst early.
_DRAIN = 1024
# A round of large events ends here: they are encoded, decoded and held all at once.
_ROUND_BYTES = 8 * 2**20
# How long `stop` lets the current round finish after its timeout.
_LAST_ROUND_S = 0.5


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
        self._fast = FastEvents(decoder.catalog, left_out=BY_THEMSELVES)
        self._lanes = lanes
        self._numbering = Numbering(wall_clock() - intake.clock())
        self._on_tick = on_tick
        self._in_flight = 0
        self._passed_bytes = 0
        self._senders: set[EventSender] = set()
        self._stop = False
        self._give_up = False
        self._is_behind = False
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
        for item in list(self._intake.items):
            _note_taken(item.what)
            self._lose_item(item.what)
        for sender in list(self._senders):
            for kind, count in sender.dropped.take_counts().items():
                self._lose(kind, count)

    def _lose_item(self, what: ProofEvent | Posted | Chunk) -> None:
        if isinstance(what, Chunk):
            for line in what.lines:
                self._intake.note_loss(line.event)
                self._lose(kind_of(line.event))
            return
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
        return self._intake.depth + self._in_flight + behind

    @property
    def backlog_bytes(self) -> int:
        """The estimated memory of the events that the gate admitted and the slowest plugin has not taken."""
        behind = max((lane.queue.waiting_bytes for lane in self._lanes if lane.holds), default=0)
        return self.gate.admitted_bytes - self._passed_bytes + behind

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is in the intake, in progress or in a lane."""
        seq = self._numbering.seq
        # Check the intake again after the lanes: a lane may publish an event just before it comes to rest.
        lanes_rest = self._is_empty and all(lane.is_at_rest for lane in self._lanes)
        return lanes_rest and self._is_empty and self._numbering.seq == seq

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
                self._is_behind = True
            self.gate.notify()
            # Stop only after a round that found nothing, so that everything emitted before is delivered.
            if self._stop and not worked:
                return
            if self._stop or self._is_behind:
                continue
            self._intake.wakeup.wait(POLL_S)

    def _fault(self, error: BaseException) -> None:
        self.faults += 1
        if self.faults == 1:
            self.first_fault = describe(error)

    def _drain(self) -> bool:
        intake = self._intake
        if not intake.items and not intake.overflowed:
            return False
        # Set before the first item is taken: the backlog must never look empty while items are between the two.
        self._in_flight = min(_DRAIN, intake.depth)
        taken = self._take_round()
        if intake.overflowed:
            # Cleared before the counts are read: a drop in between sets it again, and the next round reports it.
            intake.overflowed = False
            for sender in list(self._senders):
                self._report_losses(sender, taken)
        try:
            for lane in self._lanes:
                lane.feed(taken.runs)
        finally:
            self._passed_bytes += taken.admitted_bytes
            self._in_flight = 0
        if taken.events and intake.fit_to(taken.memory_bytes // taken.events):
            for sender in list(self._senders):
                sender.fit_to_intake()
        return True

    def _take_round(self) -> Round:
        """Take about `_DRAIN` events at most from the intake, and pass them."""
        taken = Round()
        made = _Made()
        self._is_behind = False
        take, check, events = self._intake.take_item, self._fast.check, made.events
        for _ in range(len(self._intake.items)):
            if taken.memory_bytes + made.memory_bytes > _ROUND_BYTES or taken.events + len(events) >= _DRAIN:
                self._is_behind = True
                break
            item = take()
            monotonic_ns, by, what = item.monotonic_ns, item.sender, item.what
            checked = check(what)
            if checked is None or by is not made.by:
                self._pass_made(made, taken)
            sender, job_id = (by.sender, by.job_id) if isinstance(by, SenderInJob) else (by, None)
            if checked is not None and not sender.ended:
                made.by = by
                made.memory_bytes += memory_of(len(checked[1]))
                events.append((monotonic_ns, *checked))
                continue
            try:
                if isinstance(what, Chunk):
                    taken.admitted_bytes += what.memory_bytes
                    self._pass_lines(monotonic_ns, sender, what, taken)
                else:
                    self._pass(monotonic_ns, sender, job_id, what, taken)
            except BaseException as error:  # noqa: BLE001 - as above, also a Rust panic; and the rest of this round must not be lost with it
                self._fault(error)
                self._lose_item(what)
        self._pass_made(made, taken)
        return taken

    def _pass_made(self, made: _Made, taken: Round) -> None:
        """Give the checked events of one sender that followed one another their numbers."""
        if made.events and made.by is not None:
            by = made.by
            sender, job_id = (by.sender, by.job_id) if isinstance(by, SenderInJob) else (by, None)
            taken.add(self._numbering.number_events(sender, job_id, made.events))
            made.events.clear()
        made.by, made.memory_bytes = None, 0

    def _pass_lines(self, monotonic_ns: int, sender: EventSender, chunk: Chunk, taken: Round) -> None:
        """Pass lines that a source has decoded, and so checked; stretches of ordinary ones are numbered at once."""
        if sender.ended:
            self._lose_item(chunk)
            return
        lines, begin = chunk.lines, 0
        for index in special_lines(lines):
            line = lines[index]
            self._pass_ordinary(monotonic_ns, sender, lines[begin:index], taken)
            begin = index + 1
            if isinstance(line.event, SessionClosed):
                self._report_losses(sender, taken)
                self._senders.discard(sender)  # not ended: a recorded session may continue after its recorded end
            taken.add([self._numbering.number_line(monotonic_ns, sender, line)])
        self._pass_ordinary(monotonic_ns, sender, lines[begin:], taken)

    def _pass_ordinary(self, monotonic_ns: int, sender: EventSender, lines: Sequence[Decoded], taken: Round) -> None:
        if not lines:
            return
        if self._intake.listening:
            taken.add(self._numbering.number_lines(monotonic_ns, sender, lines))
        else:
            self._numbering.pass_over(monotonic_ns, sender, lines)

    def _pass(
        self, monotonic_ns: int, sender: EventSender, job_id: str | None, what: ProofEvent | Posted, taken: Round
    ) -> None:
        """Check and number an event that was made in Python, unless it is dropped."""
        _note_taken(what)
        if sender.ended and not (isinstance(what, Posted) and what.lineage):
            self._lose_item(what)  # emitted by another thread while the session was being closed
            return
        try:
            decoded = self._checked(what)
        except WireError as error:
            sender.refuse_event(_kind_of(what), str(error))
            return
        if isinstance(decoded.event, SessionClosed):
            # Before the end gets its number: the losses belong in front of it, and numbers only ever increase.
            self._report_losses(sender, taken)
            self._senders.discard(sender)
            sender.ended = isinstance(what, Posted)
        taken.add([self._numbering.number_made(monotonic_ns, sender, job_id, what, decoded)])

    def _checked(self, what: ProofEvent | Posted) -> Decoded:
        return check_event(what.now() if isinstance(what, Posted) else what, self._decoder)

    def _report_losses(self, sender: EventSender, taken: Round) -> None:
        """Add an event to the session that counts what the intake dropped since the last such event."""
        fresh = sender.dropped.take_counts()
        if not fresh:
            return
        for kind, count in fresh.items():
            self._lose(kind, count)  # first, so that they count even if the event cannot be made
        event = EventsLost(where="intake", counts=fresh)
        decoded = Decoded(event=event, raw=encode_event(event))
        taken.add([self._numbering.number_own(self._intake.clock(), sender, decoded)])


class _Made:
    """Checked events of one sender that follow one another: when each arrived, the event, and its JSON."""

    def __init__(self) -> None:
        self.by: EventSender | SenderInJob | None = None
        self.events: list[tuple[int, ProofEvent, bytes]] = []
        self.memory_bytes: int = 0


def _note_taken(what: ProofEvent | Posted | Chunk) -> None:
    if isinstance(what, Posted) and what.on_taken is not None:
        what.on_taken()


def _event_of(what: object) -> object:
    return what.event if isinstance(what, Posted) else what


def _kind_of(what: object) -> str:
    event = _event_of(what)
    return kind_of(event) if isinstance(event, ProofEvent) else type(event).__name__
