"""Holds together the plugins, lanes and bus of one run, and the sessions that feed them."""

from __future__ import annotations

import logging
import math
import os
import platform
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from proofstream.bus import Bus
from proofstream.closing import Closer
from proofstream.counts import count_kind
from proofstream.envelopes import HOST, NO_CAPTURES
from proofstream.errors import PluginError, describe, in_parentheses
from proofstream.events import PluginHealth, SessionOpened
from proofstream.exits import forget_host, watch_host
from proofstream.health import PluginStatus
from proofstream.hookspecs import PluginContext
from proofstream.intake import Intake, Posted
from proofstream.lanes import Lane, queue_bounds
from proofstream.loader import TRACEBACK_HINT, PluginRecord, Registry
from proofstream.notices import stay_audible, warn_user
from proofstream.publishing import Publisher, flood_problems
from proofstream.report import Report
from proofstream.reservations import Reservations
from proofstream.session import Session, SessionOwner
from proofstream.text import LONGEST_LINE, safe_text
from proofstream.threads import ThreadError
from proofstream.undelivered import Retired, Wanted
from proofstream.version import __version__
from proofstream.waiting import wait_until
from proofstream.wire import LineDecoder

if TYPE_CHECKING:
    from proofstream.config import Config, HostSettings

HEALTH_EVENT_EVERY_S = 5.0
_DRAIN_SHARE = 0.6
_DEADLINE_CHECK_S = 0.1
_GIVE_UP_S = 1.0
_LONGEST_S = 365 * 24 * 3600.0
_IN_CHILD = "this is the child of a fork, and the session is its parent's; call open_session in the child"
_LONGEST_TRACESTATE = 512
"""W3C asks for this many characters to be passed on."""
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")

_log = logging.getLogger("proofstream.host")


class Host:
    """Runs plugins for any number of sessions.

    Args:
        registry: The plugins.
        config: The merged configuration.
        asked: Names of plugins that must work; each must be usable.
        wanted: Names of plugins that may fail to get ready; each must be usable.
        optional: Those of both that may fail to get ready all the same, because a command turned them on by itself.
        live: False if recorded events are replayed.
        may_be_idle: Whether a plugin that was asked for may have nothing to do.
        tell: Shows a plugin's line to the user without waiting; by default it goes to the logger ``proofstream``.
        on_end: Gets the report once, on a thread of the host; for a caller that may not live to see it from `close`.
        on_useless: Gets a line for each plugin that gets no events although it should, as soon as that is known, on a
            thread of the host, and whether it is logged already; for a caller that does not wait until plugins are
            configured.
        traceback_hint: Says how to see the traceback of a plugin that failed.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        config: Config,
        asked: Sequence[str],
        wanted: Sequence[str] = (),
        optional: Collection[str] = (),
        live: bool = True,
        may_be_idle: bool = False,
        clock: Callable[[], int] = time.monotonic_ns,
        wall_clock: Callable[[], int] = time.time_ns,
        tell: Callable[[str], None] | None = None,
        on_end: Callable[[Report], None] | None = None,
        on_useless: Callable[[str, bool], None] | None = None,
        traceback_hint: str = TRACEBACK_HINT,
    ) -> None:
        self.registry = registry
        self.settings: HostSettings = config.host
        self.live = live
        self.identity: dict[str, str] = _identity()
        self.sessions: dict[str, Session] = {}
        self.sessions_opened: int = 0
        self._config = config
        self._tell = _log_line if tell is None else tell
        self._traceback_hint = traceback_hint
        self.intake: Intake = Intake(
            capacity=self.settings.intake_capacity, clock=clock, max_bytes=self.settings.memory_bytes // 2
        )
        self._own_session = Session(
            intake=self.intake,
            owner=self,
            source="proofstream",
            session_id=f"host-{self.identity['service.instance.id']}",
        )
        self._published: dict[str, tuple[float, PluginHealth]] = {}
        self._capture_failed: set[str] = set()
        self.retired: Retired = Retired()
        self.asked: frozenset[str] = frozenset(asked)
        self._optional = frozenset(optional)
        self._may_be_idle = may_be_idle
        records = [registry.require(name) for name in dict.fromkeys((*asked, *wanted))]
        # Recorded events of these plugins are kept in a replay, which the gate paces already.
        kept = {record.name for record in records if not live and record.rederives == "asked"}
        self._live_publishers = frozenset(record.name for record in records) - kept
        self.publishers: dict[str, Publisher] = {record.name: self._new_publisher(record.name) for record in records}
        acting = [record for record in records if record.hooks is not None and record.hooks.act]
        # Before any plugin is configured, because all results of a run get the same number.
        self.reservations: Reservations = Reservations(
            registry.options.values(), {record.name: config.table(record.name) for record in acting}
        )
        if self.reservations.notice is not None:
            warn_user(self.reservations.notice)
        self.lanes: list[Lane] = [self._lane(record) for record in acting]
        self._expected_idle = frozenset(lane.name for lane in self.lanes if self._will_sit_out(lane))
        self.intake.listening = self._is_heard
        self.bus: Bus = Bus(
            intake=self.intake,
            decoder=LineDecoder(registry.catalog),
            lanes=self.lanes,
            wall_clock=wall_clock,
            on_tick=self._tick,
            bounds=queue_bounds(self.settings),
        )
        for publisher in self.publishers.values():
            self.bus.watch(publisher.sender)
        self._wanted = Wanted(
            lanes=self.lanes,
            bus=self.bus,
            asked=self.asked,
            chosen=self.asked | (self._chosen - self._optional),
            may_be_idle=may_be_idle,
        )
        self._on_end = on_end
        self._on_useless = on_useless
        self._said_useless: set[str] = set()
        self._lost_facts: dict[str, int] = {}
        self._ending: tuple[str, str | None] = ("ended", None)
        self._started_at = time.monotonic()
        self._finish_s = self.settings.close_timeout_s
        self._finish_by = math.inf
        self._report: Report | None = None
        self._closer = Closer(self._end)
        self._pid = os.getpid()

    def _lane(self, record: PluginRecord) -> Lane:
        hooks = record.hooks
        if hooks is None:
            raise record.error()
        lanes: list[Lane] = []
        publisher = self.publishers[record.name]
        context = PluginContext(
            config=self.reservations.table_of(record.name),
            catalog=self.registry.catalog,
            publish=publisher.publish,
            progress=lambda: lanes[0].progress(),  # noqa: PLW0108 - the lane is made with the context, so not yet
            tell=self.tell,
            identity=self.identity,
            asked=record.name in self.asked,
            live=self.live,
            log=logging.getLogger(f"proofstream.plugin.{record.name}"),
            outputs=self.reservations.outputs_of(record.name),
        )
        lane = Lane(
            record=record,
            hooks=hooks,
            context=context,
            settings=self.settings,
            publish=publisher.publish_returned,
            wake_bus=self._note_lane,
            tell_room=lambda: self.bus.gate.notify(),  # noqa: PLW0108 - the bus is made with the lanes, so not yet
            traceback_hint=self._traceback_hint,
            publishers=self._live_publishers,
        )
        lanes.append(lane)
        return lane

    def start(self) -> None:
        """Start the lanes and the bus. Plugins are configured on their lanes; this does not wait for them.

        Raises:
            ThreadError: A thread cannot be started.
        """
        self._started_at = time.monotonic()
        watch_host(self)
        try:
            for start in (self._closer.start, self.bus.start, *(lane.start for lane in self.lanes)):
                start()
        except ThreadError as error:
            self._give_up(str(error))
            raise

    def _give_up(self, reason: str) -> None:
        """End what was started before a thread could not be. This does not wait."""
        self._on_end = self._on_useless = None  # the caller says it
        for lane in self.lanes:
            lane.give_up_unstarted(reason)
        if self._closer.is_started:
            self._request_close(_GIVE_UP_S if self.bus.is_started else 0.0)
        else:
            for lane in self.lanes:
                self.reservations.release(lane.name)
            forget_host(self)

    def wait_configured(self, *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Wait until the plugins are configured, or until it is time to stop.

        Raises:
            PluginError: A plugin that was asked for or has settings could not be configured, or one that was asked for
                took longer than ``configure_timeout_s``.
            ProofstreamError: Such a plugin raised it while it was configured: a ConfigError, say.
        """
        deadline = time.monotonic() + self.settings.configure_timeout_s
        for lane in self.lanes:
            in_time = wait_until(lambda: lane.configured.is_set() or stopping(), deadline=deadline)  # noqa: B023 - called here
            record = lane.record
            if stopping():
                return
            must_work = lane.name in self.asked and lane.name not in self._optional
            if not in_time and must_work:
                record.reason = f"not ready after {self.settings.configure_timeout_s:g} s"
                raise record.error()
            if record.status is PluginStatus.IDLE and must_work and not self._may_be_idle:
                raise PluginError(
                    f"plugin {record.label} was asked for and has nothing to do", hint="see: proofstream run --help"
                )
            if record.status not in (PluginStatus.BROKEN, PluginStatus.MISSING):
                continue
            if lane.name in self._chosen and lane.name not in self._optional:
                raise record.error()
            hint = in_parentheses(record.hint)
            _log.warning("plugin %s is %s: %s%s", record.label, record.status.value, record.reason, hint)

    @property
    def is_configured(self) -> bool:
        """Whether no plugin is still getting ready."""
        return all(lane.configured.is_set() for lane in self.lanes)

    @property
    def active(self) -> list[str]:
        """The names of the plugins that take events."""
        return [lane.name for lane in self.lanes if lane.is_listening]

    @property
    def introduced(self) -> list[str]:
        """The names of the active plugins that a run begins by listing.

        A plugin with `derives` answers only where events call for it, so to name it would promise too much, unless the
        user asked for it or gave it settings.
        """
        return [lane.name for lane in self._introduced]

    @property
    def _introduced(self) -> list[Lane]:
        chosen = self._chosen
        return [lane for lane in self.lanes if lane.is_listening and (lane.name in chosen or not lane.record.derives)]

    @property
    def shows_only(self) -> bool:
        """Whether all there is to see is what the command shows by itself."""
        return all(lane.record.autoload == "command" for lane in self._introduced)

    @property
    def written(self) -> list[tuple[Path, str]]:
        """The results that were written, each with its next step."""
        unable = {lane.name for lane in self.lanes if lane.record.status in (PluginStatus.BROKEN, PluginStatus.MISSING)}
        return [(each.output.path, each.next_step) for each in self.reservations.written if each.plugin not in unable]

    @property
    def _chosen(self) -> frozenset[str]:
        """The plugins that were asked for, and those with settings: a user who writes some wants the plugin to work."""
        return self.asked | {name for name, table in self._config.tables.items() if table}

    @property
    def _is_heard(self) -> bool:
        """Whether a plugin gets events, now or soon, from which something comes that is not for other plugins alone."""
        return any(lane.is_listening and not self._is_deaf(lane) for lane in self.lanes)

    def _is_deaf(self, lane: Lane) -> bool:
        if lane.record.only_publishes and lane.name not in self._chosen:
            return True
        return lane.record.status is PluginStatus.STARTING and lane.name in self._expected_idle

    def _will_sit_out(self, lane: Lane) -> bool:
        """Return whether it is known that a plugin has nothing to do, before it is configured."""
        record = lane.record
        if self._config.table(lane.name) or record.given_settings or record.hooks is None:
            return False
        try:
            return getattr(record.hooks.plugin, "needs_settings", False) is True
        except Exception:  # noqa: BLE001 - a property of a third-party plugin, on the prover's thread
            return False

    def _note_lane(self) -> None:
        """Note that a lane's state has changed, and wake the bus. Called on the lane's thread."""
        self.intake.listening = self._is_heard
        self.intake.wakeup.set()

    def keep_as_recorded(self, session: Session) -> frozenset[str]:
        """Withhold a recorded session from the plugins that leave those alone; return their names."""
        lanes = [lane for lane in self.lanes if lane.record.rederives == "asked" and lane.name not in self.asked]
        for lane in lanes:
            lane.withheld.add(session.session_id)
        return frozenset(lane.name for lane in lanes)

    def tell(self, line: str) -> None:
        """Show a line to the user. Any thread; never blocks, never raises."""
        try:
            self._tell(safe_text(line, LONGEST_LINE))
        except Exception as error:  # noqa: BLE001 - an application's logging may raise anything; it is not the plugin's fault
            _log.debug("a line could not be shown: %s", describe(error))

    # Sessions

    def new_session(
        self,
        *,
        source: str,
        session_id: str | None = None,
        replayed: bool = False,
        owner: SessionOwner | None = None,
    ) -> Session:
        """Make and register a session, without a SessionOpened yet."""
        session = Session(
            intake=self.intake,
            owner=self if owner is None else owner,
            source=source,
            session_id=session_id,
            replayed=replayed,
        )
        self.sessions[session.session_id] = session
        self.sessions_opened += 1
        self.bus.watch(session)
        return session

    def announce(
        self,
        session: Session,
        *,
        time_source: str,
        opened_at: int | None = None,
        opened_time_source: str | None = None,
        time_resolution_ns: int | None = None,
        in_process: bool = False,
        resource: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Put the session's SessionOpened on the bus; `resource` says more of the process that runs the prover."""
        opened = SessionOpened(
            source=session.source,
            time_source=time_source,
            traceparent=_traceparent(os.environ) if self.live else None,
            tracestate=_tracestate(os.environ) if self.live else msgspec.UNSET,
            resource={**self.identity, **resource} if self.live else {},
            time_resolution_ns=msgspec.UNSET if time_resolution_ns is None else time_resolution_ns,
            in_process=True if in_process else msgspec.UNSET,
        )
        captured = self.capture() if self.live else NO_CAPTURES
        posted = Posted(
            event=opened,
            origin=HOST,
            time_unix_nano=opened_at,
            time_source=opened_time_source,
            captured=captured,
            trace_note=session.trace_note,
        )
        session.has_derived_trace_id = not (captured or opened.traceparent or self._may_join_other_traces)
        self.intake.append_item(session, posted)

    @property
    def _may_join_other_traces(self) -> bool:
        plugins = (lane.record.hooks.plugin for lane in self.lanes if lane.record.hooks is not None)
        try:
            return any(getattr(plugin, "joins_other_traces", False) for plugin in plugins)
        except Exception:  # noqa: BLE001 - a property of a third-party plugin, on the prover's thread
            return True

    def capture(self) -> Mapping[str, object]:
        """Return what plugins capture on this thread, by plugin name."""
        captured: dict[str, object] = {}
        for lane in self.lanes:
            hooks = lane.record.hooks
            if hooks is None or not hooks.has("proofstream_capture"):
                continue
            try:
                value = hooks.call("proofstream_capture")
            except KeyboardInterrupt:
                raise  # the user's
            except BaseException as error:  # noqa: BLE001 - an exception must not reach the prover, whose thread this is
                if lane.name not in self._capture_failed:
                    self._capture_failed.add(lane.name)
                    _log.warning("plugin %s could not capture: %s", lane.record.label, describe(error))
                continue
            if value is not None:
                captured[lane.name] = value
        return captured

    def close_session(
        self, session: Session, timeout_s: float | None = None, *, outcome: str, reason: str | None
    ) -> Report:
        """End a session and forget it; return how things stand. This does not wait for the plugins."""
        session.send_end(outcome, reason)
        if session.unreported and self._on_end is None:  # who gets the report says how many there were in all
            _log.warning("%s: %d more refused", session.source, session.unreported)
        # Two connections may replay the same recorded session at once; the later one has taken the entry over.
        if self.sessions.get(session.session_id) is session:
            del self.sessions[session.session_id]
        self.retired.add_session(session)
        return Report(problems=self.problems, refused=session.refused)

    def flush(self, timeout_s: float) -> bool:
        """Wait until every plugin has consumed all that was emitted before; return whether that happened in time.

        Returns False at once in a forked child, and when the host is closed without having been at rest.
        """
        if self._is_forked:
            return False
        self.intake.wakeup.set()
        wait_until(lambda: self.is_at_rest or self._closer.is_done, deadline=time.monotonic() + timeout_s)
        return self.is_at_rest

    @property
    def is_at_rest(self) -> bool:
        """Whether the plugins are configured and have consumed all events."""
        return self.bus.is_at_rest

    def _new_publisher(self, name: str) -> Publisher:
        return Publisher(
            name,
            # Far below the half of a lane at which sources that can wait are held back, or a storm would starve them.
            share=max(1, self.settings.lane_capacity // 8),
            catalog=self.registry.catalog,
            new_sender=self._sender_of,
            sessions=self.sessions,
            on_retired=self.retired.add_session,
        )

    def _sender_of(self, plugin: str, session_id: str | None) -> Session:
        """Make a sender for a plugin's events; its messages name the plugin. The host's own session by default."""
        own = self._own_session.session_id
        return Session(
            intake=self.intake,
            owner=self,
            source=f"plugin {plugin}",
            session_id=own if session_id is None else session_id,
        )

    # Looking after the lanes, on the bus's thread and once more at the end

    def _tick(self) -> None:
        stay_audible()
        now = time.monotonic()
        for lane in self.lanes:
            lane.check_stalled(now)
            self._publish_health(lane, now)
        self.intake.listening = self._is_heard
        self._count_lost_facts()
        self._say_useless()

    def _count_lost_facts(self) -> None:
        for kind, count in self.intake.lost_facts.take_counts().items():
            count_kind(self._lost_facts, kind, count)

    def _say_useless(self) -> None:
        say = self._on_useless  # which another thread may take away
        if say is None:
            return
        for lane, line in self._wanted.useless():
            if lane.name not in self._said_useless:
                self._said_useless.add(lane.name)
                say(line, lane.record.status is PluginStatus.FAILED)

    @property
    def problems(self) -> list[str]:
        """What was asked for and not delivered so far. Any thread; it does not wait."""
        if self._is_forked:
            return self._problems_in_child
        return self._problems(ended=False) if self._report is None else list(self._report.problems)

    @property
    def _problems_in_child(self) -> list[str]:
        return [_IN_CHILD] if self.lanes else []

    def _problems(self, *, ended: bool) -> list[str]:
        floods = flood_problems(self.publishers, self.lanes)
        return [*floods, *self._wanted.problems(lost_facts=dict(self._lost_facts), ended=ended)]

    def _publish_health(self, lane: Lane, now: float) -> None:
        health = lane.health()
        at, before = self._published.get(lane.name, (0.0, None))
        if before is not None:
            urgent = (health.status, health.dropped) != (before.status, before.dropped)
            if not urgent and (now - at < HEALTH_EVENT_EVERY_S or health == before):
                return
        self._published[lane.name] = (now, health)
        self.intake.append_item(self._own_session, Posted(event=health, origin=HOST))

    # Ending

    @property
    def failed(self) -> PluginRecord | None:
        """The first plugin that failed while it ran; None if none did."""
        return next((lane.record for lane in self.lanes if lane.record.status is PluginStatus.FAILED), None)

    def drain(self, *, stopping: Callable[[], bool] = lambda: False) -> None:
        """Wait until everything is consumed, as long as a lane makes progress."""

        def done_or_stuck() -> bool:
            if stopping() or self.bus.is_at_rest:
                return True
            busy = [lane for lane in self.lanes if not lane.is_at_rest]
            latest = max((lane.progress_at for lane in busy), default=time.monotonic())
            return time.monotonic() - latest > self.settings.progress_timeout_s

        self.intake.wakeup.set()
        while not done_or_stuck():
            wait_until(done_or_stuck, deadline=time.monotonic() + 1.0)

    def close(self, timeout_s: float | None = None, *, outcome: str = "ended", reason: str | None = None) -> Report:
        """End all sessions, let plugins finish, and stop. Calling it again returns the same report.

        A KeyboardInterrupt during the wait leaves the plugins two more seconds and is raised after that.

        Args:
            timeout_s: How long this may take in all; by default ``close_timeout_s``, after the rest of the
                ``configure_timeout_s`` that plugins have to get ready.
            outcome: The outcome of the sessions that are still open.
            reason: The reason for it.
        """
        if self._is_forked:
            return Report(problems=self._problems_in_child)
        if not self._closer.is_requested:
            self._ending = (outcome, reason)
        self._request_close(timeout_s)
        return self.wait_closed()

    def wait_closed(self) -> Report:
        """Wait until the host is closed; return its report."""
        self._closer.wait()
        return self._report or Report(problems=["the plugins did not finish in time and were abandoned"])

    @property
    def is_closed(self) -> bool:
        """Whether it has closed; in a forked child, that of a parent never does more."""
        return self._closer.is_done or self._is_forked

    # For `exits`

    @property
    def close_timeout_s(self) -> float:
        """The number of seconds that closing may take."""
        return self.settings.close_timeout_s

    def begin_exit(self, error: BaseException | None) -> None:
        """Begin to close, because the process exits. From now on, the first late event of each session is reported."""
        self.warn_of_late_events("emitted after the session was closed at exit")
        if error is None:
            self.begin_close()
        else:
            self.begin_close(outcome="interrupted", reason=describe(error))

    def _request_close(self, timeout_s: float | None) -> None:
        begin = time.monotonic()
        if timeout_s is None:
            timeout_s = self.settings.close_timeout_s
            begin = max(begin, self._started_at + self.settings.configure_timeout_s)
        if not self._closer.is_requested:
            self._finish_s = min(_LONGEST_S, timeout_s)
        self._closer.request(begin + min(_LONGEST_S, timeout_s))

    def begin_close(self, *, outcome: str = "ended", reason: str | None = None) -> None:
        """Begin to close, without waiting. Any thread, and any instruction of it: this takes no lock."""
        if not self._closer.is_requested:
            self._ending = (outcome, reason)
        self._request_close(None)

    def detach(self) -> None:
        """Disable the host in a forked child, which has none of its threads: emitting and closing do nothing."""
        for session in self.sessions.values():
            session.detach(self._late_notice(_IN_CHILD))
        self.intake.items.clear()
        self.intake.listening = bool(self.lanes)  # without plugins, events go nowhere by intention

    def warn_of_late_events(self, text: str) -> None:
        """Warn of the first event of each open session that comes after its end; the text says why it is lost."""
        for session in list(self.sessions.values()):
            session.late_notice = self._late_notice(text)

    def _late_notice(self, text: str) -> str | None:
        return text if self.lanes else None  # without plugins, events go nowhere by intention

    @property
    def _is_forked(self) -> bool:
        return self._pid != os.getpid()

    # On the closer's thread

    def _end(self) -> None:
        report = Report()
        try:
            self._stop(report)
        except BaseException as error:  # noqa: BLE001 - such as a logging handler that raises; the caller needs the report
            report.problems.append(f"the run could not be ended in order: {describe(error)}")
        self._report = report
        if self._on_end is not None:
            self._on_end(report)
        forget_host(self)

    def _stop(self, report: Report) -> None:
        for lane in self.lanes:
            self._publish_health(lane, time.monotonic())  # a short run may end before the first tick
        outcome, reason = self._ending
        for session in list(self.sessions.values()):
            self.close_session(session, outcome=outcome, reason=reason)
        self._wait_for(lambda: self.is_configured, lambda: self._closer.deadline - self._finish_s)
        self._finish_by = time.monotonic() + self._finish_s
        drained = self._stop_lanes()
        self.bus.stop(max(0.0, self._deadline - time.monotonic()))
        for lane in self.lanes:
            if not drained:
                lane.count_rest()
            if lane.stopped.is_set():
                self.reservations.release(lane.name)
        for session in (self._own_session, *(publisher.sender for publisher in self.publishers.values())):
            self.retired.add_session(session)  # each counts what was published through it and refused
        self._count_lost_facts()
        self._say_useless()
        report.refused = self.retired.refused
        report.problems.extend(self._problems(ended=True))

    def _stop_lanes(self) -> bool:
        """Let the plugins finish; return whether everything was consumed before."""
        now = time.monotonic()
        drained = self._wait_for(lambda: self.is_at_rest, lambda: now + _DRAIN_SHARE * (self._deadline - now))
        for lane in self.lanes:
            lane.request_stop(deadline=self._deadline, discard=not drained)
        self._wait_for(lambda: all(lane.stopped.is_set() for lane in self.lanes), lambda: self._deadline)
        return drained

    @property
    def _deadline(self) -> float:
        return min(self._finish_by, self._closer.deadline)

    def _wait_for(self, condition: Callable[[], bool], deadline: Callable[[], float]) -> bool:
        """Wait for a condition until a deadline, which a Ctrl-C may make earlier meanwhile; return whether it held."""
        while not wait_until(condition, deadline=min(deadline(), time.monotonic() + _DEADLINE_CHECK_S)):
            if time.monotonic() >= deadline():
                return False
        return True


def _log_line(line: str) -> None:
    logging.getLogger("proofstream").info("%s", line)


def _identity() -> dict[str, str]:
    return {
        "service.instance.id": str(uuid.uuid4()),
        "host.name": platform.node(),
        "process.pid": str(os.getpid()),
        "proofstream.version": __version__,
    }


def _traceparent(environ: Mapping[str, str]) -> str | None:
    value = environ.get("TRACEPARENT", "").strip().lower()
    return value if _TRACEPARENT.fullmatch(value) else None


def _tracestate(environ: Mapping[str, str]) -> str | msgspec.UnsetType:
    """Return TRACESTATE if there is a TRACEPARENT that it belongs to; one that is too long loses its last members."""
    members = [member.strip() for member in environ.get("TRACESTATE", "").split(",") if member.strip()]
    while members and len(",".join(members)) > _LONGEST_TRACESTATE:
        members.pop()
    text = ",".join(members)
    is_usable = text and text.isascii() and text.isprintable() and _traceparent(environ) is not None
    return text if is_usable else msgspec.UNSET
