"""Writes to standard error without ever raising, and without waiting except at the very end.

A stopped terminal, or a pipe without a reader, must not hold up the lane. Bytes that cannot be written now are kept, up
to a bound, and `is_ready` says whether drawing makes sense. Nothing more is written to a closed or broken stream.
"""

from __future__ import annotations

import os
import select
import threading
import time
from typing import IO

from proofstream_console.formats import ASCII_FORMS

MAX_BACKLOG_BYTES = 2**20
"""Bytes that are kept for a stream that accepts none at the moment."""

_CHUNK_BYTES = 2048
"""A write of this size does not block on a stream that is ready: pipes then have room for 4096, terminals for more."""


class Output:
    """The stream `target` as a text file for rich. All methods may be called from any thread.

    Attributes:
        encoding: Of the stream.
        is_broken: Whether writing to the stream has failed.
        unshown_bytes: Bytes that were written here and never reached the stream.
    """

    def __init__(self, target: IO[str]) -> None:
        self._target = target
        self._fd = _file_descriptor(target)
        self._backlog = bytearray()
        self._lock = threading.Lock()
        self.encoding = getattr(target, "encoding", None) or "utf-8"
        self.is_broken = False
        self.unshown_bytes = 0

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        try:
            return self._target.isatty()
        except (OSError, ValueError):
            return False

    def fileno(self) -> int:
        """Return the stream's file descriptor.

        Raises:
            OSError: It does not have one.
        """
        if self._fd is None:
            raise OSError("the stream has no file descriptor")
        return self._fd

    def write(self, text: str) -> int:
        """Write as much as can be written at once, and keep the rest."""
        with self._lock:
            if not self.encoding.lower().startswith("utf"):
                text = text.translate(ASCII_FORMS)
            data = text.encode(self.encoding, "replace")
            if self.is_broken or len(self._backlog) + len(data) > MAX_BACKLOG_BYTES:
                self.unshown_bytes += len(data)
            elif self._fd is None:
                self._write_to_target(data)
            else:
                self._backlog += data
                self._push(0.0)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write` has done what can be done without waiting."""

    def is_ready(self) -> bool:
        """Return whether everything written has reached the stream, so that more may follow."""
        return self.drain(0.0) and not self.is_broken

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything has reached the stream. Return False if it has not within `timeout_s` seconds."""
        with self._lock:
            self._push(timeout_s)
            return not self._backlog

    def give_up(self) -> None:
        """Count the bytes that have not reached the stream as not shown."""
        with self._lock:
            self._lose()

    def _push(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            while self._backlog and self._fd is not None:
                wait = max(0.0, deadline - time.monotonic())
                if not select.select([], [self._fd], [], wait)[1]:
                    return
                written = os.write(self._fd, self._backlog[:_CHUNK_BYTES])
                del self._backlog[:written]
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self._lose()

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


def _file_descriptor(target: IO[str]) -> int | None:
    try:
        target.flush()
        return target.fileno()
    except (OSError, ValueError, AttributeError):
        return None
