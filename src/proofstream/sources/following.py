"""A file that grows: what is there, and then what is added, as it is added."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed, SourceRequest
from proofstream.errors import SourceError
from proofstream.sources.compression import READ_BYTES
from proofstream.sources.files import open_file
from proofstream.sources.lines import LineReader
from proofstream.sources.pacing import StopFlag
from proofstream.sources.routing import SessionRouter
from proofstream.wire import LineDecoder

_POLL_S = 0.1


class FollowedFile:
    """Reads a file and waits for more until it is stopped.

    A file that became shorter is read again from its beginning. When another file took the name, the old one is read
    to its end and then the new one from its beginning; while there is none, it waits. All of it is one session.
    """

    def __init__(self, path: Path, request: SourceRequest, decoder: LineDecoder) -> None:
        self._path = path
        self._decoder = decoder
        self._max_line_bytes = request.max_line_bytes
        self._reader = LineReader(decoder, request.max_line_bytes)
        self._stop = StopFlag()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def run(self, feed: Feed) -> None:
        """Deliver until stopped.

        Raises:
            SourceError: The file cannot be read.
        """
        file = open_file(self._path)
        router = SessionRouter(feed, source=str(self._path), time_source="arrival")
        try:
            self._follow(file, router, feed)
        except SourceError as error:
            router.close("lost", str(error))
            raise
        router.close("interrupted")

    def _follow(self, file: BinaryIO, router: SessionRouter, feed: Feed) -> None:
        try:
            while not (self._stop or feed.stopping):
                replaced = self._is_replaced(file)
                if self._read_on(file, router, feed):
                    continue
                if replaced:
                    # Whoever writes may not know yet that the file was moved away.
                    self._stop.wait(_POLL_S)
                    if self._read_on(file, router, feed):
                        continue
                    self._begin_anew(router)
                    file.close()
                    file = open_file(self._path)
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
            block = file.read(READ_BYTES)
        except OSError as error:
            raise SourceError(f"cannot read {self._path}: {error.strerror}") from error
        for item in self._reader.feed(block or b""):
            if self._stop or feed.stopping:
                break
            router.take(item)
        router.flush()
        return bool(block)

    def _begin_anew(self, router: SessionRouter) -> None:
        for item in self._reader.finish():
            router.take(item)
        router.flush()
        self._reader = LineReader(self._decoder, self._max_line_bytes)

    def _is_replaced(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(file.fileno()))
        except OSError:
            return False
