"""Replays an open file from its position to its end: plain, gzip or Zstandard, with or without times of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

from proofstream.contracts import Feed
from proofstream.envelopes import ARRIVAL, RECONSTRUCTED
from proofstream.errors import SourceError
from proofstream.sources.compression import blocks
from proofstream.sources.lines import InputSettings, LineReader, LineResult
from proofstream.sources.pacing import Pacer, long_pause
from proofstream.sources.reconstruct import Reconstruction, own_time, scan
from proofstream.sources.routing import CHUNK, SessionRouter
from proofstream.sources.stored import CutShort, Damaged
from proofstream.wire import Decoded


class Replay:
    """Delivers what a file holds, in two passes: bare lines need all durations before the first of them has a time.

    Args:
        settings: How to read it.
        stopped: Called between lines. Returns True to stop.
        pacer: Says when each line is due; None for at once.
        wait: Waits so many seconds, or until it is to stop.
    """

    def __init__(
        self,
        settings: InputSettings,
        *,
        stopped: Callable[[], bool],
        pacer: Pacer | None = None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._settings = settings
        self._stopped = stopped
        self._pacer = pacer
        self._wait = wait
        self._announce: Callable[[str], None] = _say_nothing

    def deliver(self, file: BinaryIO, feed: Feed, *, latest_ns: int) -> None:
        """Deliver what follows the file's position.

        Args:
            file: A regular file.
            feed: The host.
            latest_ns: The time of the latest event in a file of bare lines, in nanoseconds since the epoch.

        Raises:
            SourceError: The file cannot be read, or is damaged.
        """
        self._announce = feed.announce
        begin = file.tell()
        # Both passes must read the same bytes, even if the file is still growing.
        size = max(0, os.fstat(file.fileno()).st_size - begin)
        found = scan(
            blocks(file, Path(self._settings.name), limit=size),
            self._settings.decoder,
            max_line_bytes=self._settings.max_line_bytes,
            mtime_ns=latest_ns,
            stopped=self._stopped,
        )
        router = SessionRouter(
            feed,
            source=self._settings.name,
            time_source=ARRIVAL if found is None else RECONSTRUCTED,
            session_id=None if found is None else found.session_id,
            opened_at=None if found is None else max(0, found.begins_unix_nano),
            hold_refusals=True,
        )
        reconstruction = None if found is None else Reconstruction(found)
        file.seek(begin)
        try:
            outcome = self._read(router, blocks(file, Path(self._settings.name), limit=size), reconstruction)
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

    def _read(self, router: SessionRouter, content: Iterable[bytes], found: Reconstruction | None) -> str:
        """Deliver the file's content, as the second pass. Returns the session's outcome.

        Raises:
            CutShort: The content broke off, and everything before was delivered.
        """
        cut: CutShort | None = None
        reader = LineReader(self._settings.decoder, self._settings.max_line_bytes)
        try:
            for block in content:
                self._deliver_items(router, reader.read_bytes(block), found)
                if self._stopped():
                    return "interrupted"
        except CutShort as broken_off:
            cut = broken_off
        self._deliver_items(router, reader.finish(cut_short=cut is not None), found)
        if self._stopped():
            return "interrupted"
        if cut is not None:
            raise cut
        return "ended"

    def _deliver_items(self, router: SessionRouter, items: Sequence[LineResult], found: Reconstruction | None) -> None:
        times = [own_time(item) for item in items] if found is None else found.times_of(items)
        if self._pacer is not None:
            self._pace(router, self._pacer, items, times)
            return
        for begin in range(0, len(items), CHUNK):
            if self._stopped():
                return
            end = begin + CHUNK
            router.route_stamped(zip(items[begin:end], times[begin:end], repeat(None)))

    def _pace(
        self, router: SessionRouter, pacer: Pacer, items: Iterable[LineResult], times: Iterable[int | None]
    ) -> None:
        for item, time_unix_nano in zip(items, times, strict=True):
            if isinstance(item, Decoded) and time_unix_nano is not None:
                self._wait_for(router, pacer, time_unix_nano)
            if self._stopped():
                return
            router.route_item(item, at=time_unix_nano)
        router.flush()

    def _wait_for(self, router: SessionRouter, pacer: Pacer, time_unix_nano: int) -> None:
        due_in_s = pacer.due_in_s(time_unix_nano)
        if due_in_s <= 0:
            return
        router.flush()
        if (line := long_pause(due_in_s)) is not None:
            self._announce(line)
        while due_in_s > 0 and not self._stopped():
            self._wait(due_in_s)
            due_in_s = pacer.due_in_s(time_unix_nano)


def _say_nothing(_line: str) -> None:
    return None
