"""Routes every event to the recording of its proof, and decides when recordings are drawn and written."""

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
    NotedRounds,
    Opened,
    PluginHealth,
    Proof,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    SessionClosed,
    SessionOpened,
    StateProgramCost,
    SumcheckRound,
    Timelines,
    TraceStarted,
    __version__,
    safe_text,
)
from proofstream_rerun.open_recordings import (
    MAX_RUNNING,
    Job,
    OpenRecording,
    OpenRecordings,
    RecordingOutlets,
    recording_id_of,
)
from proofstream_rerun.picture import texts
from proofstream_rerun.picture.marks import PropertyValue
from proofstream_rerun.scene.inference import AttentionRoom
from proofstream_rerun.scene.scene import NOTED, Scene
from proofstream_rerun.sdk.recording_streams import RERUN_VERSION
from proofstream_rerun.sdk.recordings import OUTSIDE

WRITE_EVERY_S = 0.25
"""The least number of seconds between two writes, unless a proof ends or many rows wait."""
WRITE_SHARE = 0.01
"""The share of the time that writing may take. Slow writes become rarer, with more rows in each."""
LONGEST_WAIT_S = 1.0
"""The most seconds between two writes, if there is something to write."""
MAX_WAITING_EVENTS = 512
"""When this many events wait, they are drawn before the next write is due."""
MAX_WAITING_ROWS = 8192
"""When this many rows of one recording wait, they are written before the next write is due."""
MAX_HELD = 4096
"""The most events of one job that are held until its next proof begins."""
MAX_WAITING_BYTES = 4 * 2**20
"""When the events that wait have so many bytes of JSON, they are drawn before the next write is due."""
MAX_HELD_BYTES = 16 * 2**20
"""The most bytes of JSON that all held events together may have."""
MAX_JOBS = 1024
"""The most jobs with held events, and the most sessions and plugins whose state is remembered."""

_TROUBLED = frozenset({"stalled", "broken", "failed"})
_PROMPT = frozenset({ProofComplete, ProofAborted, SessionClosed})
"""Events that make a write due at once, so that viewers see a proof's end without delay."""


class PaintSettings(Protocol):
    """The settings that the painter needs."""

    @property
    def application_id(self) -> str:
        """The name under which the viewer lists the recordings."""
        ...


class Painter:
    """Draws events into recordings.

    Events wait until the next write is due, and are then drawn in one go: an event that is drawn alone after a pause
    finds cold caches and takes twice as long.

    Args:
        outlets: Where the recordings go.
        settings: The application id.
        log: Receives a warning at the end if something was not drawn.
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
        self._room = AttentionRoom(self._recordings.end_superseded)
        self._waiting: list[Envelope] = []
        self._waiting_bytes = 0
        self._held: dict[Job, list[Envelope]] = {}
        self._held_bytes = 0
        self._alone: dict[str, int] = {}
        self._health: dict[str, tuple[str, int]] = {}
        self._next_write_at = clock() + WRITE_EVERY_S
        self._is_due = False
        self._unplaced = 0
        self._has_told_early = False
        self._proofs = 0
        self._aside: Mapping[type[ProofEvent], Callable[[Envelope, Any], bool]] = {
            GpuTelemetry: self._take_telemetry,
            PluginHealth: self._take_health,
            TraceStarted: self._take_trace,
            StateProgramCost: self._take_cost,
        }

    # Called by the plugin

    def consume(self, batch: Batch) -> None:
        """Add the next envelopes; draw and write if that is due."""
        self._waiting += batch
        if len(self._waiting) < MAX_WAITING_EVENTS:  # else they are drawn now, however many bytes they have
            self._waiting_bytes += sum([len(envelope.raw) for envelope in batch])
        self._is_due = self._is_due or not _PROMPT.isdisjoint([type(envelope.event) for envelope in batch])
        self._work()

    def tick(self) -> None:
        """Draw and write what waits, if that is due."""
        self._work()

    def close(self) -> None:
        """Draw and write everything, and end all recordings."""
        self._draw_waiting()
        for job in list(self._held):
            self._draw_held(job)
        self._recordings.end_all()
        missing = {name: count for name, count in self.counters().items() if name.startswith("un") and count}
        if missing:
            told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in missing.items())
            self._log.warning("rerun: not everything found room in the recordings: %s", told)

    def counters(self) -> Mapping[str, int]:
        """Return counters of what was drawn and written, and of marks and events that were not."""
        return {
            "drawn_proofs": self._proofs,
            "written_calls": self._recordings.written,
            "undrawn_marks": self._recordings.undrawn + sum(recording.scene.undrawn for recording in self._recordings),
            "unfinished_recordings": self._recordings.closed_early,
            "unplaced_events": self._unplaced,
        }

    def _work(self) -> None:
        now = self._clock()
        is_time = self._is_due or now >= self._next_write_at
        is_full = len(self._waiting) >= MAX_WAITING_EVENTS or self._waiting_bytes >= MAX_WAITING_BYTES
        if is_time or is_full:
            self._draw_waiting()
        # Drawing may have made a write due (a proof ended) or filled a canvas, so ask again.
        if is_time or self._is_due or self._is_crowded():
            self._is_due = False
            self._recordings.write_all()
            took_s = self._clock() - now
            self._next_write_at = now + min(LONGEST_WAIT_S, max(WRITE_EVERY_S, took_s / WRITE_SHARE))

    def _draw_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        feed_rounds = self._timelines.feed_rounds
        place, end = 0, len(waiting)
        while place < end:
            envelope = waiting[place]
            # Nearly all events of a long proof are rounds, so those of a layer are taken together.
            rounds = feed_rounds(waiting, place) if type(envelope.event) is SumcheckRound else None
            if rounds is None:
                self._take(envelope)
                place += 1
            else:
                self._take_rounds(rounds)
                place += len(rounds.envelopes)

    def _is_crowded(self) -> bool:
        return any(recording.scene.canvas.waiting > MAX_WAITING_ROWS for recording in self._recordings)

    # Envelopes

    def _take_rounds(self, noted: NotedRounds) -> None:
        layer = noted.interval
        proof = layer.proof
        recording = None if proof is None else self._recordings.of_proof(proof)
        if recording is None:
            self._unplaced += len(noted.envelopes)
        else:
            recording.scene.draw_rounds(layer, noted.envelopes)

    def _take(self, envelope: Envelope) -> None:
        # These bypass the timelines, which would attribute them to whichever proof is open.
        aside = self._aside.get(type(envelope.event))
        if aside is not None and aside(envelope, envelope.event):
            return
        for change in self._timelines.feed(envelope):
            interval = change.interval
            proof = interval if interval is None or isinstance(interval, Proof) else interval.proof
            if proof is None:
                self._take_alone(change)
            elif isinstance(change, Opened) and interval is proof:
                self._begin_proof(proof, change.envelope)
            elif (recording := self._recordings.of_proof(proof)) is None:
                self._unplaced += 1  # its recording was closed because too many were open
            elif isinstance(change, Noted):
                recording.scene.draw_event(change.envelope)
            else:
                self._take_interval(change, change.interval, proof, recording.scene)

    def _take_interval(self, change: Opened | Closed, interval: Interval, proof: Proof, scene: Scene) -> None:
        """Draw the end of a proof, or the start or end of an interval inside it or after it."""
        envelope = change.envelope
        if isinstance(change, Opened):
            scene.open_interval(interval, envelope)
            return
        if interval is not proof:
            scene.close_interval(interval, envelope)
            return
        scene.end_proof(proof, envelope)
        self._recordings.end_proof(proof)
        self._is_due = True

    # Events that name a proof by its number, or concern all proofs. Handlers return True if they consumed the event.

    def _take_telemetry(self, envelope: Envelope, event: GpuTelemetry) -> bool:
        for recording in self._recordings.running.values():
            recording.scene.draw_telemetry(envelope, event)
        return True

    def _take_health(self, envelope: Envelope, event: PluginHealth) -> bool:
        dropped = sum(event.dropped.values())
        # Plugins report their health again and again; only news is worth a line in the log.
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
            return False  # its proof has not begun: the timelines pass it on, and it is held for that proof
        else:
            self._unplaced += 1  # its proof has ended, and so has the recording
        return True

    # Proofs

    def _begin_proof(self, proof: Proof, envelope: Envelope) -> None:
        self._proofs += 1
        job = proof.session_id, proof.job_id
        facts = {**self._facts(*job), "proof": proof.proof_ordinal, **_facts_of(proof)}
        recording = self._recordings.begin_recording(
            job,
            Scene(proof=proof, started_ns=proof.start_unix_nano, facts=facts, room=self._room),
            recording_id=recording_id_of(proof.session_id, "proof", str(proof.proof_ordinal)),
            name=texts.recording_name(proof),
            started_ns=proof.start_unix_nano,
        )
        recording.scene.begin_proof(envelope)
        for held in self._take_held(job):
            recording.scene.draw_event(held)
        if self._recordings.closed_early == 1 and not self._has_told_early:
            self._has_told_early = True
            self._log.warning("rerun: %d recordings are open; the quietest one ends before its proof", MAX_RUNNING)

    # Events outside any open proof

    def _take_alone(self, change: Change) -> None:
        envelope = change.envelope
        if isinstance(change, Noted):
            self._take_remark(envelope)
            return
        # Intervals are not held for a proof that may never come, as for a STARK proved by itself.
        # Not the envelope's job: what ends a job that has fallen silent is an event of another one.
        job = envelope.session_id, change.interval.job_id
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
        """Return the job's latest recording; for an event that names no job, that of the session's only job, if any."""
        found = self._recordings.latest.get(job)
        if found is not None or job[1] is not None:
            return found
        of_session = [
            recording for (session_id, _), recording in self._recordings.latest.items() if session_id == job[0]
        ]
        return of_session[0] if len(of_session) == 1 else None

    def _hold(self, job: Job, envelope: Envelope) -> None:
        """Hold the envelope until the job's next proof begins; count it if there is no room."""
        held = self._held.get(job)
        if held is None and len(self._held) < MAX_JOBS:
            held = self._held[job] = []
        size = len(envelope.raw)
        if held is not None and len(held) < MAX_HELD and self._held_bytes + size <= MAX_HELD_BYTES:
            held.append(envelope)
            self._held_bytes += size
        else:
            self._unplaced += 1

    def _take_held(self, job: Job) -> list[Envelope]:
        held = self._held.pop(job, [])
        self._held_bytes -= sum(len(envelope.raw) for envelope in held)
        return held

    def _close_session(self, session_id: str) -> None:
        for job in [job for job in self._held if job[0] == session_id]:
            self._draw_held(job)
        self._is_due = True

    def _draw_held(self, job: Job) -> OpenRecording | None:
        """Draw the job's held events in a recording outside any proof, as their proof never came; None without any."""
        held = self._take_held(job)
        if not held:
            return None
        recording = self._begin_alone(job, held[0])
        for envelope in held:
            recording.scene.draw_event(envelope)
        return recording

    def _begin_alone(self, job: Job, envelope: Envelope) -> OpenRecording:
        session_id = job[0]
        # Popping moves the session to the end, so that the one idle for longest is forgotten first.
        number = self._alone[session_id] = self._alone.pop(session_id, -1) + 1
        if len(self._alone) > MAX_JOBS:
            del self._alone[next(iter(self._alone))]
        started_ns = envelope.time_unix_nano
        recording = self._recordings.begin_recording(
            job,
            Scene(proof=None, started_ns=started_ns, facts=self._facts(*job), room=self._room),
            recording_id=recording_id_of(session_id, "alone", str(number)),
            name=OUTSIDE,
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
