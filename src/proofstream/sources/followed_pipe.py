"""Follows a named pipe from one writer to the next. All of them are one session, because a proof may span them."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed
from proofstream.envelopes import ARRIVAL
from proofstream.errors import SourceError
from proofstream.sources.arrivals import Arrivals, Block
from proofstream.sources.lines import InputSettings
from proofstream.sources.routing import SessionRouter
from proofstream.sources.streams import deliver_lines

_LOOK_UP_S = 0.2


class FollowedPipe:
    """Delivers what one writer after the other writes, until stopped.

    Args:
        path: The pipe.
        settings: How to read it.
        reopen: Opens what has the pipe's name now; waits for it if nothing has. Returns None if stopped meanwhile.
        stopped: Called five times a second. Returns True to stop.
    """

    def __init__(
        self,
        path: Path,
        settings: InputSettings,
        *,
        reopen: Callable[[], BinaryIO | None],
        stopped: Callable[[], bool],
    ) -> None:
        self._path = path
        self._settings = settings
        self._reopen = reopen
        self._stopped = stopped
        self._was_empty = False

    def deliver(self, file: BinaryIO, feed: Feed) -> None:
        """Deliver from the open pipe, which is closed at the end.

        Raises:
            SourceError: The pipe cannot be read, or its name belongs to another kind of file.
        """
        # If not, what it holds was written before, at times that are not known.
        self._was_empty = not _is_ready(file.fileno(), 0.0)
        feed.announce(f"{self._path} is a pipe: reading one writer after the other, until stopped")
        router = SessionRouter(feed, source=self._settings.name, time_source=ARRIVAL)
        next_file: BinaryIO | None = file
        try:
            while next_file is not None:
                # The next one is open before this one is closed, so that no writer finds the pipe without a reader.
                with next_file as current:
                    self._deliver_writer(current, router)
                    next_file = None if self._stopped() else self._reopen()
        except SourceError as error:
            router.close("lost", str(error))
            raise
        router.close("interrupted")

    def _deliver_writer(self, file: BinaryIO, router: SessionRouter) -> None:
        """Deliver what the next writer writes. Returns when it has gone, or when there is another pipe to wait at."""
        begin = self._wait_for_writer(file.fileno())
        if begin is None:
            return
        arrivals = Arrivals(file.fileno(), has_read=self._was_empty)
        try:
            deliver_lines(begin, arrivals, self._settings, router, self._stopped)
        finally:
            arrivals.stop()
            arrivals.join()
        self._was_empty = True
        if arrivals.error is not None:
            raise SourceError(f"cannot read {self._path}: {arrivals.error.strerror}") from arrivals.error

    def _wait_for_writer(self, descriptor: int) -> deque[Block] | None:
        """Wait until there is something to read. Returns what was read of it; None if there will be nothing."""
        while not self._stopped():
            if _is_ready(descriptor, _LOOK_UP_S):
                return deque()
            if self._is_replaced(descriptor):
                now = time.time_ns()
                try:
                    data = os.read(descriptor, 1)
                except BlockingIOError:
                    continue  # a writer has it open still
                return deque([Block(data, now)]) if data else None
        return None

    def _is_replaced(self, descriptor: int) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(descriptor))
        except OSError:
            return True


def _is_ready(descriptor: int, patience_s: float) -> bool:
    return bool(select.select([descriptor], [], [], patience_s)[0])
