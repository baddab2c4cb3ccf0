"""Reads a file, plain, gzip or Zstandard, from beginning to end."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed, SourceRequest
from proofstream.errors import SourceError, UsageError
from proofstream.sources.arrivals import Arrivals
from proofstream.sources.compression import blocks, is_compressed
from proofstream.sources.lines import LineReader, LineResult
from proofstream.sources.pacing import Pacer, StopFlag
from proofstream.sources.reconstruct import Reconstruction, scan
from proofstream.sources.routing import SessionRouter
from proofstream.sources.stored import CutShort, Damaged
from proofstream.sources.streams import StreamSettings, deliver_stream
from proofstream.wire import Decoded, LineDecoder


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
        self._decoder = decoder
        self._max_line_bytes = request.max_line_bytes
        self._pacer = Pacer(request.speed) if request.speed is not None else None
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
        with self._open() as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self._replay(feed, file)
            elif self._pacer is not None:
                raise UsageError(f"--speed is for files; {self._path} is not one, and has its own pace")
            else:
                settings = StreamSettings(
                    name=str(self._path), decoder=self._decoder, max_line_bytes=self._max_line_bytes
                )
                deliver_stream(Arrivals(file.fileno()), settings, feed, stopped=lambda: self._stopped(feed))

    def _open(self) -> BinaryIO:
        return open_file(self._path)

    def _latest_ns(self, status: os.stat_result) -> int:
        """Return the time of the latest event in a file of bare lines, in nanoseconds since the epoch."""
        return status.st_mtime_ns

    def _stopped(self, feed: Feed) -> bool:
        return bool(self._stop) or feed.stopping

    def _replay(self, feed: Feed, file: BinaryIO) -> None:
        status = os.fstat(file.fileno())
        begin = file.tell()
        # Both passes must read the same bytes, even if the file is still growing.
        size = max(0, status.st_size - begin)
        found = scan(
            blocks(file, self._path, limit=size),
            self._decoder,
            max_line_bytes=self._max_line_bytes,
            mtime_ns=self._latest_ns(status),
            stopped=lambda: self._stopped(feed),
        )
        router = SessionRouter(
            feed,
            source=str(self._path),
            time_source="arrival" if found is None else "reconstructed",
            session_id=None if found is None else found.session_id,
            opened_at=None if found is None else max(0, found.begins_unix_nano),
            hold_refusals=True,
        )
        time_of = None if found is None else Reconstruction(found).time_of
        file.seek(begin)
        try:
            outcome = self._read(feed, router, blocks(file, self._path, limit=size), time_of)
        except SourceError as error:
            router.close("lost", str(error))
            raise
        except CutShort as cut:
            self._end_early(feed, router, cut)
        else:
            router.close(outcome)

    def _end_early(self, feed: Feed, router: SessionRouter, cut: CutShort) -> None:
        """End a compressed file that breaks off: a killed writer leaves such files, but no damaged ones."""
        if isinstance(cut, Damaged):
            router.close("lost", str(cut))
            raise SourceError(str(cut)) from cut
        if not router.has_sessions:
            # A session without events would hide the failure, so raise an error instead.
            router.close("lost", str(cut), even_if_empty=False)
            raise SourceError(f"{cut}: not one event of it can be read") from cut
        feed.announce(f"{cut}, as if its writer was killed; everything before that was read")
        router.close("lost", str(cut))

    def _read(
        self, feed: Feed, router: SessionRouter, content: Iterable[bytes], time_of: Callable[[Decoded], int] | None
    ) -> str:
        """Deliver the file's content, as the second pass. Returns the session's outcome.

        Raises:
            CutShort: The content broke off, and everything before was delivered.
        """
        cut: CutShort | None = None
        reader = LineReader(self._decoder, self._max_line_bytes)
        try:
            for block in content:
                self._deliver(feed, router, reader.read_bytes(block), time_of)
                if self._stopped(feed):
                    return "interrupted"
        except CutShort as broken_off:
            cut = broken_off
        self._deliver(feed, router, reader.finish(cut_short=cut is not None), time_of)
        if self._stopped(feed):
            return "interrupted"
        if cut is not None:
            raise cut
        return "ended"

    def _deliver(
        self, feed: Feed, router: SessionRouter, items: Iterable[LineResult], time_of: Callable[[Decoded], int] | None
    ) -> None:
        for item in items:
            if not isinstance(item, Decoded):
                router.route_item(item)
                continue
            time_unix_nano = item.time_unix_nano
            if time_unix_nano is None and time_of is not None:
                time_unix_nano = time_of(item)
            if self._pacer is not None and time_unix_nano is not None:
                self._wait_for(feed, router, self._pacer, time_unix_nano)
            if self._stopped(feed):
                return
            router.route_item(item, at=time_unix_nano)
        router.flush()

    def _wait_for(self, feed: Feed, router: SessionRouter, pacer: Pacer, time_unix_nano: int) -> None:
        while (due_in_s := pacer.due_in_s(time_unix_nano)) > 0 and not self._stopped(feed):
            router.flush()
            self._stop.wait(due_in_s)


class RedirectedFile(FileSource):
    """A file that was redirected into standard input. It is read from its current position.

    The times of bare lines are reconstructed as for any file, but end now instead of at the modification time: standard
    input is a live source, so proofs left open in it end with the run, and must not end long after they began.
    """

    def __init__(
        self, descriptor: int, request: SourceRequest, decoder: LineDecoder, *, name: str = "standard input"
    ) -> None:
        super().__init__(Path(name), request, decoder)
        self._descriptor = descriptor

    def _open(self) -> BinaryIO:
        return os.fdopen(os.dup(self._descriptor), "rb", buffering=0)

    def _latest_ns(self, status: os.stat_result) -> int:
        return time.time_ns()
