"""Bytes of a stream with the time at which they came: read from the moment that the source is opened, ready or not."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import NamedTuple

BUFFER_BYTES = 4 * 2**20
"""How much is read ahead; beyond that the writer is held back by its pipe."""

_READ_BYTES = 64 * 1024
_LOOK_UP_S = 0.2
_INT_BYTES = 4


class Clock:
    """Nanoseconds since the epoch that never go back: the wall clock is read once, the monotonic one since."""

    def __init__(self) -> None:
        self._anchor = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """The time."""
        return self._anchor + time.monotonic_ns()


class Block(NamedTuple):
    """Bytes that came together.

    Attributes:
        data: The bytes.
        time_unix_nano: When they were read.
        was_waiting: Whether they were there before reading began, so that nobody knows when they came.
    """

    data: bytes
    time_unix_nano: int
    was_waiting: bool = False


class Arrivals:
    """Reads a stream on a thread of its own, from now on until it ends.

    Args:
        descriptor: What is read. It is not closed.

    Attributes:
        error: What ended the reading, unless the stream has ended.
    """

    def __init__(self, descriptor: int) -> None:
        self.error: OSError | None = None
        self._descriptor = descriptor
        self._clock = Clock()
        self._changed = threading.Condition()
        self._blocks: deque[Block] = deque()
        self._held_bytes = 0
        self._ended = False
        self._stop = False
        self._waiting_bytes = min(_bytes_waiting(descriptor), BUFFER_BYTES)
        self._began = self._clock.now()
        self._thread = threading.Thread(target=self._run, name="proofstream-stream", daemon=True)
        self._thread.start()

    def next_block(self, timeout_s: float) -> Block | None:
        """The next block, or None if there is none in time; `has_ended` then tells whether one may still come."""
        with self._changed:
            if not self._blocks and not self._ended:
                self._changed.wait(timeout_s)
            if not self._blocks:
                return None
            block = self._blocks.popleft()
            self._held_bytes -= len(block.data)
            self._changed.notify_all()
            return block

    @property
    def has_ended(self) -> bool:
        """Whether all blocks were taken and no more will come."""
        with self._changed:
            return self._ended and not self._blocks

    def stop(self) -> None:
        """Read no more; the thread ends soon."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until the thread has ended, as long as it may take to notice that it should."""
        self._thread.join(2 * _LOOK_UP_S)

    # On the thread

    def _run(self) -> None:
        try:
            self._read_what_was_waiting()
            while self._wait_for_room():
                if not self._read_on():
                    break
        except OSError as error:
            self.error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _read_what_was_waiting(self) -> None:
        content = bytearray()
        # Somebody else may read the same stream; what they took is not waited for.
        with suppress(BlockingIOError):
            while len(content) < self._waiting_bytes and self._is_ready(0):
                data = os.read(self._descriptor, self._waiting_bytes - len(content))
                if not data:
                    break
                content += data
        if content:
            self._put(Block(bytes(content), self._began, was_waiting=True))

    def _read_on(self) -> bool:
        """Read a block if one comes soon; whether the stream goes on."""
        if not self._is_ready(_LOOK_UP_S):
            return True
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self._put(Block(data, self._clock.now()))
        return bool(data)

    def _is_ready(self, timeout_s: float) -> bool:
        return bool(select.select([self._descriptor], [], [], timeout_s)[0])

    def _put(self, block: Block) -> None:
        with self._changed:
            self._blocks.append(block)
            self._held_bytes += len(block.data)
            self._changed.notify_all()

    def _wait_for_room(self) -> bool:
        """Wait while too much is held; whether to read on."""
        with self._changed:
            self._changed.wait_for(lambda: self._stop or self._held_bytes < BUFFER_BYTES)
            return not self._stop


def _bytes_waiting(descriptor: int) -> int:
    """How many bytes can be read right now; 0 also where the system cannot tell."""
    import fcntl  # not there on Windows, where this module is never used but must be importable
    import termios

    answer = bytes(_INT_BYTES)
    try:
        answer = fcntl.ioctl(descriptor, termios.FIONREAD, answer)
    except OSError:
        return 0
    return max(0, int.from_bytes(answer, sys.byteorder, signed=True))
