"""Splits a byte stream into numbered lines and decodes them. A line that is too long is skipped, not held in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias, TypeVar, cast

from proofstream.errors import WireError
from proofstream.fast_lines import is_plain
from proofstream.sources.forms import FormRecogniser
from proofstream.sources.shedding import BulkLines, LeftOut
from proofstream.wire import Decoded, LineDecoder, Refusal, refusal

# How much of a line that is too long is kept: what the 80 characters of a refusal's excerpt may take in UTF-8.
_HEAD_BYTES = 320
_BOM = b"\xef\xbb\xbf"

_Read = TypeVar("_Read")

LineResult: TypeAlias = Decoded | Refusal
"""The result of decoding a line that is not blank."""


class InputSettings(NamedTuple):
    """How to read a file or a stream.

    Attributes:
        name: Its name, as shown to the user.
        decoder: Decodes one line.
        max_line_bytes: The longest line that is read.
    """

    name: str
    decoder: LineDecoder
    max_line_bytes: int


class NumberedLine(NamedTuple):
    """One line and its number.

    Attributes:
        number: The line's number, from 1. Blank lines count.
        text: The line without its ending. Only the beginning if the line is too long.
        too_long: True if the line is longer than allowed.
        given_up: Why the rest of it was skipped although it was not too long; empty otherwise.
    """

    number: int
    text: bytes
    too_long: bool = False
    given_up: str = ""


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
        self.lines: int = 0
        self._max = max_line_bytes
        self._partial = bytearray()
        self._skipping = False
        self._given_up = ""

    def split_bytes(self, data: bytes) -> list[NumberedLine]:
        """Add the next bytes. Returns the lines that they complete."""
        *pieces, tail = data.split(b"\n")
        lines = [self._complete(piece) for piece in pieces]
        if tail:
            self._hold(tail)
        return lines

    def split_plain(self, data: bytes) -> tuple[bytes, list[bytes], bytes]:
        """Split off the lines in the middle of `data` if they are plain and none can be too long.

        Returns:
            What precedes those lines, the lines, and what follows them: both are to be split by `split_bytes`.
        """
        begin = data.find(b"\n") + 1 if self._partial or self._skipping or not self.lines else 0
        end = data.rfind(b"\n")
        block = data[begin:end] if begin < end else b""
        if not block or len(block) > self._max or not is_plain(block):
            return data, [], b""
        return data[:begin], block.split(b"\n"), data[end + 1 :]

    def split_off_bulk(
        self, data: bytes, bulk: BulkLines, may_leave_out: Callable[[str | None], bool]
    ) -> Iterator[NumberedLine | LeftOut]:
        """Split in the same way, but only count lines of bulk, at a fraction of the cost.

        Args:
            data: The next bytes.
            bulk: Recognises such lines.
            may_leave_out: Called with the session that lines name. Returns False if they are needed to open it.
        """
        begin, end = 0, data.rfind(b"\n") + 1
        if end and (self._partial or not self.lines):
            begin = data.index(b"\n") + 1
            line = self._complete(data[: begin - 1])
            # The beginning that is kept of a line that is too long says its kind, too.
            left_out = bulk.recognise_line(line.text)
            yield line if left_out is None or not may_leave_out(left_out.session_id) else left_out
        for piece in bulk.split_lines(data, begin, end, may_leave_out):
            if isinstance(piece, LeftOut):
                self.lines += piece.lines
                yield piece
            else:
                yield self._complete(piece)
        if end < len(data):
            self._hold(data[end:])

    @property
    def held_bytes(self) -> int:
        """How many bytes of an unfinished line are held."""
        return len(self._partial)

    def give_up_line(self, reason: str) -> None:
        """Skip the rest of the unfinished line, as if it were too long, for this reason."""
        self._skipping = True
        self._given_up = reason
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
        if self._skipping:
            line = NumberedLine(self.lines, piece[:_HEAD_BYTES], too_long=True, given_up=self._given_up)
            self._skipping, self._given_up = False, ""
            return line
        text = piece.removesuffix(b"\r")
        if len(text) > self._max:
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
        self._forms = FormRecogniser()
        self._has_events = False
        self._too_long = f"longer than {max_line_bytes} bytes"

    def read_bytes(self, data: bytes) -> list[LineResult]:
        """Add the next bytes. Returns the results of the lines that they complete."""
        return self.read_with(self.decode_line, data)

    def read_with(self, decode: Callable[[NumberedLine], _Read | None], data: bytes) -> list[_Read | LineResult]:
        """Add the next bytes. Returns the results of the lines that they complete.

        Args:
            decode: Decodes a line that is not decoded together with others, such as one that began in earlier bytes.
            data: The bytes.
        """
        self._look_at(data)
        head, lines, tail = self._splitter.split_plain(data)
        first = map(decode, self._splitter.split_bytes(head)) if head else ()
        results: list[_Read | LineResult] = [result for result in first if result is not None]
        if lines:
            results += self._decode_plain(lines)
        if tail:
            self._splitter.split_bytes(tail)  # completes no line
        return results

    def _decode_plain(self, lines: list[bytes]) -> list[LineResult]:
        """Decode plain lines at once; those that are not certainly right one by one."""
        number = self._splitter.lines
        self._splitter.lines += len(lines)
        results: list[LineResult | None] = [*self._decoder.decode_plain(lines)]
        if None not in results:
            self._has_events = True
            return cast("list[LineResult]", results)
        for index, line in enumerate(lines):
            if results[index] is None:
                results[index] = self.decode_line(NumberedLine(number + index + 1, line))
            else:
                self._has_events = True
        return [result for result in results if result is not None]

    def split_bytes(self, data: bytes) -> list[NumberedLine]:
        """Add the next bytes. Returns the lines that they complete, not yet decoded."""
        self._look_at(data)
        return self._splitter.split_bytes(data)

    def split_off_bulk(
        self, data: bytes, bulk: BulkLines, may_leave_out: Callable[[str | None], bool]
    ) -> list[NumberedLine | LeftOut]:
        """Add the next bytes. Returns the lines that they complete, not yet decoded; lines of bulk are only counted.

        The arguments are those of `LineSplitter.split_off_bulk`.
        """
        self._look_at(data)
        return list(self._splitter.split_off_bulk(data, bulk, may_leave_out))

    def _look_at(self, data: bytes) -> None:
        if not self._forms.has_head:
            self._forms.look_at(data)

    def decode_line(self, line: NumberedLine) -> LineResult | None:
        """Decode one line. Returns None for a blank line."""
        if line.too_long:
            return self._refuse(line, line.given_up or self._too_long)
        if not line.text or line.text.isspace():
            return None
        try:
            decoded = self._decoder.decode(line.text)
        except WireError as error:
            return self._refuse(line, str(error))
        self._has_events = True
        return decoded

    def _refuse(self, line: NumberedLine, reason: str) -> Refusal:
        form = self._forms.form_of(line.text, before_events=not self._has_events)
        if form is None:
            return refusal(line.number, reason, line.text)
        return Refusal(line=line.number, reason=form.reason, excerpt="", form=form.name)

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
        self._splitter.give_up_line(reason)

    def finish(self, *, cut_short: bool = False) -> list[LineResult]:
        """End the input. Returns the result of the last line if it had no newline.

        Args:
            cut_short: The input is known to break off, so a last line that cannot be read is not reported as refused.
        """
        last = self._splitter.finish()
        items = self._decode([last] if last is not None else [])
        return [item for item in items if isinstance(item, Decoded)] if cut_short else items

    def _decode(self, lines: Iterable[NumberedLine]) -> list[LineResult]:
        return [item for item in map(self.decode_line, lines) if item is not None]
