"""Serves a listening socket and all its connections on one thread.

All bytes are read as soon as they arrive, so that a prover's write does not wait for us, and decoded in turns. Under
pressure, lines of bulk are left out before they are decoded. Undecoded bytes share one budget.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

from proofstream.contracts import Feed
from proofstream.sources.arrivals import Clock
from proofstream.sources.complaints import Complaints
from proofstream.sources.connections import Connection
from proofstream.sources.lines import LineReader
from proofstream.sources.pacing import short_switches
from proofstream.sources.shedding import BulkLines

MAX_CONNECTIONS = 1024
"""How many connections may be open at once, if the process may open that many files."""

# Descriptors that are left to plugins and the rest of the process.
_OTHER_FILES = 128
_FEWEST_CONNECTIONS = 16
# As much as one connection may deliver before the others have their turn: all that waits in a Unix socket on Linux.
_READ_BYTES = 256 * 1024
# How often an idle loop checks whether to stop, and a paused listener whether to go on.
_LOOK_UP_S = 0.2
# How long lines are decoded before arrived bytes are read again. Reading comes first: a write must not wait, and lines
# can. Once they fill half of the budget, decoding gets as much time as reading, but no more than a write may wait.
_SLICE_S = 0.01
_LONGEST_SLICE_S = 0.04
# Bulk is left out once undecoded bytes fill this share of the budget, and until a quarter of them is left. A smaller
# burst costs nothing, and after a larger one, facts are still decoded within about a second.
_SHED_ABOVE = 1 / 4
# A peer has this long to send its first line before it may have to make room for another.
_FIRST_LINE_WITHIN_S = 1.0
# A peer that has sent no line is worth a word after this silence.
_TOLD_SILENT_AFTER_S = 1.0
# A peer without an open proof may have to make room for another after this silence.
_SILENT_S = 60.0
# How long a stop lets arrived bytes be decoded. The rest is only counted.
_STOP_WITHIN_S = 0.3


class Server:
    """Serves until it is stopped or, with `once`, until the first connection ends.

    Args:
        feed: The host.
        listener: The listening socket.
        address: Its address, as shown to the user.
        name_peer: Names the peer of an accepted connection for the user.
        make_reader: Makes the reader of one connection's lines.
        bulk: Recognises lines that are left out under pressure.
        once: Whether to end with the first connection.
        stopped: Returns True once it must stop.
    """

    def __init__(
        self,
        feed: Feed,
        listener: socket.socket,
        *,
        address: str,
        name_peer: Callable[[Any], str],
        make_reader: Callable[[], LineReader],
        bulk: BulkLines,
        once: bool,
        stopped: Callable[[], bool],
    ) -> None:
        self._feed = feed
        self._listener = listener
        self._address = address
        self._name_peer = name_peer
        self._make_reader = make_reader
        self._bulk = bulk
        self._once = once
        self._stopped = stopped
        self._complaints = Complaints(feed.announce)
        self._clock = Clock()
        self._places = count_places()
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        # Insertion-ordered sets: all connections, and those that wait for their turn to be decoded.
        self._connections: dict[Connection, None] = {}
        self._turns: dict[Connection, None] = {}
        self._waiting_bytes = 0
        self._half_line_bytes = 0
        self._is_behind = False
        self._is_done = False

    def serve(self) -> None:
        """Serve, then close everything."""
        self._listener.setblocking(False)
        with self._selector, self._listener, short_switches():
            self._listen()
            looked_at = time.monotonic()
            while not self._is_done and not self._stopped():
                ready = self._selector.select(self._patience_s())
                woken = time.monotonic()
                for key, _ in ready:
                    if key.data is None:
                        self._accept_waiting()
                    elif key.data in self._connections:  # accepting may just have closed it to make room
                        self._receive(key.data)
                if not self._holds_back():
                    self._decode(until=time.monotonic() + self._slice_s(time.monotonic() - woken))
                if time.monotonic() - looked_at >= _LOOK_UP_S:
                    looked_at = time.monotonic()
                    self._look_after()
            self._finish()
        self._complaints.show_due(at_end=True)

    def _slice_s(self, reading_took_s: float) -> float:
        if self._waiting_bytes < self._feed.backlog_bytes // 2:
            return _SLICE_S
        return min(max(reading_took_s, _SLICE_S), _LONGEST_SLICE_S)

    def _patience_s(self) -> float:
        if not self._turns:
            return _LOOK_UP_S
        return _SLICE_S if self._holds_back() else 0.0

    def _holds_back(self) -> bool:
        """Return whether to decode nothing for now: facts might be lost further on, and here there is room for them."""
        return self._feed.congested and self._waiting_bytes < self._feed.backlog_bytes // 2

    def _look_after(self) -> None:
        self._complaints.show_due()
        self._tell_of_silent_peers()
        if not (self._once and self._connections):
            self._listen()

    def _tell_of_silent_peers(self) -> None:
        """Say that a prover has connected and is silent. Nothing else does: a session begins with its first line."""
        now = time.monotonic()
        for connection in self._connections:
            if connection.told_silent or connection.has_sent_a_line or now - connection.heard_at < _TOLD_SILENT_AFTER_S:
                continue
            connection.told_silent = True
            self._complaints.complain(f"{self._address}: a prover has connected and has sent nothing so far")

    def _finish(self) -> None:
        """Decode what has arrived while there is time, and close all connections."""
        self._is_behind = True
        self._decode(until=time.monotonic() + _STOP_WITHIN_S)
        for connection in list(self._connections):
            outcome, reason = connection.ending or ("interrupted", None)
            self._close(connection, outcome, reason)

    # Accepting

    def _listen(self) -> None:
        # Already registered, or, with `once`, closed.
        with suppress(KeyError, ValueError):
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _pause(self) -> None:
        """Leave further peers in the backlog until `_look_after`."""
        with suppress(KeyError, ValueError):
            self._selector.unregister(self._listener)

    def _accept_waiting(self) -> None:
        if len(self._connections) >= self._places and not self._make_room():
            if any(not connection.has_sent_a_line for connection in self._connections):
                self._pause()  # such a connection will soon send or have to make room
            else:
                self._refuse()
            return
        while len(self._connections) < self._places and self._accept():
            if self._once:
                self._pause()
                return

    def _accept(self) -> bool:
        """Accept one connection. Returns False if none waits."""
        try:
            peer, name = self._listener.accept()
        except BlockingIOError:
            return False
        except OSError as error:
            # Such as too many open files, which may pass.
            self._complaints.complain(f"cannot accept a connection on {self._address}: {error.strerror}")
            self._pause()
            return False
        peer.setblocking(False)
        source = f"{self._address} ({self._name_peer(name)})"
        reader = self._make_reader()
        connection = Connection(peer, source, self._feed, reader, self._bulk, connected_at=self._clock.now())
        self._connections[connection] = None
        self._selector.register(peer, selectors.EVENT_READ, connection)
        return True

    def _refuse(self) -> None:
        with suppress(OSError):
            self._listener.accept()[0].close()
            text = f"{self._address}: a connection was refused, because {self._places} are open"
            self._complaints.complain(text)

    def _make_room(self) -> bool:
        """Close the connection that is least likely to be missed. Returns False if each is in use."""
        now = time.monotonic()
        silent = [c for c in self._connections if not c.has_sent_a_line and now - c.heard_at > _FIRST_LINE_WITHIN_S]
        idle = [c for c in self._connections if not c.has_open_proof and now - c.heard_at > _SILENT_S]
        victim = min(silent or idle, key=lambda connection: connection.heard_at, default=None)
        if victim is None:
            return False
        self._close(victim, "lost", "it was silent, and its place was needed for another connection")
        self._complaints.complain(
            f"{self._address}: a silent connection was closed to make room, because {self._places} are open"
        )
        return True

    # Reading

    def _receive(self, connection: Connection) -> None:
        # Full: the peer has to wait until some of it is decoded. That is only so if facts alone fill the budget.
        if self._waiting_bytes >= self._feed.backlog_bytes:
            return
        with self._weighed(connection):
            connection.receive(self._buffer, self._clock.now())
        if connection.is_foreign:
            self._turn_away(connection)
            return
        if connection.ending is not None:
            self._selector.unregister(connection.peer)
        if connection.has_introduced_itself():
            self._turns[connection] = None
            if self._once:
                self._listener.close()
            if self._must_shed():
                self._shed(connection)

    @contextmanager
    def _weighed(self, connection: Connection) -> Generator[None]:
        """Keep the sums up to date over something that changes what a connection holds."""
        waiting, half_line = connection.waiting_bytes, connection.half_line_bytes
        yield
        self._waiting_bytes += connection.waiting_bytes - waiting
        self._half_line_bytes += connection.half_line_bytes - half_line
        if self._half_line_bytes > self._feed.backlog_bytes // 2:
            self._give_up_a_line()

    def _shed(self, connection: Connection) -> None:
        with self._weighed(connection):
            connection.shed_bulk()

    def _turn_away(self, connection: Connection) -> None:
        self._forget(connection)
        connection.hang_up()
        self._complaints.complain(
            f"{self._address}: a connection that speaks HTTP or TLS was refused: any web page can make a browser send"
            " such requests, so only plain JSON lines are read here"
        )

    # Decoding

    def _decode(self, *, until: float) -> None:
        while self._turns:
            connection = next(iter(self._turns))
            del self._turns[connection]
            if self._must_shed():
                self._shed(connection)
            if connection.is_waiting:
                with self._weighed(connection):
                    connection.decode_some()
            if connection.is_waiting:
                self._turns[connection] = None
            elif connection.ending is not None:
                self._close(connection, *connection.ending)
            if time.monotonic() >= until:
                return

    def _must_shed(self) -> bool:
        bound = self._feed.backlog_bytes * _SHED_ABOVE
        if self._waiting_bytes > bound:
            self._is_behind = True
        elif self._waiting_bytes < bound / 4:
            self._is_behind = False
        return self._is_behind or self._feed.overloaded

    def _give_up_a_line(self) -> None:
        largest = max(self._connections, key=lambda connection: connection.half_line_bytes)
        before = largest.half_line_bytes
        bound = self._feed.backlog_bytes // 2
        largest.give_up_line(
            f"all connections together may hold {bound} bytes of unfinished lines, an eighth of memory_bytes"
        )
        self._half_line_bytes += largest.half_line_bytes - before

    # The end of a connection

    def _close(self, connection: Connection, outcome: str, reason: str | None) -> None:
        self._forget(connection)
        connection.close(outcome, reason, even_if_empty=self._once)
        self._is_done = self._once

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection]
        self._turns.pop(connection, None)
        self._waiting_bytes -= connection.waiting_bytes
        self._half_line_bytes -= connection.half_line_bytes
        with suppress(KeyError, ValueError):
            self._selector.unregister(connection.peer)


def count_places() -> int:
    """Return how many connections may be open at once."""
    try:
        import resource  # not on every system
    except ImportError:
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(_FEWEST_CONNECTIONS, files - _OTHER_FILES))
