"""Gives events their numbers: makes envelopes of them, in the order in which the bus takes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from proofstream.envelopes import HOST, NO_CAPTURES, PRODUCER, RECONSTRUCTED, Envelope, EnvelopeRun, memory_of
from proofstream.events import PhaseEnd, PhaseStart, ProofEvent, ProofStart, SessionClosed
from proofstream.intake import EventSender, Posted
from proofstream.open_intervals import MOST_SHOWN_PHASES
from proofstream.trace_ids import TraceNote
from proofstream.wire import Decoded

_LATE_NS = 1_000_000_000
"""Events that come this long after the times that they bring are told later, or by another clock. Then the end of
their session, as this machine's clock tells it, is not the end of what they tell of: it follows the last of them."""

_CROWDING: frozenset[type[ProofEvent]] = frozenset({ProofStart, PhaseStart, PhaseEnd})
BY_THEMSELVES: frozenset[type[ProofEvent]] = frozenset({*_CROWDING, SessionClosed})
"""The types of events that need attention of their own when they get a number."""


def special_lines(lines: Sequence[Decoded]) -> list[int]:
    """Return the indices of the lines that need attention of their own; the others only get the next numbers."""
    return [index for index, line in enumerate(lines) if type(line.event) in BY_THEMSELVES or line.origin != PRODUCER]


class Round:
    """What the bus takes at once.

    Attributes:
        runs: The envelopes, in order.
        events: How many they are.
        memory_bytes: Their estimated memory.
        admitted_bytes: What the gate admitted of it.
    """

    def __init__(self) -> None:
        self.runs: list[EnvelopeRun] = []
        self.events: int = 0
        self.memory_bytes: int = 0
        self.admitted_bytes: int = 0

    def add(self, envelopes: list[Envelope]) -> None:
        """Add envelopes of one session and one lineage."""
        first, raw_bytes = envelopes[0], sum([len(envelope.raw) for envelope in envelopes])
        self.events += len(envelopes)
        self.memory_bytes += memory_of(raw_bytes, len(envelopes))
        last = self.runs[-1] if self.runs else None
        if last is not None and last.goes_with(first.session_id, first.lineage) and not last.ends_session:
            last.envelopes.extend(envelopes)
            self.runs[-1] = EnvelopeRun(last.envelopes, last.raw_bytes + raw_bytes)
        else:
            self.runs.append(EnvelopeRun(envelopes, raw_bytes))


class Numbering:
    """Gives each event its `seq` and its time.

    Args:
        anchor: The difference between nanoseconds since the epoch and the clock by which events arrive.

    Attributes:
        seq: The next event's number.
    """

    def __init__(self, anchor: int) -> None:
        self.seq: int = 0
        self._anchor = anchor

    def number_lines(self, monotonic_ns: int, sender: EventSender, lines: Sequence[Decoded]) -> list[Envelope]:
        """Return the envelopes of ordinary lines; the same as `number_line` for each of them."""
        now, seq, session_id = self._anchor + monotonic_ns, self.seq, sender.session_id
        self.seq = seq + len(lines)
        envelopes = [
            Envelope(
                seq=number,
                time_unix_nano=now if line.time_unix_nano is None else line.time_unix_nano,
                session_id=session_id,
                origin=PRODUCER,
                event=line.event,
                raw=line.raw,
                job_id=line.job_id,
                parent_job_id=line.parent_job_id,
                time_source=line.time_source,
                traceparent=line.traceparent,
            )
            for number, line in enumerate(lines, seq)
        ]
        self._note_last(now, sender, lines[-1])
        return envelopes

    def number_events(
        self, sender: EventSender, job_id: str | None, events: Sequence[tuple[int, ProofEvent, bytes]]
    ) -> list[Envelope]:
        """Return the envelopes of ordinary events that were made in Python, and checked; as `number_made` for each.

        Args:
            sender: Their session.
            job_id: Their job.
            events: When each arrived, the event, and its JSON.
        """
        anchor, seq, session_id = self._anchor, self.seq, sender.session_id
        self.seq = seq + len(events)
        sender.seen(anchor + events[-1][0])
        return [
            Envelope(
                seq=number,
                time_unix_nano=anchor + monotonic_ns,
                session_id=session_id,
                origin=PRODUCER,
                event=event,
                raw=raw,
                job_id=job_id,
            )
            for number, (monotonic_ns, event, raw) in enumerate(events, seq)
        ]

    def pass_over(self, monotonic_ns: int, sender: EventSender, lines: Sequence[Decoded]) -> None:
        """Give lines their numbers without making envelopes, because no plugin would receive them."""
        self.seq += len(lines)
        self._note_last(self._anchor + monotonic_ns, sender, lines[-1])

    @staticmethod
    def _note_last(now: int, sender: EventSender, line: Decoded) -> int:
        """Remember the time of a session's latest line, and return it."""
        time_unix_nano = now if line.time_unix_nano is None else line.time_unix_nano
        sender.behind_ns = now - time_unix_nano
        sender.seen(time_unix_nano)
        return time_unix_nano

    def number_line(self, monotonic_ns: int, sender: EventSender, line: Decoded) -> Envelope:
        """Return the envelope of a line that a source decoded."""
        now = self._anchor + monotonic_ns
        time_unix_nano = self._note_last(now, sender, line)
        lineage = _recorded_lineage(line)
        return self._number(sender, line, time_unix_nano=time_unix_nano, origin=line.origin, lineage=lineage)

    def number_made(
        self, monotonic_ns: int, sender: EventSender, job_id: str | None, what: ProofEvent | Posted, decoded: Decoded
    ) -> Envelope:
        """Return the envelope of an event that was made in Python, and checked."""
        now = self._anchor + monotonic_ns
        if not isinstance(what, Posted):
            sender.seen(now)
            return self._number(sender, decoded, time_unix_nano=now, origin=PRODUCER, job_id=job_id)
        own_time = sender.last_time_unix_nano if what.at_latest else what.time_unix_nano
        time_unix_nano = now if own_time is None else own_time
        time_source = what.time_source
        if own_time is None and abs(sender.behind_ns) > _LATE_NS and isinstance(decoded.event, SessionClosed):
            time_unix_nano, time_source = now - sender.behind_ns, RECONSTRUCTED
        sender.seen(time_unix_nano)
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

    def number_own(self, monotonic_ns: int, sender: EventSender, decoded: Decoded) -> Envelope:
        """Return the envelope of an event that the host makes of its own accord."""
        return self._number(sender, decoded, time_unix_nano=self._anchor + monotonic_ns, origin=HOST)

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
        seq = self.seq
        self.seq = seq + 1
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


def _recorded_lineage(decoded: Decoded) -> tuple[str, ...]:
    """Return the lineage of a recorded event: one that a plugin derived still descends from that plugin."""
    return () if decoded.origin in (PRODUCER, HOST) else (decoded.origin,)
