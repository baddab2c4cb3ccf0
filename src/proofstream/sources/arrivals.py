"""Reads a stream ahead on its own thread and stamps its bytes on arrival, before plugins are ready for them."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple

from proofstream.sources.pacing import short_switches
from proofstream.threads import ThreadError, start_thread

BUFFER_BYTES = 4 * 2**20
"""How much is read ahead. After that the pipe fills up and holds back its writer."""

# The default capacity of a pipe on Linux, so one read can empty it.
_READ_BYTES = 64 * 1024
# How often a thread that waits for input checks whether it should stop.
_LOOK_UP_S = 0.2
# FIONREAD answers with a C int.
_INT_BYTES = 4


class Clock:
    """Nanoseconds since the epoch that never step back: reads the wall clock once, and the monotonic clock after."""

    def __init__(self) -> None:
        self._anchor = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """Return the current time."""
        return self._anchor + time.monotonic_ns()


class Block(NamedTuple):
    """Bytes that were read at once.

    Attributes:
        data: The bytes.
        time_unix_nano: When they were there to be read, in nanoseconds since the epoch.
        was_waiting: True if they were in the pipe before reading began, so that their arrival times are unknown.
    """

    data: bytes
    time_unix_nano: int
    was_waiting: bool = False


class Arrivals:
    """Reads a stream on its own thread, from construction until the stream ends.

    Args:
        descriptor: The file descriptor to read. It is not closed.
        has_read: Whether it was found empty before, so that what waits now has just arrived.

    Attributes:
        began_unix_nano: When reading began, in nanoseconds since the epoch.
        error: The error that ended the reading, or None.
    """

    def __init__(self, descriptor: int, *, has_read: bool = False) -> None:
        self.error: OSError | None = None
        self._descriptor = descriptor
        self._clock = Clock()
        self._changed = threading.Condition()
        self._blocks: deque[Block] = deque()
        self._held_bytes = 0
        self._ended = False
        self._stop = False
        # Measured before the thread starts: from here on, everything that arrives gets a real time stamp.
        self._waiting_bytes = 0 if has_read else min(_bytes_waiting(descriptor), BUFFER_BYTES)
        self.began_unix_nano: int = self._clock.now()
        self._thread = threading.Thread(target=self._run, name="proofstream-stream", daemon=True)
        start_thread(self._thread)

    def next_block(self, timeout_s: float) -> Block | None:
        """Return the next block, or None if none arrives in time. `has_ended` then says whether more may follow."""
        with self._changed:
            if not self._blocks and not self._ended:
                self._changed.wait(timeout_s)
            if not self._blocks:
                return None
            block = self._blocks.popleft()
            self._held_bytes -= len(block.data)
            self._changed.notify_all()  # the reading thread may be waiting for room
            return block

    @property
    def has_ended(self) -> bool:
        """True if all blocks were taken and no more will follow."""
        with self._changed:
            return self._ended and not self._blocks

    def stop(self) -> None:
        """Stop reading. The thread ends soon after."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait for the thread to end, but no longer than it may take to notice that it should."""
        # Bounded, since a read may still block if another process takes the bytes after `select` reported them.
        self._thread.join(2 * _LOOK_UP_S)

    # On the thread

    def _run(self) -> None:
        try:
            with short_switches():
                self._read_what_was_waiting()
                while self._wait_for_room() and self._read_on():
                    pass
        except OSError as error:
            self.error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _read_what_was_waiting(self) -> None:
        content = bytearray()
        # Another process may read the same stream. Do not wait for bytes that it has taken.
        with suppress(BlockingIOError):
            while len(content) < self._waiting_bytes and self._is_ready(0):
                data = os.read(self._descriptor, self._waiting_bytes - len(content))
                if not data:
                    break
                content += data
        if content:
            self._put(Block(bytes(content), self.began_unix_nano, was_waiting=True))

    def _read_on(self) -> bool:
        """Read one block if it arrives soon. Returns False at the end of the stream."""
        if not self._is_ready(_LOOK_UP_S):
            return True
        # Before the read, after which this thread may have to wait for the interpreter.
        now = self._clock.now()
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return True  # another process was faster
        if data:
            self._put(Block(data, now))
        return bool(data)

    def _is_ready(self, timeout_s: float) -> bool:
        return bool(select.select([self._descriptor], [], [], timeout_s)[0])

    def _put(self, block: Block) -> None:
        with self._changed:
            self._blocks.append(block)
            self._held_bytes += len(block.data)
            self._changed.notify_all()

    def _wait_for_room(self) -> bool:
        """Wait while the buffer is full. Returns False if reading should stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop or self._held_bytes < BUFFER_BYTES)
            return not self._stop


_early: dict[int, Arrivals] = {}


def read_early(descriptor: int) -> None:
    """Begin to read a descriptor, for whatever opens it later with `arrivals_at`."""
    with suppress(ThreadError):  # whatever opens it later says so
        _early[descriptor] = Arrivals(descriptor)


def arrivals_at(descriptor: int) -> Arrivals:
    """Return what arrives at a descriptor, from when `read_early` began to read it or else from now on."""
    return _early.pop(descriptor, None) or Arrivals(descriptor)


def stop_early() -> None:
    """Stop the reading that was begun early and never taken over."""
    while _early:
        _, arrivals = _early.popitem()
        arrivals.stop()
        arrivals.join()


def _bytes_waiting(descriptor: int) -> int:
    """Return how many bytes can be read right now, or 0 if the system cannot tell."""
    # Imported here because Windows lacks them. This module is not used there, but it must be importable.
    import fcntl
    import termios

    answer = bytes(_INT_BYTES)
    try:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, answer)
    except OSError:
        return 0
    return max(0, int.from_bytes(answer, sys.byteorder, signed=True))
