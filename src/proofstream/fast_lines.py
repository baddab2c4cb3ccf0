"""Decodes the lines that provers write most in one step; `wire.LineDecoder` decodes all others in several.

A bare line of a declared kind, `{"Kind":{...}}`, is known by its first bytes. Then the rest of it is the event's JSON
and one closing brace, and decoding that rest alone checks everything that parsing the whole line would check. What is
not certainly of this form, or is wrong, is left to `LineDecoder`, which also knows how to say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from proofstream.catalog import Catalog
from proofstream.events import ProofEvent

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_TWENTY_DIGITS = b"0" * 20
_DIGITS = re.compile(rb"[0-9]+")
_POINT = ord(".")
_CLOSING_BRACE = ord("}")


def may_exceed_u64(text: bytes) -> bool:
    """Return whether JSON may hold an integer above 2^64 - 1, which has at least twenty digits.

    msgspec's bounds end at 2^63 - 1, so the maximum is checked by us, and looking for twenty digits in a row is much
    cheaper than visiting every value. Those of a fraction do not count: many a number of a proof has as many.
    """
    digits = text.translate(_DIGITS_TO_ZERO)
    begin = digits.find(_TWENTY_DIGITS)
    while begin >= 0:
        if begin == 0 or text[begin - 1] != _POINT:
            return True
        found = _DIGITS.match(text, begin)
        assert found is not None
        begin = digits.find(_TWENTY_DIGITS, found.end())
    return False


def is_plain(block: bytes, *, check_integers: bool = True) -> bool:
    """Return whether lines can be decoded as they are: ASCII, no carriage return within, no integer above u64."""
    return block.isascii() and b"\r" not in block and not (check_integers and may_exceed_u64(block))


class FastLines:
    """Decodes bare lines of the kinds that a catalog declares."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # By the beginning of a line, `{"Kind`.
        self._decoders: dict[bytes, Callable[[bytes], Any]] = {}

    def events_of(self, lines: Sequence[bytes]) -> list[ProofEvent | None]:
        """Return the event of each plain line; None for a line that is to be decoded by `LineDecoder`."""
        decoders = self._decoders
        events: list[ProofEvent | None] = []
        for line in lines:
            end = line.find(b'":', 2)
            decode = decoders.get(line[:end]) or self._look_up(line[:end])
            if decode is None or line[-1] != _CLOSING_BRACE:
                events.append(None)
                continue
            try:
                events.append(decode(line[end + 2 : -1]))
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - a third party's event type may raise anything; LineDecoder says what
                events.append(None)
        return events

    def event_of(self, line: bytes) -> ProofEvent | None:
        """Return the event of one plain line, or None as above."""
        return self.events_of((line,))[0]

    def _look_up(self, begin: bytes) -> Callable[[bytes], Any] | None:
        if not begin.startswith(b'{"'):
            return None
        try:
            decoder: msgspec.json.Decoder[Any] | None = self._catalog.decoder(begin[2:].decode("ascii"))
        except UnicodeDecodeError:
            return None
        if decoder is None:
            return None
        self._decoders[begin] = decoder.decode
        return decoder.decode
