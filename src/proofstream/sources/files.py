"""Reads a file, plain, gzip or Zstandard, from beginning to end."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed, SourceRequest
from proofstream.errors import SourceError, UsageError
from proofstream.sources.arrivals import Arrivals
from proofstream.sources.compression import is_compressed
from proofstream.sources.lines import InputSettings
from proofstream.sources.pacing import Pacer, StopFlag
from proofstream.sources.replaying import Replay
from proofstream.sources.streams import deliver_stream
from proofstream.wire import LineDecoder


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. Does not block on a named pipe without a writer.

    Raises:
        SourceError: The file does not exist, permission is denied, or it cannot be read, such as a folder.
    """
    try:
        # Opening a pipe without O_NONBLOCK waits for a writer, and nothing could stop it then.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", hint=_hint(path, error.errno)) from error
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceError(f"cannot read {path}: it is a folder")
    return os.fdopen(descriptor, "rb", buffering=0)


def _hint(path: Path, error_number: int | None) -> str | None:
    if error_number == errno.ENOENT and not is_compressed(path):
        return "to wait for a file that does not exist yet: --follow"
    return f"to listen on a socket: unix:{path}" if error_number == errno.ENXIO else None


class FileSource:
    """Reads a file from beginning to end.

    A named pipe or a device that is given as a path is read like standard input.
    """

    def __init__(self, path: Path, request: SourceRequest, decoder: LineDecoder) -> None:
        self._path = path
        self._settings = InputSettings(name=str(path), decoder=decoder, max_line_bytes=request.max_line_bytes)
        self._pacer = None if request.speed is None else Pacer(request.speed, max_pause_s=request.max_pause_s)
        self._stop = StopFlag()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def run(self, feed: Feed) -> None:
        """Deliver the file.

        Raises:
            SourceError: The file cannot be read.
            UsageError: `--speed` was given, and the path is a pipe or a device.
        """

        def stopped() -> bool:
            return bool(self._stop) or feed.stopping

        with self._open() as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                replay = Replay(self._settings, stopped=stopped, pacer=self._pacer, wait=self._stop.wait)
                replay.deliver(file, feed, latest_ns=self._latest_ns(file))
            elif self._pacer is not None:
                raise UsageError(f"--speed is for files; {self._path} is not one, and has its own pace")
            else:
                deliver_stream(Arrivals(file.fileno()), self._settings, feed, stopped=stopped)

    def _open(self) -> BinaryIO:
        return open_file(self._path)

    def _latest_ns(self, file: BinaryIO) -> int:
        """Return the time of the latest event in a file of bare lines, in nanoseconds since the epoch."""
        return os.fstat(file.fileno()).st_mtime_ns


class RedirectedFile(FileSource):
    """A file that was redirected into standard input. It is read from its current position.

    The times of bare lines are reconstructed as for any file, but end now instead of at the modification time: standard
    input is a live source, so proofs left open in it end with the run, and must not end long after they began.
    """

    def __init__(self, descriptor: int, request: SourceRequest, decoder: LineDecoder) -> None:
        super().__init__(Path("standard input"), request, decoder)
        self._descriptor = descriptor

    def _open(self) -> BinaryIO:
        return os.fdopen(os.dup(self._descriptor), "rb", buffering=0)

    def _latest_ns(self, file: BinaryIO) -> int:
        return time.time_ns()
