"""What the console knows of a run: a summary of all sessions that stays small however long they run.

It is pure: envelopes go in, and the views read its attributes. Nothing in it grows with the number of events or proofs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from proofstream import (
    Batch,
    Change,
    Envelope,
    EventsLost,
    GpuStatus,
    GpuTelemetry,
    Interval,
    IntervalKind,
    Log,
    LogLevel,
    Noted,
    Opened,
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
from proofstream_console.formats import clip, clip_optional, count_by_name
from proofstream_console.news import LogLine, NewsDesk, PluginTrouble, ProofEnded, ProofOpened
from proofstream_console.proof_summary import LayerSummary, ProofSummary, summarize_layer, summarize_proof
from proofstream_console.state_summary import StateSummary
from proofstream_console.totals import DurationTally, Totals
from proofstream_console.trouble import NOT_WORKING, condense, is_troubled

MAX_SESSIONS = 1024
"""Open sessions that are remembered. A recording may open any number and close none."""

MAX_PLUGINS = 64
"""Plugins whose condition is remembered."""

MAX_REPORT_LINES = 32
"""Lines that plugins add to the closing report; the report counts the others."""

MAX_TIME_SOURCES = 8
"""Kinds of time that are remembered; three are known."""

SHOWN_LEVELS = frozenset({LogLevel.Info, LogLevel.Warn, LogLevel.Error, LogLevel.Unknown})

_NOT_OF_PRODUCERS = (SessionOpened, SessionClosed, EventsLost)


@dataclass(slots=True)
class SessionSummary:
    """An open session: where it comes from, its latest event time, and when that was seen on our clock."""

    source: str
    latest_unix_nano: int
    seen_at: float


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
        self._open: dict[Proof, ProofSummary] = {}
        self._slowest: list[tuple[int, int, LayerSummary]] = []
        self._max_slowest = max_slowest
        self._layers_seen = 0
        self._batch_at = clock()
        self.totals = Totals()
        self.sessions: dict[str, SessionSummary] = {}
        self.sources: deque[str] = deque(maxlen=3)
        self.time_sources: set[str] = set()
        self.recent: deque[ProofSummary] = deque(maxlen=max_recent)
        self.recent_aborted: deque[ProofSummary] = deque(maxlen=max_recent)
        self.by_kind: dict[str, DurationTally] = {}
        self.parts: dict[IntervalKind, DurationTally] = {}
        self.devices = DeviceSummary()
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

    def elapsed_ns(self, interval: Interval) -> int:
        """Return how long an open interval has taken so far."""
        session = self.sessions.get(interval.session_id)
        if session is None:
            return 0
        # Our clock measures only the time since the latest event, because the producer's clock may differ from ours.
        now = session.latest_unix_nano + round(self.quiet_s(interval.session_id) * 1e9)
        return max(0, now - interval.start_unix_nano)

    def quiet_s(self, session_id: str) -> float:
        """Return the seconds since the latest event of a session; 0 in a replay."""
        session = self.sessions.get(session_id)
        return max(0.0, self._clock() - session.seen_at) if self._live and session is not None else 0.0

    # What the lane gives

    def add_batch(self, batch: Batch) -> None:
        """Add the next envelopes."""
        self._batch_at = self._clock()
        for envelope in batch:
            if not self._add_aside(envelope):
                self._add_envelope(envelope)

    def _add_aside(self, envelope: Envelope) -> bool:
        """Add an event that is not part of a producer's stream. Return False if it is part of one."""
        match envelope.event:
            case PluginHealth() as event:
                self._add_health(event)
            case TraceStarted() as event:
                self._add_trace(envelope.session_id, event)
            case GpuTelemetry() as event:
                self.devices.add_telemetry(event, proving=bool(self._open))
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
        lost_before = self._timelines.session(session_id).lost_events
        changes = self._timelines.feed(envelope)
        self.totals.lost += self._timelines.session(session_id).lost_events - lost_before
        if self._timelines.is_open(session_id):
            self._see_session(envelope)
        for change in changes:
            self._apply(change)
        if isinstance(event, SessionClosed):
            self._close_session(session_id, event)

    def _see_session(self, envelope: Envelope) -> None:
        session = self.sessions.get(envelope.session_id)
        if session is None:
            self._open_session(envelope)
        # An engine that runs beside the prover does not show that the proof continues.
        elif not isinstance(envelope.event, StateProgramRun):
            session.seen_at = self._batch_at
            session.latest_unix_nano = max(session.latest_unix_nano, envelope.time_unix_nano)

    def _open_session(self, envelope: Envelope) -> None:
        event = envelope.event
        opened = event if isinstance(event, SessionOpened) else None
        session = SessionSummary(
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
        if opened is not None and len(self.time_sources) < MAX_TIME_SOURCES:
            self.time_sources.add(clip(opened.time_source))

    def _close_session(self, session_id: str, event: SessionClosed) -> None:
        self.totals.refused += event.refused
        if event.outcome == "lost":
            self.totals.broken_off += 1
            self.totals.broken_reason = clip_optional(event.reason)
        self.sessions.pop(session_id, None)
        self.devices.close_session(session_id)

    def _apply(self, change: Change) -> None:
        if isinstance(change, Noted):
            self._note(change.envelope)
        elif isinstance(change, Opened):
            if isinstance(change.interval, Proof):
                self._open_proof(change.interval)
        elif isinstance(change.interval, Proof):
            self._close_proof(change.interval)
        elif change.interval.kind is IntervalKind.LAYER:
            self._close_layer(change.interval)
        else:
            tally = self.parts.setdefault(change.interval.kind, DurationTally())
            tally.add_duration(change.interval.duration_ns or 0)

    def _note(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, Log):
            self.log_counts[event.level] = self.log_counts.get(event.level, 0) + 1
            if event.level in SHOWN_LEVELS:
                self.news.put_news(LogLine(event.level, clip(event.message)))
        elif isinstance(event, GpuStatus):
            self.devices.add_status(envelope.session_id, event)

    # Proofs and layers

    def _open_proof(self, proof: Proof) -> None:
        summary = summarize_proof(proof, self.totals.proofs)
        self.totals.proofs += 1
        self._open[proof] = summary
        self.news.put_news(ProofOpened(summary))

    def _close_proof(self, proof: Proof) -> None:
        summary = self._open.pop(proof)
        summary.end_proof(proof)
        self.totals.add_proof(summary)
        self.recent.append(summary)
        if summary.aborted_reason is not None:
            self.recent_aborted.append(summary)
        self.news.put_news(ProofEnded(summary))

    def _close_layer(self, layer: Interval) -> None:
        summary = self._open.get(layer.proof) if layer.proof is not None else None
        if summary is not None:
            summary.count_layer(layer)
        duration_ns = layer.duration_ns or 0
        self.by_kind.setdefault(layer.layer_kind, DurationTally()).add_duration(duration_ns)
        self._layers_seen += 1
        slowest = self._slowest
        if len(slowest) < self._max_slowest or (slowest and duration_ns > slowest[0][0]):
            found = summarize_layer(layer, summary.number if summary is not None else 0)
            heapq.heappush(slowest, (duration_ns, -self._layers_seen, found))
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
        for summary in (*self._open.values(), *reversed(self.recent)):
            if summary.session_id == session_id and summary.ordinal == event.proof:
                summary.trace_id, summary.trace_sampled = clip(event.trace_id), event.sampled
                return
