"""What one recording shows, entity by entity: rows that wait to be written, and what is kept to tell it again.

Memory is bounded: rows wait until the next write, each track keeps a fixed number of them, and there are at most
MAX_ENTITIES tracks.
"""

from __future__ import annotations

from typing import TypeAlias

from proofstream import Envelope
from proofstream_rerun.picture.marks import PLAIN, LogEntry, Look, Mark

MAX_ENTITIES = 512
"""Tracks of one recording at most; what would need more is counted."""

_LAST_NS = 2**63 - 1

KEPT_LINES = 256
"""Lines of one log that are kept for the snapshot."""


Moment: TypeAlias = tuple[int, int, int]
"""When something happened: nanoseconds since the proof began, which never go back; its place in the host's order of
events; nanoseconds since the epoch."""


class Rows:
    """Rows of one entity: marks, and when each was drawn."""

    __slots__ = ("marks", "moments")

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.moments: list[Moment] = []

    def __len__(self) -> int:
        return len(self.marks)


class Track:
    """The rows of one entity.

    Args:
        path: The entity's path.
        look: How it looks at any time.
        keep: Rows kept for the snapshot, at least one.
    """

    __slots__ = ("_keep", "has_look", "kept", "look", "path", "pending")

    def __init__(self, path: str, look: Look, keep: int) -> None:
        self.path = path
        self.look = look
        self.pending = Rows()
        self.kept = Rows()
        self.has_look = False
        self._keep = keep

    def take_rows(self) -> Rows:
        """The rows that wait; the last of them are kept from now on."""
        taken, self.pending = self.pending, Rows()
        kept = self.kept
        kept.marks += taken.marks
        kept.moments += taken.moments
        del kept.marks[: -self._keep], kept.moments[: -self._keep]
        return taken


class Canvas:
    """All that one recording shows.

    Args:
        started_ns: When the proof began, in nanoseconds since the epoch.

    Attributes:
        tracks: What changes in time, by path.
        statics: What holds at any time, by path and kind of mark.
        waiting: How many rows wait to be written.
        undrawn: How many marks found no room.
    """

    def __init__(self, started_ns: int) -> None:
        self.tracks: dict[str, Track] = {}
        self.statics: dict[tuple[str, type[Mark]], Mark] = {}
        self.waiting: int = 0
        self.undrawn: int = 0
        self._started_ns = started_ns
        self._now: Moment = 0, 0, started_ns
        self._changed_statics: dict[tuple[str, type[Mark]], None] = {}

    def move_to(self, envelope: Envelope) -> None:
        """Draw at the time of that event from now on. What happened before the proof began is drawn at its start."""
        wall_ns = min(envelope.time_unix_nano, _LAST_NS)
        self._now = max(self._now[0], wall_ns - self._started_ns), envelope.seq, wall_ns

    def add_row(self, path: str, mark: Mark, look: Look, *, keep: int = 1) -> None:
        """Add a row now. A new entity looks as given, and keeps so many rows for those who come late."""
        track = self.tracks.get(path)
        if track is None:
            if len(self.tracks) >= MAX_ENTITIES:
                self.undrawn += 1
                return
            track = self.tracks[path] = Track(path, look, keep)
        self.waiting += 1
        rows = track.pending
        rows.marks.append(mark)
        rows.moments.append(self._now)

    def add_log_line(self, path: str, text: str, level: str) -> None:
        """Add a line to a log."""
        self.add_row(path, LogEntry(text, level), PLAIN, keep=KEPT_LINES)

    def set_static(self, path: str, mark: Mark) -> None:
        """Set what holds at any time; an entity has one mark of each kind."""
        key = path, type(mark)
        self.statics[key] = mark
        self._changed_statics[key] = None

    def take_rows(self) -> list[tuple[Track, Rows]]:
        """The rows that wait, by track; the last of them are kept from now on."""
        self.waiting = 0
        return [(track, track.take_rows()) for track in self.tracks.values() if track.pending]

    def take_statics(self) -> list[tuple[str, Mark]]:
        """What holds at any time and was set since this was last asked."""
        changed, self._changed_statics = self._changed_statics, {}
        return [(path, self.statics[path, kind]) for path, kind in changed]

    @property
    def static_paths(self) -> set[str]:
        """The entities that something holds for at any time."""
        return {path for path, _ in self.statics}
