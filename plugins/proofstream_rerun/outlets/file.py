"""Writes each recording to a file of its own, flushed every second so that a crash loses little more than that."""

from __future__ import annotations

import contextlib
import logging
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import rerun as rr

from proofstream import Output, create_beside
from proofstream_rerun.connections import File
from proofstream_rerun.sdk.recording_streams import CallSender, Flushed, flush, open_stream
from proofstream_rerun.sdk.recordings import OUTSIDE, Recording, Write
from proofstream_rerun.sdk.stream_release import abandon_streams

if TYPE_CHECKING:
    import rerun.blueprint as rrb

FLUSH_EVERY_S = 1.0
_TICK_S = 1.0
"""How long Rerun gathers single rows into a chunk. Each chunk costs 1.5 kB in the file, so longer makes it smaller."""

_FLUSH_S = 2.0
"""How long a flush may hold the lane up. A slow disk is not an error: the next flush continues."""

_END_S = 4.0
"""How long the last flush may take. It is bounded because a disk that hangs would hold up the command's exit."""

MAX_NAMED = 4
"""The most files of which a line says that they are lost. On a full disk every further proof loses one."""

_FULL_BYTES = 2**20
"""With less free space than this, a failed write is blamed on a full disk."""


@dataclass(slots=True)
class _OpenFile:
    path: Path
    stream: rr.RecordingStream
    flushed_at: float
    is_dirty: bool = True
    is_on_disk: bool = False


class FileOutlet:
    """Writes recordings to files.

    It writes on the plugin's lane, without a thread of its own: a slow disk then holds a replay up instead of losing
    rows. When a file cannot be written, that file ends there, and one line in the log says why.

    Attributes:
        sender: Counts the calls that were written.
        lost_files: How many recordings have no file, or a file that ends too early.
        lost_writes: How many writes were dropped because their file had ended.

    Args:
        path: The file of the first recording; those of later ones go beside it.
        reserved: That file, if it was created for us. Its number is 1 if it has the name that was asked for.
        overwrite: Whether the first recording replaces a regular file of that name.
        log: The plugin's logger.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        path: Path,
        reserved: Output | None = None,
        *,
        log: logging.Logger,
        overwrite: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sender = CallSender()
        self.lost_files = 0
        self.lost_writes = 0
        self._path = path
        self._file = File(path if reserved is None else path.with_name(reserved.asked.name))
        self._reserved = reserved
        self._overwrite = overwrite
        self._log = log
        self._clock = clock
        self._number = 0
        self._open: dict[str, _OpenFile] = {}
        self._without_proof: Path | None = None

    def begin_recording(self, recording: Recording, *, blueprint: rrb.Blueprint, opening: Sequence[Write]) -> None:
        """Create the next file, and write the recording's properties, layout and first snapshot."""
        path = None
        try:
            path = self._create_beside_proofs() if recording.name == OUTSIDE and self._reserved else self._create_next()
            stream = open_stream(recording, rr.FileSink(path), tick_s=_TICK_S)
        except (OSError, RuntimeError) as error:
            self._lose_file("cannot make the recording", self._file.numbered(self._number), _plain(error))
            if path is not None:
                _remove_empty(path)
            return
        self._open[recording.recording_id] = _OpenFile(path, stream, flushed_at=self._clock())
        self.sender.introduce(recording, stream)
        self.send_blueprint(recording.recording_id, blueprint)
        self.send_writes(recording.recording_id, opening)

    def _create_next(self) -> Path:
        """Create an empty private file for the next recording, and return its path. Names in use are skipped.

        Rerun opens a path by itself and would empty whatever is there, so the name is taken before, exclusively.

        Raises:
            OSError: It cannot be created.
        """
        if self._reserved is not None:
            self._number, self._reserved = max(self._number, self._reserved.number), None
            return self._path
        self._number += 1
        wanted = self._file.numbered(self._number)
        if self._number == 1 and self._overwrite:
            _remove_regular(wanted)
        path, self._number = create_beside(self._file.path, first=self._number)
        if path != wanted:
            self._log.warning("rerun: %s exists; the next recording is %s", wanted, path)
        return path

    def _create_beside_proofs(self) -> Path:
        """Create a file for events before the first proof, which is to have the name that was asked for.

        Raises:
            OSError: It cannot be created.
        """
        first = max(self._number, self._reserved.number if self._reserved else 1) + 1
        path, self._number = create_beside(self._file.path, first=first)
        self._without_proof = self._without_proof or path
        return path

    def finish(self) -> None:
        """Give the name that was asked for to the first recording if no proof has come. All must have ended."""
        if self._reserved is not None and self._without_proof is not None:
            with contextlib.suppress(OSError):
                self._without_proof.replace(self._path)  # an empty file, created for us
        self._reserved = None

    def send_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Write the calls, and flush if a flush is due."""
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
            self._log.error("rerun: Rerun rejected a call: %s", problem)

    def tick(self) -> None:
        """Flush every file that is due, so that an idle stream reaches the disk as well."""
        for recording_id, opened in list(self._open.items()):
            self._flush_if_due(recording_id, opened)

    @property
    def is_at_rest(self) -> bool:
        """Whether everything was flushed, so that a flush of all streams has nothing to wait for."""
        return all(opened.is_on_disk and not opened.is_dirty for opened in self._open.values())

    def _flush_if_due(self, recording_id: str, opened: _OpenFile) -> None:
        now = self._clock()
        if not opened.is_dirty or now - opened.flushed_at < FLUSH_EVERY_S:
            return
        opened.flushed_at, opened.is_dirty = now, False
        self._flush(recording_id, opened)

    def _flush(self, recording_id: str, opened: _OpenFile) -> None:
        flushed, reason = flush(opened.stream, _FLUSH_S)
        opened.is_on_disk = flushed is Flushed.DONE
        if flushed is Flushed.BROKEN:  # Rerun's writer has stopped; nothing later would reach the file
            self._give_up(self._open.pop(recording_id), reason)
            opened.stream.disconnect()

    def _give_up(self, opened: _OpenFile, reason: str) -> None:
        self._lose_file("the recording ends here:", opened.path, _why(opened.path, reason))

    def _lose_file(self, what: str, path: Path, reason: str) -> None:
        self.lost_files += 1
        if self.lost_files <= MAX_NAMED:
            self._log.error("rerun: %s %s: %s", what, path, reason)
        elif self.lost_files == MAX_NAMED + 1:
            self._log.error("rerun: more recordings are lost; from here on they are only counted")

    def end_recording(self, recording_id: str) -> None:
        """End a recording: complete its file with the index at its end."""
        opened = self._open.pop(recording_id, None)
        if opened is None:
            return
        flushed, reason = flush(opened.stream, _END_S)
        if flushed is not Flushed.DONE:
            self._give_up(opened, reason)
        elif not opened.path.exists():  # writes to a deleted file succeed, so no flush notices
            self._give_up(opened, "the file was deleted")
        if flushed is Flushed.SLOW:
            abandon_streams([opened.stream])  # closing it would wait for the disk without a limit
        else:
            opened.stream.disconnect()


def _remove_regular(path: Path) -> None:
    """Remove a regular file. Anything else stays, such as a link, whose target may be another program's."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def _remove_empty(path: Path) -> None:
    """Remove a file that was created for a recording that there will not be."""
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()


def _why(path: Path, reason: str) -> str:
    """Return why a file ended, as Rerun reports only that its writer has stopped."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        return _plain(error)
    return "no space is left on its disk" if free < _FULL_BYTES else reason


def _plain(error: Exception) -> str:
    """Return an error's reason without its number and path, which the message has."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
