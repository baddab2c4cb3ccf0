"""Keeps what was written for viewers that start late, come back or are slow; each reads at its own pace."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proofstream_rerun.sdk.recordings import Recording, Write

if TYPE_CHECKING:
    import rerun.blueprint as rrb

_LARGE_BYTES = 2**20
"""An opening of up to this size outlives its entry. It holds what viewers cannot do without, such as the circuit."""

_ENTRY_BYTES = 500
"""The memory that an entry takes besides its writes, roughly."""


@dataclass(kw_only=True, slots=True, eq=False)
class Chapter:
    """One recording in the backlog.

    Attributes:
        recording: The recording.
        blueprint: Its present layout.
        blueprint_version: Counts the layouts so far. A reader compares it with the version that it sent last.
        opening: The first snapshot, which every viewer gets first. It is kept as long as the chapter, unless it is
            large and its entry was dropped: a snapshot follows each gap.
        has_gaps: Whether some of its entries were dropped.
    """

    recording: Recording
    blueprint: rrb.Blueprint
    opening: Sequence[Write]
    blueprint_version: int = 1
    has_gaps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One step in the life of a recording.

    Attributes:
        chapter: The recording.
        writes: Calls that were written together; empty if the recording was begun, got another layout, or ended.
        is_begin: Whether the recording was begun.
        is_end: Whether the recording ended.
        size_bytes: Roughly how much memory it holds.
    """

    chapter: Chapter
    writes: Sequence[Write] = ()
    is_begin: bool = False
    is_end: bool = False
    size_bytes: int = _ENTRY_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class BacklogPage:
    """The next entries for a reader.

    Attributes:
        entries: The entries, in order.
        after: The reader's position after these entries.
        skipped: How many entries were dropped before the reader came to them.
    """

    entries: Sequence[Entry]
    after: int
    skipped: int


class Backlog:
    """Everything written, oldest first, up to a size. One thread writes; any number of threads read.

    A position counts all entries since the start, including dropped ones, so that a reader notices what it missed.

    Args:
        max_bytes: How much to keep. The oldest entries are dropped, read or not; the newest stays whatever its size.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._chapters: dict[str, Chapter] = {}
        self._changed = threading.Condition()
        self._start = 0
        self._bytes = 0

    def begin_recording(self, recording: Recording, *, blueprint: rrb.Blueprint, opening: Sequence[Write]) -> None:
        """Begin a recording."""
        chapter = Chapter(recording=recording, blueprint=blueprint, opening=tuple(opening))
        self._chapters[recording.recording_id] = chapter
        size = _ENTRY_BYTES + sum(write.size_bytes for write in chapter.opening)
        self._append(Entry(chapter=chapter, is_begin=True, size_bytes=size))

    def add_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Add calls that were written to a recording."""
        size = _ENTRY_BYTES + sum(write.size_bytes for write in writes)
        self._append(Entry(chapter=self._chapters[recording_id], writes=tuple(writes), size_bytes=size))

    def set_blueprint(self, recording_id: str, blueprint: rrb.Blueprint) -> None:
        """Give a recording another layout."""
        chapter = self._chapters[recording_id]
        chapter.blueprint = blueprint
        chapter.blueprint_version += 1
        self._append(Entry(chapter=chapter))

    def end_recording(self, recording_id: str) -> None:
        """End a recording."""
        chapter = self._chapters.pop(recording_id)
        # Its entries may stay for long, and a scene takes more memory than they do.
        chapter.recording = chapter.recording.without_scene()
        self._append(Entry(chapter=chapter, is_end=True))

    def has_gaps(self, recording_id: str) -> bool:
        """Return whether some entries of a recording were dropped."""
        return self._chapters[recording_id].has_gaps

    def _append(self, entry: Entry) -> None:
        with self._changed:
            self._entries.append(entry)
            self._bytes += entry.size_bytes
            while self._bytes > self.max_bytes and len(self._entries) > 1:
                gone = self._entries.popleft()
                gone.chapter.has_gaps = True
                if gone.is_begin and gone.size_bytes > _LARGE_BYTES:
                    gone.chapter.opening = ()
                self._bytes -= gone.size_bytes
                self._start += 1
            self._changed.notify_all()

    @property
    def start(self) -> int:
        """The position of the oldest entry that is kept."""
        return self._start  # one int, so no lock is needed to read it

    @property
    def end_position(self) -> int:
        """The position of the next entry to be added."""
        with self._changed:
            return self._start + len(self._entries)

    def bytes_from(self, position: int) -> int:
        """Return roughly how many bytes are kept from `position` on."""
        with self._changed:
            unread = self._start + len(self._entries) - max(position, self._start)
            # Counted from the end: a deque is slow to index in the middle, and readers are mostly near the end.
            return sum(entry.size_bytes for entry in itertools.islice(reversed(self._entries), unread))

    def endings_from(self, position: int) -> int:
        """Return how many recordings end from `position` on."""
        with self._changed:
            unread = self._start + len(self._entries) - max(position, self._start)
            return sum(entry.is_end for entry in itertools.islice(reversed(self._entries), unread))

    def read_page(self, position: int, *, max_bytes: int, wait_s: float = 0.0) -> BacklogPage:
        """Return the entries from `position` on, up to a size but at least one; wait `wait_s` seconds for that one.

        The page is empty if nothing came in time.
        """
        with self._changed:
            if position >= self._start + len(self._entries):
                self._changed.wait(wait_s)  # once, without a loop: `wake` must end it although there is no entry
            at = max(position, self._start)
            taken: list[Entry] = []
            size = 0
            for entry in itertools.islice(self._entries, at - self._start, None):
                taken.append(entry)
                size += entry.size_bytes
                if size >= max_bytes:
                    break
            return BacklogPage(entries=taken, after=at + len(taken), skipped=at - position)

    def wake(self) -> None:
        """Wake all readers that wait in `read_page`."""
        with self._changed:
            self._changed.notify_all()
