"""Splits a byte stream into numbered lines and decodes them. A line that is too long is skipped, not held in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from proofstream.errors import WireError
from proofstream.sources.shedding import BulkLines, LeftOut
from proofstream.wire import Decoded, LineDecoder, Refusal, refusal

# How much of a line that is too long is kept: what the 80 characters of a refusal's excerpt may take in UTF-8.
_HEAD_BYTES = 320
_BOM = b"\xef\xbb\xbf"

LineResult: TypeAlias = Decoded | Refusal
"""The result of decoding a line that is not blank."""


class NumberedLine(NamedTuple):
    """One line and its number.

    Attributes:
        number: The line's number, from 1. Blank lines count.
        text: The line without its ending. Only the beginning if the line is too long.
        too_long: True if the line is longer than allowed.
    """

    number: int
    text: bytes
    too_long: bool = False


class LineSplitter:
    """Splits bytes at newlines. The bytes may arrive in pieces of any size.

    Lines may end in LF or CRLF. A byte order mark before the first line is skipped. Of an unfinished line, at most
    `max_line_bytes` plus one piece are held in memory.

    Attributes:
        lines: How many lines were complete so far.

    Args:
        max_line_bytes: The longest line, without its ending.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self.lines = 0
        self._max = max_line_bytes
        self._partial = bytearray()
        self._skipping = False

    def split_bytes(self, data: bytes) -> list[NumberedLine]:
        """Add the next bytes. Returns the lines that they complete."""
        *pieces, tail = data.split(b"\n")
        lines = [self._complete(piece) for piece in pieces]
        if tail:
            self._hold(tail)
        return lines

    def split_off_bulk(
        self, data: bytes, bulk: BulkLines, may_leave_out: Callable[[str | None], bool]
    ) -> Iterator[NumberedLine | LeftOut]:
        """Split in the same way, but only count lines of bulk, at a fraction of the cost.

        Args:
            data: The next bytes.
            bulk: Recognises such lines.
            may_leave_out: Called with the session that lines name. Returns False if they are needed to open it.
        """
        *pieces, tail = data.split(b"\n")
        if pieces and (self._partial or not self.lines):
            yield from self._completed_or_left_out(pieces.pop(0), bulk, may_leave_out)
        for known, run in itertools.groupby(zip(bulk.recognise(pieces), pieces, strict=True), key=itemgetter(0)):
            texts = [piece for _, piece in run]
            if known is not None and may_leave_out(known.session_id):
                self.lines += len(texts)
                yield known._replace(lines=len(texts))
            else:
                yield from map(self._complete, texts)
        if tail:
            self._hold(tail)

    def _completed_or_left_out(
        self, piece: bytes, bulk: BulkLines, may_leave_out: Callable[[str | None], bool]
    ) -> Iterator[NumberedLine | LeftOut]:
        line = self._complete(piece)
        # The beginning that is kept of a line that is too long says its kind, too.
        (known,) = bulk.recognise([line.text])
        yield known if known is not None and may_leave_out(known.session_id) else line

    @property
    def held_bytes(self) -> int:
        """How many bytes of an unfinished line are held."""
        return len(self._partial)

    def give_up_line(self) -> None:
        """Skip the rest of the unfinished line, as if it were too long."""
        self._skipping = True
        self._partial = self._partial[:_HEAD_BYTES]

    def finish(self) -> NumberedLine | None:
        """End the input. Returns the last line if it had no newline."""
        return self._complete(b"") if self._partial else None

    def _hold(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._partial += piece
        # One extra byte may still be the carriage return of a line that has the allowed length.
        if len(self._partial) > self._max + 1 + (len(_BOM) if self.lines == 0 else 0):
            self._skipping = True
            self._partial = self._partial[:_HEAD_BYTES]

    def _complete(self, piece: bytes) -> NumberedLine:
        if self._partial:
            self._hold(piece)
            piece = bytes(self._partial)
            self._partial = bytearray()
        self.lines += 1
        if self.lines == 1:
            piece = piece.removeprefix(_BOM)
        skipped, self._skipping = self._skipping, False
        text = piece if skipped else piece.removesuffix(b"\r")
        if skipped or len(text) > self._max:
            return NumberedLine(self.lines, text[:_HEAD_BYTES], too_long=True)
        return NumberedLine(self.lines, text)


class LineReader:
    """Reads events and refusals from bytes.

    Args:
        decoder: Decodes one line.
        max_line_bytes: The longest line that is read.
    """

    def __init__(self, decoder: LineDecoder, max_line_bytes: int) -> None:
        self._decoder = decoder
        self._splitter = LineSplitter(max_line_bytes)
        self._too_long = f"longer than {max_line_bytes} bytes"
        self._given_up: tuple[int, str] | None = None

    def read_bytes(self, data: bytes) -> list[LineResult]:
        """Add the next bytes. Returns the results of the lines that they complete."""
        return self._decode(self._splitter.split_bytes(data))

    def read_facts(
        self, data: bytes, bulk: BulkLines, may_leave_out: Callable[[str | None], bool]
    ) -> Iterator[LineResult | LeftOut]:
        """Add the next bytes. Yields the results of the lines that they complete; lines of bulk are only counted.

        The arguments are those of `LineSplitter.split_off_bulk`.
        """
        for line in self._splitter.split_off_bulk(data, bulk, may_leave_out):
            item = line if isinstance(line, LeftOut) else self._decode_line(line)
            if item is not None:
                yield item

    @property
    def has_lines(self) -> bool:
        """True once a line was complete."""
        return self._splitter.lines > 0

    @property
    def held_bytes(self) -> int:
        """How many bytes of an unfinished line are held."""
        return self._splitter.held_bytes

    def give_up_line(self, reason: str) -> None:
        """Refuse the unfinished line, for this reason, once it ends. No more of it is held."""
        self._given_up = self._splitter.lines + 1, reason
        self._splitter.give_up_line()

    def finish(self, *, cut_short: bool = False) -> list[LineResult]:
        """End the input. Returns the result of the last line if it had no newline.

        Args:
            cut_short: The input is known to break off, so a last line that cannot be read is not reported as refused.
        """
        last = self._splitter.finish()
        items = self._decode([last] if last is not None else [])
        return [item for item in items if isinstance(item, Decoded)] if cut_short else items

    def _decode(self, lines: Iterable[NumberedLine]) -> list[LineResult]:
        return [item for item in map(self._decode_line, lines) if item is not None]

    def _decode_line(self, line: NumberedLine) -> LineResult | None:
        if line.too_long:
            given_up, reason = self._given_up or (0, "")
            return refusal(line.number, reason if given_up == line.number else self._too_long, line.text)
        if not line.text or line.text.isspace():
            return None
        try:
            return self._decoder.decode(line.text)
        except WireError as error:
            return refusal(line.number, str(error), line.text)
