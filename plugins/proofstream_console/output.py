"""Writes to standard error without ever raising, and without waiting except at the very end.

A stopped terminal, or a pipe without a reader, must not hold up the lane. Bytes that are not written yet are kept, up
to a bound, and `is_ready` says whether drawing makes sense. Nothing more is written to a closed or broken stream.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import IO

from proofstream_console.formats import ASCII_FORMS

MAX_BACKLOG_BYTES = 2**20
"""Bytes that are kept for a stream that accepts none at the moment."""

FROZEN_AFTER_S = 2.0
"""At the end, a stream that accepts nothing for this long is taken for frozen."""

_PIECE_BYTES = 1024
"""Written at once, except for a longer line. Small, because only between pieces can a slow stream be told from a frozen
one."""

_POLL_S = 0.1
_LOOK_EVERY_S = 0.2
_LOOK_CLOSELY_S, _CLOSELY_FOR_S = 0.015, 1.0
"""How often a terminal is looked at that has just changed: a window that is being resized changes many times."""


class Output:
    """The stream `target` as a text file for rich. All methods may be called from any thread.

    The bytes are written by a thread that may be abandoned. Nothing else is certain not to block: a terminal that polls
    as ready may still refuse a write, O_NONBLOCK would change the user's terminal for every program that shares it, and
    to open a terminal again may be forbidden (after `su`) or impossible (in a container).

    Attributes:
        encoding: Of the stream.
        is_broken: Whether writing to the stream has failed.
        unshown_bytes: Bytes that were written here and are not known to have reached the stream.
        look: Called now and then by the thread that writes, while there is nothing to write. Returns whether the
            terminal has changed; then it is called more often for a while.
    """

    def __init__(self, target: IO[str]) -> None:
        self._target = target
        self._fd = _file_descriptor(target)
        self._backlog = bytearray()
        self._changed = threading.Condition()
        self._moved_at = 0.0
        self._closed = False
        self.encoding = getattr(target, "encoding", None) or "utf-8"
        self.is_broken = False
        self.unshown_bytes = 0
        self.look: Callable[[], bool] | None = None
        self._closely_until = 0.0
        self._thread = None if self._fd is None else self._start(self._fd)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        try:
            return self._target.isatty()
        except (OSError, ValueError):
            return False

    def size(self) -> os.terminal_size | None:
        """Return the terminal's size; None if it does not say."""
        if self._fd is None:
            return None
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:
            return None
        return size if size.columns and size.lines else None

    @property
    def has_unknown_size(self) -> bool:
        """Whether it is a terminal that does not say how large it is, as a serial line."""
        return self._fd is not None and self.size() is None

    def fileno(self) -> int:
        """Return the stream's file descriptor.

        Raises:
            OSError: It does not have one.
        """
        if self._fd is None:
            raise OSError("the stream has no file descriptor")
        return self._fd

    def write(self, text: str) -> int:
        """Queue the text and return at once. A text that does not fit is counted, not shown."""
        with self._changed:
            if not self.encoding.lower().startswith("utf"):
                text = text.translate(ASCII_FORMS)
            data = text.encode(self.encoding, "replace")
            if self.is_broken or self._closed or len(self._backlog) + len(data) > MAX_BACKLOG_BYTES:
                self.unshown_bytes += len(data)
            elif self._fd is None:
                self._write_to_target(data)
            else:
                self._backlog += data
                self._changed.notify_all()
        return len(text)

    def flush(self) -> None:
        """Do nothing: the thread writes as soon as the stream accepts it."""

    def is_ready(self) -> bool:
        """Return whether everything written has reached the stream, so that more may follow."""
        with self._changed:
            return not (self._backlog or self.is_broken)

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything has reached the stream.

        Return False if it has not within `timeout_s` seconds, or if the stream seems to be frozen.
        """
        started = time.monotonic()
        with self._changed:
            while self._backlog:
                frozen_at = max(started, self._moved_at) + FROZEN_AFTER_S
                left_s = min(started + timeout_s, frozen_at) - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
            return True

    def close(self, timeout_s: float) -> None:
        """Wait for the stream as `drain` does, and count what it has not accepted as not shown. Write nothing more."""
        drained = self.drain(timeout_s)
        with self._changed:
            self._closed = True
            if not drained:
                self._lose()
            self._changed.notify_all()
        if drained and self._thread is not None:
            self._thread.join(_POLL_S)

    def _start(self, descriptor: int) -> threading.Thread:
        # While a thread of this prefix runs, the command leaves without the interpreter's own end, which could block.
        name = "proofstream-console-output"
        thread = threading.Thread(target=self._write_pieces, args=(descriptor,), name=name, daemon=True)
        # Now, because the report may be written while the interpreter ends, when no thread can start any more.
        thread.start()
        return thread

    def _write_pieces(self, descriptor: int) -> None:
        try:
            while piece := self._next_piece():
                try:
                    written = os.write(descriptor, piece)
                except BlockingIOError:  # another program has set O_NONBLOCK
                    select.select([], [descriptor], [], _POLL_S)
                    continue
                with self._changed:
                    del self._backlog[:written]
                    self._moved_at = time.monotonic()
                    self._changed.notify_all()
        except (OSError, ValueError):
            with self._changed:
                self._lose()

    def _next_piece(self) -> bytes:
        """Return whole lines, because other writers' lines may come in between; empty at the end."""
        while not self._has_work():
            if self.look is not None and self.look():
                self._closely_until = time.monotonic() + _CLOSELY_FOR_S
        with self._changed:
            end = self._backlog.rfind(b"\n", 0, _PIECE_BYTES) + 1 or self._backlog.find(b"\n") + 1
            return bytes(self._backlog[:end] if end else self._backlog)

    def _has_work(self) -> bool:
        """Wait for something to write, or for the end. Return False when it is time to look."""
        is_close = time.monotonic() < self._closely_until
        with self._changed:
            wait_s = None if self.look is None else _LOOK_CLOSELY_S if is_close else _LOOK_EVERY_S
            return self._changed.wait_for(lambda: bool(self._backlog) or self._closed or self.is_broken, wait_s)

    def _write_to_target(self, data: bytes) -> None:
        try:
            self._target.write(data.decode(self.encoding))
            self._target.flush()
        except (OSError, ValueError):
            self._backlog += data
            self._lose()

    def _lose(self) -> None:
        self.is_broken = True
        self.unshown_bytes += len(self._backlog)
        self._backlog.clear()
        self._changed.notify_all()


def _file_descriptor(target: IO[str]) -> int | None:
    try:
        target.flush()
        return target.fileno()
    except (OSError, ValueError, AttributeError):
        return None
