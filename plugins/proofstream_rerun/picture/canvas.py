"""The contents of one recording by entity: rows that wait to be written, and rows kept for viewers that connect late.

Memory is bounded: rows wait only until the next write, each track keeps a fixed number of them, and there are at most
MAX_ENTITIES tracks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

from proofstream import Envelope
from proofstream_rerun.picture.marks import PLAIN, LogEntry, Look, Mark

MAX_ENTITIES = 512
"""The most tracks of one recording; marks for further entities are counted as undrawn."""

_LAST_NS = 2**63 - 1
"""The last time that Rerun can store, as its times are signed 64-bit integers."""

BEYOND = 0.1
"""How far the time goes on after a proof's end, as a share of its duration: enough for the final states' words."""
_LEAST_BEYOND_NS = 1000

KEPT_LINES = 256
"""How many lines of one log are kept for the snapshot."""


Moment: TypeAlias = tuple[int, int, int]
"""A moment on each of a recording's timelines: nanoseconds since the proof began, which never go back; the event's
sequence number in the host; nanoseconds since the epoch."""


class Rows:
    """Rows of one entity: marks, and the moment of each."""

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
        look: Its static components.
        keep: How many of the latest rows are kept for the snapshot; at least one.
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
        """Return the waiting rows, and keep the last of them for the snapshot."""
        taken, self.pending = self.pending, Rows()
        kept = self.kept
        kept.marks += taken.marks
        kept.moments += taken.moments
        del kept.marks[: -self._keep], kept.moments[: -self._keep]
        return taken


class Canvas:
    """The contents of one recording.

    Args:
        started_ns: When the proof began, in nanoseconds since the epoch.

    Attributes:
        tracks: Entities that change in time, by path.
        statics: Static marks, by path and kind of mark.
        waiting: How many rows wait to be written.
        undrawn: How many marks were dropped for lack of room.
    """

    def __init__(self, started_ns: int) -> None:
        self.tracks: dict[str, Track] = {}
        self.statics: dict[tuple[str, type[Mark]], Mark] = {}
        self.waiting: int = 0
        self.undrawn: int = 0
        self._started_ns = started_ns
        self._first_seq: int | None = None
        self._now: Moment = 0, 0, started_ns
        self._changed_statics: dict[tuple[str, type[Mark]], None] = {}

    def move_to(self, envelope: Envelope) -> None:
        """Draw at the time of this event from now on.

        Events from before the proof began are drawn at its start, and times never go back: a viewer shows the latest
        row by time, so a clock that was set back would hide what happened since.
        """
        if self._first_seq is None:
            self._first_seq = envelope.seq
        wall_ns = min(envelope.time_unix_nano, _LAST_NS)
        self._now = max(self._now[0], wall_ns - self._started_ns), envelope.seq, wall_ns

    def move_through(self, envelopes: Sequence[Envelope]) -> list[Moment]:
        """Draw at the time of the last of these events from now on, and return the moment of each."""
        if self._first_seq is None:
            self._first_seq = envelopes[0].seq
        started_ns = self._started_ns
        walls = [envelope.time_unix_nano for envelope in envelopes]
        if max(walls) > _LAST_NS:
            walls = [min(wall_ns, _LAST_NS) for wall_ns in walls]
        elapsed = accumulate([wall_ns - started_ns for wall_ns in walls], max, initial=self._now[0])
        next(elapsed)  # the time before these events
        moments = list(zip(elapsed, [envelope.seq for envelope in envelopes], walls, strict=True))
        self._now = moments[-1]
        return moments

    @property
    def last_seq(self) -> int:
        """The sequence number of the latest event that was drawn."""
        return self._now[1]

    @property
    def now(self) -> Moment:
        """The moment at which marks are drawn."""
        return self._now

    def beyond(self) -> Moment:
        """Return a moment after the current one, for marks of what is over: a state that lasts no time has no width."""
        elapsed_ns, seq, wall_ns = self._now
        more_ns = max(_LEAST_BEYOND_NS, int(elapsed_ns * BEYOND))
        events = seq - (self._first_seq or 0)
        return (
            min(elapsed_ns + more_ns, _LAST_NS),
            min(seq + max(1, int(events * BEYOND)), _LAST_NS),
            min(wall_ns + more_ns, _LAST_NS),
        )

    def add_row(self, path: str, mark: Mark, look: Look, *, keep: int = 1, moment: Moment | None = None) -> None:
        """Add a row at the current moment, or at another one.

        `look` and `keep` count only for the first row of an entity.
        """
        track = self.tracks.get(path) or self._new_track(path, look, keep)
        if track is None:
            self.undrawn += 1
            return
        self.waiting += 1
        rows = track.pending
        rows.marks.append(mark)
        rows.moments.append(self._now if moment is None else moment)

    def add_rows(self, path: str, marks: Sequence[Mark], moments: Sequence[Moment], look: Look, *, keep: int) -> None:
        """Add rows at given moments; see `add_row`."""
        track = self.tracks.get(path) or self._new_track(path, look, keep)
        if track is None:
            self.undrawn += len(marks)
            return
        self.waiting += len(marks)
        rows = track.pending
        rows.marks += marks
        rows.moments += moments

    def _new_track(self, path: str, look: Look, keep: int) -> Track | None:
        if len(self.tracks) >= MAX_ENTITIES:
            return None
        track = self.tracks[path] = Track(path, look, keep)
        return track

    def add_log_line(self, path: str, text: str, level: str) -> None:
        """Add a line to a log."""
        self.add_row(path, LogEntry(text, level), PLAIN, keep=KEPT_LINES)

    def set_static(self, path: str, mark: Mark) -> None:
        """Set a static mark; it replaces the entity's static mark of the same kind."""
        key = path, type(mark)
        self.statics[key] = mark
        self._changed_statics[key] = None

    def take_rows(self) -> list[tuple[Track, Rows]]:
        """Return the waiting rows by track; each track keeps its last ones for the snapshot."""
        self.waiting = 0
        return [(track, track.take_rows()) for track in self.tracks.values() if track.pending]

    def take_statics(self) -> list[tuple[str, Mark]]:
        """Return the static marks that were set since the last call."""
        changed, self._changed_statics = self._changed_statics, {}
        return [(path, self.statics[path, kind]) for path, kind in changed]

    @property
    def static_paths(self) -> set[str]:
        """The paths of the entities that have static marks."""
        return {path for path, _ in self.statics}
