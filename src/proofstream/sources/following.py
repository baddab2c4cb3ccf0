"""A file that grows: what is there, and then what is added, as it is added."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed, SourceRequest
from proofstream.errors import SourceError
from proofstream.sources.arrivals import Clock
from proofstream.sources.compression import READ_BYTES, blocks
from proofstream.sources.files import open_file
from proofstream.sources.lines import LineReader, LineResult
from proofstream.sources.pacing import StopFlag
from proofstream.sources.prior import Prior
from proofstream.sources.reconstruct import scan
from proofstream.sources.routing import SessionRouter
from proofstream.wire import LineDecoder

_POLL_S = 0.1


class FollowedFile:
    """Reads a file and waits for more until it is stopped; while there is none, it waits for one.

    A file that became shorter is read again from its beginning. When another file took the name, the old one is read
    to its end and then the new one from its beginning. All of it is one session.
    """

    def __init__(self, path: Path, request: SourceRequest, decoder: LineDecoder) -> None:
        self._path = path
        self._decoder = decoder
        self._max_line_bytes = request.max_line_bytes
        self._reader = LineReader(decoder, request.max_line_bytes)
        self._clock = Clock()
        self._prior: Prior | None = None
        self._prior_bytes_left = 0
        self._stop = StopFlag()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def run(self, feed: Feed) -> None:
        """Deliver until stopped.

        Raises:
            SourceError: The file cannot be read, or there is no folder that it may appear in.
        """
        file = self._open(feed)
        if file is None:
            return
        router = SessionRouter(feed, source=str(self._path), time_source="arrival")
        try:
            self._follow(file, router, feed)
        except SourceError as error:
            router.close("lost", str(error))
            raise
        router.close("interrupted")

    # Opening

    def _open(self, feed: Feed) -> BinaryIO | None:
        """The file, with a first look at what it holds; None when stopped before there is one."""
        file = self._open_if_there()
        if file is not None:
            self._look_at_what_is_there(file, feed)
            return file
        feed.announce(f"waiting for {self._path}")
        return self._wait_for_file(feed)

    def _wait_for_file(self, feed: Feed) -> BinaryIO | None:
        while not self._is_stopped(feed):
            file = self._open_if_there()
            if file is not None:
                return file
            self._stop.wait(_POLL_S)
        return None

    def _open_if_there(self) -> BinaryIO | None:
        try:
            file = open_file(self._path)
        except SourceError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            if not self._path.parent.is_dir():
                raise SourceError(f"cannot follow {self._path}: there is no folder {self._path.parent}") from error
            return None
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise SourceError(
                f"cannot follow {self._path}: it is no regular file", hint="a pipe is read to its end without --follow"
            )
        return file

    def _look_at_what_is_there(self, file: BinaryIO, feed: Feed) -> None:
        status = os.fstat(file.fileno())
        found = scan(
            blocks(file, self._path, limit=status.st_size),
            self._decoder,
            max_line_bytes=self._max_line_bytes,
            # By another machine's clock a file may have been written later than now.
            mtime_ns=min(status.st_mtime_ns, self._clock.now()),
            last_line=False,
            stopped=lambda: self._is_stopped(feed),
        )
        file.seek(0)
        if found is not None and status.st_size:
            self._prior, self._prior_bytes_left = Prior(found), status.st_size

    # Following

    def _follow(self, file: BinaryIO, router: SessionRouter, feed: Feed) -> None:
        try:
            while not self._is_stopped(feed):
                replaced = self._is_replaced(file)
                if self._read_on(file, router, feed):
                    continue
                if replaced:
                    # Whoever writes may not know yet that the file was moved away.
                    self._stop.wait(_POLL_S)
                    if self._read_on(file, router, feed):
                        continue
                    next_file = self._wait_for_file(feed)
                    if next_file is None:
                        return
                    self._begin_anew(router)
                    file.close()
                    file = next_file
                elif os.fstat(file.fileno()).st_size < file.tell():
                    self._begin_anew(router)
                    file.seek(0)
                else:
                    self._stop.wait(_POLL_S)
        finally:
            file.close()

    def _read_on(self, file: BinaryIO, router: SessionRouter, feed: Feed) -> bool:
        """Deliver one block; whether there was one."""
        try:
            block = file.read(min(READ_BYTES, self._prior_bytes_left or READ_BYTES)) or b""
        except OSError as error:
            raise SourceError(f"cannot read {self._path}: {error.strerror}") from error
        self._deliver(self._reader.read_bytes(block), router, feed)
        if self._prior is not None:
            self._prior_bytes_left -= len(block)
            if self._prior_bytes_left <= 0:
                self._end_prior(router)
        return bool(block)

    def _deliver(self, items: Iterable[LineResult], router: SessionRouter, feed: Feed) -> None:
        now = self._clock.now()
        for item in items:
            if self._is_stopped(feed):
                return
            if self._prior is not None:
                self._prior.route_item(item, router)
            else:
                router.route_item(item, at=now)
        router.flush()

    def _end_prior(self, router: SessionRouter) -> None:
        if self._prior is not None:
            self._prior.finish(router)
        self._prior, self._prior_bytes_left = None, 0

    def _begin_anew(self, router: SessionRouter) -> None:
        self._end_prior(router)
        for item in self._reader.finish():
            router.route_item(item, at=self._clock.now())
        router.flush()
        self._reader = LineReader(self._decoder, self._max_line_bytes)

    def _is_replaced(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(file.fileno()))
        except OSError:
            return False

    def _is_stopped(self, feed: Feed) -> bool:
        return bool(self._stop) or feed.stopping
