"""One peer of a listener: reads its bytes at once, and decodes them when it is its turn."""

from __future__ import annotations

import re
import socket
import time
from collections import deque

from proofstream.contracts import Feed
from proofstream.events import ProofAborted, ProofComplete, ProofStart
from proofstream.sources.arrivals import Block
from proofstream.sources.lines import LineReader, LineResult
from proofstream.sources.routing import SessionRouter
from proofstream.sources.shedding import BulkLines, LeftOut, count_kinds
from proofstream.wire import Decoded

# A stream may name this many sessions at once. There may be many connections, and each session takes memory.
_MAX_SESSIONS = 64
# A web page can make a browser post to a local port, and the body may hold lines of JSON. So a connection that begins
# as HTTP or TLS is never read on. "PRI" begins HTTP/2.
_METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"PATCH ", b"DELETE ", b"CONNECT ", b"TRACE ", b"PRI ")
_TLS = b"\x16\x03"
_FOREIGN = re.compile(b"|".join(map(re.escape, (*_METHODS, _TLS))))
_HEAD_BYTES = max(map(len, _METHODS))


class Connection:
    """A connected peer and its undecoded bytes.

    Attributes:
        peer: The socket, which does not block.
        source: The peer's name, as shown to the user.
        ending: Outcome and reason once the peer has closed the connection; None before.
        heard_at: When bytes last arrived, on the monotonic clock in seconds; at first, when it connected.
        waiting_bytes: How many bytes of blocks wait to be decoded.
    """

    def __init__(self, peer: socket.socket, source: str, feed: Feed, reader: LineReader) -> None:
        self.peer = peer
        self.source = source
        self.ending: tuple[str, str | None] | None = None
        self.heard_at = time.monotonic()
        self.waiting_bytes = 0
        self._reader = reader
        self._router = SessionRouter(feed, source=source, time_source="arrival", max_sessions=_MAX_SESSIONS)
        self._blocks: deque[Block] = deque()
        self._head: bytes | None = b""
        self._last_arrival: int | None = None
        self._open_proofs = 0

    # Reading

    def receive(self, buffer: memoryview, time_unix_nano: int) -> None:
        """Read what has arrived, but no more than the buffer holds. Sets `ending` if the peer is gone."""
        try:
            count = self.peer.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.ending = "lost", f"the connection broke: {error.strerror or error}"
            return
        if not count:
            self.ending = "ended", None
            return
        self.heard_at = time.monotonic()
        data = bytes(buffer[:count])
        if self._head is not None:
            self._head = (self._head + data)[:_HEAD_BYTES]
        self._blocks.append(Block(data, time_unix_nano))
        self.waiting_bytes += count

    @property
    def is_foreign(self) -> bool:
        """True if the peer speaks HTTP or TLS."""
        return self._head is not None and _FOREIGN.match(self._head) is not None

    def has_introduced_itself(self) -> bool:
        """Return whether the peer has sent enough to see that it speaks neither HTTP nor TLS, or will send no more."""
        head = self._head
        if head is None:
            return True
        if self.ending is None and any(start.startswith(head) for start in (*_METHODS, _TLS)):
            return False
        self._head = None
        return True

    # Decoding

    @property
    def is_waiting(self) -> bool:
        """True while blocks wait to be decoded."""
        return bool(self._blocks)

    @property
    def half_line_bytes(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._reader.held_bytes

    def give_up_line(self, reason: str) -> None:
        """Refuse the unfinished line, for this reason."""
        self._reader.give_up_line(reason)

    def decode_block(self, bulk: BulkLines | None) -> None:
        """Decode and deliver one block. If `bulk` is given, lines of bulk are left out."""
        block = self._blocks.popleft()
        self.waiting_bytes -= len(block.data)
        self._last_arrival = block.time_unix_nano
        router = self._router
        if bulk is None:
            for item in self._reader.read_bytes(block.data):
                self._route(item)
        else:
            for line in self._reader.read_facts(block.data, bulk, router.may_leave_out):
                if isinstance(line, LeftOut):
                    router.leave_out(line)
                else:
                    self._route(line)
        router.flush()

    def _route(self, item: LineResult) -> None:
        self._router.route_item(item, at=self._last_arrival)
        if isinstance(item, Decoded):
            if isinstance(item.event, ProofStart):
                self._open_proofs += 1
            elif isinstance(item.event, ProofComplete | ProofAborted):
                self._open_proofs = max(0, self._open_proofs - 1)

    # Its place among the others

    @property
    def has_sent_a_line(self) -> bool:
        """True once the peer has sent a whole line, or bytes that are still to be looked at."""
        return self._reader.has_lines or self.is_waiting

    @property
    def has_open_proof(self) -> bool:
        """True while a proof has begun and not ended."""
        return self._open_proofs > 0

    # The end

    def close(self, outcome: str, reason: str | None, *, even_if_empty: bool = False) -> None:
        """Close the connection and its sessions. What is still undecoded is counted.

        Args:
            outcome: `ended`, `lost` or `interrupted`. Unless it is the last, a half line is read or refused.
            reason: Why, or None.
            even_if_empty: Open and close a session even if no line arrived.
        """
        self.peer.close()
        if self._blocks:
            self._count_rest()
        elif outcome != "interrupted":
            for item in self._reader.finish():
                self._route(item)
        # A peer that sent nothing, such as a port scan, gets no session.
        self._router.close(outcome, reason, even_if_empty=even_if_empty)

    def _count_rest(self) -> None:
        rest = b"".join(block.data for block in self._blocks)
        self._blocks.clear()
        if self._router.may_leave_out(None):
            for kind, count in count_kinds(rest.split(b"\n")).items():
                self._router.leave_out(LeftOut(kind, None, count))

    def hang_up(self) -> None:
        """Close the connection without taking anything from it."""
        self.peer.close()
        self._blocks.clear()
