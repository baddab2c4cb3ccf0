"""Recordings in progress: each has a scene, whose changes go to the outlets a few times a second."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from proofstream import Proof
from proofstream_rerun.scene.scene import Scene
from proofstream_rerun.sdk.blueprint import blueprint, shape_of
from proofstream_rerun.sdk.canvas_writes import PropertyWrite, new_writes, snapshot_writes
from proofstream_rerun.sdk.recordings import Recording, Write

MAX_RUNNING = 64
"""The most recordings of proofs that have not ended. Each takes threads of Rerun's, and memory."""
MAX_LINGERING = 8
"""The most recordings that stay open for late events after their proof has ended."""
LINGER_S = 5.0
"""Seconds that a recording stays open for late events after the next proof of its job has begun."""

Job = tuple[str, str | None]
"""A session's id, and the producer's name for one of its jobs; None if the producer names no jobs."""


class RecordingOutlets(Protocol):
    """Where recordings go; implemented by `Outlets`."""

    def begin_recording(self, recording: Recording) -> None:
        """Begin a recording: send its name, properties and blueprint, then its snapshot."""

    def send_writes(self, recording_id: str, writes: Sequence[Write]) -> None:
        """Send calls to Rerun's SDK."""

    def send_blueprint(self, recording_id: str) -> None:
        """Send the blueprint again."""

    def end_recording(self, recording_id: str) -> None:
        """End a recording."""


class OpenRecording:
    """A scene on its way to the outlets.

    Attributes:
        scene: What is drawn.
        superseded_at: When the next proof of its job began, in seconds of the monotonic clock; None until then.
    """

    def __init__(self, scene: Scene, recording: Recording, outlets: RecordingOutlets) -> None:
        self.scene = scene
        self._recording = recording
        self._outlets = outlets
        self.superseded_at: float | None = None
        self._has_begun = False
        self._shown_topics: frozenset[str] = frozenset()

    def write_new(self) -> int:
        """Send what was drawn since the last write. Returns the number of calls to Rerun, per outlet."""
        scene, recording_id = self.scene, self._recording.recording_id
        scene.catch_up()
        if not self._has_begun:
            self._has_begun = True
            # The viewer keeps one layout for each application, and would show another shape with this one's camera.
            shape = shape_of(scene.grid.layers, scene.topics)
            self._recording = replace(self._recording, application_id=f"{self._recording.application_id}: {shape}")
            self._shown_topics = scene.topics
            scene.grid.has_grown = False
            scene.canvas.take_statics()  # the snapshot that the recording begins with holds them already
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
        """Send facts about the whole recording that became known after it began."""
        if self._has_begun:
            write = PropertyWrite(name, self.scene.properties[name])
            self._outlets.send_writes(self._recording.recording_id, [write])

    def end_recording(self) -> int:
        """Write the rest and end the recording. Returns the number of calls to Rerun, as `write_new` does."""
        self.scene.finish()
        written = self.write_new()
        self._outlets.end_recording(self._recording.recording_id)
        self.scene.give_room_back()
        return written


class OpenRecordings:
    """All recordings in progress. Iterating yields those of open proofs, then the lingering ones.

    A recording outlives its proof, because some events come late: derived costs, and logs between two proofs.

    Args:
        outlets: Where the recordings go.
        application_id: The name under which the viewer lists them.
        clock: A monotonic clock in seconds.

    Attributes:
        running: The recordings of open proofs.
        latest: The latest recording of each job.
        written: How many calls to Rerun were sent, per outlet.
        undrawn: How many marks were dropped for lack of room, in recordings that have ended.
        closed_early: How many recordings were ended before their proofs, because too many were open.
    """

    def __init__(self, outlets: RecordingOutlets, *, application_id: str, clock: Callable[[], float]) -> None:
        self.running: dict[Proof, OpenRecording] = {}
        self.latest: dict[Job, OpenRecording] = {}
        self.written: int = 0
        self.undrawn: int = 0
        self._outlets = outlets
        self._application_id = application_id
        self._clock = clock
        self.closed_early: int = 0
        self._lingering: deque[OpenRecording] = deque()

    def __iter__(self) -> Iterator[OpenRecording]:
        """Iterate over the recordings of open proofs, then over the lingering ones."""
        yield from self.running.values()
        yield from self._lingering

    def begin_recording(
        self, job: Job, scene: Scene, *, recording_id: str, name: str, started_ns: int
    ) -> OpenRecording:
        """Begin the recording of a proof, or of events outside any proof if the scene has none."""
        before = self.latest.get(job)
        if before is not None:
            before.superseded_at = self._clock()
        recording = Recording(
            application_id=self._application_id,
            recording_id=recording_id,
            name=name,
            started_ns=started_ns,
            blueprint=lambda: blueprint(
                scene.grid.walk.grid, frozenset(scene.canvas.tracks), scene.grid.circuit.extent
            ),
            snapshot=lambda: snapshot_writes(scene.canvas),
            properties=scene.properties,
        )
        opened = self.latest[job] = OpenRecording(scene, recording, self._outlets)
        if scene.proof is None:
            self._linger(opened)
        else:
            if len(self.running) >= MAX_RUNNING:
                self._close_quietest()
            self.running[scene.proof] = opened
        return opened

    def _close_quietest(self) -> None:
        """End the recording whose latest event is the oldest: most likely its prover has died."""
        self.closed_early += 1
        proof = min(self.running, key=lambda proof: self.running[proof].scene.canvas.last_seq)
        self._let_go(self.running.pop(proof))

    def end_proof(self, proof: Proof) -> None:
        """Let the recording of a proof that has ended linger, so that late events still find it."""
        self._linger(self.running.pop(proof))

    def of_proof(self, proof: Proof) -> OpenRecording | None:
        """Return a proof's recording, if it is open or still waits for late events after its end; else None."""
        return self.running.get(proof) or next((one for one in self._lingering if one.scene.proof is proof), None)

    def find_proof(self, session_id: str, proof_ordinal: int) -> OpenRecording | None:
        """Return the recording of a session's proof by the proof's number; None if it is no longer open."""
        for opened in self:
            proof = opened.scene.proof
            if proof is not None and proof.session_id == session_id and proof.proof_ordinal == proof_ordinal:
                return opened
        return None

    def write_all(self) -> None:
        """Write all recordings, and end those whose time for late events is over."""
        for opened in self:
            self.written += opened.write_new()
        now = self._clock()
        for opened in list(self._lingering):
            if opened.superseded_at is not None and now - opened.superseded_at > LINGER_S:
                self._lingering.remove(opened)
                self._let_go(opened)

    def end_superseded(self) -> bool:
        """End the oldest recording whose job has gone on to its next proof; return whether there was one."""
        for opened in self._lingering:
            if opened.superseded_at is not None:
                self._lingering.remove(opened)
                self._let_go(opened)
                return True
        return False

    def end_all(self) -> None:
        """End all recordings."""
        for opened in self:
            self.written += opened.end_recording()

    def _linger(self, opened: OpenRecording) -> None:
        self._lingering.append(opened)
        if len(self._lingering) > MAX_LINGERING:
            self._let_go(self._lingering.popleft())

    def _let_go(self, opened: OpenRecording) -> None:
        self.written += opened.end_recording()
        self.undrawn += opened.scene.undrawn
        for job in [job for job, last in self.latest.items() if last is opened]:
            del self.latest[job]


def recording_id_of(*parts: str) -> str:
    """Return an id of 32 hex digits that depends on the parts alone, so that a replay yields the same ids."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")  # session ids come from producers and may hold surrogates
        digest.update(b"%d:%b" % (len(encoded), encoded))  # lengths keep ("a", "bc") and ("ab", "c") apart
    return digest.hexdigest()[:32]
