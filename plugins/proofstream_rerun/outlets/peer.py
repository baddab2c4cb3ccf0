"""Sends recordings to one viewer or server, on a thread of its own that no behaviour of the other side can harm."""

from __future__ import annotations

import enum
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from proofstream_rerun.connections import Viewer
from proofstream_rerun.outlets.backlog import Backlog, BacklogPage
from proofstream_rerun.outlets.cutting import Address, addresses_of, cut_connections, cut_guests
from proofstream_rerun.outlets.probing import Answer, probe
from proofstream_rerun.outlets.server import Server
from proofstream_rerun.outlets.viewer_streams import ViewerStreams
from proofstream_rerun.sdk.recording_streams import CallSender, Flushed
from proofstream_rerun.sdk.stream_release import MOST_UNRELEASED, abandon_streams, unreleased_streams

_GONE = frozenset({Answer.ABSENT, Answer.FOREIGN})
_PAGE_BYTES = 2**20
_IDLE_S = 0.2
_LONG_PAUSE_S = 1.0
_RELEASE_S = 0.01
"""How often to look whether closed streams were released, so that more may be opened."""

_ERROR_S = 0.1
"""How long a stream takes to notice that its peer has gone or rejects its messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Timeouts and intervals of a peer outlet, in seconds.

    Attributes:
        probe_s: How long an address may take to answer.
        flush_s: How long a flush may take.
        first_check_s: From a connect to the first check of the viewer.
        check_s: Between two checks of a connected viewer.
        longest_check_s: Between two checks while nothing is sent. `check_s` doubles up to it.
        retry_s: Until an address is tried again. It doubles with each failure.
        longest_retry_s: The upper limit of that doubling.
        stuck_s: How long one call of Rerun may last before the viewer counts as stuck.
        patience_s: How long a replay waits for a viewer that answers but reads nothing.
    """

    probe_s: float = 0.5
    flush_s: float = 0.5
    first_check_s: float = 0.1
    check_s: float = 1.0
    longest_check_s: float = 4.0
    retry_s: float = 0.25
    longest_retry_s: float = 5.0
    stuck_s: float = 3.0
    patience_s: float = 10.0


class PeerState(enum.Enum):
    """The state of the connection to a viewer."""

    AWAY = enum.auto()
    """Not connected: the viewer cannot be reached, or has never answered."""
    THERE = enum.auto()
    """Connected, and the viewer reads."""
    ASLEEP = enum.auto()
    """Connected, but the viewer is silent or too slow. Nothing is sent until it has caught up."""


class PeerOutlet:
    """Sends recordings to the viewer at one address.

    Rerun is called only after the address has answered a probe, and only while it keeps answering. After each connect,
    the outlet sends the whole backlog. A viewer that starts late, or is killed and restarted, misses only entries that
    the backlog has dropped. Rerun's own streams never reconnect, so each connection gets new streams.

    Each recording has a stream of its own. The streams of ended recordings are closed after a few more have ended, as
    soon as a flush confirms that the viewer has received them.

    The outlet has a thread of its own, because Rerun's calls block as long as a viewer makes them. The lane and the
    other threads read its public attributes without a lock: each is one assignment, and a stale value does no harm.

    Attributes:
        viewer: The address.
        state: The state of the connection.
        connects: How many connections were made.
        was_reached: Whether a flush has ever confirmed that the viewer received what was sent.
        skipped: How many entries the viewer missed because it was too slow.
        is_finished: Whether the viewer has received everything and the streams are closed.
        was_cut: Whether the last connection was cut because the viewer did not read.
        sender: Counts the calls that were sent.

    Args:
        viewer: The address.
        backlog: The entries to send.
        log: The plugin's logger.
        want_snapshot: Called from the outlet's thread when the viewer missed entries and needs the present state.
        may_appear: Returns whether to wait at the end for a viewer that has never been reached.
        server: The server at the address if it is our own. It is closed, or left behind, with the outlet.
        pace: Timeouts and intervals.
    """

    def __init__(
        self,
        viewer: Viewer,
        backlog: Backlog,
        *,
        log: logging.Logger,
        want_snapshot: Callable[[], None],
        may_appear: Callable[[], bool] = lambda: False,
        server: Server | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.viewer = viewer
        self.state = PeerState.AWAY
        self.connects = 0
        self.was_reached = False
        self.skipped = 0
        self.is_finished = False
        self.was_cut = False
        self.sender = CallSender()
        self._backlog = backlog
        self._log = log
        self._want_snapshot = want_snapshot
        self._may_appear = may_appear
        self._server = server
        self._pace = pace or Pace()
        self._viewer_streams: ViewerStreams = ViewerStreams(viewer.url, self.sender)
        self._position = 0
        self._retry_s = self._pace.retry_s
        self._check_s = self._pace.check_s
        self._due = 0.0  # when to probe or check next
        self._has_told = False
        self._is_last_try = False
        self._leave_by: float | None = None
        self._busy_since: float | None = None
        self._is_flushed = True
        self._slow_since: float | None = None
        self._addresses: frozenset[Address] = frozenset()
        self._confirmed = 0
        self._is_cut = False
        self._is_asked_to_pause = False
        self._is_paused = False
        self._pausing = threading.Lock()  # held for moments only, never during a call of Rerun
        self._resumed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"proofstream-rerun-{viewer.address}", daemon=True)

    def start(self) -> None:
        """Start the thread, which probes the address at once."""
        self._thread.start()

    @property
    def is_stuck(self) -> bool:
        """True if a call of Rerun has been running for too long."""
        since = self._busy_since  # read once: the outlet's thread resets it at any moment
        return since is not None and time.monotonic() - since > self._pace.stuck_s

    @property
    def is_slow(self) -> bool:
        """True if the viewer answers and reads too little, but may still catch up."""
        since = self._slow_since
        return since is not None and time.monotonic() - since < self._pace.patience_s

    @property
    def is_unresponsive(self) -> bool:
        """True if the viewer does not read, or a call of Rerun does not return."""
        return self.is_stuck or (self.state is PeerState.ASLEEP and not self.is_slow)

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is on its way to the viewer, and nothing is sent until `resume`."""
        return self.is_finished or (self._is_asked_to_pause and (self._is_paused or self.state is PeerState.AWAY))

    def is_behind(self, *, max_bytes: int, max_endings: int) -> bool:
        """Return whether the viewer is reading, however slowly, and has more still to receive.

        Args:
            max_bytes: How many bytes it may still have to receive.
            max_endings: How many ends of recordings.
        """
        is_awake = (self.state is PeerState.THERE and not self.is_stuck) or self.is_slow
        at, backlog = self._position, self._backlog
        return is_awake and (backlog.bytes_from(at) > max_bytes or backlog.endings_from(at) > max_endings)

    def pause(self) -> None:
        """Ask the thread to flush what was sent, and to send nothing more until `resume`."""
        with self._pausing:
            self._resumed.clear()
            self._is_asked_to_pause = True
        self._backlog.wake()

    def resume(self) -> None:
        """Let the thread send again."""
        with self._pausing:
            self._is_asked_to_pause = False
            self._is_paused = False
        self._resumed.set()

    def cut(self) -> None:
        """Cut the connections to a viewer that does not read, so that its streams can close; try again later."""
        if self._server is not None:  # it waits for one of its viewers, and all others wait with it
            if cut_guests((self.viewer.host, self.viewer.port)):
                self._log.warning("rerun: a viewer of our server does not read; it has to connect again")
            return
        self._log.warning("rerun: %s does not read; it gets the rest when it does", self.viewer.address)
        self.was_cut = True
        self._is_cut = True
        cut_connections(self._addresses)

    def ask_to_leave(self, leave_by: float) -> None:
        """Ask the thread to send the rest and close the streams by `leave_by`, a time of the monotonic clock."""
        self._leave_by = leave_by
        self._backlog.wake()

    def wait(self) -> bool:
        """Wait until the thread has ended, or abandon its streams at the deadline.

        Returns whether the viewer received everything.
        """
        assert self._leave_by is not None
        self._thread.join(max(0.0, self._leave_by - time.monotonic()))
        if self._thread.is_alive():
            self._abandon()
        return self.is_finished

    def _abandon(self) -> None:
        streams = self._viewer_streams.streams()
        abandon_streams(streams if self._server is None else [*streams, *self._server.streams()])

    @contextmanager
    def _in_rerun(self) -> Generator[None]:
        """Mark a call of Rerun that may never return, so that `is_stuck` can notice."""
        self._busy_since = time.monotonic()
        try:
            yield
        finally:
            self._busy_since = None

    def _run(self) -> None:
        try:
            while not self._is_done():
                self._step()
            self._leave()
        except Exception:  # noqa: BLE001 - a thread that died unseen would leave the viewer without a word
            # Do not close the streams: the state of the connection is unknown, so closing could block forever.
            self._log.exception("rerun: the connection to %s ends here", self.viewer.address)
            self.state = PeerState.ASLEEP
            self._abandon()

    def _is_done(self) -> bool:
        """Return whether to leave: asked to, and there is nothing left to send or no time left to send it."""
        if self._leave_by is None:
            return False
        if time.monotonic() >= self._leave_by - self._pace.flush_s:  # `_leave` needs the rest for its last flush
            return True
        if self.state is PeerState.AWAY:
            return self._was_tried_last() and (bool(self.connects) or not self._may_appear())
        return self.state is PeerState.THERE and self._position >= self._backlog.end_position

    def _was_tried_last(self) -> bool:
        """Return whether the address was tried after the last write; if not, make that the next step.

        A viewer may have started between the last attempt and the end, and can still get everything.
        """
        if not self._is_last_try:
            self._is_last_try = True
            self._due = 0.0
            return False
        return True

    def _step(self) -> None:
        if self._is_cut:
            self._drop_cut_connection()
        if self._is_asked_to_pause:
            self._pause()
        if time.monotonic() >= self._due:
            if self.state is PeerState.AWAY:
                self._try_to_connect()
            else:
                self._check()
        if self.state is PeerState.THERE and unreleased_streams() < MOST_UNRELEASED:
            self._deliver(self._backlog.read_page(self._position, max_bytes=_PAGE_BYTES, wait_s=self._rest_s()))
        else:
            time.sleep(_RELEASE_S if self.state is PeerState.THERE else self._rest_s())

    def _pause(self) -> None:
        """Flush what was sent, then wait until `resume`, unless the viewer does not confirm the flush."""
        if self.state is PeerState.THERE and not self._is_flushed:
            self._check()
        with self._pausing:  # or the pause could begin after its end
            self._is_paused = self._is_asked_to_pause and self.state is not PeerState.ASLEEP
        # A release that takes long waits for a peer that stopped reading just now, and holds the whole process up.
        while self._is_paused and not self._resumed.wait(_LONG_PAUSE_S):
            self.cut()

    def _drop_cut_connection(self) -> None:
        self._is_cut = False
        if self.state is not PeerState.AWAY:  # a call of Rerun that failed may have dropped it already
            self._lose("it did not read")

    def _rest_s(self) -> float:
        """Return how long the thread may rest before its next step, in seconds."""
        if self._leave_by is not None:
            return 0.02  # short, because `_is_done` is checked between steps
        # Not less than 10 ms, or an overdue check would spin; not more than _IDLE_S, to see `ask_to_leave` in time.
        return min(_IDLE_S, max(0.01, self._due - time.monotonic()))

    def _try_to_connect(self) -> None:
        answer = probe(self.viewer, deadline_s=self._pace.probe_s)
        if answer is not Answer.SPEAKS:
            self._tell_absence(answer)
            self._back_off()
            return
        self._addresses = addresses_of(self.viewer)
        with self._pausing:
            if self._is_asked_to_pause:  # a connection that begins now would not be at rest
                return
            self.state = PeerState.THERE
        self.connects += 1
        self._go_to_start()
        if self._position:  # the oldest entries were dropped
            self._want_snapshot()
        self._due = time.monotonic() + self._pace.first_check_s

    def _go_to_start(self) -> None:
        """Go to the first entry to send over a new connection."""
        if self.was_cut:
            # It missed what was sent and not confirmed, as far as the backlog has dropped that since.
            self.skipped += max(0, self._backlog.start - self._confirmed)
            self.was_cut = False
        # Start over: the viewer may be a new process that has never seen any of it.
        self._position = self._backlog.start

    def _back_off(self) -> None:
        self._due = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, self._pace.longest_retry_s)

    def _tell_absence(self, answer: Answer) -> None:
        if not self._has_told and not self._may_appear():
            self._has_told = True
            self._log.warning("rerun: %s %s; retrying", self.viewer.address, answer.value)

    def _check(self) -> None:
        """Check whether the viewer is awake and has received what was sent."""
        # Probe before the flush: a flush cannot be relied on to notice a viewer that has just been suspended.
        answer = probe(self.viewer, deadline_s=self._pace.probe_s)
        if answer in _GONE:
            self._lose(answer.value)
            return
        flushed = Flushed.SLOW if answer is Answer.SILENT else self._flush(self._pace.flush_s)
        if flushed is Flushed.BROKEN:  # `_flush` has already dropped the connection
            return
        self._due = time.monotonic() + (self._check_s if flushed is Flushed.DONE else self._pace.retry_s)
        self._check_s = min(self._check_s * 2, self._pace.longest_check_s)
        if flushed is Flushed.SLOW:
            self._fall_asleep(answer)
            return
        if self.state is PeerState.ASLEEP:
            self._log.info("rerun: %s answers again", self.viewer.address)
        self.state = PeerState.THERE
        self._slow_since = None
        # Only a confirmed flush resets the back-off: a peer that accepts and then fails must not be tried in a loop.
        self._retry_s = self._pace.retry_s
        self._viewer_streams.release_ended()  # safe now, as the flush has just succeeded

    def _fall_asleep(self, answer: Answer) -> None:
        # A slow viewer still holds a replay up for `patience_s`, a silent one does not: it may be suspended for hours.
        if answer is Answer.SILENT:
            self._slow_since = None
        if self.state is not PeerState.ASLEEP:
            self.state = PeerState.ASLEEP
            self._slow_since = None if answer is Answer.SILENT else time.monotonic()
            self._log.info("rerun: %s %s", self.viewer.address, answer.value if answer is Answer.SILENT else "is slow")

    def _flush(self, timeout_s: float) -> Flushed:
        """Flush what was sent, and drop the connection if a stream is broken."""
        with self._in_rerun():
            flushed, reason = self._viewer_streams.flush(timeout_s)
            if flushed is Flushed.DONE and self._server is not None:
                # Our server takes what we send before it waits for a viewer that does not read.
                flushed, reason = self._server.flush(timeout_s)
        self._is_flushed = flushed is Flushed.DONE
        if flushed is Flushed.DONE:
            self._confirmed = self._position
        if flushed is Flushed.BROKEN:
            self._lose(reason)
        self.was_reached = self.was_reached or (flushed is Flushed.DONE and self.sender.sent > 0)
        return flushed

    def _lose(self, reason: str) -> None:
        """Drop the connection to a viewer that has gone. Its streams close at once, as no peer is left to wait for."""
        self._log.info("rerun: lost %s: %s", self.viewer.address, reason)
        with self._in_rerun():
            self._viewer_streams.close()
        self.state = PeerState.AWAY
        self._slow_since = None
        self._back_off()

    def _deliver(self, page: BacklogPage) -> None:
        if page.skipped:
            self.skipped += page.skipped
            self._want_snapshot()
        if page.entries:
            self._is_flushed = False
            self._check_s = self._pace.check_s
            self._due = min(self._due, time.monotonic() + self._check_s)
        position = page.after - len(page.entries)
        with self._in_rerun():
            for entry in page.entries:
                if self._viewer_streams.has_many_ended:
                    self._due = 0.0  # the check flushes, and closes the streams of ended recordings
                    break
                if unreleased_streams() >= MOST_UNRELEASED:
                    break
                self._viewer_streams.send_entry(entry)
                position += 1
        self._position = position
        problem = self.sender.take_problem()
        if problem is not None:
            self._log.error("rerun: Rerun rejected a call: %s", problem)

    def _leave(self) -> None:
        """Close the streams, or abandon them if the viewer no longer answers."""
        if self.state is PeerState.AWAY:
            return
        answer = probe(self.viewer, deadline_s=self._pace.probe_s)
        if answer in _GONE:
            self._lose(answer.value)
            return
        flushed = Flushed.SLOW if answer is Answer.SILENT else self._flush_twice()
        if flushed is Flushed.SLOW:  # closing a stream waits for its peer, without a time limit
            self.state = PeerState.ASLEEP
            self._abandon()
            return
        self.is_finished = flushed is Flushed.DONE and self._position >= self._backlog.end_position
        self._viewer_streams.close()
        if self._server is not None:
            self._server.close()

    def _flush_twice(self) -> Flushed:
        """Flush twice, because the first flush can succeed although the peer has stopped reading."""
        flushed = self._flush(self._time_left())
        if flushed is Flushed.DONE:
            time.sleep(_ERROR_S)
            flushed = self._flush(self._pace.flush_s)
        return flushed

    def _time_left(self) -> float:
        assert self._leave_by is not None
        # Stop 0.1 s early, so that `wait` still sees the thread end; never 0, or every flush would count as slow.
        return max(0.1, self._leave_by - time.monotonic() - 0.1)
