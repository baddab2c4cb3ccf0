"""Recordings that are being drawn: each has a scene, and is handed to the outlets a few times a second."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from proofstream import Proof
from proofstream_rerun.scene.scene import Scene
from proofstream_rerun.sdk.blueprint import blueprint
from proofstream_rerun.sdk.canvas_writes import PropertyWrite, new_writes, snapshot_writes
from proofstream_rerun.sdk.recordings import Recording, Write

MAX_LINGERING = 8
"""Recordings that may still get late events, though what they show has ended, at most."""
LINGER_S = 5.0
"""So long a recording may get late events, after the next proof of its job has begun."""

Job = tuple[str, str | None]
"""A session, and the producer's name of a job in it."""


class RecordingOutlets(Protocol):
    """Where recordings go to; `Outlets` is."""

    def begin_recording(self, recording: Recording) -> None:
        """Begin a recording: its name, properties and blueprint are sent, then its snapshot."""

    def send_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Send calls of Rerun."""

    def send_blueprint(self, recording_id: str) -> None:
        """Send the blueprint anew."""

    def end_recording(self, recording_id: str) -> None:
        """End a recording."""


class OpenRecording:
    """A scene on its way to the outlets.

    Attributes:
        scene: What is drawn.
        superseded_at: When the next proof of its job began, by the clock in seconds; None before.
    """

    def __init__(self, scene: Scene, recording: Recording, outlets: RecordingOutlets) -> None:
        self.scene = scene
        self._recording = recording
        self._outlets = outlets
        self.superseded_at: float | None = None
        self._has_begun = False
        self._shown_topics: frozenset[str] = frozenset()

    def write_new(self) -> int:
        """Hand on what was drawn; returns how many calls of Rerun that takes, for each place it goes to."""
        scene, recording_id = self.scene, self._recording.recording_id
        scene.catch_up()
        if not self._has_begun:
            self._has_begun = True
            self._shown_topics = scene.topics
            scene.grid.has_grown = False
            scene.canvas.take_statics()  # they are in the snapshot that the recording begins with
            self._outlets.begin_recording(self._recording)
        writes = new_writes(scene.canvas)
        if writes:
            self._outlets.send_writes(recording_id, writes)
        if scene.grid.has_grown or scene.topics != self._shown_topics:
            scene.grid.has_grown = False
            self._shown_topics = scene.topics
            self._outlets.send_blueprint(recording_id)
        return len(writes)

    def write_property(self, name: str) -> None:
        """Hand on facts about the whole recording that became known while it was drawn."""
        if self._has_begun:
            write = PropertyWrite(name, self.scene.properties[name])
            self._outlets.send_writes(self._recording.recording_id, [write])

    def end_recording(self) -> int:
        """Write what is left, and let nothing follow; returns as `write` does."""
        self.scene.finish()
        written = self.write_new()
        self._outlets.end_recording(self._recording.recording_id)
        return written


class OpenRecordings:
    """All recordings that are being drawn.

    Args:
        outlets: Where they go to.
        application_id: What the viewer lists them under.
        clock: A monotonic clock in seconds.

    Attributes:
        open: Of each open proof.
        last: The latest one of each job.
        written: How many calls of Rerun were handed on.
        undrawn: How many marks found no room, in recordings that have ended.
    """

    def __init__(self, outlets: RecordingOutlets, *, application_id: str, clock: Callable[[], float]) -> None:
        self.running: dict[Proof, OpenRecording] = {}
        self.latest: dict[Job, OpenRecording] = {}
        self.written: int = 0
        self.undrawn: int = 0
        self._outlets = outlets
        self._application_id = application_id
        self._clock = clock
        self._lingering: deque[OpenRecording] = deque()

    def __iter__(self) -> Iterator[OpenRecording]:
        """All of them."""
        yield from self.running.values()
        yield from self._lingering

    def begin_recording(
        self, job: Job, scene: Scene, *, recording_id: str, name: str, started_ns: int
    ) -> OpenRecording:
        """Begin the recording of a proof, or of what belongs to none."""
        before = self.latest.get(job)
        if before is not None:
            before.superseded_at = self._clock()
        recording = Recording(
            application_id=self._application_id,
            recording_id=recording_id,
            name=name,
            started_ns=started_ns,
            blueprint=lambda: blueprint(scene.grid.walk.grid, frozenset(scene.canvas.tracks)),
            snapshot=lambda: snapshot_writes(scene.canvas),
            properties=scene.properties,
        )
        opened = self.latest[job] = OpenRecording(scene, recording, self._outlets)
        if scene.proof is None:
            self._linger(opened)
        else:
            self.running[scene.proof] = opened
        return opened

    def end_proof(self, proof: Proof) -> None:
        """A proof has ended; late events still find its recording."""
        self._linger(self.running.pop(proof))

    def find_proof(self, session_id: str, proof_ordinal: int) -> OpenRecording | None:
        """The recording of a session's proof, by its number."""
        for opened in self:
            proof = opened.scene.proof
            if proof is not None and proof.session_id == session_id and proof.proof_ordinal == proof_ordinal:
                return opened
        return None

    def write_all(self) -> None:
        """Hand on all that was drawn, and end what nothing is expected of any more."""
        for opened in self:
            self.written += opened.write_new()
        now = self._clock()
        for opened in list(self._lingering):
            if opened.superseded_at is not None and now - opened.superseded_at > LINGER_S:
                self._let_go(opened)

    def end_all(self) -> None:
        """End all recordings."""
        for opened in self:
            self.written += opened.end_recording()

    def _linger(self, opened: OpenRecording) -> None:
        self._lingering.append(opened)
        if len(self._lingering) > MAX_LINGERING:
            self._let_go(self._lingering[0])

    def _let_go(self, opened: OpenRecording) -> None:
        self._lingering.remove(opened)
        self.written += opened.end_recording()
        self.undrawn += opened.scene.undrawn
        for job in [job for job, last in self.latest.items() if last is opened]:
            del self.latest[job]


def recording_id_of(*parts: str) -> str:
    """An id that a replay of the same session gives again, as 32 hex digits."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(encoded), encoded))
    return digest.hexdigest()[:32]
