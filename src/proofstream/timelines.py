"""The timelines of all sessions together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proofstream.envelopes import PRODUCER, Envelope
from proofstream.events import (
    EventsLost,
    GpuTelemetry,
    Log,
    PluginHealth,
    ProofAborted,
    SessionClosed,
    SessionOpened,
    StateBytesMoved,
    StateProgramCost,
    SumcheckRound,
    TraceStarted,
)
from proofstream.intervals import Change, Noted, NotedRounds, Proof
from proofstream.observed import ObservedSession, Pending
from proofstream.timeline import Timeline

MAX_ENDED = 1024
"""The most ended sessions that are remembered, so that late events still find them."""

_REMARKS = frozenset({Log, EventsLost, ProofAborted})
"""Kinds that say something about a session without showing that it continues."""

_ASIDE = frozenset({GpuTelemetry, PluginHealth, SessionClosed, StateBytesMoved, StateProgramCost, TraceStarted})
"""Kinds that show no session: they say something about the run, or come from plugins once a session has ended."""


_EDGES = frozenset({SessionOpened, SessionClosed})


class Timelines:
    """The timelines of all sessions. Feed it every envelope, in order.

    It alone decides when a session exists. One begins with its SessionOpened or, where that is missing, with the first
    event that the producer sent or that says something about intervals, a loss or a log line included. It ends with its
    SessionClosed. One that has ended begins again with a SessionOpened or an event of a proof, but not because of what
    is still said about it.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, ObservedSession] = {}
        self._ended: dict[str, ObservedSession] = {}
        self._pending = Pending()

    def session(self, session_id: str) -> ObservedSession:
        """Return the session of that id, open or lately ended; an empty one if it is not known."""
        return self._sessions.get(session_id) or self._ended.get(session_id) or ObservedSession(session_id)

    def is_open(self, session_id: str) -> bool:
        """Return whether a session of that id exists now."""
        return session_id in self._sessions

    @property
    def sessions(self) -> list[ObservedSession]:
        """The open sessions."""
        return list(self._sessions.values())

    @property
    def open_proofs(self) -> list[Proof]:
        """The open proofs of all sessions."""
        return [proof for session in self._sessions.values() for proof in session.open_proofs]

    def feed(self, envelope: Envelope) -> list[Change]:
        """Return the effect of the next envelope on the intervals."""
        session = self._sessions.get(envelope.session_id) or self._begin(envelope)
        event = envelope.event
        if session is None:
            return [Noted(None, envelope)]
        if type(event) not in _EDGES:  # nearly all
            return session.feed(envelope)
        if isinstance(event, SessionOpened):
            session.open(envelope, event)
            return [Noted(None, envelope)]
        if isinstance(event, SessionClosed):
            self._end(session)
            return session.close(envelope, _closing_reason(event))
        return session.feed(envelope)

    def feed_batch(self, batch: Sequence[Envelope]) -> Iterator[Change | NotedRounds]:
        """Yield the effects of a batch, in order. Rounds that `feed_rounds` takes are one change.

        An envelope is taken once the effects of those before it have been yielded.
        """
        at = 0
        while at < len(batch):
            noted = self.feed_rounds(batch, at)
            if noted is None:
                yield from self.feed(batch[at])
                at += 1
            else:
                yield noted
                at += len(noted.envelopes)

    def feed_rounds(self, batch: Sequence[Envelope], at: int) -> NotedRounds | None:
        """Take the sumcheck rounds of an open layer that come one after another from a place of a batch on.

        Return None if there are none, or if they do more than to be noted in that layer: then `feed` takes the envelope
        at that place. Nearly all events of a long proof are rounds, and this costs a fraction of feeding each.
        """
        envelope = batch[at]
        if type(envelope.event) is not SumcheckRound:
            return None
        session = self._sessions.get(envelope.session_id)
        return None if session is None else session.feed_rounds(batch, at)

    def _begin(self, envelope: Envelope) -> ObservedSession | None:
        """Open the session that the envelope shows to exist; one that had ended continues, so ordinals never repeat."""
        session_id = envelope.session_id
        if not _shows_session(envelope, has_ended=session_id in self._ended):
            return None
        session = self._ended.pop(session_id, None) or ObservedSession(session_id, self._pending)
        self._sessions[session_id] = session
        return session

    def _end(self, session: ObservedSession) -> None:
        session.times_ended += 1
        del self._sessions[session.session_id]
        self._ended[session.session_id] = session
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]


def _shows_session(envelope: Envelope, *, has_ended: bool) -> bool:
    kind = type(envelope.event)
    if kind is SessionOpened:
        return True
    if has_ended:
        return Timeline.knows(kind) and kind not in _REMARKS
    return kind not in _ASIDE and (Timeline.knows(kind) or envelope.origin == PRODUCER)


def _closing_reason(event: SessionClosed) -> str:
    how = "ended before it did" if event.outcome == "ended" else f"was {event.outcome}"
    return f"the session {how}" + (f": {event.reason}" if event.reason else "")
