"""What one recording shows, entity by entity: rows that wait to be written, and what is kept to tell it again.

Memory is bounded: rows wait until the next write, each track keeps a fixed number of them, and there are at most
MAX_ENTITIES tracks.
"""

from __future__ import annotations

from collections import deque

import msgspec

from proofstream import Envelope
from proofstream_rerun.marks import Look, Mark

MAX_ENTITIES = 512
"""Tracks of one recording at most; what would need more is counted."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """When something happened.

    Attributes:
        seq: Place in the host's order of events.
        prover_ns: Nanoseconds since the proof began; it never goes back.
        wall_ns: Nanoseconds since the epoch.
    """

    seq: int
    prover_ns: int
    wall_ns: int


Row = tuple[Moment, Mark]


class Track:
    """The rows of one entity.

    Args:
        path: The entity's path.
        look: How it looks at any time.
        keep: Rows kept for the snapshot.
    """

    __slots__ = ("_kept", "is_new", "look", "path", "pending")

    def __init__(self, path: str, look: Look, keep: int) -> None:
        self.path = path
        self.look = look
        self.pending: list[Row] = []
        self.is_new = True
        self._kept: deque[Row] = deque(maxlen=keep)

    def take(self) -> list[Row]:
        """The rows that wait; they are kept from now on."""
        taken, self.pending = self.pending, []
        self._kept.extend(taken)
        self.is_new = False
        return taken

    @property
    def kept(self) -> list[Row]:
        """The latest rows that were taken."""
        return list(self._kept)


class Canvas:
    """All that one recording shows.

    Args:
        started_ns: When the proof began, in nanoseconds since the epoch.

    Attributes:
        tracks: What changes in time, by path.
        statics: What holds at any time, by path and kind of mark.
        now: The moment of the event that is being drawn.
        undrawn: How many marks found no room.
    """

    def __init__(self, started_ns: int) -> None:
        self.tracks: dict[str, Track] = {}
        self.statics: dict[tuple[str, type[Mark]], Mark] = {}
        self.now: Moment = Moment(0, 0, started_ns)
        self.undrawn: int = 0
        self._started_ns = started_ns
        self._changed_statics: dict[tuple[str, type[Mark]], None] = {}

    def move_to(self, envelope: Envelope) -> None:
        """Draw at the time of that event from now on. What happened before the proof began is drawn at its start."""
        wall_ns = envelope.time_unix_nano
        prover_ns = wall_ns - self._started_ns
        before_ns = self.now.prover_ns
        self.now = Moment(envelope.seq, max(before_ns, prover_ns), wall_ns)

    def add(self, path: str, mark: Mark, look: Look, *, keep: int = 1) -> None:
        """Add a row now. A new entity looks as given, and keeps so many rows for those who come late."""
        track = self.tracks.get(path)
        if track is None:
            if len(self.tracks) >= MAX_ENTITIES:
                self.undrawn += 1
                return
            track = self.tracks[path] = Track(path, look, keep)
        track.pending.append((self.now, mark))

    def put(self, path: str, mark: Mark) -> None:
        """Set what holds at any time; an entity has one mark of each kind."""
        key = path, type(mark)
        self.statics[key] = mark
        self._changed_statics[key] = None

    def take_statics(self) -> list[tuple[str, Mark]]:
        """What holds at any time and was set since this was last asked."""
        changed, self._changed_statics = self._changed_statics, {}
        return [(key[0], self.statics[key]) for key in changed]

    @property
    def waiting(self) -> int:
        """Rows that wait to be written."""
        return sum(len(track.pending) for track in self.tracks.values())
