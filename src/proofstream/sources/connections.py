"""One peer of a listener: reads its bytes at once, and decodes them when it is its turn."""

from __future__ import annotations

import itertools
import re
import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from proofstream.contracts import Feed
from proofstream.envelopes import ARRIVAL
from proofstream.events import ProofAborted, ProofComplete, ProofStart
from proofstream.sources.arrivals import Block
from proofstream.sources.lines import LineReader, LineResult, NumberedLine
from proofstream.sources.routing import SessionRouter
from proofstream.sources.shedding import BulkLines, LeftOut, find_kind
from proofstream.sources.stamping import Stamped, Stamper
from proofstream.wire import Refusal

# A stream may name this many sessions at once. There may be many connections, and each session takes memory.
_MAX_SESSIONS = 64
# A web page can make a browser post to a local port, and the body may hold lines of JSON. So a connection that begins
# as HTTP or TLS is never read on. "PRI" begins HTTP/2.
_METHODS = (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"OPTIONS ", b"PATCH ", b"DELETE ", b"CONNECT ", b"TRACE ", b"PRI ")
_TLS = b"\x16\x03"
_FOREIGN = re.compile(b"|".join(map(re.escape, (*_METHODS, _TLS))))
_HEAD_BYTES = max(map(len, _METHODS))
# How many lines without the bulk between them are decoded in one turn: a few milliseconds.
_TURN_LINES = 128
# What a line takes in memory beside its text.
_LINE_BYTES = 160


class _Shed(NamedTuple):
    """The lines of one block, without its bulk."""

    lines: deque[NumberedLine | LeftOut]
    time_unix_nano: int


class Connection:
    """A connected peer and its undecoded bytes.

    Attributes:
        peer: The socket, which does not block.
        source: The peer's name, as shown to the user.
        ending: Outcome and reason once the peer has closed the connection; None before.
        told_silent: Whether the user was told that the peer has connected and sent nothing.
        heard_at: When bytes last arrived, on the monotonic clock in seconds; at first, when it connected.
        waiting_bytes: How many bytes wait to be decoded.
    """

    def __init__(
        self, peer: socket.socket, source: str, feed: Feed, reader: LineReader, bulk: BulkLines, *, connected_at: int
    ) -> None:
        self.peer = peer
        self.source = source
        self.ending: tuple[str, str | None] | None = None
        self.told_silent: bool = False
        self.heard_at: float = time.monotonic()
        self.waiting_bytes: int = 0
        self._reader = reader
        self._bulk = bulk
        self._router = SessionRouter(
            feed, source=source, time_source=ARRIVAL, max_sessions=_MAX_SESSIONS, is_recording=False
        )
        self._waiting: deque[Block | _Shed] = deque()
        self._head: bytes | None = b""
        self._stamper = Stamper(connected_at)
        self._last_arrival = connected_at
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
        self._waiting.append(Block(data, time_unix_nano))
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
        """True while bytes wait to be decoded."""
        return bool(self._waiting)

    @property
    def half_line_bytes(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._reader.held_bytes

    def give_up_line(self, reason: str) -> None:
        """Refuse the unfinished line, for this reason."""
        self._reader.give_up_line(reason)

    def shed_bulk(self) -> None:
        """Leave out the bulk among the waiting lines: at once, because that takes a fraction of decoding the rest."""
        # Blocks stand behind those that are shed already.
        waiting, blocks = self._waiting, deque[Block]()
        while waiting and isinstance(last := waiting[-1], Block):
            waiting.pop()
            blocks.appendleft(last)
        for block in blocks:
            lines = self._reader.split_off_bulk(block.data, self._bulk, self._router.may_leave_out)
            self.waiting_bytes -= len(block.data)
            if lines:
                self.waiting_bytes += sum(_size_of(line) for line in lines)
                waiting.append(_Shed(deque(lines), block.time_unix_nano))

    def decode_some(self) -> None:
        """Decode and deliver some of the bytes that wait."""
        first = self._waiting[0]
        self._last_arrival = first.time_unix_nano
        if isinstance(first, Block):
            self._waiting.popleft()
            self.waiting_bytes -= len(first.data)
            self._take(self._reader.read_with(self._result_of, first.data))
        else:
            lines = [first.lines.popleft() for _ in range(min(_TURN_LINES, len(first.lines)))]
            self.waiting_bytes -= sum(map(_size_of, lines))
            self._take([result for result in map(self._result_of, lines) if result is not None])
            if not first.lines:
                self._waiting.popleft()
        self._router.flush()

    def _take(self, results: Sequence[LineResult | LeftOut]) -> None:
        items = [result for result in results if not isinstance(result, LeftOut)]
        stamped = iter(self._stamper.stamp(items, self._last_arrival))
        if len(items) == len(results):
            self._route(stamped)
            return
        for result in results:
            if isinstance(result, LeftOut):
                self._router.leave_out(result, at=self._last_arrival)
            else:
                self._route([next(stamped)])

    def _result_of(self, line: NumberedLine | LeftOut) -> LineResult | LeftOut | None:
        if isinstance(line, NumberedLine) and line.given_up:
            line = self._bulk.recognise_line(line.text) or line
        return line if isinstance(line, LeftOut) else self._reader.decode_line(line)

    def _route(self, lines: Iterable[Stamped]) -> None:
        lines = list(lines)
        self._router.route_stamped(lines)
        for line in lines:
            if isinstance(line.item, Refusal):
                continue
            if isinstance(line.item.event, ProofStart):
                self._open_proofs += 1
            elif isinstance(line.item.event, ProofComplete | ProofAborted):
                self._open_proofs = max(0, self._open_proofs - 1)

    # Its place among the others

    @property
    def has_sent_a_line(self) -> bool:
        """True once the peer has sent a whole line, or bytes that are still to be looked at."""
        return self._reader.has_lines or (self.is_waiting and self._head is None)

    @property
    def has_open_proof(self) -> bool:
        """True while a proof has begun and not ended."""
        return self._open_proofs > 0

    # The end

    def close(self, outcome: str, reason: str | None, *, even_if_empty: bool = False) -> None:
        """Close the connection and its sessions. What is still undecoded is counted.

        Args:
            outcome: `ended`, `lost` or `interrupted`. Unless it is the last, a half line is read or refused. If it is
                refused, the peer did not come to its end, and the connection is lost.
            reason: Why, or None.
            even_if_empty: Open and close a session even if no line arrived.
        """
        self.peer.close()
        if self._waiting:
            self._count_rest()
        elif outcome != "interrupted":
            last = self._stamper.stamp(self._reader.finish(), self._last_arrival)
            self._route(last)
            if outcome == "ended" and any(isinstance(line.item, Refusal) for line in last):
                outcome, reason = "lost", "the connection ended within a line"
        # A peer that sent nothing, such as a port scan, gets no session.
        self._router.close(outcome, reason, even_if_empty=even_if_empty)

    def _count_rest(self) -> None:
        self.shed_bulk()
        counts: Counter[tuple[str, str | None]] = Counter()
        for line in itertools.chain.from_iterable(shed.lines for shed in self._waiting if isinstance(shed, _Shed)):
            if isinstance(line, LeftOut):
                counts[line.kind, line.session_id] += line.lines
            elif (kind := find_kind(line.text)) is not None:
                counts[kind, None] += 1
        self._waiting.clear()
        for (kind, session_id), count in counts.items():
            self._router.leave_out(LeftOut(kind, session_id, count), at=self._last_arrival)

    def hang_up(self) -> None:
        """Close the connection without taking anything from it."""
        self.peer.close()
        self._waiting.clear()


def _size_of(line: NumberedLine | LeftOut) -> int:
    return _LINE_BYTES if isinstance(line, LeftOut) else _LINE_BYTES + len(line.text)
