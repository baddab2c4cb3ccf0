"""Serves a plugin on a lane: a queue with a thread of its own.

The plugin is configured, fed and unconfigured on that thread, so its hooks never overlap. A lane never makes a producer
wait: what its queue cannot hold is dropped, counted and reported in the place of the gap.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from proofstream.envelopes import Batch, EnvelopeRun
from proofstream.errors import describe, in_parentheses
from proofstream.events import PluginHealth, ProofEvent
from proofstream.forks import IMPORTS_S, WORK_S, apart_from_forks, ending_forked_children
from proofstream.health import PluginStatus
from proofstream.hooks import each_of
from proofstream.hookspecs import PluginContext
from proofstream.intake import Wakeup
from proofstream.lane_queue import LaneQueue, QueueBounds
from proofstream.loader import PluginRecord, mark_unconfigured
from proofstream.threads import start_thread

if TYPE_CHECKING:
    from proofstream.config import HostSettings
    from proofstream.hooks import Hooks

HEALTH_EVERY_S = 2.0

_log = logging.getLogger("proofstream.lane")


class Lane:
    """One plugin's queue and thread.

    Attributes:
        queue: The envelopes that wait.
        withheld: Sessions whose events the plugin does not get.
        must_be_complete: Whether the user wants the plugin, and gaps would spoil its output.

    Args:
        record: The plugin; its status is kept up to date.
        context: The context to configure the plugin in.
        settings: The host's bounds and deadlines.
        publish: Publishes the events that the plugin returned for a batch.
        wake_bus: Tells the bus that the lane's state changed, or that it has published events.
        tell_room: Tells sources that are held back that the lane has room.
        traceback_hint: Says how to see the traceback of a plugin that failed.
        publishers: The plugins whose events may fill only a share of the queue.
    """

    def __init__(
        self,
        *,
        record: PluginRecord,
        hooks: Hooks,
        context: PluginContext,
        settings: HostSettings,
        publish: Callable[[Batch, Sequence[ProofEvent]], None],
        wake_bus: Callable[[], None],
        tell_room: Callable[[], None],
        traceback_hint: str,
        publishers: Collection[str] = (),
    ) -> None:
        self.record = record
        self.name: str = record.name
        self.configured: threading.Event = threading.Event()
        self.stopped: threading.Event = threading.Event()
        self.withheld: set[str] = set()
        self.delivered: int = 0
        self.counters: dict[str, int] = {}
        self.progress_at: float = time.monotonic()
        self._hooks = hooks
        self._context = context
        self._settings = settings
        self._publish = publish
        self._wake_bus = wake_bus
        self._tell_room = tell_room
        self._traceback_hint = traceback_hint
        # A user who writes settings for a plugin wants it as much as one who names it.
        self.must_be_complete: bool = record.complete and (context.asked or bool(context.config))
        bounds = queue_bounds(settings, keeps_bulk=self.must_be_complete, publishers=publishers)
        self.queue: LaneQueue = LaneQueue(record.name, bounds)
        self._wakeup = Wakeup()
        self._busy_since: float | None = time.monotonic()
        self._stop_at: float | None = None
        self._discard = False
        self._status_lock = threading.Lock()  # the bus sets the status, too: a lane that hangs cannot
        self._health_at = 0.0
        self._tick_at: float | None = None
        self._named_byte_bound = False
        self._thread = threading.Thread(target=self._run, name=f"proofstream-{record.name}", daemon=True)
        record.status = PluginStatus.STARTING

    # Called by the bus and the host

    def start(self) -> None:
        """Start the thread, which configures the plugin."""
        start_thread(self._thread)

    def give_up_unstarted(self, reason: str) -> None:
        """Let the bus and the host go on without the lane if its thread was not started."""
        if self._thread.ident is None:
            self._set_status(PluginStatus.BROKEN, reason)
            self._busy_since = None
            self.configured.set()
            self.stopped.set()

    @property
    def depth(self) -> int:
        """The number of envelopes that wait."""
        return len(self.queue)

    @property
    def is_listening(self) -> bool:
        """Whether the plugin gets events, now or soon."""
        return self.record.status in (PluginStatus.STARTING, PluginStatus.READY, PluginStatus.STALLED)

    @property
    def holds(self) -> bool:
        """Whether sources that can wait should wait for it."""
        return self.record.status in (PluginStatus.STARTING, PluginStatus.READY)

    @property
    def is_at_rest(self) -> bool:
        """Whether the plugin has nothing left to do, for good or until more events arrive."""
        return not self.is_listening or (not self.queue and self._busy_since is None)

    def progress(self) -> None:
        """Record that work moved on."""
        self.progress_at = time.monotonic()

    def feed(self, runs: Iterable[EnvelopeRun]) -> None:
        """Queue envelopes that the bus has numbered; on the bus's thread."""
        if not self.is_listening:
            return
        queue = self.queue
        for run in runs:
            # A plugin never gets what descends from its own output, so chains of plugins end.
            if self.name in run.lineage or run.session_id in self.withheld:
                if run.ends_session:
                    self.withheld.discard(run.session_id)
                continue
            wanted = run if self.record.wants is None else run.only(self.record.wants)
            if wanted.envelopes:
                queue.offer_run(wanted)
        queue.note_arrival(self.delivered)
        if queue.hit_byte_bound and not self._named_byte_bound:
            self._named_byte_bound = True
            _log.warning(
                "plugin %s is behind, and its queue has reached its share of memory_bytes = %d: events are dropped",
                self.record.label,
                self._settings.memory_bytes,
            )
        self._wakeup.set()

    def check_stalled(self, now: float) -> None:
        """Mark the lane as stalled if it is busy with one batch for too long, or as back; on the bus's thread."""
        record = self.record
        with self._status_lock:
            since, status = self._busy_since, record.status
            too_long = since is not None and now - since > self._settings.stalled_after_s
            stalls = too_long and self.holds
            if stalls:
                work = "getting ready" if status is PluginStatus.STARTING else "busy with one batch"
                reason = f"{work} for more than {self._settings.stalled_after_s:g} s"
                record.status, record.reason = PluginStatus.STALLED, reason
            elif status is PluginStatus.STALLED and not too_long:
                record.status, record.reason = PluginStatus.READY, None
        if stalls:
            _log.warning(
                "plugin %s is stalled (%s); the run goes on without waiting for it", record.label, record.reason
            )

    def request_stop(self, *, deadline: float, discard: bool) -> None:
        """Ask the thread to unconfigure the plugin and end; with `discard`, drop and count waiting envelopes."""
        self._discard = discard  # set first, so that the thread sees it when it sees the deadline
        self._stop_at = deadline
        self._wakeup.set()

    def count_rest(self) -> None:
        """Count the envelopes that the bus still queued after the thread had ended."""
        if self.stopped.is_set() and self.is_listening:
            self.queue.drop_all()

    def health(self) -> PluginHealth:
        """Return the lane's condition as an event."""
        return PluginHealth(
            plugin=self.name,
            status=self.record.status.value,
            reason=self.record.reason,
            depth=self.depth,
            delivered=self.delivered,
            dropped=dict(self.queue.dropped),
            counters=dict(self.counters),
            lag_s=self.lag_s,
            derives=list(self.record.derives),
        )

    @property
    def lag_s(self) -> float:
        """How many seconds the oldest envelope has been here that the plugin is not done with; 0 without one."""
        if not self.is_listening:
            return 0.0
        return self.queue.lag_s(self.delivered)

    # On the lane's own thread

    def _set_status(self, status: PluginStatus, reason: str | None = None) -> None:
        with self._status_lock:
            self.record.status, self.record.reason = status, reason

    def _run(self) -> None:
        try:
            if self._configure():
                self._serve()
                self._finish()
        finally:
            self._busy_since = None
            self.stopped.set()
            self._wake_bus()

    def _configure(self) -> bool:
        try:
            with self._plugin_at_work(IMPORTS_S):
                wanted = self._hooks.configure(self._context)
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, also SystemExit; its lane must say so
            with self._status_lock:
                mark_unconfigured(self.record, error, hint=self._hint() or None)
            _log.debug("plugin %s could not be configured", self.record.label, exc_info=True)
        else:
            self._set_status(PluginStatus.READY if wanted else PluginStatus.IDLE)
        self._busy_since = None
        self.progress()
        self.configured.set()
        self._wake_bus()
        if self.record.status is PluginStatus.READY:
            return True
        self.queue.clear()
        return False

    def _serve(self) -> None:
        while True:
            batch = self._take()
            if batch is None or not self._deliver(batch):
                return

    def _take(self) -> Batch | None:
        """Return the next batch; an empty one when it is time for a tick; None when the lane must end."""
        while True:
            # Busy before anything is popped: otherwise another thread could see an empty queue and an idle lane between
            # the two, and take the lane to be at rest.
            self._busy_since = time.monotonic()
            if self._is_time_to_tick(self._busy_since):
                return ()
            batch = self._pop()
            if batch:
                return batch
            self._busy_since = None
            if self._stop_at is not None:
                return None
            pause_s = HEALTH_EVERY_S if self._tick_at is None else self._tick_at - time.monotonic()
            self._wakeup.wait(max(0.0, min(HEALTH_EVERY_S, pause_s)))

    def _is_time_to_tick(self, now: float) -> bool:
        """Return whether `tick_s` have passed since the last tick, whether events keep coming or not.

        A plugin flushes on its ticks. If only an idle lane ticked, a slow and steady stream would never be flushed.
        """
        if self.record.tick_s is None or self._stop_at is not None:
            return False
        due = self._tick_at is not None and now >= self._tick_at
        if due or self._tick_at is None:
            self._tick_at = now + self.record.tick_s
        return due

    def _pop(self) -> Batch:
        if self._discard:
            self.queue.drop_all()
            return ()
        return self.queue.take_batch()

    def _deliver(self, batch: Batch) -> bool:
        try:
            with self._plugin_at_work():
                derived = self._hooks.call("proofstream_consume", batch=batch)
                events = () if derived is None else _checked(derived, at_most=self._settings.intake_capacity)
                self._report_health()
            if events:
                self._publish(batch, events)  # logs what is not declared, and an application's logging may raise
                self._wake_bus()
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, also SystemExit; its lane must say so
            self._fail(error)
            return False
        self.delivered += len(batch)
        self._busy_since = None
        self.progress()
        if not self.queue:
            self._tell_room()
        return True

    def _report_health(self) -> None:
        now = time.monotonic()
        if now >= self._health_at:
            self._health_at = now + HEALTH_EVERY_S
            self.counters = dict(self._hooks.report_health())

    def _fail(self, error: BaseException) -> None:
        self._set_status(PluginStatus.FAILED, describe(error))
        self.queue.clear()
        self._busy_since = None
        hint = in_parentheses(self._hint())
        _log.error("plugin %s failed and is disabled: %s%s", self.record.label, self.record.reason, hint)
        _log.debug("plugin %s failed", self.record.label, exc_info=error)
        self._wake_bus()
        self._unconfigure(self._settings.close_timeout_s)

    def _finish(self) -> None:
        if self.record.status is PluginStatus.FAILED:
            return
        deadline = self._stop_at if self._stop_at is not None else time.monotonic()
        self._unconfigure(max(0.0, deadline - time.monotonic()))

    def _unconfigure(self, timeout_s: float) -> None:
        self._busy_since = time.monotonic()
        try:
            with self._plugin_at_work():
                self._hooks.call("proofstream_unconfigure", timeout_s=timeout_s)
                self.counters = dict(self._hooks.report_health())
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, also SystemExit; its lane must say so
            if self.record.status is not PluginStatus.FAILED:
                self._set_status(PluginStatus.FAILED, f"while closing: {describe(error)}")
            hint = in_parentheses(self._hint())
            _log.error("plugin %s could not be closed: %s%s", self.record.label, describe(error), hint)
            _log.debug("plugin %s could not be closed", self.record.label, exc_info=error)

    @contextlib.contextmanager
    def _plugin_at_work(self, patience_s: float = WORK_S) -> Generator[None]:
        with apart_from_forks(f"plugin {self.record.label}", patience_s), ending_forked_children():
            yield

    def _hint(self) -> str:
        """Return how to see a traceback; nothing where it is logged already."""
        return "" if _log.isEnabledFor(logging.DEBUG) else self._traceback_hint


def queue_bounds(settings: HostSettings, *, keeps_bulk: bool = False, publishers: Collection[str] = ()) -> QueueBounds:
    """Return the bounds of a lane's queue. All lanes hold the same events, so each may fill half of the memory."""
    return QueueBounds(
        capacity=settings.lane_capacity,
        max_bytes=settings.memory_bytes // 2,
        keeps_bulk=keeps_bulk,
        publishers=publishers,
    )


def _checked(derived: Iterable[Any], *, at_most: int) -> tuple[ProofEvent, ...]:
    """Return a plugin's result as events. Count them one by one, because the result may be an endless iterator."""
    events: list[ProofEvent] = []
    for event in each_of(derived, "proofstream_consume", of="events"):
        if not isinstance(event, ProofEvent):
            raise TypeError(f"proofstream_consume returned {type(event).__name__}, not an event")
        if len(events) >= at_most:
            raise ValueError(f"proofstream_consume returned more than {at_most} events for one batch")
        events.append(event)
    return tuple(events)
