"""Does what may block for ever, such as writing to a stopped terminal, and waits for it only so long."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from contextlib import suppress


def finishes_within(seconds: float, action: Callable[[], object]) -> bool:
    """Call `action` on a thread of its own, and return whether it came to its end in time. It may raise OSError.

    May be called from a signal handler. So it uses no `threading.Thread`, whose start takes a lock that the interrupted
    code may hold. The thread is left behind if it takes longer.
    """
    done = _thread.allocate_lock()
    done.acquire()

    def act() -> None:
        with suppress(OSError, ValueError):
            action()
        done.release()

    try:
        _thread.start_new_thread(act, ())
    except RuntimeError:  # the system has no thread left, or the interpreter is ending
        return False
    return done.acquire(timeout=seconds)
