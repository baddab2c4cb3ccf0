"""Sessions: what a prover emits into."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from typing import Protocol, Self

from proofstream.envelopes import HOST, NO_CAPTURES
from proofstream.errors import describe
from proofstream.events import (
    ProofAborted,
    ProofEvent,
    ProofStart,
    SessionClosed,
    kind_of,
)
from proofstream.intake import Intake, KindCounts, Posted
from proofstream.scopes import ProofScope

_log = logging.getLogger("proofstream.session")

_ALWAYS_FULL = -1
_REPORTED_REFUSALS = 20


class SessionOwner(Protocol):
    """What a session asks of its host."""

    def capture(self) -> Mapping[str, object]:
        """What plugins capture on this thread, by plugin name."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until every plugin has consumed what was emitted before; whether that happened in time."""
        ...

    def session_ended(self, session: Session, timeout_s: float | None) -> None:
        """The session was closed."""
        ...


class Session:
    """One producer's flow of events. Any thread may emit; nothing here blocks, raises or waits but `flush` and `close`.

    Attributes:
        session_id: Its id; traces are named after it.
        source: Where it comes from, as shown to a person.
        dropped: What did not fit into the intake, by kind.
        refused: Lines and events that were not valid.
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
        self.last_time_unix_nano: int | None = None
        self.closing_sent = False
        self.ended = False
        self.outer: Session | None = None
        self._intake = intake
        self._owner = owner
        self._replayed = replayed
        self._items = intake.items
        self._append = intake.items.append
        self._clock = intake.clock
        self._capacity = intake.capacity
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether it was closed: nothing that is emitted is heard any more."""
        return self._closed

    def emit(self, event: ProofEvent) -> None:
        """Send one event. It is checked later; an invalid one is refused and counted."""
        if len(self._items) < self._capacity:
            self._append((self._clock(), self, event))
        else:
            self.drop(event)

    def emit_if(self, make: Callable[[], ProofEvent]) -> None:
        """Send the event that `make` returns; `make` is not called when nobody listens."""
        if self._closed or not self._intake.listening:
            return
        try:
            event = make()
        except Exception as error:  # noqa: BLE001 - whatever it raises, observing must not stop the prover
            self.refuse_event("emit_if", describe(error))
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
    ) -> contextlib.AbstractContextManager[ProofScope]:
        """A proof, for the length of a ``with`` block; an exception inside ends it as aborted, and goes on.

        Args:
            backend: What computes the proof, such as `cpu-gkr`.
            num_layers: How many layers the circuit has.
            model_name: What is proved.
            input_shape: Rows and columns of the input.
            output_shape: Rows and columns of the output.
        """
        start = ProofStart(
            model_name=model_name,
            backend=backend,
            num_layers=num_layers,
            input_shape=input_shape,
            output_shape=output_shape,
        )
        return self._proof(start)

    @contextlib.contextmanager
    def _proof(self, start: ProofStart) -> Generator[ProofScope]:
        scope = ProofScope(self.emit)
        self.post(Posted(event=start, captured=self._owner.capture()))
        try:
            yield scope
        except BaseException as error:
            self.post(Posted(event=ProofAborted(reason=describe(error))))
            raise
        self.emit(scope.completion())

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until every plugin has consumed what was emitted before; returns whether that happened in time."""
        return self._owner.flush(timeout_s)

    def close(self, timeout_s: float | None = None, *, outcome: str = "ended", reason: str | None = None) -> None:
        """End the session, and the host with it if it was opened by `open_session`. Calling it again does nothing.

        Args:
            timeout_s: How long plugins may take to finish; the configured time by default.
            outcome: `ended`, `lost` or `interrupted`.
            reason: What is known about the end.
        """
        if self._closed:
            return
        self._closed = True
        self._capacity = _ALWAYS_FULL
        if not self.closing_sent:
            # Made when the bus comes to it: only then everything before it was checked.
            self._intake.append_item(
                self,
                Posted(
                    make=lambda: SessionClosed(outcome=outcome, reason=reason, refused=self.refused),
                    origin=HOST,
                    at_latest=self._replayed,
                ),
            )
        if self.refused > _REPORTED_REFUSALS:
            _log.warning("%s: %d more refused", self.source, self.refused - _REPORTED_REFUSALS)
        self._owner.session_ended(self, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        error = exc_info[1]
        if isinstance(error, BaseException):
            self.close(outcome="interrupted", reason=describe(error))
        else:
            self.close()

    # For the host

    def post(self, posted: Posted) -> None:
        """Send an event with more to say; the intake's bound holds here, too."""
        if len(self._items) < self._capacity:
            self._append((self._clock(), self, posted))
        else:
            self.drop(posted.event)

    def refuse_event(self, kind: str, reason: str) -> None:
        """Count an event that is not valid, and report the first ones."""
        self.report_refusal(f"{kind} event refused: {reason}")

    def report_refusal(self, text: str) -> None:
        """Count something that could not be read, and report the first ones."""
        self.refused += 1
        if self.refused <= _REPORTED_REFUSALS:
            _log.warning("%s: %s", self.source, text)

    def seen(self, time_unix_nano: int) -> None:
        """Remember the time of the latest event."""
        self.last_time_unix_nano = time_unix_nano

    def detach(self) -> None:
        """In a forked child: nobody is here to hear it."""
        self._closed = True
        self._capacity = _ALWAYS_FULL

    def drop(self, event: object) -> None:
        """Count an event that does not fit."""
        kind = kind_of(event) if isinstance(event, ProofEvent) else type(event).__name__
        self.dropped.count_event(kind)
        self._intake.overflowed = True


class _NoOwner:
    """The owner of the session that nobody hears."""

    def capture(self) -> Mapping[str, object]:
        return NO_CAPTURES

    def flush(self, timeout_s: float) -> bool:
        return True

    def session_ended(self, session: Session, timeout_s: float | None) -> None:
        return None


class NoSession(Session):
    """The session of code that nobody observes: everything is accepted and nothing is kept."""

    def __init__(self) -> None:
        intake = Intake(capacity=0, clock=time.monotonic_ns)
        intake.listening = False
        super().__init__(intake=intake, owner=_NoOwner(), source="nowhere", session_id="none")

    def emit(self, event: ProofEvent) -> None:
        """Accept and forget."""

    def post(self, posted: Posted) -> None:
        """Accept and forget."""

    def close(self, timeout_s: float | None = None, *, outcome: str = "ended", reason: str | None = None) -> None:
        """Nothing to close."""


_NO_SESSION = NoSession()
_in_context: contextvars.ContextVar[Session | None] = contextvars.ContextVar("proofstream_session", default=None)
_of_process: list[Session] = []


def current_session() -> Session:
    """The session to emit into: this context's, else the one opened for the process, else one that keeps nothing."""
    return _open_in_context() or next((s for s in reversed(_of_process) if not s.is_closed), _NO_SESSION)


def _open_in_context() -> Session | None:
    """This context's innermost session that is open: one may have been closed elsewhere."""
    session = _in_context.get()
    while session is not None and session.is_closed:
        session = session.outer
    return session


def enter(session: Session, *, process_wide: bool) -> Callable[[], None]:
    """Make `session` current; returns what makes the outer one current again."""
    session.outer = _open_in_context()
    token = _in_context.set(session)
    if process_wide:
        _of_process.append(session)

    def leave() -> None:
        if process_wide and session in _of_process:
            _of_process.remove(session)
        # A token is good only in the context that it was made in; elsewhere that context's own value stays.
        with contextlib.suppress(ValueError):
            _in_context.reset(token)

    return leave
