"""Keeps the forks of a process and our threads apart.

Only the forking thread lives on in the child, and with it every lock that another thread held at that moment: the
import system's, or one of a library's. Whatever needs such a lock in the child waits for ever. So a fork waits until
our threads are not busy with code that takes such locks, and keeps them out of it until the child is made.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import threading
import time
from collections.abc import Generator
from typing import NamedTuple, TypeVar

from proofstream.notices import warn_user
from proofstream.waiting import wait_until

IMPORTS_S = 10.0
"""How long a fork waits for code that imports, from when that began."""

WORK_S = 3.0
"""How long a fork waits for other code, from when that began: a batch that takes longer is not worth the wait."""

_T = TypeVar("_T")

_WAKEUPS = (0.0005, 0.001, 0.005)
_INTERRUPT_AGAIN_S = 0.05


class _Work(NamedTuple):
    """What a thread does that no fork should come into, and until when a fork waits for it."""

    what: str
    until: float


# Plain dicts, by thread: one step of the interpreter each, so that no lock is needed that a fork could catch in turn.
_at_work: dict[int, _Work] = {}
_forking: dict[int, float] = {}
_told: list[bool] = []


@contextlib.contextmanager
def apart_from_forks(what: str, patience_s: float) -> Generator[None]:
    """Let no other thread fork during a ``with`` block, but for `patience_s` at most; first let a fork finish.

    Args:
        what: What the code belongs to, for the warning that a fork could not wait any longer.
        patience_s: `IMPORTS_S` or `WORK_S`.
    """
    me = threading.get_ident()
    if me in _at_work:  # inside such a block already: waiting for a fork that waits for us would be a deadlock
        yield
        return
    _begin(me, _Work(what, time.monotonic() + patience_s))
    try:
        yield
    finally:
        _at_work.pop(me, None)


def _begin(me: int, work: _Work) -> None:
    while True:
        # Announced before it looks for forks, as a fork is before it looks for work: one of the two sees the other.
        _at_work[me] = work
        if not _others(_forking, me):
            return
        del _at_work[me]
        latest = max(_others(_forking, me), default=0.0)
        wait_until(lambda: not _others(_forking, me), deadline=latest, wakeups=_WAKEUPS)
        if time.monotonic() >= latest:
            _forking.clear()  # it never came to its end: a signal's handler raised in the middle of it


def _others(of: dict[int, _T], me: int) -> list[_T]:
    return [value for thread, value in list(of.items()) if thread != me]


# Called around every fork, on the forking thread


def before_fork() -> None:
    """Wait until no other thread is at work."""
    me = threading.get_ident()
    latest = time.monotonic() + 2 * IMPORTS_S
    _forking[me] = latest

    def is_clear() -> bool:
        now = time.monotonic()
        return all(work.until <= now for work in _others(_at_work, me))

    try:
        wait_until(is_clear, deadline=latest, wakeups=_WAKEUPS)
    except KeyboardInterrupt:
        # Python prints what is raised here, and goes on to fork.
        with contextlib.suppress(RuntimeError):
            _thread.start_new_thread(_interrupt_again, ())


def after_fork_in_parent() -> None:
    """Let the other threads work again."""
    me = threading.get_ident()
    _forking.pop(me, None)
    now = time.monotonic()
    late = [work.what for work in _others(_at_work, me) if work.until <= now]
    if late and not _told:
        _told.append(True)
        warn_user(
            f"a process was forked while {late[0]} was busy, which is not waited for any longer: the child may hang "
            "where it uses the same libraries"
        )


def after_fork_in_child() -> None:
    """Forget the threads that are not here."""
    me = threading.get_ident()
    own = _at_work.get(me)
    _forking.clear()
    _at_work.clear()
    if own is not None:
        _at_work[me] = own


def _interrupt_again() -> None:
    time.sleep(_INTERRUPT_AGAIN_S)
    _thread.interrupt_main()


@contextlib.contextmanager
def ending_forked_children() -> Generator[None]:
    """End the process where a plugin's code returns, or raises, in a child that it has forked.

    The child has none of our other threads. Our code on this one would wait there for events without end, or use what
    belongs to the parent. Children that end by themselves, or run another program, never come here.
    """
    pid = os.getpid()
    status = 1
    try:
        yield
        status = 0
    finally:
        if os.getpid() != pid:
            os._exit(status)  # not sys.exit, which would write again what the parent has buffered
