"""What the console knows: a summary of all sessions that stays small however long they run.

It is pure: envelopes go in, and the views read its attributes. Nothing in it grows with the number of events or proofs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

from proofstream import (
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
    ProofEvent,
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
from proofstream_console.formats import clip, clip_optional
from proofstream_console.news import LogLine, NewsDesk, PluginTrouble, ProofEnded, ProofOpened
from proofstream_console.proof_summary import (
    NOT_WORKING,
    DurationTally,
    LayerSummary,
    ProofSummary,
    SessionSummary,
    Totals,
    summarize_layer,
    summarize_proof,
)
from proofstream_console.state_summary import StateSummary

MAX_UNKNOWN_KINDS = 8
"""Kinds that nobody declared which are told by name."""

MAX_PLUGINS = 64
"""Plugins whose condition is remembered."""

MAX_TIME_SOURCES = 8
"""Kinds of time that are remembered; three are known."""

_ABOUT_OURSELVES = (
    *(SessionOpened, SessionClosed, EventsLost, PluginHealth, TraceStarted, GpuTelemetry),
    *(StateProgramCost, StateBytesMoved),
)

SHOWN_LEVELS = frozenset({LogLevel.Info, LogLevel.Warn, LogLevel.Error, LogLevel.Unknown})


def is_troubled(health: PluginHealth) -> bool:
    """Whether a plugin does not work, its lane dropped events, or it did not deliver what was asked for."""
    if health.status in NOT_WORKING or health.dropped:
        return True
    return any(count for name, count in health.counters.items() if name.startswith("lost_"))


class RunSummary:
    """The summary.

    Args:
        clock: A monotonic clock in seconds.
        live: Whether events happen while they are read: then what is open goes on with the clock, else with the events.
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
        self._about_ourselves = 0
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
        self._was_opened = False
        self.unknown_kinds: dict[str, int] = {}
        self.log_counts: dict[LogLevel, int] = {}

    # What the views ask

    @property
    def was_opened(self) -> bool:
        """Whether a session was opened, whatever came of it."""
        return self._was_opened

    @property
    def is_empty(self) -> bool:
        """Whether no producer has said anything yet."""
        return not (self.totals.events or self.totals.refused)

    @property
    def open_proofs(self) -> list[ProofSummary]:
        """The proofs that are open, in the order in which they began; their counts are brought up to date."""
        for proof, summary in self._open.items():
            summary.follow(proof)
        return list(self._open.values())

    @property
    def rounds(self) -> int:
        """Sumcheck rounds counted so far."""
        return self.totals.rounds + sum(proof.rounds for proof in self._open)

    @property
    def lost(self) -> int:
        """Events known to be missing so far."""
        return self.totals.lost + sum(session.lost_events for session in self._timelines.sessions)

    @property
    def slowest(self) -> list[LayerSummary]:
        """The slowest layers, the slowest first; of two that took equally long the earlier one is first."""
        return [layer for _, _, layer in sorted(self._slowest, reverse=True)]

    @property
    def troubled_plugins(self) -> list[PluginHealth]:
        """Plugins that do not work, or whose lane dropped events."""
        return [health for health in self.health.values() if is_troubled(health)]

    def elapsed_ns(self, interval: Interval) -> int:
        """How long an open interval has been going on."""
        return max(0, self._now(interval.session_id) - interval.start_unix_nano)

    def quiet_s(self, session_id: str) -> float:
        """Seconds since the latest event of a session; 0 in a replay."""
        session = self.sessions.get(session_id)
        return max(0.0, self._clock() - session.seen_at) if self._live and session is not None else 0.0

    def _now(self, session_id: str) -> int:
        session = self.sessions.get(session_id)
        if session is None:
            return 0
        # Our own clock only measures what passed since the latest event: the producer's clock may be another one.
        return session.latest_unix_nano + round(self.quiet_s(session_id) * 1e9)

    # What the lane gives

    def feed(self, batch: tuple[Envelope, ...]) -> None:
        """Take the next envelopes."""
        self._batch_at = self._clock()
        for envelope in batch:
            self._take(envelope)
        self.totals.events += len(batch) - self._about_ourselves
        self._about_ourselves = 0

    def _take(self, envelope: Envelope) -> None:
        event = envelope.event
        if isinstance(event, _ABOUT_OURSELVES):
            self._about_ourselves += 1
            if self._take_aside(envelope.session_id, event):
                return
        if isinstance(event, UnknownEvent):
            self._count_unknown(event.kind)
        session = self.sessions.get(envelope.session_id)
        if session is None and not envelope.lineage:
            session = self._open_session(envelope)
        # What a plugin makes of a session's last events comes after its end, and opens no other. An engine that runs
        # beside the prover says nothing about how the proof goes on.
        if session is not None and not isinstance(event, StateProgramRun):
            self._take_in(session, envelope)

    def _take_in(self, session: SessionSummary, envelope: Envelope) -> None:
        event = envelope.event
        session.seen_at = self._batch_at
        session.latest_unix_nano = max(session.latest_unix_nano, envelope.time_unix_nano)
        if isinstance(event, SessionClosed):
            # The timeline forgets the session with this event.
            self.totals.lost += self._timelines.session(envelope.session_id).lost_events
        for change in self._timelines.feed(envelope):
            self._apply(change)
        if isinstance(event, SessionClosed):
            self._close_session(envelope.session_id, event)

    def _take_aside(self, session_id: str, event: ProofEvent) -> bool:
        """Take what belongs to no producer's flow, and says nothing about whether it goes on; whether it was that."""
        if isinstance(event, PluginHealth):
            self._plugin_health(event)
        elif isinstance(event, TraceStarted):
            self._trace_started(session_id, event)
        elif isinstance(event, GpuTelemetry):
            self.devices.measure(event, proving=bool(self._open))
        elif isinstance(event, StateProgramCost):
            self.states.price(event)
        elif isinstance(event, StateBytesMoved):
            self.states.move(event)
        else:
            return False
        return True

    def _count_unknown(self, kind: str) -> None:
        counts = self.unknown_kinds
        named = clip(kind) if kind in counts or len(counts) < MAX_UNKNOWN_KINDS else "others"
        counts[named] = counts.get(named, 0) + 1

    def _open_session(self, envelope: Envelope) -> SessionSummary:
        event = envelope.event
        self._was_opened = True
        opened = event if isinstance(event, SessionOpened) else None
        session = SessionSummary(
            source=clip(opened.source if opened is not None else envelope.session_id),
            latest_unix_nano=envelope.time_unix_nano,
            seen_at=self._batch_at,
        )
        self.sessions[envelope.session_id] = session
        self.totals.sessions += 1
        self.sources.append(session.source)
        if opened is not None:
            self._add_time_source(opened.time_source)
        return session

    def _add_time_source(self, time_source: str) -> None:
        if len(self.time_sources) < MAX_TIME_SOURCES:
            self.time_sources.add(clip(time_source))

    def _close_session(self, session_id: str, event: SessionClosed) -> None:
        self.totals.refused += event.refused
        if event.outcome == "lost":
            self.totals.broken_off += 1
            self.totals.broken_reason = clip_optional(event.reason)
        del self.sessions[session_id]

    def _apply(self, change: Change) -> None:
        if isinstance(change, Noted):
            handler = _NOTED.get(type(change.envelope.event))
            if handler is not None:
                handler(self, change)
        elif isinstance(change, Opened):
            if isinstance(change.interval, Proof):
                self._open_proof(change.interval)
        elif isinstance(change.interval, Proof):
            self._close_proof(change.interval)
        elif change.interval.kind is IntervalKind.LAYER:
            self._close_layer(change.interval)
        else:
            self.parts.setdefault(change.interval.kind, DurationTally()).add(change.interval.duration_ns or 0)

    # Proofs and layers

    def _open_proof(self, proof: Proof) -> None:
        summary = summarize_proof(proof, self.totals.proofs)
        self.totals.proofs += 1
        self._open[proof] = summary
        self.news.put(ProofOpened(summary))

    def _close_proof(self, proof: Proof) -> None:
        summary = self._open.pop(proof)
        summary.end(proof)
        self.totals.add(summary)
        self.recent.append(summary)
        if summary.aborted_reason is not None:
            self.recent_aborted.append(summary)
        self.news.put(ProofEnded(summary))

    def _close_layer(self, layer: Interval) -> None:
        summary = self._open.get(layer.proof) if layer.proof is not None else None
        if summary is not None:
            summary.count_layer(layer)
        kind, duration_ns = layer.layer_kind, layer.duration_ns or 0
        tally = self.by_kind.get(kind)
        if tally is None:
            tally = self.by_kind[kind] = DurationTally()
        tally.add(duration_ns)
        self._layers_seen += 1
        slowest = self._slowest
        if len(slowest) < self._max_slowest or (slowest and duration_ns > slowest[0][0]):
            found = summarize_layer(layer, summary.number if summary is not None else 0)
            heapq.heappush(slowest, (duration_ns, -self._layers_seen, found))
            if len(slowest) > self._max_slowest:
                heapq.heappop(slowest)

    # What is noted

    def note_log(self, change: Noted) -> None:
        """Take a line of the producer's log."""
        event = change.envelope.event
        assert isinstance(event, Log)
        self.log_counts[event.level] = self.log_counts.get(event.level, 0) + 1
        if event.level in SHOWN_LEVELS:
            self.news.put(LogLine(event.level, clip(event.message)))

    def note_gpu_status(self, change: Noted) -> None:
        """Take what the producer reports of its devices."""
        event = change.envelope.event
        assert isinstance(event, GpuStatus)
        self.devices.take(event)

    def _plugin_health(self, event: PluginHealth) -> None:
        before = self.health.get(event.plugin)
        if before is None and len(self.health) >= MAX_PLUGINS:
            return
        self.health[event.plugin] = event
        # What is wrong before anything was opened, the command says itself.
        if self._was_opened and event.status in NOT_WORKING and (before is None or before.status != event.status):
            self.news.put(PluginTrouble(event))

    def _trace_started(self, session_id: str, event: TraceStarted) -> None:
        for summary in (*self._open.values(), *reversed(self.recent)):
            if summary.session_id == session_id and summary.ordinal == event.proof:
                summary.trace_id, summary.trace_sampled = clip(event.trace_id), event.sampled
                return


_NOTED: dict[type, Callable[[RunSummary, Noted], None]] = {
    Log: RunSummary.note_log,
    GpuStatus: RunSummary.note_gpu_status,
}
