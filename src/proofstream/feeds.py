"""Connects sources to the host."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from proofstream.counts import count_kind
from proofstream.envelopes import HOST, PRODUCER, TIME_SOURCES, memory_of
from proofstream.errors import UsageError
from proofstream.events import Log, ProofEvent, SessionClosed, SessionOpened, is_bulk, kind_of
from proofstream.host import Host
from proofstream.intake import HARD_FACTOR, Gap, Posted
from proofstream.session import Session
from proofstream.wire import Decoded, Refusal

# A bus that is this late has more to do than it can, unless a burst has just passed.
_LATE_S = 1.0
OUTCOMES = ("ended", "lost", "interrupted")
_PIECE_BYTES = 2**20


class HostFeed:
    """A source's way to the host; implements `contracts.Feed`.

    Args:
        host: The host.
        waits: Whether the source is held back while plugins are behind.
        tell: Shows a line to the user.
        model_name: What the user calls the model of proofs for which the prover gives no name.

    Attributes:
        stopping: Set when the source must stop.
        interrupted: Why it must stop; None if it has come to its own end.
    """

    def __init__(self, host: Host, *, waits: bool, tell: Callable[[str], None], model_name: str | None = None) -> None:
        self.host = host
        self.waits = waits
        self._tell = tell
        self._model_name = model_name
        self.stopping = False
        self.interrupted: str | None = None
        self._counting = threading.Lock()  # a source may deliver on several threads

    def open_session(
        self,
        *,
        source: str,
        time_source: str,
        session_id: str | None = None,
        opened_at: int | None = None,
        opened_time_source: str | None = None,
        time_resolution_ns: int | None = None,
        recorded: bool = False,
    ) -> HostSessionFeed:
        """See `contracts.Feed`."""
        _check_word("time_source", time_source, TIME_SOURCES)
        if opened_time_source is not None:
            _check_word("opened_time_source", opened_time_source, TIME_SOURCES)
        replayed = not self.host.live
        session = self.host.new_session(source=source, session_id=session_id, replayed=replayed)
        session.model_name = self._model_name
        if not recorded:
            self.host.announce(
                session,
                time_source=time_source,
                opened_at=opened_at,
                opened_time_source=opened_time_source,
                time_resolution_ns=time_resolution_ns,
            )
            return HostSessionFeed(self, session)
        as_recorded = self.host.keep_as_recorded(session)
        return HostSessionFeed(self, session, (time_source, opened_at), as_recorded=as_recorded)

    def count_bytes(self, size: int) -> None:
        """Count the memory of events that enter without passing the gate, or, below 0, of those that had no room."""
        with self._counting:
            self.host.bus.gate.admitted_bytes += size

    def count_gap(self, gap: Gap) -> None:
        """Close a gap and count what it lacks. Only for the bus's thread, which counts without a lock."""
        for kind, count in gap.close().items():
            count_kind(self.host.bus.lost_at_intake, kind, count)

    def is_fact(self, kind: str) -> bool:
        """Return whether events of a kind are always facts. Those of `Log` and of undeclared kinds may be bulk."""
        event_type = self.host.registry.catalog.event_type(kind)
        return event_type is not None and not is_bulk(event_type) and not issubclass(event_type, Log)

    @property
    def overloaded(self) -> bool:
        """See `contracts.Feed`."""
        host = self.host
        # A lane sheds bulk by itself, so one slow plugin does not cost the others theirs. But once facts have filled
        # half of the room that is kept for them, they are worth more.
        return (
            host.intake.depth >= host.intake.capacity // 2
            or host.intake.lag_s > _LATE_S
            or host.bus.backlog_bytes > host.settings.memory_bytes // 4
            or self._lane_events() > HARD_FACTOR // 2 * host.settings.lane_capacity
        )

    @property
    def congested(self) -> bool:
        """See `contracts.Feed`."""
        host = self.host
        return (
            host.intake.depth >= host.intake.capacity
            or host.bus.backlog_bytes > host.settings.memory_bytes * 3 // 8
            or self._lane_events() > HARD_FACTOR * 3 // 4 * host.settings.lane_capacity
        )

    def _lane_events(self) -> int:
        return max((lane.depth for lane in self.host.lanes if lane.holds), default=0)

    @property
    def backlog_bytes(self) -> int:
        """See `contracts.Feed`."""
        return self.host.settings.memory_bytes // 4

    def announce(self, text: str) -> None:
        """See `contracts.Feed`."""
        self._tell(text)


class HostSessionFeed:
    """A session as a source fills it; implements `contracts.SessionFeed`.

    Args:
        feed: The source's feed.
        session: The session.
        opening: Time source and time with which to announce the session, if its first event is not a SessionOpened.
        as_recorded: Active plugins whose recorded events are kept.
    """

    def __init__(
        self,
        feed: HostFeed,
        session: Session,
        opening: tuple[str, int | None] | None = None,
        *,
        as_recorded: frozenset[str] = frozenset(),
    ) -> None:
        self.session_id: str = session.session_id
        self._as_recorded = as_recorded
        self._feed = feed
        self._session = session
        self._opening = opening
        self._intake = feed.host.intake
        self._gap: Gap | None = None
        self._named_forms: set[str] = set()

    def deliver(self, chunk: Sequence[Decoded]) -> None:
        """See `contracts.SessionFeed`."""
        if not chunk:
            return
        if self._opening is not None:
            if not isinstance(chunk[0].event, SessionOpened):
                time_source, opened_at = self._opening
                self._feed.host.announce(self._session, time_source=time_source, opened_at=opened_at)
            self._opening = None
        # Events that plugins derived may follow a recorded SessionClosed. A producer's event after it means that the
        # session goes on, and then `close` must still add an end.
        decisive = (d for d in reversed(chunk) if d.origin == PRODUCER or isinstance(d.event, SessionClosed))
        last = next(decisive, None)
        if last is not None:
            self._session.closing_sent = isinstance(last.event, SessionClosed)
        if not self._feed.host.live:
            chunk = self._without_derived_again(chunk)
        self._enter(chunk)

    def _without_derived_again(self, chunk: Sequence[Decoded]) -> Sequence[Decoded]:
        """Leave out what active plugins derive again. Events of plugins that are not loaded can only be replayed."""
        derived_again = set(self._feed.host.active) - self._as_recorded
        return [decoded for decoded in chunk if decoded.origin not in derived_again]

    def _enter(self, chunk: Sequence[Decoded]) -> None:
        if not chunk:
            return
        if self._feed.waits:
            gate, at_most = self._feed.host.bus.gate, max(1, self._feed.host.settings.lane_capacity // 4)
            for piece, size in _pieces(chunk, at_most=at_most):
                put = functools.partial(self._put, piece, size)
                gate.admit(len(piece), size, put, stopping=lambda: self._feed.stopping)
        else:
            # Before they enter: otherwise the bus might pass them first, and the sum would be too small meanwhile.
            size = _memory_of(chunk)
            self._feed.count_bytes(size)
            self._put(chunk, size)
        self._intake.wakeup.set()

    def _put(self, chunk: Sequence[Decoded], size: int) -> None:
        intake = self._intake
        if intake.depth + len(chunk) <= intake.capacity:
            self._gap = None
            intake.append_chunk(self._session, chunk, size)
            return
        fitting: list[Decoded] = []
        for decoded in chunk:
            if intake.has_room_for(decoded.event, after=len(fitting)):
                fitting.append(decoded)
                continue
            self._put_fitting(fitting)
            fitting = []
            self._feed.count_bytes(-memory_of(len(decoded.raw)))
            self._intake.note_loss(decoded.event)
            self._widen_gap({kind_of(decoded.event): 1})
        self._put_fitting(fitting)

    def _put_fitting(self, lines: list[Decoded]) -> None:
        """Append lines that have room. They end a gap, if there are any."""
        if lines:
            self._gap = None
            self._intake.append_chunk(self._session, lines, _memory_of(lines))

    def drop_bulk(self, counts: Mapping[str, int]) -> None:
        """See `contracts.SessionFeed`."""
        for kind in filter(self._feed.is_fact, counts):  # what a stop leaves undecoded may hold facts
            for _ in range(counts[kind]):
                self._intake.lost_facts.count_event(kind)
        self._widen_gap(counts)

    def _widen_gap(self, counts: Mapping[str, int]) -> None:
        if self._gap is not None and self._gap.widen(counts):
            return
        self._gap = gap = Gap()
        gap.widen(counts)
        posted = Posted(
            make=gap.event,
            origin=HOST,
            # Of the event before it: a later time could be after that of the event that follows.
            at_latest=True,
            on_taken=functools.partial(self._feed.count_gap, gap),
        )
        self._intake.append_item(self._session, posted)

    def emit(self, event: ProofEvent) -> None:
        """See `contracts.SessionFeed`."""
        self._session.emit(event)

    def refuse(self, refusal: Refusal) -> None:
        """See `contracts.SessionFeed`."""
        self._session.report_refusal(str(refusal), again=refusal.form in self._named_forms)
        if refusal.form:
            self._named_forms.add(refusal.form)

    def close(self, outcome: str = "ended", reason: str | None = None) -> None:
        """See `contracts.SessionFeed`. A session that ends because the source must stop is interrupted."""
        _check_word("outcome", outcome, OUTCOMES)
        if self._feed.interrupted is not None and outcome in ("ended", "interrupted"):
            outcome, reason = "interrupted", self._feed.interrupted
        self._session.close(outcome=outcome, reason=reason)


def _pieces(chunk: Sequence[Decoded], *, at_most: int) -> Iterator[tuple[Sequence[Decoded], int]]:
    """Cut a chunk into pieces of at most so many events and a moderate size, so that none fills a lane at once.

    Yields:
        Each piece, and its memory in bytes.
    """
    whole = _memory_of(chunk)
    if whole < _PIECE_BYTES and len(chunk) <= at_most:
        yield chunk, whole
        return
    start = size = 0
    for index, decoded in enumerate(chunk):
        size += memory_of(len(decoded.raw))
        if size >= _PIECE_BYTES or index + 1 - start >= at_most:
            yield chunk[start : index + 1], size
            start, size = index + 1, 0
    if start < len(chunk):
        yield chunk[start:], size


def _memory_of(lines: Sequence[Decoded]) -> int:
    return memory_of(sum([len(decoded.raw) for decoded in lines]), len(lines))


def _check_word(argument: str, word: object, words: Sequence[str]) -> None:
    if word not in words:
        raise UsageError(f"{argument} is {word!r}; it must be one of {', '.join(words)}")
