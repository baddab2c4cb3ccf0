"""What was written, kept for viewers that come late, come back or are slow: each reads it at its own pace."""

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

_ENTRY_BYTES = 500
"""What an entry takes besides what it holds."""


@dataclass(kw_only=True, slots=True, eq=False)
class Chapter:
    """One recording in the backlog.

    Attributes:
        recording: Which one.
        blueprint: Its layout now.
        blueprint_version: How often the layout was made; a reader compares it with what it sent.
        opening: The first snapshot, which whoever opens the recording gets first. It is kept as long as the chapter is.
        has_gaps: Whether some of it was let go.
    """

    recording: Recording
    blueprint: rrb.Blueprint
    opening: Sequence[Write]
    blueprint_version: int = 1
    has_gaps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing that happened to a recording.

    Attributes:
        chapter: The recording.
        writes: What was written at once; nothing where the recording was begun, got another layout, or ended.
        is_end: Whether the recording ended.
        size_bytes: About how much memory it holds.
    """

    chapter: Chapter
    writes: Sequence[Write] = ()
    is_end: bool = False
    size_bytes: int = _ENTRY_BYTES


@dataclass(frozen=True, kw_only=True, slots=True)
class BacklogPage:
    """What a reader has before it.

    Attributes:
        entries: The next entries, in order.
        after: Where the reader stands when it has read them.
        skipped: How many entries were let go before the reader came to them.
    """

    entries: Sequence[Entry]
    after: int
    skipped: int


class Backlog:
    """Everything written, oldest first, up to a size. One thread writes and any number read.

    Args:
        max_bytes: How much is kept. The oldest is let go, read or not; the newest entry stays, whatever its size.
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
        self._append(Entry(chapter=chapter))

    def add_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Keep what was written into a recording."""
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
        self._append(Entry(chapter=self._chapters.pop(recording_id), is_end=True))

    def has_gaps(self, recording_id: str) -> bool:
        """Whether some of a recording was let go."""
        return self._chapters[recording_id].has_gaps

    def _append(self, entry: Entry) -> None:
        with self._changed:
            self._entries.append(entry)
            self._bytes += entry.size_bytes
            while self._bytes > self.max_bytes and len(self._entries) > 1:
                gone = self._entries.popleft()
                gone.chapter.has_gaps = True
                self._bytes -= gone.size_bytes
                self._start += 1
            self._changed.notify_all()

    @property
    def start(self) -> int:
        """Where the oldest entry that is kept stands."""
        return self._start

    @property
    def end_position(self) -> int:
        """Where the next entry will stand."""
        with self._changed:
            return self._start + len(self._entries)

    def bytes_from(self, position: int) -> int:
        """About how much of what is kept stands from `position` on."""
        with self._changed:
            unread = self._start + len(self._entries) - max(position, self._start)
            return sum(entry.size_bytes for entry in itertools.islice(reversed(self._entries), unread))

    def read_page(self, position: int, *, max_bytes: int, wait_s: float = 0.0) -> BacklogPage:
        """The entries from `position` on, up to a size and at least one; waits for that one."""
        with self._changed:
            if position >= self._start + len(self._entries):
                self._changed.wait(wait_s)
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
        """Make whoever waits in `read` look again."""
        with self._changed:
            self._changed.notify_all()
