"""Routes events to sessions: the stream's own session, or those that a recording names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from proofstream.contracts import Feed, SessionFeed
from proofstream.envelopes import ARRIVAL
from proofstream.events import GpuTelemetry, PluginHealth, ProofEvent, SessionClosed, SessionOpened
from proofstream.sources.lines import LineResult
from proofstream.sources.shedding import LeftOut
from proofstream.wire import Decoded, Refusal

CHUNK = 512
"""The most events that are delivered at once."""

# Bounds on memory, for files that hold nothing readable and for recordings of many sessions.
_MAX_HELD_REFUSALS = 256
_MAX_ENDED_SESSIONS = 256
# More than a listener has connections, so that a recording of it is replayed with all sessions open that were.
_MAX_SESSIONS = 2048


@dataclass(slots=True)
class _Recorded:
    session: SessionFeed
    opened: bool = False
    ended: bool = False


class _Stamp(NamedTuple):
    """The time of a line that has none of its own, and where it comes from if not from where the others come."""

    at: int | None
    source: str | None = None


_NO_STAMP = _Stamp(None)


class SessionRouter:
    """Delivers the events of one stream, in order, to the sessions that they belong to.

    Bare lines belong to the stream's own session. Envelopes belong to the session that they name, which is opened when
    it first appears and closed with the stream. A bare line among envelopes belongs to the session of the line before
    it and gets that line's time. Machine telemetry without a session goes to the session around it.

    Args:
        feed: The host.
        source: Where the stream comes from, as shown to the user.
        time_source: Where the bare lines' times come from, `arrival` or `reconstructed`.
        session_id: The own session's id. By default a new one.
        opened_at: When the own session began, in nanoseconds since the epoch. By default now.
        time_resolution_ns: How far apart two times of arrival must lie to be told apart, or None.
        hold_refusals: Hold refused lines until the first event, so that they count in its session.
        max_sessions: How many sessions may be open that the stream's envelopes name. Beyond that, the one that was
            longest without an event is closed as lost.
        is_recording: The end of the stream is not the end of a session that opened itself and did not close itself:
            then its recorder was killed. Set to False for a connection, whose peer says with its end that it is done.
    """

    def __init__(
        self,
        feed: Feed,
        *,
        source: str,
        time_source: str,
        session_id: str | None = None,
        opened_at: int | None = None,
        time_resolution_ns: int | None = None,
        hold_refusals: bool = False,
        max_sessions: int = _MAX_SESSIONS,
        is_recording: bool = True,
    ) -> None:
        self._feed = feed
        self._source = source
        self._time_source = time_source
        self._session_id = session_id
        self._opened_at = opened_at
        self._time_resolution_ns = time_resolution_ns
        self._max_sessions = max_sessions
        self._is_recording = is_recording
        self._may_hold = _MAX_HELD_REFUSALS if hold_refusals else 0
        self._held: list[Refusal] = []
        self._own: SessionFeed | None = None
        self._own_has_times = False
        self._recorded: dict[str, _Recorded] = {}
        self._current: SessionFeed | None = None
        self._last_time: int | None = None
        self._last_source: str | None = None
        self._chunk: list[Decoded] = []

    @property
    def has_sessions(self) -> bool:
        """True once a line has arrived that belongs to a session."""
        return self._current is not None

    def route_item(self, item: LineResult, *, at: int | None = None, source: str | None = None) -> None:
        """Route the result of the next line. It is delivered with the next `flush` at the latest.

        Args:
            item: The event or refusal.
            at: The time of a line that carries none, in nanoseconds since the epoch. By default when the host gets it.
            source: Where that time comes from, if not from where the bare lines' times come.
        """
        stamp = _Stamp(at, source)
        if isinstance(item, Refusal):
            self._refuse(item, stamp)
        elif not isinstance(item.event, PluginHealth) and not self._is_of_no_session(item):
            # Recorded plugin health describes the recorded run, not this one.
            self._take_event(item, stamp)

    def _is_of_no_session(self, item: Decoded) -> bool:
        """Return whether the item is machine telemetry that precedes every session."""
        return self._is_of_the_machine(item) and self._current is None

    def _is_of_the_machine(self, item: Decoded) -> bool:
        """Return whether the item is telemetry without a session: taken while no session, or several, were open."""
        return isinstance(item.event, GpuTelemetry) and item.session_id not in (None, *self._recorded)

    def may_leave_out(self, session_id: str | None) -> bool:
        """Return whether lines that name this session, or None, can be left out: its first line opens it."""
        return session_id is None or session_id in self._recorded

    def route_stamped(self, lines: Iterable[tuple[LineResult, int | None, str | None]]) -> None:
        """Route lines, and deliver them: each with the time that it has if it carries none, and where that is from."""
        lines = list(lines)
        if self._takes_bare(lines):
            # What `route_item` would do as well: most lines of most streams are bare.
            for begin in range(0, len(lines), CHUNK):
                self.flush()
                self._chunk = [
                    replace(item, time_unix_nano=at, time_source=source)
                    for item, at, source in lines[begin : begin + CHUNK]
                    if isinstance(item, Decoded)
                ]
        else:
            for item, at, source in lines:
                self.route_item(item, at=at, source=source)
        self.flush()

    def _takes_bare(self, lines: Sequence[tuple[LineResult, int | None, str | None]]) -> bool:
        """Return whether lines are bare, and belong to where the line before them went, with the times given."""
        if self._current is None or self._current is not self._own or self._own_has_times:
            return False
        items = [item for item, at, _ in lines if type(item) is Decoded and at is not None]
        return (
            len(items) == len(lines)
            and {item.session_id for item in items} == {None}
            and {item.time_unix_nano for item in items} == {None}
            and PluginHealth not in {type(item.event) for item in items}
        )

    def leave_out(self, left_out: LeftOut, *, at: int | None = None) -> None:
        """Count lines that were not decoded, in their place.

        Args:
            left_out: The lines.
            at: Their time, in nanoseconds since the epoch.
        """
        named = None if left_out.session_id is None else self._recorded.get(left_out.session_id)
        session = named.session if named is not None else self._own or self._current
        session = session or self._own_session(stamp=_Stamp(at))
        if session is not self._current:
            self._turn_to(session)
        self.flush()
        session.drop_bulk({left_out.kind: left_out.lines})

    def flush(self) -> None:
        """Deliver the events that were routed so far."""
        if self._chunk and self._current is not None:
            chunk, self._chunk = self._chunk, []
            self._current.deliver(chunk)

    def close(self, outcome: str, reason: str | None = None, *, even_if_empty: bool = True) -> None:
        """Close all sessions. A recorded session that already ended keeps its outcome.

        Args:
            outcome: How the stream ended: `ended`, `lost` or `interrupted`.
            reason: Why, or None.
            even_if_empty: Open and close the own session even if no line arrived.
        """
        self.flush()
        if self._current is None and (even_if_empty or self._held):
            self._turn_to(self._own_session())
        for recorded in self._recorded.values():
            self._close_recorded(recorded, outcome, reason)
        self._recorded.clear()
        if self._own is not None:
            self._own.close(outcome, reason)

    def _refuse(self, refused: Refusal, stamp: _Stamp) -> None:
        if self._current is None and len(self._held) < self._may_hold:
            self._held.append(refused)
            return
        self.flush()
        if self._current is None:
            self._turn_to(self._own_session(stamp=stamp))
        assert self._current is not None
        self._current.refuse(refused)

    def _take_event(self, item: Decoded, stamp: _Stamp) -> None:
        session = self._session_of(item, stamp)
        if session is not self._current:
            self._turn_to(session)
        is_stamped = session is self._own and not self._own_has_times
        if item.time_unix_nano is not None:
            if is_stamped and item.time_source is None:
                item = item.at(item.time_unix_nano, "envelope")
            self._last_time, self._last_source = item.time_unix_nano, item.time_source
        elif self._last_time is not None and not is_stamped:
            item = item.at(self._last_time, self._last_source)
        elif stamp.at is not None:
            item = item.at(stamp.at, stamp.source)
        self._chunk.append(item)
        if item.session_id in self._recorded:
            self._note_bounds(item.session_id, item.event)
        if len(self._chunk) >= CHUNK:
            self.flush()

    def _turn_to(self, session: SessionFeed) -> None:
        self.flush()
        self._current = session
        held, self._held = self._held, []
        for refused in held:
            session.refuse(refused)

    def _session_of(self, item: Decoded, stamp: _Stamp) -> SessionFeed:
        if self._current is not None and self._is_of_the_machine(item):
            return self._current
        if item.session_id is not None:
            return self._recorded_session(item.session_id, item.time_unix_nano)
        if self._own is None and self._current is not None:
            return self._current
        return self._own_session(item.time_unix_nano, stamp=stamp)

    def _own_session(self, first_time: int | None = None, *, stamp: _Stamp = _NO_STAMP) -> SessionFeed:
        if self._own is None:
            self.flush()
            self._own_has_times = first_time is not None and self._time_source == ARRIVAL
            if self._own_has_times:
                self._own = self._feed.open_session(
                    source=self._source, time_source="envelope", session_id=self._session_id, opened_at=first_time
                )
            else:
                self._own = self._feed.open_session(
                    source=self._source,
                    time_source=self._time_source,
                    session_id=self._session_id,
                    opened_at=self._opened_at if stamp.at is None else stamp.at,
                    opened_time_source=stamp.source,
                    time_resolution_ns=self._time_resolution_ns,
                )
        return self._own

    def _recorded_session(self, session_id: str, first_time: int | None) -> SessionFeed:
        # Taken out and put back, so that the first one is always the one that was longest without an event.
        found = self._recorded.pop(session_id, None)
        if found is None:
            self.flush()
            self._make_room()
            session = self._feed.open_session(
                source=self._source,
                time_source="envelope",
                session_id=session_id,
                opened_at=first_time,
                recorded=True,
            )
            found = _Recorded(session)
        self._recorded[session_id] = found
        return found.session

    def _make_room(self) -> None:
        while len(self._recorded) >= self._max_sessions:
            oldest = self._recorded.pop(next(iter(self._recorded)))
            if oldest.session is self._current:
                self._current = self._own
            self._close_recorded(oldest, "lost", f"more than {self._max_sessions} sessions are open in this stream")

    def _note_bounds(self, session_id: str, event: ProofEvent) -> None:
        if isinstance(event, SessionOpened):
            self._recorded[session_id].opened = True
        elif isinstance(event, SessionClosed):
            self._mark_ended(session_id)

    def _mark_ended(self, session_id: str) -> None:
        # Not closed yet: a recording has events that plugins derived from its last ones after the session's end.
        self._recorded[session_id].ended = True
        ended = [name for name, recorded in self._recorded.items() if recorded.ended]
        if len(ended) > _MAX_ENDED_SESSIONS:
            self.flush()
            self._close_recorded(self._recorded.pop(ended[0]), "ended", None)

    def _close_recorded(self, recorded: _Recorded, outcome: str, reason: str | None) -> None:
        if recorded.ended:
            recorded.session.close("ended")
        elif outcome == "ended" and self._is_recording and recorded.opened:
            recorded.session.close("lost", "the recording ends here")
        else:
            recorded.session.close(outcome, reason)
