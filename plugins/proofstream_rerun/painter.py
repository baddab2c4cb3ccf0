"""From envelopes to recordings: every event goes to the recording of the proof that it belongs to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from proofstream import (
    Batch,
    Change,
    Closed,
    Envelope,
    GpuTelemetry,
    Interval,
    Noted,
    Opened,
    PluginHealth,
    Proof,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    SessionClosed,
    SessionOpened,
    StateProgramCost,
    Timelines,
    TraceStarted,
    __version__,
    safe_text,
)
from proofstream_rerun.open_recordings import Job, OpenRecording, OpenRecordings, RecordingOutlets, recording_id_of
from proofstream_rerun.picture import texts
from proofstream_rerun.picture.marks import PropertyValue
from proofstream_rerun.scene.scene import NOTED, Scene
from proofstream_rerun.sdk.recording_streams import RERUN_VERSION

WRITE_EVERY_S = 0.25
"""Seconds between two writes at least, unless a proof ends or many rows wait."""
WRITE_SHARE = 0.01
"""Writing may take this share of the time; where it would take more, there are fewer writes with more rows in each."""
LONGEST_WAIT_S = 1.0
"""Seconds between two writes at most, if there is something to write."""
MAX_WAITING_EVENTS = 2048
"""So many events are drawn before it is time to write."""
MAX_WAITING_ROWS = 8192
"""So many rows of a recording are written before it is time."""
MAX_HELD = 4096
"""Events that wait for the proof they belong to, of one job, at most."""
MAX_JOBS = 1024
"""Jobs for which events wait at most; and sessions and plugins that something is remembered of."""

_TROUBLED = frozenset({"stalled", "broken", "failed"})
_PROMPT = frozenset({ProofComplete, ProofAborted, SessionClosed})
"""What is shown at once."""


class PaintSettings(Protocol):
    """What the painter needs of the settings."""

    @property
    def application_id(self) -> str:
        """What the viewer lists the recordings under."""
        ...


class Painter:
    """Draws what happens.

    Events wait until it is time to write and are drawn in one go: an event that comes alone after a pause finds cold
    caches, and takes twice as long.

    Args:
        outlets: Where recordings go to.
        settings: What a person configured.
        log: Where to say what is odd.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self,
        *,
        outlets: RecordingOutlets,
        settings: PaintSettings,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._clock = clock
        self._timelines = Timelines()
        self._recordings = OpenRecordings(outlets, application_id=settings.application_id, clock=clock)
        self._waiting: list[Envelope] = []
        self._held: dict[Job, list[Envelope]] = {}
        self._alone: dict[str, int] = {}
        self._health: dict[str, tuple[str, int]] = {}
        self._next_write_at = clock() + WRITE_EVERY_S
        self._is_due = False
        self._unplaced = 0
        self._proofs = 0
        self._aside: Mapping[type[ProofEvent], Callable[[Envelope, Any], bool]] = {
            GpuTelemetry: self._take_telemetry,
            PluginHealth: self._take_health,
            TraceStarted: self._take_trace,
            StateProgramCost: self._take_cost,
        }

    # What the plugin calls

    def consume(self, batch: Batch) -> None:
        """Take the next envelopes, and draw and write if it is time to."""
        self._waiting += batch
        self._is_due = self._is_due or any(type(envelope.event) in _PROMPT for envelope in batch)
        self._work()

    def tick(self) -> None:
        """Draw and write what waits, if it is time to."""
        self._work()

    def close(self) -> None:
        """Draw and write everything and end all recordings."""
        self._draw_waiting()
        for job in list(self._held):
            self._draw_held(job)
        self._recordings.end_all()
        missing = {name: count for name, count in self.counters().items() if name.startswith("un") and count}
        if missing:
            told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in missing.items())
            self._log.warning("rerun: not everything found room in the recordings: %s", told)

    def counters(self) -> Mapping[str, int]:
        """What was drawn, and what was not."""
        return {
            "drawn_proofs": self._proofs,
            "written_calls": self._recordings.written,
            "undrawn_marks": self._recordings.undrawn + sum(recording.scene.undrawn for recording in self._recordings),
            "unplaced_events": self._unplaced,
        }

    def _work(self) -> None:
        now = self._clock()
        is_time = self._is_due or now >= self._next_write_at
        if is_time or len(self._waiting) >= MAX_WAITING_EVENTS:
            self._draw_waiting()
        if is_time or self._is_due or self._is_crowded():
            self._is_due = False
            self._recordings.write_all()
            took_s = self._clock() - now
            self._next_write_at = now + min(LONGEST_WAIT_S, max(WRITE_EVERY_S, took_s / WRITE_SHARE))

    def _draw_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for envelope in waiting:
            self._take(envelope)

    def _is_crowded(self) -> bool:
        return any(recording.scene.canvas.waiting > MAX_WAITING_ROWS for recording in self._recordings)

    # Envelopes

    def _take(self, envelope: Envelope) -> None:
        aside = self._aside.get(type(envelope.event))
        if aside is not None and aside(envelope, envelope.event):
            return
        for change in self._timelines.feed(envelope):
            interval = change.interval
            proof = interval if interval is None or isinstance(interval, Proof) else interval.proof
            if proof is None:
                self._take_alone(change)
            elif isinstance(change, Noted):
                self._recordings.running[proof].scene.draw_event(change.envelope)
            else:
                self._take_interval(change, change.interval, proof)

    def _take_interval(self, change: Opened | Closed, interval: Interval, proof: Proof) -> None:
        """Take a proof, or a part of one, that began or ended."""
        envelope = change.envelope
        if isinstance(change, Opened):
            if interval is proof:
                self._begin_proof(proof, envelope)
            else:
                self._recordings.running[proof].scene.open_interval(interval, envelope)
            return
        scene = self._recordings.running[proof].scene
        if interval is not proof:
            scene.close_interval(interval, envelope)
            return
        scene.end_proof(proof, envelope)
        self._recordings.end_proof(proof)
        self._is_due = True

    # What is about a proof by its number, or about all of them; they return whether they took it

    def _take_telemetry(self, envelope: Envelope, event: GpuTelemetry) -> bool:
        for recording in self._recordings.running.values():
            recording.scene.draw_telemetry(envelope, event)
        return True

    def _take_health(self, envelope: Envelope, event: PluginHealth) -> bool:
        dropped = sum(event.dropped.values())
        status_before, dropped_before = self._health.get(event.plugin, ("ready", 0))
        if event.plugin in self._health or len(self._health) < MAX_JOBS:
            self._health[event.plugin] = event.status, dropped
        if (event.status in _TROUBLED and event.status != status_before) or dropped > dropped_before:
            for recording in self._recordings.running.values():
                recording.scene.draw_plugin_trouble(envelope, event)
        return True

    def _take_trace(self, envelope: Envelope, event: TraceStarted) -> bool:
        recording = self._recordings.find_proof(envelope.session_id, event.proof)
        if recording is not None:
            recording.scene.set_trace(event)
            recording.write_property("trace")
        return True

    def _take_cost(self, envelope: Envelope, event: StateProgramCost) -> bool:
        recording = self._recordings.find_proof(envelope.session_id, event.proof)
        if recording is not None:
            recording.scene.draw_event(envelope)
        elif self._recording_for((envelope.session_id, envelope.job_id)) is None:
            return False
        else:
            self._unplaced += 1  # it is about a proof that has long ended
        return True

    # Proofs

    def _begin_proof(self, proof: Proof, envelope: Envelope) -> None:
        self._proofs += 1
        job = proof.session_id, proof.job_id
        facts = {**self._facts(*job), "proof": proof.proof_ordinal, **_facts_of(proof)}
        recording = self._recordings.begin_recording(
            job,
            Scene(proof=proof, started_ns=proof.start_unix_nano, facts=facts),
            recording_id=recording_id_of(proof.session_id, "proof", str(proof.proof_ordinal)),
            name=texts.recording_name(proof),
            started_ns=proof.start_unix_nano,
        )
        recording.scene.begin_proof(envelope)
        for held in self._held.pop(job, ()):
            recording.scene.draw_event(held)

    # What belongs to no open proof

    def _take_alone(self, change: Change) -> None:
        envelope = change.envelope
        if isinstance(change, Noted):
            self._take_remark(envelope)
            return
        job = envelope.session_id, envelope.job_id
        recording = self._recording_for(job) or self._draw_held(job) or self._begin_alone(job, envelope)
        if isinstance(change, Opened):
            recording.scene.open_interval(change.interval, envelope)
        else:
            recording.scene.close_interval(change.interval, envelope)

    def _take_remark(self, envelope: Envelope) -> None:
        if isinstance(envelope.event, SessionOpened):
            return
        if isinstance(envelope.event, SessionClosed):
            self._close_session(envelope.session_id)
            return
        job = envelope.session_id, envelope.job_id
        recording = self._recording_for(job)
        if recording is not None:
            recording.scene.draw_event(envelope)
        elif type(envelope.event) in NOTED:
            self._hold(job, envelope)

    def _recording_for(self, job: Job) -> OpenRecording | None:
        """The recording of the job's last proof; for what names no job, that of the session's only job."""
        found = self._recordings.latest.get(job)
        if found is not None or job[1] is not None:
            return found
        of_session = [
            recording for (session_id, _), recording in self._recordings.latest.items() if session_id == job[0]
        ]
        return of_session[0] if len(of_session) == 1 else None

    def _hold(self, job: Job, envelope: Envelope) -> None:
        """Keep it for the proof that follows."""
        held = self._held.get(job)
        if held is None and len(self._held) < MAX_JOBS:
            held = self._held[job] = []
        if held is not None and len(held) < MAX_HELD:
            held.append(envelope)
        else:
            self._unplaced += 1

    def _close_session(self, session_id: str) -> None:
        for job in [job for job in self._held if job[0] == session_id]:
            self._draw_held(job)
        self._is_due = True

    def _draw_held(self, job: Job) -> OpenRecording | None:
        """Draw events that waited for a proof which never came."""
        held = self._held.pop(job, None)
        if not held:
            return None
        recording = self._begin_alone(job, held[0])
        for envelope in held:
            recording.scene.draw_event(envelope)
        return recording

    def _begin_alone(self, job: Job, envelope: Envelope) -> OpenRecording:
        session_id = job[0]
        number = self._alone[session_id] = self._alone.pop(session_id, -1) + 1
        if len(self._alone) > MAX_JOBS:
            del self._alone[next(iter(self._alone))]
        started_ns = envelope.time_unix_nano
        recording = self._recordings.begin_recording(
            job,
            Scene(proof=None, started_ns=started_ns, facts=self._facts(*job)),
            recording_id=recording_id_of(session_id, "alone", str(number)),
            name="outside of any proof",
            started_ns=started_ns,
        )
        recording.scene.begin_alone(envelope)
        return recording

    def _facts(self, session_id: str, job_id: str | None) -> dict[str, PropertyValue]:
        session = self._timelines.session(session_id)
        facts: dict[str, PropertyValue] = {
            "session": safe_text(session_id),
            "time_source": safe_text(session.time_source, 40),
            "proofstream_version": __version__,
            "rerun_version": RERUN_VERSION,
        }
        if session.opened is not None and isinstance(session.opened.event, SessionOpened):
            facts["source"] = safe_text(session.opened.event.source)
        if job_id is not None:
            facts["job"] = safe_text(job_id)
        return facts


def _facts_of(proof: Proof) -> dict[str, PropertyValue]:
    if proof.backend is None:
        return {}
    model, backend = safe_text(proof.model_name or "not named"), safe_text(proof.backend)
    return {"model": model, "backend": backend, "layers": proof.num_layers or 0}
