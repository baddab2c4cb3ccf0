"""Recordings as files: one for each proof, flushed at least every second, so that a crash loses no more than that."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rerun as rr

from proofstream_rerun.connections import File
from proofstream_rerun.sdk.recording_streams import CallSender, Flushed, flush, open_stream
from proofstream_rerun.sdk.recordings import Recording, Write
from proofstream_rerun.sdk.stream_release import abandon_streams

if TYPE_CHECKING:
    import rerun.blueprint as rrb

FLUSH_EVERY_S = 1.0
_TICK_S = 1.0
"""Single rows are gathered as long: each chunk costs 1.5 kB in the file."""

_FLUSH_S = 2.0
_END_S = 4.0
"""How long the last flush of a file may take; a disk that hangs holds up the end of everything."""

_FULL_BYTES = 2**20


@dataclass(slots=True)
class _OpenFile:
    path: Path
    stream: rr.RecordingStream
    flushed_at: float
    is_dirty: bool = True


class FileOutlet:
    """Writes recordings to files, on the lane: a source that can wait is held up rather than that something is missing.

    A file that cannot be written ends there, with one line in the log.

    Attributes:
        sender: Counts what was written.
        lost_files: How many recordings have no file, or one that ends too early.
        lost_writes: How many writes came after that.

    Args:
        file: Where the first recording goes to.
        log: Where failures are told.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, file: File, *, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self.sender = CallSender()
        self.lost_files = 0
        self.lost_writes = 0
        self._file = file
        self._log = log
        self._clock = clock
        self._number = 0
        self._open: dict[str, _OpenFile] = {}

    def begin_recording(self, recording: Recording, *, blueprint: rrb.Blueprint, opening: Sequence[Write]) -> None:
        """Make the next file, and write what is known."""
        path = self._file.path
        try:
            path = self._next_path()
            stream = open_stream(recording, rr.FileSink(path), tick_s=_TICK_S)
        except (OSError, RuntimeError) as error:
            self.lost_files += 1
            self._log.error("rerun: there is no recording in %s: %s", path, error)
            return
        self._open[recording.recording_id] = _OpenFile(path, stream, flushed_at=self._clock())
        self.sender.introduce(recording, stream)
        self.send_blueprint(recording.recording_id, blueprint)
        self.send_writes(recording.recording_id, opening)

    def _next_path(self) -> Path:
        """The file of the first proof is replaced; for a later one nothing is touched that is there."""
        self._number += 1
        if self._number == 1:
            return self._file.path
        wanted = path = self._file.numbered(self._number)
        while not _make(path):
            self._number += 1
            path = self._file.numbered(self._number)
        if path != wanted:
            self._log.warning("rerun: %s was there before; the next recording is %s", wanted, path)
        return path

    def send_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Write, and flush if it is time to."""
        opened = self._open.get(recording_id)
        if opened is None:
            self.lost_writes += len(writes)
            return
        self.sender.send_writes(writes, opened.stream)
        opened.is_dirty = True
        self._tell_problem()
        self._flush_if_due(recording_id, opened)

    def send_blueprint(self, recording_id: str, blueprint: rrb.Blueprint) -> None:
        """Write the layout."""
        opened = self._open.get(recording_id)
        if opened is not None:
            self.sender.send_blueprint(blueprint, opened.stream)
            opened.is_dirty = True
            self._tell_problem()

    def _tell_problem(self) -> None:
        problem = self.sender.take_problem()
        if problem is not None:
            self._log.error("rerun: a call was not accepted: %s", problem)

    def tick(self) -> None:
        """Flush what waits for it."""
        for recording_id, opened in list(self._open.items()):
            self._flush_if_due(recording_id, opened)

    def _flush_if_due(self, recording_id: str, opened: _OpenFile) -> None:
        now = self._clock()
        if not opened.is_dirty or now - opened.flushed_at < FLUSH_EVERY_S:
            return
        opened.flushed_at, opened.is_dirty = now, False
        self._flush(recording_id, opened)

    def _flush(self, recording_id: str, opened: _OpenFile) -> None:
        flushed, reason = flush(opened.stream, _FLUSH_S)
        if flushed is Flushed.BROKEN:
            self._give_up(self._open.pop(recording_id), reason)
            opened.stream.disconnect()

    def _give_up(self, opened: _OpenFile, reason: str) -> None:
        self.lost_files += 1
        self._log.error("rerun: the recording ends here: %s: %s", opened.path, _why(opened.path, reason))

    def end_recording(self, recording_id: str) -> None:
        """End a recording: its file gets the index that makes it complete."""
        opened = self._open.pop(recording_id, None)
        if opened is None:
            return
        flushed, reason = flush(opened.stream, _END_S)
        if flushed is not Flushed.DONE:
            self._give_up(opened, reason)
        elif not opened.path.exists():
            self._give_up(opened, "the file was taken away")
        if flushed is Flushed.SLOW:
            abandon_streams([opened.stream])  # to close it would wait for the disk, for ever
        else:
            opened.stream.disconnect()


def _make(path: Path) -> bool:
    """Make a file; False if one is there."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _why(path: Path, reason: str) -> str:
    """Rerun says only that its writer has stopped."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        return str(error)
    return "no space is left on its disk" if free < _FULL_BYTES else reason
