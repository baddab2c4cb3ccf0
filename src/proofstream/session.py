"""Sessions: the object that a prover emits its events into."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Never, Protocol, Self

from proofstream.envelopes import HOST, NO_CAPTURES, RECONSTRUCTED
from proofstream.errors import describe, describe_with_place
from proofstream.events import (
    LayerEnd,
    PhaseEnd,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SessionClosed,
    kind_of,
)
from proofstream.intake import Intake, IntakeItem, KindCounts, Posted, SenderInJob
from proofstream.notices import stay_audible, warn_user
from proofstream.report import Report
from proofstream.scopes import Attribute, Emit, PhaseScope, Place, ProofScope, open_phase, place_in, standing
from proofstream.trace_ids import TraceNote, session_trace_id
from proofstream.wire import MAX_NAME_CHARS

_log = logging.getLogger("proofstream.session")

# Closing a session sets this as its capacity, so that `emit` needs no second check to drop late events.
_ALWAYS_FULL = -1
_REPORTED_REFUSALS = 20
# The first events to come late are no loss if they end what began in a parent, which ends it as well, or abort what the
# session's own end has aborted.
_ENDS = (ProofComplete, ProofAborted, LayerEnd, PhaseEnd)


class SessionOwner(Protocol):
    """The host, as a session sees it."""

    def capture(self) -> Mapping[str, object]:
        """Call the plugins' capture hooks on this thread. Returns their results by plugin name."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until every plugin has consumed all earlier events. Returns False if that took too long."""
        ...

    @property
    def problems(self) -> list[str]:
        """What was asked for and not delivered so far."""
        ...

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> Report:
        """End the session by its `send_end`, and the host if the session has it to itself."""
        ...


class _Bound:
    """How many items fit into the intake, as a session sees it."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity


class _Entrance:
    """What `Session.emit` reads. In slots, that costs a twin no more than the session: see `Session.twin`."""

    __slots__ = ("_append", "_bound", "_clock", "_intake", "_items")

    _append: Callable[[IntakeItem], None]
    _bound: _Bound
    _clock: Callable[[], int]
    _intake: Intake
    _items: deque[IntakeItem]


class Session(_Entrance):
    """One producer's stream of events. Any thread may emit. Only `flush` and `close` wait; nothing raises.

    Attributes:
        session_id: The session's id.
        source: Where the events come from, as shown to the user.
        dropped: Events that did not fit into the intake, by kind.
        refused: How many lines and events were invalid.
        unreported: How many of them were counted without a word.
        trace_note: Where plugins tell in which trace the session's own span is.
        has_derived_trace_id: Whether the id of that trace is known to derive from the session's.
        is_inherited: Whether this is the child of a fork, and the session its parent's.
        late_notice: Why the first event that comes after the end is lost, for a warning; None if it is worth none.
    """

    def __init__(
        self,
        *,
        intake: Intake,
        owner: SessionOwner,
        source: str,
        session_id: str | None = None,
        replayed: bool = False,
    ) -> None:
        self.session_id: str = session_id if session_id is not None else uuid.uuid4().hex
        self.source = source
        self.dropped: KindCounts = KindCounts()
        self.refused: int = 0
        self.unreported: int = 0
        self._reported: set[str] = set()
        self._misused: set[str] = set()
        self.last_time_unix_nano: int | None = None
        self.behind_ns: int = 0
        self.phases: int = 0
        self.model_name: str | None = None
        self.closing_sent = False
        self.ended = False
        self.late_notice: str | None = None
        self._said_late = False
        self.is_inherited: bool = False
        self.trace_note: TraceNote = TraceNote()
        self.has_derived_trace_id: bool = False
        self._intake = intake
        self._owner = owner
        self._replayed = replayed
        self._jobs = itertools.count(1)
        self._open_jobs: set[str] = set()
        # The intake's parts, bound once: `emit` is the prover's cost, and each attribute lookup adds to it.
        self._items = intake.items
        self._append = intake.items.append
        self._clock = intake.clock
        self._bound = _Bound(intake.capacity)
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """True once the session is closed. Events emitted after that are dropped."""
        return self._closed

    @property
    def trace_id(self) -> str | None:
        """The id of the trace in which the session's own span is, 32 hex digits. Its proofs have traces of their own.

        None as long as it is not known: it may be that of a trace which the application has begun.
        """
        told = self.trace_note.trace_id
        return session_trace_id(self.session_id) if told is None and self.has_derived_trace_id else told

    @property
    def trace_url(self) -> str | None:
        """Where the session's trace can be seen; None as long as no plugin has said that."""
        return self.trace_note.url

    def emit(self, event: ProofEvent) -> None:
        """Send one event. The bus checks it later; an invalid event is refused and counted."""
        # No lock: threads that pass the check together may overfill the intake by one item each, which is harmless.
        if len(self._items) < self._bound.capacity:
            self._append(IntakeItem(self._clock(), self, event))
        else:
            self._squeeze_in(event)

    def emit_if(self, make: Callable[[], ProofEvent]) -> None:
        """Send the event that `make` returns. `make` is not called while no plugin would receive the event.

        A plugin that is not configured yet counts, unless it says that it has nothing to do: see `needs_settings`.
        """
        if self._intake.listening:
            self._emit_made(make)

    def _emit_made(self, make: Callable[[], ProofEvent]) -> None:
        if self._closed:
            self._say_late("an event")
            return
        try:
            event = make()
        except (KeyboardInterrupt, SystemExit):
            raise  # the user, or a signal's handler, ends the prover
        except BaseException as error:  # noqa: BLE001 - observing must never stop the prover; a Rust panic is no Exception
            self.refuse_event("emit_if", describe_with_place(error))
            return
        self.emit(event)

    def proof(
        self,
        *,
        backend: str = "python",
        num_layers: int,
        model_name: str | None = None,
        input_shape: tuple[int, int] = (0, 0),
        output_shape: tuple[int, int] = (0, 0),
        job_id: str | None = None,
    ) -> contextlib.AbstractContextManager[ProofScope]:
        """Open a proof for the length of a ``with`` block. An exception inside ends it as aborted and propagates.

        Any number of them may be open at once, on threads and in tasks. One that is opened inside another is its child.

        Args:
            backend: The implementation that computes the proof, such as `cpu-gkr`.
            num_layers: How many layers the circuit has.
            model_name: The model that is proved.
            input_shape: Rows and columns of the input.
            output_shape: Rows and columns of the output.
            job_id: The job id that the proof's events carry. Proofs that run at once need different
                ones. By default `proof-` and a number that no other proof of the session has.
        """
        start = ProofStart(
            model_name=model_name,
            backend=backend,
            num_layers=num_layers,
            input_shape=input_shape,
            output_shape=output_shape,
        )
        name = f"proof-{next(self._jobs)}" if job_id is None else str(job_id)[:MAX_NAME_CHARS]
        return self._proof(start, name)

    @contextlib.contextmanager
    def _proof(self, start: ProofStart, job_id: str) -> Generator[ProofScope]:
        sender = SenderInJob(self, job_id)
        place = self._place(sender, in_proof=True)
        around = place_in(self.session_id)
        parent = around.job_id if around is not None and around.in_proof else None
        captured = NO_CAPTURES if self._closed else self._owner.capture()
        self._begin_job(job_id)
        scope = ProofScope(place, self.report_misuse)
        start_posted = Posted(event=start, captured=captured, parent_job_id=parent, trace_note=scope.trace_note)
        self.post(start_posted, sender)
        try:
            with standing(place):
                yield scope
        except BaseException as error:  # an interrupt or an exit aborts the proof, too
            place.emit(ProofAborted(reason=describe(error)))
            raise
        else:
            place.emit(scope.completion())
        finally:
            scope.has_ended = True
            self._open_jobs.discard(job_id)

    def _begin_job(self, job_id: str) -> None:
        if job_id in self._open_jobs:
            self.report_misuse(f"two proofs with the job id {job_id!r} are open at once, and mix; give each its own")
        self._open_jobs.add(job_id)

    def phase(self, name: str, **attributes: Attribute) -> contextlib.AbstractContextManager[PhaseScope]:
        """Open a phase for the length of a ``with`` block. An exception inside ends it as failed and propagates.

        It belongs to the proof or phase in whose block the calling code runs. Outside of any, it stands on its own.

        Args:
            name: What the work is called. Use a small set of names, and attributes for what differs.
            attributes: What else is to be said of it.
        """
        place = place_in(self.session_id)
        if place is None:
            place = self._place(SenderInJob(self, f"phase-{next(self._jobs)}"), in_proof=False)
        return open_phase(place, name, attributes)

    def _place(self, sender: SenderInJob, *, in_proof: bool) -> Place:
        return Place(self.session_id, sender.job_id, in_proof, None, self._emit_of(sender))

    def _emit_of(self, sender: SenderInJob) -> Emit:
        """Return what `emit` is for a job. Bound to all that it needs, so that it costs no more than `emit`."""
        items, append, bound, clock = self._items, self._append, self._bound, self._clock
        squeeze_in = self._squeeze_in

        def emit(event: ProofEvent) -> None:
            if len(items) < bound.capacity:
                append(IntakeItem(clock(), sender, event))
            else:
                squeeze_in(event, sender)

        return emit

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until every plugin has consumed all earlier events. Returns False if that took too long.

        In a forked child it returns False at once: events that are emitted there go nowhere.
        """
        return self._owner.flush(timeout_s)

    @property
    def problems(self) -> list[str]:
        """What was asked for and not delivered so far, a line for each. After `close`, what its report says."""
        return self._owner.problems

    def close(self, timeout_s: float | None = None, *, outcome: str = "ended", reason: str | None = None) -> Report:
        """End the session, and its host too if `open_session` started one. Return what was not delivered.

        Calling it again waits for the rest of that, if there is any, and returns the same.

        A KeyboardInterrupt during the wait leaves the plugins two more seconds and is raised after that.

        Args:
            timeout_s: How long plugins may take to finish. By default the configured time.
            outcome: `ended`, `lost` or `interrupted`.
            reason: Why the session ended, or None.
        """
        return self._owner.close_session(self, timeout_s, outcome=outcome, reason=reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        error = exc_info[1]
        if isinstance(error, BaseException):
            self.close(outcome="interrupted", reason=describe(error))
        else:
            self.close()

    # For the host

    def twin(self) -> Session:
        """Return another object with the same state, so that one can be dropped, and the other not."""
        twin = Session.__new__(Session)
        twin.__dict__ = self.__dict__
        for name in _Entrance.__slots__:
            setattr(twin, name, getattr(self, name))
        return twin

    def send_end(self, outcome: str, reason: str | None) -> None:
        """Send the session's end, and drop what is emitted after it. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._bound.capacity = _ALWAYS_FULL
        if not self.closing_sent:
            # Made when the bus reaches it: only then are all earlier events checked and `refused` is final.
            self._intake.append_item(
                self,
                Posted(
                    make=lambda: SessionClosed(outcome=outcome, reason=reason, refused=self.refused),
                    origin=HOST,
                    at_latest=self._replayed,
                    # What was recorded breaks off there: it may have gone on for any time.
                    time_source=RECONSTRUCTED if self._replayed else None,
                ),
            )

    def post(self, what: ProofEvent | Posted, job: SenderInJob | None = None) -> bool:
        """Send an event with more than `emit` allows, or of a job. Returns False if the intake's bound dropped it."""
        if len(self._items) < self._bound.capacity:
            self._append(IntakeItem(self._clock(), job or self, what))
            return True
        return self._squeeze_in(what, job)

    def _squeeze_in(self, what: ProofEvent | Posted, job: SenderInJob | None = None) -> bool:
        """Send a fact although the bound is reached; drop and count anything else, and everything once closed."""
        event = what.event if isinstance(what, Posted) else what
        if not self._closed and self._intake.has_room_for(event):
            self._append(IntakeItem(self._clock(), job or self, what))
            return True
        self.drop(event)
        return False

    def refuse_event(self, kind: str, reason: str) -> None:
        """Count an invalid event, and log why, as `report_refusal` does."""
        self.report_refusal(f"{kind} event refused: {reason}")

    def report_refusal(self, text: str, *, again: bool = False) -> None:
        """Count a line or event that could not be read. Logs the first 20 texts, each once."""
        self.refused += 1
        if again:
            return
        if text in self._reported or len(self._reported) >= _REPORTED_REFUSALS:
            self.unreported += 1
            return
        self._reported.add(text)
        stay_audible()
        # Without plugins, events go nowhere by intention.
        _log.log(logging.WARNING if self._intake.listening else logging.DEBUG, "%s: %s", self.source, text)

    def report_misuse(self, text: str) -> None:
        """Warn that blocks are used so that the events do not tell what happened; each text once."""
        if not self._closed and text not in self._misused and len(self._misused) < _REPORTED_REFUSALS:
            self._misused.add(text)
            warn_user(f"{self.source}: {text}")

    def seen(self, time_unix_nano: int) -> None:
        """Remember the time of the latest event."""
        self.last_time_unix_nano = time_unix_nano

    def fit_to_intake(self) -> None:
        """Adopt the intake's capacity, which has changed. Only the bus's thread calls this."""
        self._bound.capacity = self._intake.capacity
        if self._closed:  # looked at last: another thread may have closed the session meanwhile
            self._bound.capacity = _ALWAYS_FULL

    def detach(self, late_notice: str | None) -> None:
        """Disable the session in a forked child, which has no bus thread to read its events."""
        self._closed = True
        self._bound.capacity = _ALWAYS_FULL
        self.is_inherited = True
        self.late_notice = late_notice
        self._said_late = False

    def drop(self, event: object) -> None:
        """Count an event that did not fit."""
        kind = kind_of(event) if isinstance(event, ProofEvent) else type(event).__name__
        if self._closed and self.late_notice is not None:  # said by itself, and so no loss for the report
            if not isinstance(event, _ENDS if self.is_inherited else ProofAborted):
                self._say_late(kind)
            return
        self.dropped.count_event(kind)
        self._intake.note_loss(event)
        self._intake.overflowed = True

    def _say_late(self, what: str) -> None:
        if self.late_notice is not None and not self._said_late:
            self._said_late = True
            warn_user(f"not delivered: {what} and what follows: {self.late_notice}")

    def __reduce__(self) -> Never:
        """Refuse to be sent to another process.

        Raises:
            TypeError: Always.
        """
        raise TypeError("a session cannot be sent to another process; call open_session there")


class _NoOwner:
    """Owner of the no-op session."""

    def capture(self) -> Mapping[str, object]:
        return NO_CAPTURES

    def flush(self, timeout_s: float) -> bool:
        return True

    @property
    def problems(self) -> list[str]:
        return []

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> Report:
        return Report()


class _Unobserved(_NoOwner):
    """Owner of a session that could not be observed."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def flush(self, timeout_s: float) -> bool:
        return False

    @property
    def problems(self) -> list[str]:
        return [self._problem]

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> Report:
        session.send_end(outcome, reason)
        return Report(problems=self.problems)


class NoSession(Session):
    """A session that accepts every event and keeps nothing.

    `current_session` returns one when none is open, and `open_session` when nothing can be observed.
    """

    def __init__(self, *, source: str = "nowhere", owner: SessionOwner | None = None) -> None:
        intake = Intake(capacity=0, clock=time.monotonic_ns)
        intake.listening = False
        super().__init__(intake=intake, owner=_NoOwner() if owner is None else owner, source=source, session_id="none")

    def emit(self, event: ProofEvent) -> None:
        """Ignore the event."""

    def _emit_of(self, sender: SenderInJob) -> Emit:
        return self.emit

    def post(self, what: ProofEvent | Posted, job: SenderInJob | None = None) -> bool:
        """Ignore the event."""
        return False


class _Current(NamedTuple):
    """A session that is current somewhere, by a function that returns it."""

    session_id: str
    find: Callable[[], Session]


_NO_SESSION = NoSession()
_in_context: contextvars.ContextVar[tuple[_Current, ...]] = contextvars.ContextVar("proofstream_sessions", default=())
_of_process: list[_Current] = []


def current_session() -> Session:
    """Return the session to emit into: this context's, else the process's latest, else one that keeps nothing.

    In a forked child, until it opens its own, that is the parent's: it is closed, and warns at the first event.
    """
    here, of_process = _in_context.get(), _of_process
    return _latest_open(here) or _latest_open(of_process) or _inherited(here) or _inherited(of_process) or _NO_SESSION


def _latest_open(currents: Sequence[_Current]) -> Session | None:
    return next((session for at in reversed(currents) if not (session := at.find()).is_closed), None)


def _inherited(currents: Sequence[_Current]) -> Session | None:
    return next((session for at in reversed(currents) if (session := at.find()).is_inherited), None)


def unobserved_session(source: str, problem: str) -> Session:
    """Return a session for a run in which nothing can be observed, and the problem with it."""
    return NoSession(source=source, owner=_Unobserved(problem))


def is_latest(session_id: str) -> bool:
    """Return whether this is the latest process-wide session that is open: `current_session` finds it everywhere."""
    latest = _latest_open(_of_process)
    return latest is not None and latest.session_id == session_id


def enter(session_id: str, find: Callable[[], Session], *, process_wide: bool) -> Callable[[], None]:
    """Make a session current. Returns a function that makes the session current again that was so before.

    Sessions may end in any order, and elsewhere than they began: the current one is the latest that is open.

    Args:
        session_id: Its id.
        find: Returns the session. What this refers to stays alive as long as the session is current.
        process_wide: Whether it is current in other contexts than this one, too.
    """
    current = _Current(session_id, find)
    _in_context.set((*_without_closed(_in_context.get()), current))
    if process_wide:
        _of_process.append(current)

    def leave() -> None:
        # Contexts that were copied from this one keep the session in their tuple, and pass over it once it is closed.
        _in_context.set(tuple(at for at in _in_context.get() if at.session_id != session_id))
        for at in [at for at in _of_process if at.session_id == session_id]:
            with contextlib.suppress(ValueError):
                _of_process.remove(at)

    return leave


def _without_closed(currents: Sequence[_Current]) -> tuple[_Current, ...]:
    return tuple(at for at in currents if (session := at.find()).is_inherited or not session.is_closed)
