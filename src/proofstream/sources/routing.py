"""Which session an event belongs to: the flow's own, or one that a recording names."""

from __future__ import annotations

from dataclasses import dataclass

from proofstream.contracts import Feed, SessionFeed
from proofstream.events import GpuTelemetry, PluginHealth, SessionClosed
from proofstream.sources.lines import LineResult
from proofstream.wire import Decoded, Refusal

CHUNK = 256
"""How many events are delivered at once at most."""

_MAX_HELD_REFUSALS = 256
_MAX_ENDED_SESSIONS = 256


@dataclass(slots=True)
class _Recorded:
    session: SessionFeed
    ended: bool = False


class SessionRouter:
    """Delivers what one flow brought, in order, to the sessions that it holds.

    Bare lines belong to the flow's own session. Envelopes belong to the session that they name, which is opened when it
    first appears and closed with the flow. In a flow of envelopes a bare line belongs to the session before it, and
    takes its time. Telemetry of the machine that belongs to no session goes with the session around it.

    Args:
        feed: The host.
        source: Where the flow comes from, as shown to a person.
        time_source: How the bare lines' times come to be.
        session_id: The own session's id; a fresh one by default.
        opened_at: When the own session began; now by default.
        hold_refusals: Whether refused lines wait for the first event, to be counted in its session.
    """

    def __init__(
        self,
        feed: Feed,
        *,
        source: str,
        time_source: str,
        session_id: str | None = None,
        opened_at: int | None = None,
        hold_refusals: bool = False,
    ) -> None:
        self._feed = feed
        self._source = source
        self._time_source = time_source
        self._session_id = session_id
        self._opened_at = opened_at
        self._may_hold = _MAX_HELD_REFUSALS if hold_refusals else 0
        self._held: list[Refusal] = []
        self._own: SessionFeed | None = None
        self._own_has_times = False
        self._recorded: dict[str, _Recorded] = {}
        self._current: SessionFeed | None = None
        self._last_time: int | None = None
        self._chunk: list[Decoded] = []

    @property
    def has_sessions(self) -> bool:
        """Whether anything came that belongs to a session."""
        return self._current is not None

    def route_item(self, item: LineResult, *, at: int | None = None) -> None:
        """Take what the next line came to; it is delivered with the next `flush`, if not before.

        Args:
            item: What it came to.
            at: The time of a line that has none of its own, in nanoseconds since the epoch; when the host gets it by
                default.
        """
        if isinstance(item, Refusal):
            self._refuse(item, at)
        elif not isinstance(item.event, PluginHealth) and not self._is_of_no_session(item):
            # The health of plugins in another run says nothing about this one.
            self._take_event(item, at)

    def _is_of_no_session(self, item: Decoded) -> bool:
        """Whether it is the machine's telemetry from before any session."""
        return self._is_of_the_machine(item) and self._current is None

    def _is_of_the_machine(self, item: Decoded) -> bool:
        """Whether it is telemetry that was taken while there was no session or several: it has the id of none."""
        return isinstance(item.event, GpuTelemetry) and item.session_id not in (None, *self._recorded)

    def flush(self) -> None:
        """Deliver what was taken."""
        if self._chunk and self._current is not None:
            chunk, self._chunk = self._chunk, []
            self._current.deliver(chunk)

    def close(self, outcome: str, reason: str | None = None, *, even_if_empty: bool = True) -> None:
        """Close all sessions. A recorded one that ended before has ended, whatever became of the flow.

        Args:
            outcome: What became of the flow: `ended`, `lost` or `interrupted`.
            reason: What is known about it.
            even_if_empty: Open and close the own session also when nothing came.
        """
        self.flush()
        if self._current is None and (even_if_empty or self._held):
            self._turn_to(self._own_session())
        for recorded in self._recorded.values():
            self._close_recorded(recorded, outcome, reason)
        self._recorded.clear()
        if self._own is not None:
            self._own.close(outcome, reason)

    def _refuse(self, refused: Refusal, at: int | None) -> None:
        if self._current is None and len(self._held) < self._may_hold:
            self._held.append(refused)
            return
        self.flush()
        if self._current is None:
            self._turn_to(self._own_session(at=at))
        assert self._current is not None
        self._current.refuse(refused)

    def _take_event(self, item: Decoded, at: int | None) -> None:
        session = self._session_of(item, at)
        if session is not self._current:
            self._turn_to(session)
        if item.time_unix_nano is not None:
            self._last_time = item.time_unix_nano
        elif self._last_time is not None and (session is not self._own or self._own_has_times):
            item = item.at(self._last_time)
        elif at is not None:
            item = item.at(at)
        self._chunk.append(item)
        if isinstance(item.event, SessionClosed) and item.session_id in self._recorded:
            self._mark_ended(item.session_id)
        if len(self._chunk) >= CHUNK:
            self.flush()

    def _turn_to(self, session: SessionFeed) -> None:
        self.flush()
        self._current = session
        held, self._held = self._held, []
        for refused in held:
            session.refuse(refused)

    def _session_of(self, item: Decoded, at: int | None) -> SessionFeed:
        if self._current is not None and self._is_of_the_machine(item):
            return self._current
        if item.session_id is not None:
            return self._recorded_session(item.session_id, item.time_unix_nano)
        if self._own is None and self._current is not None:
            return self._current
        return self._own_session(item.time_unix_nano, at=at)

    def _own_session(self, first_time: int | None = None, *, at: int | None = None) -> SessionFeed:
        if self._own is None:
            self.flush()
            self._own_has_times = first_time is not None and self._time_source == "arrival"
            self._own = self._feed.open_session(
                source=self._source,
                time_source="envelope" if self._own_has_times else self._time_source,
                session_id=self._session_id,
                opened_at=first_time if self._own_has_times else (self._opened_at if at is None else at),
            )
        return self._own

    def _recorded_session(self, session_id: str, first_time: int | None) -> SessionFeed:
        found = self._recorded.get(session_id)
        if found is None:
            self.flush()
            session = self._feed.open_session(
                source=self._source,
                time_source="envelope",
                session_id=session_id,
                opened_at=first_time,
                recorded=True,
            )
            found = self._recorded[session_id] = _Recorded(session)
        return found.session

    def _mark_ended(self, session_id: str) -> None:
        # It is not closed yet: what plugins made of its last events stands after its end.
        self._recorded[session_id].ended = True
        ended = [name for name, recorded in self._recorded.items() if recorded.ended]
        if len(ended) > _MAX_ENDED_SESSIONS:
            self.flush()
            self._close_recorded(self._recorded.pop(ended[0]), "ended", None)

    def _close_recorded(self, recorded: _Recorded, outcome: str, reason: str | None) -> None:
        if recorded.ended:
            recorded.session.close("ended")
        elif outcome == "ended":
            recorded.session.close("lost", "the recording ends here")
        else:
            recorded.session.close(outcome, reason)
