"""Decodes the lines that provers write most in one step; `wire.LineDecoder` decodes all others in several.

A bare line of a declared kind, `{"Kind":{...}}`, is known by its first bytes. Then the rest of it is the event's JSON
and one closing brace, and decoding that rest alone checks everything that parsing the whole line would check. What is
not certainly of this form, or is wrong, is left to `LineDecoder`, which also knows how to say what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from proofstream.catalog import Catalog
from proofstream.events import LayerActivation, ProofEvent, SumcheckRound

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_TWENTY_DIGITS = b"0" * 20
_DIGITS = re.compile(rb"[0-9]+")
_POINT = ord(".")
_CLOSING_BRACE = ord("}")
U64_MAX = 2**64 - 1


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


def is_plain(block: bytes) -> bool:
    """Return whether lines can be decoded as they are: ASCII, and no carriage return within."""
    return block.isascii() and b"\r" not in block


def _of_round(event: SumcheckRound) -> int:
    return event.layer_idx + event.round + event.total_rounds


def _of_activation(event: LayerActivation) -> int:
    return event.layer_idx + event.node_id + sum(event.output_shape)


# Of the most frequent kinds, the sum of the integers that their types do not bound: no summand can be larger. Of the
# others, the text is looked at.
SUMS: dict[str, Callable[[Any], int]] = {"SumcheckRound": _of_round, "LayerActivation": _of_activation}


class _Kind(NamedTuple):
    """How to decode an event of a kind, and how to sum up its integers."""

    decode: Callable[[bytes], Any]
    total: Callable[[Any], int] | None


class FastLines:
    """Decodes bare lines of the kinds that a catalog declares."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # By the beginning of a line, `{"Kind`.
        self._kinds: dict[bytes, _Kind] = {}

    def events_of(self, lines: Sequence[bytes]) -> list[ProofEvent | None]:
        """Return the event of each plain line; None for a line that is to be decoded by `LineDecoder`."""
        kinds = self._kinds
        events: list[ProofEvent | None] = []
        unchecked: list[int] = []
        for line in lines:
            end = line.find(b'":', 2)
            kind = kinds.get(line[:end]) or self._look_up(line[:end])
            try:
                event = kind.decode(line[end + 2 : -1]) if kind is not None and line[-1] == _CLOSING_BRACE else None
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - a third party's event type may raise anything; LineDecoder says what
                event = None
            if event is not None and kind is not None:
                if kind.total is None:
                    unchecked.append(len(events))
                elif kind.total(event) > U64_MAX:
                    event = None
            events.append(event)
        _strike_out(events, lines, unchecked)
        return events

    def event_of(self, line: bytes) -> ProofEvent | None:
        """Return the event of one plain line, or None as above."""
        return self.events_of((line,))[0]

    def _look_up(self, begin: bytes) -> _Kind | None:
        if not (begin.startswith(b'{"') and begin.isascii()):
            return None
        name = begin[2:].decode("ascii")
        decoder: msgspec.json.Decoder[Any] | None = self._catalog.decoder(name)
        if decoder is None:
            return None
        kind = self._kinds[begin] = _Kind(decoder.decode, SUMS.get(name))
        return kind


def _strike_out(events: list[ProofEvent | None], lines: Sequence[bytes], unchecked: Sequence[int]) -> None:
    """Leave to `LineDecoder` those of the unchecked lines that may hold an integer that is too large."""
    if may_exceed_u64(b"\n".join([lines[index] for index in unchecked])):
        for index in unchecked:
            if may_exceed_u64(lines[index]):
                events[index] = None
