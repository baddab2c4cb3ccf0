"""Splits a byte stream into numbered lines and decodes them. A line that is too long is skipped, not held in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from proofstream.errors import WireError
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

    Args:
        max_line_bytes: The longest line, without its ending.
    """

    def __init__(self, max_line_bytes: int) -> None:
        self._max = max_line_bytes
        self._number = 0
        self._partial = bytearray()
        self._skipping = False

    def split_bytes(self, data: bytes) -> list[NumberedLine]:
        """Add the next bytes. Returns the lines that they complete."""
        *pieces, tail = data.split(b"\n")
        lines = [self._complete(piece) for piece in pieces]
        if tail:
            self._hold(tail)
        return lines

    def finish(self) -> NumberedLine | None:
        """End the input. Returns the last line if it had no newline."""
        return self._complete(b"") if self._partial else None

    def _hold(self, piece: bytes) -> None:
        if self._skipping:
            return
        self._partial += piece
        # One extra byte may still be the carriage return of a line that has the allowed length.
        if len(self._partial) > self._max + 1 + (len(_BOM) if self._number == 0 else 0):
            self._skipping = True
            self._partial = self._partial[:_HEAD_BYTES]

    def _complete(self, piece: bytes) -> NumberedLine:
        if self._partial:
            self._hold(piece)
            piece = bytes(self._partial)
            self._partial = bytearray()
        self._number += 1
        if self._number == 1:
            piece = piece.removeprefix(_BOM)
        skipped, self._skipping = self._skipping, False
        text = piece if skipped else piece.removesuffix(b"\r")
        if skipped or len(text) > self._max:
            return NumberedLine(self._number, text[:_HEAD_BYTES], too_long=True)
        return NumberedLine(self._number, text)


def decode_line(line: NumberedLine, decoder: LineDecoder, max_line_bytes: int) -> LineResult | None:
    """Decode one line. Returns None for a blank line."""
    if line.too_long:
        return refusal(line.number, f"longer than {max_line_bytes} bytes", line.text)
    if not line.text or line.text.isspace():
        return None
    try:
        return decoder.decode(line.text)
    except WireError as error:
        return refusal(line.number, str(error), line.text)


class LineReader:
    """Reads events and refusals from bytes.

    Args:
        decoder: Decodes one line.
        max_line_bytes: The longest line that is read.
    """

    def __init__(self, decoder: LineDecoder, max_line_bytes: int) -> None:
        self._decoder = decoder
        self._max = max_line_bytes
        self._splitter = LineSplitter(max_line_bytes)

    def read_bytes(self, data: bytes) -> list[LineResult]:
        """Add the next bytes. Returns the results of the lines that they complete."""
        return self._decode(self._splitter.split_bytes(data))

    def finish(self, *, cut_short: bool = False) -> list[LineResult]:
        """End the input. Returns the result of the last line if it had no newline.

        Args:
            cut_short: The input is known to break off, so a last line that cannot be read is not reported as refused.
        """
        last = self._splitter.finish()
        items = self._decode([last] if last is not None else [])
        return [item for item in items if isinstance(item, Decoded)] if cut_short else items

    def _decode(self, lines: Iterable[NumberedLine]) -> list[LineResult]:
        items = (decode_line(line, self._decoder, self._max) for line in lines)
        return [item for item in items if item is not None]
