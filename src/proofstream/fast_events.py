"""Checks the events that provers make in Python in a few steps; `wire.check_event` checks all others.

Both encode an event and decode the result. Here the kind is known by the event's type, so that its JSON needs no search
for it. What is not certainly right is left to `check_event`, which also knows how to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from proofstream.catalog import Catalog
from proofstream.events import HOST_EVENTS, PRODUCER_EVENTS, ProofEvent, kind_of
from proofstream.fast_lines import SUMS, U64_MAX, is_plain, may_exceed_u64
from proofstream.wire import encode_body, text_fields


class _Kind(NamedTuple):
    """How to check an event of a kind: see `fast_lines`."""

    begin: bytes
    decode: Callable[[bytes], Any]
    total: Callable[[Any], int] | None
    texts: tuple[str, ...]
    is_ours: bool
    """Whether it comes with the core: fields of other types may hold JSON as it was written."""


class FastEvents:
    """Checks events of the kinds that a catalog declares.

    Args:
        catalog: The kinds.
        left_out: Types that are always left to `check_event`.
    """

    def __init__(self, catalog: Catalog, *, left_out: Collection[type[ProofEvent]] = ()) -> None:
        self._catalog = catalog
        self._left_out = left_out
        self._kinds: dict[type, _Kind | None] = {}

    def check(self, event: object) -> tuple[ProofEvent, bytes] | None:
        """Return the event as it is decoded, and its JSON; None if it is to be checked by `check_event`.

        Raises nothing: a value that raises is left to `check_event`, too.
        """
        try:
            kind = self._kinds[type(event)]
        except KeyError:
            kind = self._look_up(event)
        if kind is None:
            return None
        begin, decode, total, texts, is_ours = kind
        try:
            body = encode_body(event)
            decoded = decode(body)
        except BaseException:  # noqa: BLE001 - a value may raise anything; no signal reaches this thread
            return None
        if not is_ours and (not is_plain(body) or b"\n" in body):
            return None
        if total is None:
            if may_exceed_u64(body):
                return None
        elif total(decoded) > U64_MAX:
            return None
        for name in texts:
            if not isinstance(getattr(event, name), str | None):
                return None
        return decoded, begin + body + b"}"

    def _look_up(self, event: object) -> _Kind | None:
        event_type = type(event)
        kind = None
        if isinstance(event, ProofEvent) and event_type not in self._left_out:
            name = kind_of(event)
            decoder = self._catalog.decoder(name)
            if decoder is not None and self._catalog.event_type(name) is event_type:
                kind = _Kind(b'{"%b":' % name.encode(), decoder.decode, SUMS.get(name), text_fields(event_type), event_type in _OURS)
        if len(self._kinds) < _MOST_TYPES:
            self._kinds[event_type] = kind
        return kind


_OURS = frozenset({*PRODUCER_EVENTS, *HOST_EVENTS})
_MOST_TYPES = 1024
"""The most types that are remembered. A program may make any number of them, and emit what is no event."""
