"""Follows a growing file: delivers its present content, then each addition as it is written."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed, SourceRequest
from proofstream.envelopes import ARRIVAL
from proofstream.errors import SourceError
from proofstream.sources.arrivals import Clock
from proofstream.sources.compression import MAGIC_BYTES, READ_BYTES, begins_compressed, blocks
from proofstream.sources.files import open_file
from proofstream.sources.followed_pipe import FollowedPipe
from proofstream.sources.lines import InputSettings, LineReader, LineResult
from proofstream.sources.pacing import StopFlag, short_switches
from proofstream.sources.prior import Prior
from proofstream.sources.reconstruct import scan
from proofstream.sources.routing import SessionRouter
from proofstream.sources.stamping import Stamper
from proofstream.wire import LineDecoder

# Polling works on every file system, network mounts included; inotify would not. A pause is short where lines follow
# one another closely, and otherwise a hundredth of the silence so far, so that no stretch of time is off by more.
_SHORTEST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.01
_PART_OF_SILENCE = 0.01
# How long the writer of a file may not know yet that another one took its name.
_GRACE_S = 0.1
_NS_PER_S = 1_000_000_000


class FollowedFile:
    """Reads a file and waits for more until it is stopped. Waits for the file if it does not exist yet.

    A file that became shorter is read again from its beginning. If another file takes the name, the old file is read to
    its end, then the new one from its beginning. All of it is one session. A named pipe is read from one writer to the
    next, see `FollowedPipe`.
    """

    def __init__(self, path: Path, request: SourceRequest, decoder: LineDecoder) -> None:
        self._path = path
        self._decoder = decoder
        self._max_line_bytes = request.max_line_bytes
        self._reader = LineReader(decoder, request.max_line_bytes)
        self._clock = Clock()
        self._stamper = Stamper(self._clock.now())
        self._heard_at = self._looked_at = self._clock.now()
        self._prior: Prior | None = None
        self._prior_bytes_left = 0
        self._stop = StopFlag()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def run(self, feed: Feed) -> None:
        """Deliver until stopped.

        Raises:
            SourceError: The file cannot be read, or its folder does not exist.
        """
        file = self._open(feed)
        if file is None:
            return
        if _is_pipe(file):
            self._follow_pipe(file, feed)
            return
        router = SessionRouter(
            feed,
            source=str(self._path),
            time_source=ARRIVAL,
            time_resolution_ns=int(_SHORTEST_PAUSE_S * _NS_PER_S),
        )
        try:
            with short_switches():
                self._follow(file, router, feed)
        except SourceError as error:
            router.close("lost", str(error))
            raise
        router.close("interrupted")

    def _follow_pipe(self, file: BinaryIO, feed: Feed) -> None:
        settings = InputSettings(name=str(self._path), decoder=self._decoder, max_line_bytes=self._max_line_bytes)
        FollowedPipe(
            self._path,
            settings,
            reopen=lambda: self._wait_for_file(feed, pipe=True),
            stopped=lambda: self._is_stopped(feed),
        ).deliver(file, feed)

    # Opening

    def _open(self, feed: Feed) -> BinaryIO | None:
        """Open the file and scan its present content. Returns None if stopped before the file appears."""
        file = self._open_if_there()
        if file is not None:
            try:
                if not _is_pipe(file):
                    self._look_at_what_is_there(file, feed)
            except SourceError:
                file.close()
                raise
            return file
        feed.announce(f"waiting for {self._path}")
        return self._wait_for_file(feed)

    def _wait_for_file(self, feed: Feed, *, pipe: bool | None = None) -> BinaryIO | None:
        while not self._is_stopped(feed):
            file = self._open_if_there()
            if file is None:
                self._stop.wait(_LONGEST_PAUSE_S)
            elif pipe in (None, _is_pipe(file)):
                return file
            else:
                file.close()
                raise SourceError(f"cannot follow {self._path} any further: it is {'no' if pipe else 'a'} pipe now")
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
        if not (stat.S_ISREG(os.fstat(file.fileno()).st_mode) or _is_pipe(file)):
            file.close()
            raise SourceError(f"cannot follow {self._path}: it is neither a regular file nor a named pipe")
        return file

    def _look_at_what_is_there(self, file: BinaryIO, feed: Feed) -> None:
        self._refuse_compressed(file.read(MAGIC_BYTES))
        file.seek(0)
        status = os.fstat(file.fileno())
        self._stamper = Stamper(self._clock.now())
        found = scan(
            blocks(file, self._path, limit=status.st_size),
            self._decoder,
            max_line_bytes=self._max_line_bytes,
            # On a network file system, another machine's clock may put the modification time in the future.
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
                if self._read_on(file, router):
                    continue
                if self._silence_s() >= _GRACE_S and self._is_replaced(file):
                    # The writer may not have noticed the rotation yet and may still add to the old file.
                    self._stop.wait(_GRACE_S)
                    if self._read_on(file, router):
                        continue
                    next_file = self._wait_for_file(feed, pipe=False)
                    if next_file is None:
                        return
                    self._start_over(router)
                    file.close()
                    file = next_file
                elif os.fstat(file.fileno()).st_size < file.tell():
                    self._start_over(router)
                    file.seek(0)
                else:
                    time.sleep(min(max(_SHORTEST_PAUSE_S, self._silence_s() * _PART_OF_SILENCE), _LONGEST_PAUSE_S))
        finally:
            file.close()

    def _read_on(self, file: BinaryIO, router: SessionRouter) -> bool:
        """Deliver one block. Returns False if there was none."""
        # Before the read, after which this thread may have to wait for the interpreter.
        now = self._clock.now()
        try:
            # Never across the end of the earlier lines: they are timed differently from those that follow.
            block = file.read(min(READ_BYTES, self._prior_bytes_left or READ_BYTES)) or b""
        except OSError as error:
            raise SourceError(f"cannot read {self._path}: {error.strerror}") from error
        if not block:
            self._looked_at = now
        else:
            if file.tell() == len(block):
                self._refuse_compressed(block)
            self._heard_at = now
            self._deliver(self._reader.read_bytes(block), router)
            if self._prior is not None:
                self._prior_bytes_left -= len(block)
                if self._prior_bytes_left <= 0:
                    self._end_prior(router)
        return bool(block)

    def _refuse_compressed(self, begin: bytes) -> None:
        # It has no lines, so nothing would ever be said of it.
        if begins_compressed(begin):
            raise SourceError(
                f"{self._path} holds compressed data, which cannot be followed",
                hint="without --follow, it is read to its end",
            )

    def _silence_s(self) -> float:
        return (self._clock.now() - self._heard_at) / _NS_PER_S

    def _deliver(self, items: Sequence[LineResult], router: SessionRouter) -> None:
        if self._prior is not None:
            self._prior.route_items(items, router)
        else:
            router.route_stamped(self._stamper.stamp(items, self._heard_at, absent_at=self._looked_at))

    def _end_prior(self, router: SessionRouter) -> None:
        if self._prior is not None:
            self._prior.finish(router)
        self._prior, self._prior_bytes_left = None, 0

    def _start_over(self, router: SessionRouter) -> None:
        self._end_prior(router)
        router.route_stamped(self._stamper.stamp(self._reader.finish(), self._clock.now()))
        self._reader = LineReader(self._decoder, self._max_line_bytes)

    def _is_replaced(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(file.fileno()))
        except OSError:
            return False

    def _is_stopped(self, feed: Feed) -> bool:
        return bool(self._stop) or feed.stopping


def _is_pipe(file: BinaryIO) -> bool:
    return stat.S_ISFIFO(os.fstat(file.fileno()).st_mode)
