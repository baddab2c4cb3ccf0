"""Does a host's last work on a thread of its own, where no Ctrl-C can interrupt it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from proofstream.intake import Wakeup
from proofstream.threads import start_thread

AFTER_INTERRUPT_S = 2.0
"""How long the work may still take after a Ctrl-C."""
_POLL_S = 0.05
# The work observes its deadline by itself. Its caller waits a little longer, for the last lines of it.
_GRACE_S = 1.5


class Closer:
    """Runs the work once it is requested, and lets any number of callers wait for it.

    A signal's handler raises in the main thread, between any two instructions. There, only the wait is lost: the work
    goes on, and the next caller waits for the rest. The thread starts early, because none can start during exit.

    Args:
        work: The work. It must keep to `deadline`, which may move while it runs, and raise nothing.

    Attributes:
        deadline: The time on the monotonic clock by which the work must be done. A request may make it earlier, never
            later.
        is_done: Whether the work is done.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self.deadline: float = math.inf
        self.is_done: bool = False
        self._work = work
        self._requested = Wakeup()
        self._finished = Wakeup()
        self._thread = threading.Thread(target=self._run, name="proofstream-closer", daemon=True)

    def start(self) -> None:
        """Start the thread, which waits for the request."""
        start_thread(self._thread)

    @property
    def is_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    @property
    def is_requested(self) -> bool:
        """Whether the work has been requested."""
        return self.deadline < math.inf

    def request(self, deadline: float) -> None:
        """Let the work begin, or end earlier than was requested before."""
        self.deadline = min(self.deadline, deadline)
        self._requested.set()

    def wait(self) -> None:
        """Wait until the work is done, or its deadline is well past.

        The first exception that a signal's handler raises meanwhile, such as KeyboardInterrupt, moves the deadline to
        `AFTER_INTERRUPT_S` from now and is raised again after the wait. A second one ends the wait at once.
        """
        try:
            self._wait()
        except BaseException:
            self.request(time.monotonic() + AFTER_INTERRUPT_S)
            self._wait()
            raise

    def _wait(self) -> None:
        while not self.is_done and time.monotonic() < self.deadline + _GRACE_S:
            self._finished.wait(_POLL_S)  # polls, because a wakeup wakes only one of several callers
        if self.is_done:
            self._thread.join(_GRACE_S)  # it has nothing left to do; a command that looks for live threads finds none

    def _run(self) -> None:
        self._requested.wait(-1)
        try:
            self._work()
        finally:
            self.is_done = True
            self._finished.set()
