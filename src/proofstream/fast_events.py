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
    """How to check an event of a kind.

    Attributes:
        begin: How its JSON begins.
        decode: Decodes what follows, but for the last brace.
        total: Sums up its integers, if it is one of the most frequent kinds: see `fast_lines`.
        texts: Its fields that must be text.
        is_ours: Whether it comes with the core.
        needs_look: Whether more is to be checked than what decoding and `total` check.
    """

    begin: bytes
    decode: Callable[[bytes], Any]
    total: Callable[[Any], int] | None
    texts: tuple[str, ...]
    is_ours: bool
    needs_look: bool


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
        try:
            body = encode_body(event)
            decoded = kind.decode(body)
        except BaseException:  # noqa: BLE001 - a value may raise anything; no signal reaches this thread
            return None
        too_large = may_exceed_u64(body) if kind.total is None else kind.total(decoded) > U64_MAX
        if too_large or (kind.needs_look and not _is_plain(kind, event, body)):
            return None
        return decoded, kind.begin + body + b"}"

    def _look_up(self, event: object) -> _Kind | None:
        event_type = type(event)
        kind = None
        if isinstance(event, ProofEvent) and event_type not in self._left_out:
            name = kind_of(event)
            decoder = self._catalog.decoder(name)
            if decoder is not None and self._catalog.event_type(name) is event_type:
                texts, is_ours = text_fields(event_type), event_type in _OURS
                kind = _Kind(
                    b'{"%b":' % name.encode(),
                    decoder.decode,
                    SUMS.get(name),
                    texts,
                    is_ours,
                    bool(texts) or not is_ours,
                )
        if len(self._kinds) < _MOST_TYPES:
            self._kinds[event_type] = kind
        return kind


def _is_plain(kind: _Kind, event: object, body: bytes) -> bool:
    # Fields of types that do not come with the core may hold JSON as it was written.
    if not kind.is_ours and (not is_plain(body) or b"\n" in body):
        return False
    # msgspec would also encode bytes, dates and ids as text.
    return all(isinstance(getattr(event, name), str | None) for name in kind.texts)


_OURS = frozenset({*PRODUCER_EVENTS, *HOST_EVENTS})
_MOST_TYPES = 1024
"""The most types that are remembered. A program may make any number of them, and emit what is no event."""
