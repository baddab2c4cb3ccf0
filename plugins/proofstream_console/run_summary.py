"""What the console knows of a run: a summary of all sessions that stays small however long they run.

It is pure: envelopes go in, and the views read its attributes. Nothing in it grows with the number of events or proofs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from proofstream import (
    PRODUCER,
    Batch,
    Change,
    EnergyLedger,
    Envelope,
    EventsLost,
    GpuStatus,
    GpuTelemetry,
    Interval,
    IntervalKind,
    Log,
    LogLevel,
    Noted,
    NotedRounds,
    Opened,
    Phase,
    PluginHealth,
    Proof,
    ReportLine,
    SessionClosed,
    SessionOpened,
    StateBytesMoved,
    StateProgramCost,
    StateProgramRun,
    Timelines,
    TraceStarted,
    UnknownEvent,
)
from proofstream_console.device_summary import DeviceSummary
from proofstream_console.durations import LAID_OUT, DurationTally, Took, took
from proofstream_console.energy_tally import EnergyTally
from proofstream_console.formats import clip, clip_optional, count_by_name
from proofstream_console.news import (
    LogLine,
    NewsDesk,
    PluginTrouble,
    ProofEnded,
    ProofOpened,
    ProofsAtOnce,
    ProofSilent,
    SessionHeard,
)
from proofstream_console.pace import Throttle
from proofstream_console.phase_summary import OpenPhases, PhaseTallies
from proofstream_console.proof_summary import LayerSummary, ProofSummary, summarize_layer, summarize_proof
from proofstream_console.session_summary import SessionSummary
from proofstream_console.silences import Silences
from proofstream_console.state_summary import StateSummary
from proofstream_console.totals import Totals
from proofstream_console.trouble import NOT_WORKING, condense, is_troubled

MAX_SESSIONS = 1024
"""Open sessions that are remembered. A recording may open any number and close none."""

MAX_PLUGINS = 64
"""Plugins whose condition is remembered."""

MAX_REPORT_LINES = 32
"""Lines that plugins add to the closing report; the report counts the others."""

MAX_TIME_SOURCES = 8
"""Kinds of time that are remembered; three are known."""

MAX_LAST_LAYERS = 12
"""Layers that ended lately and are remembered one by one."""

WAITING_TOLD_FROM_NS = 10**9
"""A session that waits for its first proof for a second is worth a word."""

SHOWN_LEVELS = frozenset({LogLevel.Info, LogLevel.Warn, LogLevel.Error, LogLevel.Unknown})

_LOOK_FOR_SILENCE_EVERY_S = 1.0

_NOT_OF_PRODUCERS = (SessionOpened, SessionClosed, EventsLost)


class RunSummary:
    """The summary.

    Args:
        clock: A monotonic clock in seconds.
        live: Whether events happen while they are read. If so, the time of an open interval runs with the clock, else
            with the events.
        max_recent: Ended proofs that are remembered one by one.
        max_slowest: Slowest layers that are remembered.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        live: bool = True,
        max_recent: int = 20,
        max_slowest: int = 5,
    ) -> None:
        self._clock = clock
        self._live = live
        self._timelines = Timelines()
        self._ledger = EnergyLedger()
        self._open: dict[Proof, ProofSummary] = {}
        self._slowest: list[tuple[int, int, LayerSummary]] = []
        self._max_slowest = max_slowest
        self._layers_seen = 0
        self.last_layers: deque[LayerSummary] = deque(maxlen=MAX_LAST_LAYERS)
        self._began_at = self._batch_at = clock()
        self._open_phases = OpenPhases()
        self._look_for_silence = Throttle(_LOOK_FOR_SILENCE_EVERY_S, start=clock())
        self.totals = Totals()
        self.sessions: dict[str, SessionSummary] = {}
        self.sources: deque[str] = deque(maxlen=3)
        self.time_sources: set[str] = set()
        self.time_resolution_ns: int = 0
        self.recent: deque[ProofSummary] = deque(maxlen=max_recent)
        self.recent_aborted: deque[ProofSummary] = deque(maxlen=max_recent)
        self.by_kind: dict[str, DurationTally] = {}
        self.parts: dict[IntervalKind, DurationTally] = {}
        self.phases = PhaseTallies()
        self.silences = Silences()
        self.devices = DeviceSummary()
        self.energy = EnergyTally()
        self.states = StateSummary()
        self.health: dict[str, PluginHealth] = {}
        self.news = NewsDesk()
        self.unknown_kinds: dict[str, int] = {}
        self.log_counts: dict[LogLevel, int] = {}
        self.report_lines: list[tuple[str, str]] = []
        self.report_lines_left_out = 0

    # What the views ask

    @property
    def was_opened(self) -> bool:
        """Whether a session was ever opened."""
        return self.totals.sessions > 0

    @property
    def is_empty(self) -> bool:
        """Whether no producer has sent anything yet."""
        return not (self.totals.events or self.totals.refused)

    @property
    def is_live(self) -> bool:
        """Whether events happen while they are read."""
        return self._live

    @property
    def open_proofs(self) -> list[ProofSummary]:
        """The open proofs, in the order in which they began, with up-to-date counts."""
        for proof, summary in self._open.items():
            summary.update_counts(proof)
        return list(self._open.values())

    @property
    def rounds(self) -> int:
        """Sumcheck rounds counted so far."""
        return self.totals.rounds + sum(proof.rounds for proof in self._open)

    @property
    def slowest(self) -> list[LayerSummary]:
        """The slowest layers, the slowest first. Of two that took equally long the earlier one is first."""
        return [layer for _, _, layer in sorted(self._slowest, reverse=True)]

    @property
    def troubled_plugins(self) -> list[PluginHealth]:
        """Plugins that do not work, dropped events or did not deliver."""
        return [health for health in self.health.values() if is_troubled(health)]

    def outside_phases(self) -> list[tuple[ProofSummary | None, list[Phase]]]:
        """Return the running phases of no open proof, each group with the ended proof that it belongs to, if any."""
        return [(self._summary_of(proof), phases) for proof, phases in self._open_phases.outside().items()]

    def elapsed(self, interval: Interval) -> Took:
        """Return how long an open interval has taken so far."""
        if interval.start_source != LAID_OUT:
            source = "measured" if interval.start_seen else "at_least"
        else:
            source = "at_least" if self._live else "unknown"
        return Took(self.since(interval.session_id, interval.start_unix_nano), source)

    def since(self, session_id: str, time_unix_nano: int) -> int:
        """Return the nanoseconds that have passed in an open session since a time of its own."""
        session = self.sessions.get(session_id)
        if session is None:
            return 0
        # Our clock measures only the time since the latest event, because the producer's clock may differ from ours.
        now = session.latest_unix_nano + round(self.quiet_s(session_id) * 1e9)
        return max(0, now - time_unix_nano)

    def quiet_s(self, session_id: str) -> float:
        """Return the seconds since the latest event of a session; 0 in a replay."""
        session = self.sessions.get(session_id)
        return max(0.0, self._clock() - session.seen_at) if self._live and session is not None else 0.0

    def silent_ns(self, proof: ProofSummary) -> int | None:
        """Return how long an open proof has said nothing, in nanoseconds; None in a replay."""
        return self.since(proof.session_id, proof.heard_unix_nano) if self._live else None

    def unusual_silence(self, proof: ProofSummary) -> ProofSilent | None:
        """Return what there is to say about an open proof's silence, if it is longer than usual."""
        silent_ns, stage = self.silent_ns(proof), proof.heard_in
        if silent_ns is None or proof.inner or not self.silences.is_unusual(stage, silent_ns):
            return None
        return ProofSilent(proof, stage, silent_ns, self.silences.longest_ns(stage))

    @property
    def waiting(self) -> list[SessionSummary]:
        """The open sessions without an open proof, in the order in which they were opened."""
        busy = {proof.session_id for proof in self._open}
        return [session for session_id, session in self.sessions.items() if session_id not in busy]

    def waited_ns(self, session: SessionSummary) -> int:
        """Return how long a session has waited for a proof, in nanoseconds."""
        return self.since(session.session_id, session.waits_since_unix_nano)

    @property
    def running_s(self) -> float:
        """The seconds since the run began."""
        return max(0.0, self._clock() - self._began_at)

    # What the lane gives

    def add_batch(self, batch: Batch) -> None:
        """Add the next envelopes."""
        self._batch_at = self._clock()
        at = 0
        while at < len(batch):
            noted = self._timelines.feed_rounds(batch, at)
            if noted is not None:
                self._add_rounds(noted)
                at += len(noted.envelopes)
                continue
            envelope = batch[at]
            if not self._add_aside(envelope):
                self._add_envelope(envelope)
            at += 1
        if self._live and self._look_for_silence.is_due(self._batch_at):
            self._tell_silence()
            self._tell_waiting()

    def _add_aside(self, envelope: Envelope) -> bool:
        """Add an event that is not part of a producer's stream. Return False if it is part of one."""
        match envelope.event:
            case PluginHealth() as event:
                self._add_health(event)
            case TraceStarted() as event:
                self._add_trace(envelope.session_id, event)
            case GpuTelemetry() as event:
                self.devices.add_telemetry(event, proving=bool(self._open))
                self._ledger.add_sample(envelope.time_unix_nano, event)
            case StateProgramCost() as event:
                self.states.add_cost(event)
            case StateBytesMoved() as event:
                self.states.add_runs(event)
            case ReportLine(text=text):
                self._add_report_line(envelope.origin, text)
            case _:
                return False
        return True

    def _add_envelope(self, envelope: Envelope) -> None:
        event, session_id = envelope.event, envelope.session_id
        self.totals.events += not isinstance(event, _NOT_OF_PRODUCERS)
        if isinstance(event, UnknownEvent):
            count_by_name(self.unknown_kinds, event.kind)
        if envelope.time_source is not None and not isinstance(event, SessionClosed):
            self._add_time_source(envelope.time_source)
        lost_before = self._timelines.session(session_id).lost_events
        changes = self._timelines.feed(envelope)
        self.totals.lost += self._timelines.session(session_id).lost_events - lost_before
        if self._timelines.is_open(session_id):
            self._see_session(envelope)
        for change in changes:
            self._apply(change)
        if isinstance(event, SessionClosed):
            self._close_session(session_id, event)

    def _add_rounds(self, noted: NotedRounds) -> None:
        """Add rounds of an open layer that follow one another: the same as `_add_envelope` of each, but cheap."""
        rounds = noted.envelopes
        self.totals.events += len(rounds)
        for source in {envelope.time_source for envelope in rounds}:
            if source is not None:
                self._add_time_source(source)
        session = self.sessions.get(rounds[0].session_id)
        if session is None:
            for envelope in rounds:
                self._see_session(envelope)
        else:
            session.events += len(rounds)
            session.seen_at = self._batch_at
            latest = max([envelope.time_unix_nano for envelope in rounds])
            session.latest_unix_nano = max(session.latest_unix_nano, latest)
        if self._live:
            self._hear_rounds(noted)

    def _see_session(self, envelope: Envelope) -> None:
        session = self.sessions.get(envelope.session_id)
        if session is None:
            self._open_session(envelope)
            session = self.sessions.get(envelope.session_id)
            if session is not None:
                session.count_event(envelope.event)
                if self._live and session.is_connection:
                    self._tell_of(session)
            return
        session.count_event(envelope.event)
        # An engine that runs beside the prover does not show that the proof continues.
        if not isinstance(envelope.event, StateProgramRun):
            session.seen_at = self._batch_at
            session.latest_unix_nano = max(session.latest_unix_nano, envelope.time_unix_nano)

    def _open_session(self, envelope: Envelope) -> None:
        event = envelope.event
        opened = event if isinstance(event, SessionOpened) else None
        session = SessionSummary(
            session_id=envelope.session_id,
            is_in_process=opened is not None and opened.in_process is True,
            waits_since_unix_nano=envelope.time_unix_nano,
            source=clip(envelope.session_id if opened is None else opened.source),
            latest_unix_nano=envelope.time_unix_nano,
            seen_at=self._batch_at,
        )
        if len(self.sessions) < MAX_SESSIONS:
            self.sessions[envelope.session_id] = session
        elif opened is None:
            return  # it may be one that was counted when it was opened
        self.totals.sessions += 1
        self.sources.append(session.source)
        if opened is not None:
            self._add_time_source(opened.time_source)
            if isinstance(opened.time_resolution_ns, int):
                self.time_resolution_ns = max(self.time_resolution_ns, opened.time_resolution_ns)

    def _add_time_source(self, source: str) -> None:
        if len(self.time_sources) < MAX_TIME_SOURCES:
            self.time_sources.add(clip(source))

    def _close_session(self, session_id: str, event: SessionClosed) -> None:
        self.totals.refused += event.refused
        if event.outcome == "lost":
            self.totals.broken_off += 1
            self.totals.broken_reason = clip_optional(event.reason)
        self.sessions.pop(session_id, None)
        self.devices.close_session(session_id)

    def _apply(self, change: Change) -> None:
        self._ledger.follow(change, self._timelines.session(change.envelope.session_id))
        if self._live:
            self._hear(change)
        if isinstance(change, Noted):
            self._note(change.envelope)
        elif isinstance(change, Opened):
            self._begin(change.interval)
        else:
            self._end(change.interval)

    def _begin(self, interval: Interval) -> None:
        if isinstance(interval, Proof):
            self._open_proof(interval)
            return
        if isinstance(interval, Phase):
            self._open_phases.add_phase(interval)
        proof = None if interval.proof is None else self._open.get(interval.proof)
        if proof is not None and interval.kind is IntervalKind.LAYER:
            proof.strip.begin_layer(interval)
        if proof is not None and interval.proof is not None and interval.proof.walk_is_over:
            proof.heard_after_layers = True

    def _end(self, interval: Interval) -> None:
        if isinstance(interval, Proof):
            self._close_proof(interval)
        elif isinstance(interval, Phase):
            self._close_phase(interval)
        elif interval.kind is IntervalKind.LAYER:
            self._close_layer(interval)
        else:
            self.parts.setdefault(interval.kind, DurationTally()).add_duration(took(interval))

    def _note(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, Log):
            self.log_counts[event.level] = self.log_counts.get(event.level, 0) + 1
            if event.level in SHOWN_LEVELS:
                self.news.put_news(LogLine(event.level, clip(event.message)))
        elif isinstance(event, GpuStatus):
            self.devices.add_status(envelope.session_id, event)

    # Silence

    def _hear(self, change: Change) -> None:
        """Note that a proof's producer was heard, and how long it had been silent."""
        interval, envelope = change.interval, change.envelope
        if interval is None or envelope.origin != PRODUCER:
            return
        proof = interval if isinstance(interval, Proof) else interval.proof
        heard = self._open.get(proof) if proof is not None else None
        if proof is None or heard is None:
            return
        self._end_silence(heard, envelope)
        if proof.parent is not None:
            self._hear_around(proof, envelope.time_unix_nano)
        if not isinstance(change, Noted):
            heard.heard_in = proof.stage

    def _hear_rounds(self, noted: NotedRounds) -> None:
        """Note the same of rounds that follow one another."""
        proof = noted.interval.proof
        heard = self._open.get(proof) if proof is not None else None
        if proof is None or heard is None:
            return
        times = [envelope.time_unix_nano for envelope in noted.envelopes if envelope.origin == PRODUCER]
        latest = max(times, default=0)
        if latest - heard.heard_unix_nano > self.silences.longest_ns(heard.heard_in):
            for envelope in noted.envelopes:
                if envelope.origin == PRODUCER:
                    self._end_silence(heard, envelope)
        elif latest > heard.heard_unix_nano:  # no silence among them is longer than the longest one before
            heard.heard_unix_nano, heard.silence_told = latest, False
        if proof.parent is not None and times:
            self._hear_around(proof, latest)

    def _end_silence(self, heard: ProofSummary, envelope: Envelope) -> None:
        now = envelope.time_unix_nano
        if now > heard.heard_unix_nano:
            if envelope.time_source != LAID_OUT:
                self.silences.add_silence(heard.heard_in, now - heard.heard_unix_nano)
            heard.heard_unix_nano, heard.silence_told = now, False

    def _hear_around(self, proof: Proof, time_unix_nano: int) -> None:
        """Note in the proofs around one that it was heard: they wait for it, and that is no silence of theirs."""
        while isinstance(proof.parent, Proof):
            proof = proof.parent
            around = self._open.get(proof)
            if around is not None:
                around.heard_unix_nano = max(around.heard_unix_nano, time_unix_nano)

    def _tell_silence(self) -> None:
        for proof in self._open.values():
            unusual = None if proof.silence_told else self.unusual_silence(proof)
            if unusual is not None:
                proof.silence_told = True
                self.news.put_news(unusual)

    def _tell_waiting(self) -> None:
        for session in self.waiting:
            if session.is_worth_a_word and self.waited_ns(session) >= WAITING_TOLD_FROM_NS:
                self._tell_of(session)

    def _tell_of(self, session: SessionSummary) -> None:
        session.told = True
        self.news.put_news(SessionHeard(session))

    # Proofs, layers and phases

    def _open_proof(self, proof: Proof) -> None:
        parent = self._summary_of(proof.parent) if isinstance(proof.parent, Proof) else None
        summary = summarize_proof(proof, self.totals.proofs, parent)
        self.totals.proofs += 1
        if (session := self.sessions.get(proof.session_id)) is not None:
            session.proofs += 1
        if parent is not None:
            parent.inner.append(summary.number)
        if self._open:
            summary.at_once = True
            if len(self._open) == 1:  # where there are more, all are marked
                next(iter(self._open.values())).at_once = True
        self._open[proof] = summary
        self.news.put_news(ProofOpened(summary))
        self._look_for_overlap(proof.session_id)

    def _look_for_overlap(self, session_id: str) -> None:
        """Say once for each session that its proofs cannot be told apart, if that is so."""
        session = self.sessions.get(session_id)
        if session is None or session.at_once_told or not self._timelines.session(session_id).overlaps:
            return
        session.at_once_told = True
        self.totals.at_once += 1
        self.news.put_news(ProofsAtOnce(session.source))

    def _summary_of(self, proof: Proof | None) -> ProofSummary | None:
        """Return the summary of a proof that is open or ended lately."""
        if proof is None:
            return None
        return self._open.get(proof) or self._find_proof(proof.session_id, proof.proof_ordinal)

    def _find_proof(self, session_id: str, ordinal: int) -> ProofSummary | None:
        for summary in (*self._open.values(), *reversed(self.recent)):
            if summary.session_id == session_id and summary.ordinal == ordinal:
                return summary
        return None

    def _close_proof(self, proof: Proof) -> None:
        summary = self._open.pop(proof)
        around = self._open.get(proof.parent) if isinstance(proof.parent, Proof) else None
        if around is not None:
            around.inner.remove(summary.number)
        summary.end_proof(proof)
        if (session := self.sessions.get(proof.session_id)) is not None:
            session.wait_from(session.latest_unix_nano)
        energy = self._ledger.close(proof)
        if self.devices.measured:
            self.energy.add_proof(energy)
        self.totals.add_proof(summary)
        self.recent.append(summary)
        if summary.aborted_reason is not None:
            self.recent_aborted.append(summary)
        self.news.put_news(ProofEnded(summary))

    def _close_phase(self, phase: Phase) -> None:
        self._open_phases.remove_phase(phase)
        self.phases.add_phase(phase)
        summary = None if phase.proof is None else self._open.get(phase.proof)
        if summary is not None:
            summary.count_phase(phase)

    def _close_layer(self, layer: Interval) -> None:
        summary = self._open.get(layer.proof) if layer.proof is not None else None
        if summary is not None:
            summary.count_layer(layer)
        duration = took(layer)
        found = summarize_layer(layer, summary)
        self.last_layers.append(found)
        self.by_kind.setdefault(layer.layer_kind, DurationTally()).add_duration(duration)
        self._layers_seen += 1
        slowest = self._slowest
        if duration.source == "unknown" or not self._max_slowest:
            return
        if len(slowest) < self._max_slowest or duration.ns > slowest[0][0]:
            heapq.heappush(slowest, (duration.ns, -self._layers_seen, found))
            if len(slowest) > self._max_slowest:
                heapq.heappop(slowest)

    # What plugins and the host say

    def _add_health(self, event: PluginHealth) -> None:
        event = condense(event)
        before = self.health.get(event.plugin)
        if before is None and len(self.health) >= MAX_PLUGINS:
            return
        self.health[event.plugin] = event
        # The command itself reports what fails before anything is opened.
        if self.was_opened and event.status in NOT_WORKING and (before is None or before.status != event.status):
            self.news.put_news(PluginTrouble(event))

    def _add_report_line(self, plugin: str, text: str) -> None:
        if len(self.report_lines) < MAX_REPORT_LINES:
            self.report_lines.append((clip(plugin), clip(text)))
        else:
            self.report_lines_left_out += 1

    def _add_trace(self, session_id: str, event: TraceStarted) -> None:
        summary = self._find_proof(session_id, event.proof)
        if summary is not None:
            summary.trace_id, summary.trace_sampled = clip(event.trace_id), event.sampled
