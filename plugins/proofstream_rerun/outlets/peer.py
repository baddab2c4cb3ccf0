"""One viewer or server on the network: a thread that reads the backlog and sends, whatever the other side does."""

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
from proofstream_rerun.outlets.probing import Answer, probe
from proofstream_rerun.outlets.server import Server
from proofstream_rerun.outlets.viewer_streams import ViewerStreams
from proofstream_rerun.sdk.recording_streams import CallSender, Flushed
from proofstream_rerun.sdk.stream_release import abandon_streams

_GONE = frozenset({Answer.ABSENT, Answer.FOREIGN})
_PAGE_BYTES = 2**20
_IDLE_S = 0.2
_ERROR_S = 0.1
"""How long it takes until a flush tells that the peer has gone or does not accept what was sent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often things are looked at, in seconds.

    Attributes:
        probe_s: How long an address may take to answer.
        flush_s: How long a flush may take.
        first_check_s: Between a connect and the first look at the viewer.
        check_s: Between two looks at a viewer that is there.
        retry_s: Until an address is tried again; each time it takes twice as long.
        longest_retry_s: The longest of these.
        stuck_s: After how long in one call of Rerun a viewer counts as stuck.
        patience_s: How long a replay waits for a viewer that answers and takes nothing.
    """

    probe_s: float = 0.5
    flush_s: float = 0.5
    first_check_s: float = 0.1
    check_s: float = 1.0
    retry_s: float = 0.25
    longest_retry_s: float = 5.0
    stuck_s: float = 3.0
    patience_s: float = 10.0


class PeerState(enum.Enum):
    """How it stands with a viewer."""

    AWAY = enum.auto()
    """It cannot be reached, or never answered."""
    THERE = enum.auto()
    """It takes what is sent."""
    ASLEEP = enum.auto()
    """It is connected and does not answer or is too slow, so nothing is sent until it does."""


class PeerOutlet:
    """Sends recordings to one address.

    Rerun is called only after the address has answered a probe, and again only while it goes on answering. After each
    connect everything that the backlog keeps is sent, so a viewer that comes late, or was killed and comes back, misses
    only what was too much to keep. Rerun's own streams never reconnect, so each connection gets new ones.

    Attributes:
        state: How it stands.
        connects: How many connections were made.
        was_reached: Whether a flush ever said that the viewer took what was sent.
        skipped: How many entries the viewer did not get because it was too slow.
        is_finished: Whether the viewer has got everything, and the streams are closed.

    Args:
        viewer: The address.
        backlog: What is to be sent.
        log: Where changes are told.
        want_snapshot: Called when the viewer lacks the beginning of something: the present state is needed again.
        may_appear: Whether it is worth waiting at the end for a viewer that never was there.
        server: The server behind the address if it is our own: it is closed, or left behind, with the outlet.
        pace: How often things are looked at.
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
        self._due = 0.0  # when to probe or check next
        self._has_told = False
        self._is_last_try = False
        self._leave_by: float | None = None
        self._busy_since: float | None = None
        self._is_flushed = True
        self._slow_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=f"proofstream-rerun-{viewer.address}", daemon=True)

    def start(self) -> None:
        """Begin; the first probe is made at once."""
        self._thread.start()

    @property
    def is_stuck(self) -> bool:
        """Whether a call of Rerun has not returned for long."""
        since = self._busy_since
        return since is not None and time.monotonic() - since > self._pace.stuck_s

    @property
    def is_settled(self) -> bool:
        """Whether nothing is on its way to the viewer, so that a flush would not wait for it."""
        if self.state is PeerState.THERE:
            return self._is_flushed and self._position >= self._backlog.end_position
        return self.state is PeerState.AWAY

    def is_behind(self, max_bytes: int) -> bool:
        """Whether it is worth waiting for the viewer: it is awake, if slow, and more than `max_bytes` are left."""
        slow_since = self._slow_since
        is_slow = slow_since is not None and time.monotonic() - slow_since < self._pace.patience_s
        is_awake = (self.state is PeerState.THERE and not self.is_stuck) or is_slow
        return is_awake and self._backlog.bytes_from(self._position) > max_bytes

    def ask_to_leave(self, leave_by: float) -> None:
        """Send what is left, and close the streams, until a moment of the monotonic clock."""
        self._leave_by = leave_by
        self._backlog.wake()

    def wait(self) -> bool:
        """Wait until it has left; leave it behind if it is not done in time. Returns whether the viewer got all."""
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
        """While Rerun is called on streams, which may not return."""
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
        except Exception:  # noqa: BLE001 - a thread's last word
            # Streams of a connection in an unknown state are not closed: that could block.
            self._log.exception("rerun: the connection to %s ends here", self.viewer.address)
            self.state = PeerState.ASLEEP
            self._abandon()

    def _is_done(self) -> bool:
        """Whether to leave: asked to, and nothing is left to do or no time to do it in."""
        if self._leave_by is None:
            return False
        if time.monotonic() >= self._leave_by - self._pace.flush_s:
            return True
        if self.state is PeerState.AWAY:
            return self._was_tried_last() and (bool(self.connects) or not self._may_appear())
        return self.state is PeerState.THERE and self._position >= self._backlog.end_position

    def _was_tried_last(self) -> bool:
        """Whether the address was tried after all was written; if not, that is done next."""
        if not self._is_last_try:
            self._is_last_try = True
            self._due = 0.0
            return False
        return True

    def _step(self) -> None:
        if time.monotonic() >= self._due:
            if self.state is PeerState.AWAY:
                self._try_to_connect()
            else:
                self._check()
        if self.state is PeerState.THERE:
            self._deliver(self._backlog.read_page(self._position, max_bytes=_PAGE_BYTES, wait_s=self._rest_s()))
        else:
            time.sleep(self._rest_s())

    def _rest_s(self) -> float:
        """How long nothing needs to be done."""
        if self._leave_by is not None:
            return 0.02
        return min(_IDLE_S, max(0.01, self._due - time.monotonic()))

    def _try_to_connect(self) -> None:
        answer = probe(self.viewer, deadline_s=self._pace.probe_s)
        if answer is not Answer.SPEAKS:
            self._tell_absence(answer)
            self._back_off()
            return
        self.connects += 1
        self.state = PeerState.THERE
        self._position = self._backlog.start
        if self._position:
            self._want_snapshot()
        self._due = time.monotonic() + self._pace.first_check_s

    def _back_off(self) -> None:
        self._due = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, self._pace.longest_retry_s)

    def _tell_absence(self, answer: Answer) -> None:
        if not self._has_told and not self._may_appear():
            self._has_told = True
            self._log.warning("rerun: %s %s; it is tried again", self.viewer.address, answer.value)

    def _check(self) -> None:
        """See whether the viewer is awake, and whether it got what was sent."""
        answer = probe(self.viewer, deadline_s=self._pace.probe_s)
        if answer in _GONE:
            self._lose(answer.value)
            return
        flushed = Flushed.SLOW if answer is Answer.SILENT else self._flush(self._pace.flush_s)
        if flushed is Flushed.BROKEN:
            return
        self._due = time.monotonic() + (self._pace.check_s if flushed is Flushed.DONE else self._pace.retry_s)
        if flushed is Flushed.SLOW:
            self._fall_asleep(answer)
            return
        if self.state is PeerState.ASLEEP:
            self._log.info("rerun: %s answers again", self.viewer.address)
        self.state = PeerState.THERE
        self._slow_since = None
        self._retry_s = self._pace.retry_s
        self._viewer_streams.release_ended()

    def _fall_asleep(self, answer: Answer) -> None:
        if answer is Answer.SILENT:
            self._slow_since = None
        if self.state is not PeerState.ASLEEP:
            self.state = PeerState.ASLEEP
            self._slow_since = None if answer is Answer.SILENT else time.monotonic()
            self._log.info("rerun: %s %s", self.viewer.address, answer.value if answer is Answer.SILENT else "is slow")

    def _flush(self, timeout_s: float) -> Flushed:
        """Flush what was sent; if something is broken, the connection is lost."""
        with self._in_rerun():
            flushed, reason = self._viewer_streams.flush(timeout_s)
        self._is_flushed = flushed is Flushed.DONE
        if flushed is Flushed.BROKEN:
            self._lose(reason)
        self.was_reached = self.was_reached or (flushed is Flushed.DONE and self.sender.sent > 0)
        return flushed

    def _lose(self, reason: str) -> None:
        """The viewer has gone; its streams close at once, as there is nobody to wait for."""
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
        self._is_flushed = self._is_flushed and not page.entries
        with self._in_rerun():
            for entry in page.entries:
                self._viewer_streams.send_entry(entry)
        self._position = page.after
        problem = self.sender.take_problem()
        if problem is not None:
            self._log.error("rerun: a call was not accepted: %s", problem)

    def _leave(self) -> None:
        """Close the streams, unless the viewer does not answer any more."""
        if self.state is PeerState.AWAY:
            return
        answer = probe(self.viewer, deadline_s=self._pace.probe_s)
        if answer in _GONE:
            self._lose(answer.value)
            return
        flushed = Flushed.SLOW if answer is Answer.SILENT else self._flush_twice()
        if flushed is Flushed.SLOW:
            self.state = PeerState.ASLEEP
            self._abandon()
            return
        self.is_finished = flushed is Flushed.DONE and self._position >= self._backlog.end_position
        self._viewer_streams.close()
        if self._server is not None:
            self._server.close()

    def _flush_twice(self) -> Flushed:
        """Flush; and again, as the first flush may be content although the peer takes nothing."""
        flushed = self._flush(self._time_left())
        if flushed is Flushed.DONE:
            time.sleep(_ERROR_S)
            flushed = self._flush(self._pace.flush_s)
        return flushed

    def _time_left(self) -> float:
        assert self._leave_by is not None
        return max(0.1, self._leave_by - time.monotonic() - 0.1)
