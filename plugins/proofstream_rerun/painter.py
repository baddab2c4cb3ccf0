"""From envelopes to recordings: one scene for each proof, written a few times a second."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import rerun as rr

from proofstream import (
    Batch,
    Change,
    Closed,
    Envelope,
    GpuTelemetry,
    Noted,
    Opened,
    PluginHealth,
    Proof,
    ProofEvent,
    ProofStart,
    SessionClosed,
    SessionOpened,
    StateProgramCost,
    Timelines,
    TraceStarted,
    __version__,
)
from proofstream_rerun import texts
from proofstream_rerun.blueprint import blueprint
from proofstream_rerun.outlets import Outlets
from proofstream_rerun.recordings import PropertyValue, Recording
from proofstream_rerun.scene import Scene
from proofstream_rerun.writes import PropertyWrite, new_writes, snapshot_writes

WRITE_EVERY_S = 0.25
"""Seconds between two writes at least, unless a proof ends or many rows wait."""
MAX_WAITING_ROWS = 8192
"""So many rows of a scene are written before it is time."""
MAX_LINGERING = 8
"""Proofs that have ended and may still get late events at most."""
MAX_HELD = 4096
"""Events that wait for the proof they belong to, of one job, at most."""
MAX_JOBS = 1024
"""Jobs of which the last proof is remembered, or for which events wait, at most."""

_TROUBLED = frozenset({"stalled", "broken", "failed"})

Job = tuple[str, str | None]


class PaintSettings(Protocol):
    """What the painter needs of the settings."""

    @property
    def application_id(self) -> str:
        """What the viewer lists the recordings under."""
        ...


class Easel:
    """A scene, and what the outlets know of it."""

    def __init__(self, scene: Scene, recording: Recording) -> None:
        self.scene = scene
        self.recording = recording
        self.has_begun = False
        self.shown_paths: frozenset[str] = frozenset()
        self.shown_layers = -1


class Painter:
    """Draws what happens.

    Args:
        outlets: Where recordings go to.
        settings: What a person configured.
        log: Where to say what is odd.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        *,
        outlets: Outlets,
        settings: PaintSettings,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outlets = outlets
        self._settings = settings
        self._log = log
        self._clock = clock
        self._timelines = Timelines()
        self._open: dict[Proof, Easel] = {}
        self._last: dict[Job, Easel] = {}
        self._lingering: deque[Easel] = deque()
        self._held: dict[Job, list[Envelope]] = {}
        self._alone: dict[str, int] = {}
        self._health: dict[str, tuple[str, int]] = {}
        self._written_at = clock()
        self._is_due = False
        self._unplaced = 0
        self._undrawn = 0
        self._proofs = 0
        self._rows = 0

    # What the plugin calls

    def consume(self, batch: Batch) -> None:
        """Take the next envelopes into account, and write if it is time to."""
        for envelope in batch:
            self._take(envelope)
        self._write_if_due()

    def tick(self) -> None:
        """Write what waits, if it is time to."""
        self._write_if_due()

    def close(self) -> None:
        """Write everything and end all recordings."""
        for job in list(self._held):
            self._draw_alone(job)
        self._write()
        for easel in self._easels():
            self._end(easel)

    def counters(self) -> Mapping[str, int]:
        """What was drawn, and what was not."""
        undrawn = self._undrawn + sum(easel.scene.undrawn for easel in self._easels())
        return {
            "drawn_proofs": self._proofs,
            "drawn_rows": self._rows,
            "undrawn_marks": undrawn,
            "unplaced_events": self._unplaced,
        }

    # Envelopes

    def _take(self, envelope: Envelope) -> None:
        aside = self._aside.get(type(envelope.event))
        if aside is not None and aside(self, envelope, envelope.event):
            return
        for change in self._timelines.feed(envelope):
            self._apply(change)

    def _apply(self, change: Change) -> None:
        envelope, interval = change.envelope, change.interval
        proof = interval if interval is None or isinstance(interval, Proof) else interval.proof
        if proof is None:
            self._take_alone(change)
        elif isinstance(change, Noted):
            self._open[proof].scene.noted(envelope)
        elif isinstance(change, Opened):
            if interval is proof:
                self._begin_proof(proof, envelope)
            else:
                self._open[proof].scene.opened(change.interval, envelope)
        elif interval is proof:
            self._end_proof(self._open[proof], proof, envelope)
        else:
            self._open[proof].scene.closed(change.interval, envelope)

    def _take_alone(self, change: Change) -> None:
        """Take what belongs to no proof that is open."""
        envelope = change.envelope
        if isinstance(envelope.event, SessionOpened):
            return
        if isinstance(envelope.event, SessionClosed) and not isinstance(change, Closed):
            self._close_session(envelope.session_id)
            return
        job = envelope.session_id, envelope.job_id
        easel = self._last.get(job)
        if isinstance(change, Opened) or (isinstance(change, Closed) and easel is None):
            easel = easel or self._draw_alone(job) or self._begin_alone(job, envelope)
            if isinstance(change, Opened):
                easel.scene.opened(change.interval, envelope)
                return
        if easel is None:
            self._hold(job, envelope)
        elif isinstance(change, Closed):
            easel.scene.closed(change.interval, envelope)
        else:
            easel.scene.noted(envelope)

    def _hold(self, job: Job, envelope: Envelope) -> None:
        held = self._held.get(job)
        if held is None:
            if len(self._held) >= MAX_JOBS:
                self._unplaced += 1
                return
            held = self._held[job] = []
        if len(held) < MAX_HELD:
            held.append(envelope)
        else:
            self._unplaced += 1

    # What is about a proof by its number, or about all of them; whether it was that

    def _take_telemetry(self, envelope: Envelope, event: GpuTelemetry) -> bool:
        for easel in self._open.values():
            easel.scene.measured(envelope, event)
        return True

    def _take_health(self, envelope: Envelope, event: PluginHealth) -> bool:
        dropped = sum(event.dropped.values())
        before = self._health.get(event.plugin, ("ready", 0))
        if len(self._health) < MAX_JOBS:
            self._health[event.plugin] = event.status, dropped
        if (event.status in _TROUBLED and event.status != before[0]) or dropped > before[1]:
            for easel in self._open.values():
                easel.scene.troubled(envelope, event)
        return True

    def _take_trace(self, envelope: Envelope, event: TraceStarted) -> bool:
        easel = self._by_ordinal(envelope.session_id, event.proof)
        if easel is not None:
            easel.scene.traced(event)
            if easel.has_begun:
                self._outlets.write(
                    easel.recording.recording_id, [PropertyWrite("trace", easel.scene.properties["trace"])]
                )
        return True

    def _take_cost(self, envelope: Envelope, event: StateProgramCost) -> bool:
        easel = self._by_ordinal(envelope.session_id, event.proof)
        if easel is not None:
            easel.scene.noted(envelope)
        return easel is not None

    _aside: ClassVar[Mapping[type[ProofEvent], Callable[[Painter, Envelope, Any], bool]]] = {
        GpuTelemetry: _take_telemetry,
        PluginHealth: _take_health,
        TraceStarted: _take_trace,
        StateProgramCost: _take_cost,
    }

    # Proofs

    def _begin_proof(self, proof: Proof, envelope: Envelope) -> None:
        job = proof.session_id, proof.job_id
        self._let_go(self._last.pop(job, None))
        facts = self._facts(proof.session_id, proof.job_id)
        facts["proof"] = proof.proof_ordinal
        event = envelope.event
        if isinstance(event, ProofStart):
            facts["model"] = texts.safe_text(event.model_name or "not named", 200)
            facts["backend"] = texts.safe_text(event.backend, 200)
            facts["layers"] = event.num_layers
        name = _name(proof, facts)
        easel = self._new_easel(
            Scene(proof=proof, started_ns=proof.start_unix_nano, facts=facts),
            recording_id=_digest(proof.session_id, "proof", str(proof.proof_ordinal)),
            name=name,
            started_ns=proof.start_unix_nano,
        )
        self._open[proof] = self._last[job] = easel
        easel.scene.begin(envelope)
        for held in self._held.pop(job, ()):
            easel.scene.noted(held)
        self._proofs += 1

    def _end_proof(self, easel: Easel, proof: Proof, envelope: Envelope) -> None:
        easel.scene.end(proof, envelope)
        del self._open[proof]
        self._linger(easel)
        self._is_due = True

    def _begin_alone(self, job: Job, envelope: Envelope) -> Easel:
        session_id, job_id = job
        number = self._alone[session_id] = self._alone.get(session_id, 0) + 1
        if len(self._alone) > MAX_JOBS:
            del self._alone[next(iter(self._alone))]
        started = envelope.time_unix_nano
        easel = self._last[job] = self._new_easel(
            Scene(proof=None, started_ns=started, facts=self._facts(session_id, job_id)),
            recording_id=_digest(session_id, "alone", str(number)),
            name="outside of any proof",
            started_ns=started,
        )
        self._linger(easel)
        return easel

    def _draw_alone(self, job: Job) -> Easel | None:
        """Draw events that waited for a proof which never came."""
        held = self._held.pop(job, None)
        if not held:
            return None
        easel = self._last.get((job[0], None)) or self._begin_alone(job, held[0])
        for envelope in held:
            easel.scene.noted(envelope)
        return easel

    def _close_session(self, session_id: str) -> None:
        for job in [job for job in self._held if job[0] == session_id]:
            self._draw_alone(job)
        self._is_due = True

    # Easels

    def _easels(self) -> list[Easel]:
        return [*self._open.values(), *self._lingering]

    def _by_ordinal(self, session_id: str, ordinal: int) -> Easel | None:
        for easel in self._easels():
            proof = easel.scene.proof
            if proof is not None and proof.session_id == session_id and proof.proof_ordinal == ordinal:
                return easel
        return None

    def _new_easel(self, scene: Scene, *, recording_id: str, name: str, started_ns: int) -> Easel:
        recording = Recording(
            application_id=self._settings.application_id,
            recording_id=recording_id,
            name=name,
            started_ns=started_ns,
            blueprint=lambda: blueprint(scene.walk.grid, frozenset(scene.canvas.tracks)),
            snapshot=lambda: snapshot_writes(scene.canvas),
            properties=scene.properties,
        )
        return Easel(scene, recording)

    def _linger(self, easel: Easel) -> None:
        self._lingering.append(easel)
        if len(self._lingering) > MAX_LINGERING:
            self._let_go(self._lingering[0])

    def _let_go(self, easel: Easel | None) -> None:
        """End a recording for good; what still comes for it finds it no more."""
        if easel is None or easel not in self._lingering:
            return
        self._write_easel(easel)
        self._end(easel)
        self._lingering.remove(easel)
        for job in [job for job, last in self._last.items() if last is easel]:
            del self._last[job]

    def _end(self, easel: Easel) -> None:
        self._undrawn += easel.scene.undrawn
        self._outlets.end(easel.recording.recording_id)

    # Writing

    def _write_if_due(self) -> None:
        now = self._clock()
        crowded = any(easel.scene.canvas.waiting > MAX_WAITING_ROWS for easel in self._easels())
        if self._is_due or crowded or now - self._written_at >= WRITE_EVERY_S:
            self._written_at = now
            self._is_due = False
            self._write()

    def _write(self) -> None:
        for easel in self._easels():
            self._write_easel(easel)

    def _write_easel(self, easel: Easel) -> None:
        scene = easel.scene
        scene.catch_up()
        recording_id = easel.recording.recording_id
        if not easel.has_begun:
            easel.has_begun = True
            easel.shown_paths = frozenset(scene.canvas.tracks)
            easel.shown_layers = scene.layers
            scene.grew = False
            self._outlets.begin(easel.recording)
            scene.canvas.take_statics()
        writes = new_writes(scene.canvas)
        if writes:
            self._rows += len(writes)
            self._outlets.write(recording_id, writes)
        if scene.grew:
            scene.grew = False
            self._outlets.show(recording_id)

    def _facts(self, session_id: str, job_id: str | None) -> dict[str, PropertyValue]:
        session = self._timelines.session(session_id)
        facts: dict[str, PropertyValue] = {
            "session": texts.safe_text(session_id, 200),
            "time_source": texts.safe_text(session.time_source, 40),
            "proofstream_version": __version__,
            "rerun_version": rr.__version__,
        }
        if session.opened is not None and isinstance(session.opened.event, SessionOpened):
            facts["source"] = texts.safe_text(session.opened.event.source, 200)
        if job_id is not None:
            facts["job"] = texts.safe_text(job_id, 200)
        return facts


def _name(proof: Proof, facts: Mapping[str, PropertyValue]) -> str:
    event = None if proof.opened is None else proof.opened.event
    if not isinstance(event, ProofStart):
        return f"proof {proof.proof_ordinal}, joined after its start"
    model = f"{facts['model']} on " if event.model_name else ""
    return f"{model}{facts['backend']}, proof {proof.proof_ordinal}"


def _digest(*parts: str) -> str:
    """An id that a replay of the same session gives again, as 32 hex digits."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(encoded), encoded))
    return digest.hexdigest()[:32]
