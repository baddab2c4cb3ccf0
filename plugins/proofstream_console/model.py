"""What the console knows: a summary of all sessions that stays small however long they run.

It is pure: envelopes go in, and the views read its attributes. Nothing in it grows with the number of events or proofs.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from proofstream import (
    Change,
    Closed,
    Envelope,
    EventsLost,
    GpuStatus,
    Interval,
    IntervalKind,
    LayerEnd,
    LayerStart,
    Log,
    LogLevel,
    Noted,
    Opened,
    PluginHealth,
    Proof,
    ProofStart,
    SessionClosed,
    SessionOpened,
    Timelines,
    TraceStarted,
)
from proofstream_console.devices import Devices
from proofstream_console.news import LogLine, News, NewsDesk, PluginTrouble, ProofEnded, ProofOpened

MAX_PLUGINS = 64
"""Plugins whose condition is remembered."""

_ABOUT_OURSELVES = (SessionOpened, SessionClosed, EventsLost, PluginHealth, TraceStarted)

_LEVELS_SHOWN = frozenset({LogLevel.Info, LogLevel.Warn, LogLevel.Error, LogLevel.Unknown})


@dataclass(slots=True)
class Tally:
    """Intervals of one kind: how many ended, and their time together and at most, in nanoseconds."""

    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0

    def add(self, duration_ns: int) -> None:
        """Count one that took so long."""
        self.count += 1
        self.total_ns += duration_ns
        self.longest_ns = max(self.longest_ns, duration_ns)

    @property
    def mean_ns(self) -> float:
        """The mean time."""
        return self.total_ns / self.count if self.count else 0.0


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer as the closing table shows it; the shapes are None if its start was not seen."""

    index: int
    kind: str
    duration_ns: int
    rounds: int
    input_shape: tuple[int, int] | None
    output_shape: tuple[int, int] | None
    start_seen: bool
    end_seen: bool
    aborted: bool
    proof_number: int


@dataclass(slots=True)
class ProofSummary:
    """One proof. `proof` is the timeline's own, and let go when it ends.

    Attributes:
        number: How many proofs the console had seen before.
        model: The model's name as the producer wrote it, or None.
        backend: The backend as the producer wrote it, or None if the start was not seen.
        num_layers: Layers announced, or None.
        layers_done: Layers that came to their end, whether or not an end event was seen.
        layers_left_behind: The same, with the open layers that another one followed on the same device.
        layers_ended: Those with an end event.
        layers_without_end: Layers whose end event never came although their proof went on.
        rounds: Sumcheck rounds counted.
        lost: Events known to be missing while it was open.
        duration_ns: Measured from envelope times; None while it is open.
        reported_ms: The producer's own durations of its layers, summed.
        aborted_reason: Why it ended without success, or None.
        last_layer: The layer that began last, as `(index, kind)`, or None.
        trace_id: Its trace, once one was started.
        start_seen: Whether its start event was seen.
    """

    number: int
    session_id: str
    job_id: str | None
    ordinal: int
    model: str | None
    backend: str | None
    num_layers: int | None
    start_seen: bool
    proof: Proof | None
    layers_done: int = 0
    layers_left_behind: int = 0
    layers_ended: int = 0
    layers_without_end: int = 0
    rounds: int = 0
    lost: int = 0
    duration_ns: int | None = None
    reported_ms: int = 0
    aborted_reason: str | None = None
    last_layer: tuple[int, str] | None = None
    trace_id: str | None = None

    @property
    def progress(self) -> float | None:
        """Layers that the walk has left behind over layers announced, from 0 to 1; None if none were announced."""
        return min(1.0, self.layers_left_behind / self.num_layers) if self.num_layers else None


@dataclass(slots=True)
class SessionState:
    """An open session: where it comes from, its latest event time and when that was seen on our clock."""

    source: str
    latest_unix_nano: int
    seen_at: float


@dataclass(slots=True)
class Totals:
    """Sums over everything that has ended."""

    events: int = 0
    sessions: int = 0
    proofs: int = 0
    complete: int = 0
    aborted: int = 0
    layers_done: int = 0
    layers_ended: int = 0
    layers_without_end: int = 0
    rounds: int = 0
    lost: int = 0
    refused: int = 0
    reported_ms: int = 0
    proof_time: Tally = field(default_factory=Tally)


class Model:
    """The summary.

    Args:
        clock: A monotonic clock in seconds.
        live: Whether events happen while they are read: then what is open goes on with the clock, else with the events.
        max_recent: Ended proofs that are remembered one by one.
        max_slowest: Slowest layers that are remembered.
    """

    def __init__(
        self, *, clock: Callable[[], float], live: bool = True, max_recent: int = 20, max_slowest: int = 5
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
        self.sessions: dict[str, SessionState] = {}
        self.sources: deque[str] = deque(maxlen=3)
        self.time_sources: set[str] = set()
        self.recent: deque[ProofSummary] = deque(maxlen=max_recent)
        self.recent_aborted: deque[ProofSummary] = deque(maxlen=max_recent)
        self.by_kind: dict[str, Tally] = {}
        self.parts: dict[IntervalKind, Tally] = {}
        self.devices = Devices()
        self.health: dict[str, PluginHealth] = {}
        self.news = NewsDesk()
        self.log_counts: dict[LogLevel, int] = {}

    # What the views ask

    @property
    def open_proofs(self) -> list[ProofSummary]:
        """The proofs that are open, in the order in which they began; their counts are brought up to date."""
        for proof, summary in self._open.items():
            _update(summary, proof)
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
        return [h for h in self.health.values() if h.status in {"stalled", "failed"} or h.dropped]

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
            # These two belong to no producer's flow.
            if isinstance(event, PluginHealth):
                self._plugin_health(event)
                return
            if isinstance(event, TraceStarted):
                self._trace_started(envelope.session_id, event)
                return
        session = self.sessions.get(envelope.session_id)
        if session is None:
            session = self._open_session(envelope)
        session.seen_at = self._batch_at
        session.latest_unix_nano = max(session.latest_unix_nano, envelope.time_unix_nano)
        if isinstance(event, SessionClosed):
            # The timeline forgets the session with this event.
            self.totals.lost += self._timelines.session(envelope.session_id).lost_events
        for change in self._timelines.feed(envelope):
            self._apply(change)
        if isinstance(event, SessionClosed):
            self.totals.refused += event.refused
            del self.sessions[envelope.session_id]

    def _open_session(self, envelope: Envelope) -> SessionState:
        event = envelope.event
        opened = event if isinstance(event, SessionOpened) else None
        session = SessionState(
            source=opened.source if opened is not None else envelope.session_id,
            latest_unix_nano=envelope.time_unix_nano,
            seen_at=self._batch_at,
        )
        self.sessions[envelope.session_id] = session
        self.totals.sessions += 1
        self.sources.append(session.source)
        if opened is not None:
            self.time_sources.add(opened.time_source)
        return session

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
            self._close_layer(change)
        else:
            self.parts.setdefault(change.interval.kind, Tally()).add(change.interval.duration_ns or 0)

    # Proofs and layers

    def _open_proof(self, proof: Proof) -> None:
        event = proof.opened.event if proof.opened is not None else None
        start = event if isinstance(event, ProofStart) else None
        summary = ProofSummary(
            number=self.totals.proofs,
            session_id=proof.session_id,
            job_id=proof.job_id,
            ordinal=proof.proof_ordinal,
            model=start.model_name if start is not None else None,
            backend=start.backend if start is not None else None,
            num_layers=proof.num_layers,
            start_seen=proof.start_seen,
            proof=proof,
        )
        self.totals.proofs += 1
        self._open[proof] = summary
        self.news.put(ProofOpened(summary))

    def _close_proof(self, proof: Proof) -> None:
        summary = self._open.pop(proof)
        summary.proof = None
        _update(summary, proof)
        summary.duration_ns = proof.duration_ns
        summary.aborted_reason = proof.aborted_reason
        last = proof.last_layer
        if last is not None and last.key is not None:
            summary.last_layer = (last.key, last.layer_kind)
        self._add_to_totals(summary)
        self.recent.append(summary)
        if summary.aborted_reason is not None:
            self.recent_aborted.append(summary)
        self.news.put(ProofEnded(summary))

    def _add_to_totals(self, summary: ProofSummary) -> None:
        totals = self.totals
        if summary.aborted_reason is None:
            totals.complete += 1
        else:
            totals.aborted += 1
        totals.layers_done += summary.layers_done
        totals.layers_ended += summary.layers_ended
        totals.layers_without_end += summary.layers_without_end
        totals.rounds += summary.rounds
        totals.reported_ms += summary.reported_ms
        totals.proof_time.add(summary.duration_ns or 0)

    def _close_layer(self, change: Closed) -> None:
        layer = change.interval
        duration_ns = layer.duration_ns or 0
        summary = self._open.get(layer.proof) if layer.proof is not None else None
        if summary is not None:
            _count_layer(summary, layer)
        kind = layer.layer_kind
        tally = self.by_kind.get(kind)
        if tally is None:
            tally = self.by_kind[kind] = Tally()
        tally.add(duration_ns)
        self._layers_seen += 1
        slowest = self._slowest
        if self._max_slowest and (len(slowest) < self._max_slowest or duration_ns > slowest[0][0]):
            item = (duration_ns, -self._layers_seen, _layer_summary(layer, summary.number if summary else 0))
            (heapq.heappush if len(slowest) < self._max_slowest else heapq.heapreplace)(slowest, item)

    # What is noted

    def note_log(self, change: Noted) -> None:
        """Take a line of the producer's log."""
        event = change.envelope.event
        assert isinstance(event, Log)
        self.log_counts[event.level] = self.log_counts.get(event.level, 0) + 1
        if event.level in _LEVELS_SHOWN:
            self.news.put(LogLine(event.level, event.message))

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
        if event.status in {"stalled", "failed"} and (before is None or before.status != event.status):
            self.news.put(PluginTrouble(event))

    def _trace_started(self, session_id: str, event: TraceStarted) -> None:
        for summary in (*self._open.values(), *reversed(self.recent)):
            if summary.session_id == session_id and summary.ordinal == event.proof:
                summary.trace_id = event.trace_id
                return

    def take_news(self) -> list[News]:
        """What happened since the last time, oldest first."""
        return self.news.take()


def _update(summary: ProofSummary, proof: Proof) -> None:
    summary.rounds, summary.lost, summary.num_layers = proof.rounds, proof.lost_events, proof.num_layers
    # A layer that another one followed is done, although its end event may still come.
    summary.layers_left_behind = summary.layers_done + len(proof.open_layers) - len(proof.active_layers)


def _count_layer(summary: ProofSummary, layer: Interval) -> None:
    if layer.aborted_reason is None:
        summary.layers_done += 1
    if layer.closed is None:
        summary.layers_without_end += layer.aborted_reason is None
        return
    summary.layers_ended += 1
    event = layer.closed.event
    if isinstance(event, LayerEnd):
        summary.reported_ms += event.duration_ms


def _layer_summary(layer: Interval, proof_number: int) -> LayerSummary:
    event = layer.opened.event if layer.opened is not None else None
    start = event if isinstance(event, LayerStart) else None
    return LayerSummary(
        index=layer.key or 0,
        kind=layer.layer_kind,
        duration_ns=layer.duration_ns or 0,
        rounds=layer.rounds,
        input_shape=start.input_shape if start is not None else None,
        output_shape=start.output_shape if start is not None else None,
        start_seen=layer.start_seen,
        end_seen=layer.end_seen,
        aborted=layer.aborted_reason is not None,
        proof_number=proof_number,
    )


_NOTED: dict[type, Callable[[Model, Noted], None]] = {Log: Model.note_log, GpuStatus: Model.note_gpu_status}
