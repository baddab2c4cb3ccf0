"""The timelines of all sessions at once."""

from __future__ import annotations

from proofstream.envelopes import Envelope
from proofstream.events import EventsLost, Log, ProofAborted, SessionClosed, SessionOpened
from proofstream.intervals import Change, Noted, Proof
from proofstream.timeline import ObservedSession, Timeline

MAX_ENDED = 1024
"""How many ended sessions are remembered at most, so that what still comes for them finds them."""

_REMARKS = frozenset({Log, EventsLost, ProofAborted})
"""Kinds that say something about a session, but do not show that it goes on."""


class Timelines:
    """The timelines of all sessions; feed it every envelope, in order."""

    def __init__(self) -> None:
        self._sessions: dict[str, ObservedSession] = {}
        self._ended: dict[str, ObservedSession] = {}

    def session(self, session_id: str) -> ObservedSession:
        """The session of that id, also when it has ended lately; an empty one if it is not known."""
        return self._sessions.get(session_id) or self._ended.get(session_id) or ObservedSession(session_id)

    @property
    def sessions(self) -> list[ObservedSession]:
        """The sessions that are open."""
        return list(self._sessions.values())

    @property
    def open_proofs(self) -> list[Proof]:
        """The proofs that are open, of all sessions."""
        return [proof for session in self._sessions.values() for proof in session.open_proofs]

    def feed(self, envelope: Envelope) -> list[Change]:
        """Take the next envelope and say what it meant."""
        session = self._sessions.get(envelope.session_id) or self._begin(envelope)
        event = envelope.event
        if session is None:
            return [Noted(None, envelope)]
        if isinstance(event, SessionOpened):
            session.opened = envelope
            return [Noted(None, envelope)]
        if isinstance(event, SessionClosed):
            self._end(session)
            return session.close(envelope, _closing_reason(event))
        return session.feed(envelope)

    def _begin(self, envelope: Envelope) -> ObservedSession | None:
        """Make the session that the envelope shows to exist, or go on with it, as its ordinals must not come twice.

        Only an opening or what a prover says does so. What plugins and the host say about a session may follow its end.
        """
        kind = type(envelope.event)
        session_id = envelope.session_id
        if kind is not SessionOpened and (not Timeline.knows(kind) or (kind in _REMARKS and session_id in self._ended)):
            return None
        session = self._ended.pop(session_id, None) or ObservedSession(session_id)
        self._sessions[session_id] = session
        return session

    def _end(self, session: ObservedSession) -> None:
        del self._sessions[session.session_id]
        self._ended[session.session_id] = session
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]


def _closing_reason(event: SessionClosed) -> str:
    how = "ended before it did" if event.outcome == "ended" else f"was {event.outcome}"
    return f"the session {how}" + (f": {event.reason}" if event.reason else "")
