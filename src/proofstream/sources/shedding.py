"""Recognises lines that certainly hold bulk by their first bytes, so that they can be left out without decoding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from proofstream.catalog import Catalog
from proofstream.events import Log, LogLevel, is_bulk, is_sheddable

# The forms that `wire` describes, as our encoder and the known provers write them: without spaces, in this order. Lines
# of any other form are decoded, which is always right and only slower.
_JOB_FRAME = rb'\{"job_id":(?:"[^"\\]*"|[0-9]+),"event":'
_ENVELOPE = (
    rb'\{"v":1,(?:"(?:seq|time_unix_nano)":[0-9]+,)*(?:"session_id":"(?P<session>[^"\\]*)",)?'
    rb'(?:"(?:origin|job_id|parent_job_id|time_source|traceparent)":"[^"\\]*",)*"event":'
)
_ANY_KIND = re.compile(rb'"([A-Z][A-Za-z0-9_]*)":')


class LeftOut(NamedTuple):
    """Consecutive lines of one kind and session that were not decoded.

    Attributes:
        kind: Their kind.
        session_id: The session that they name, as envelopes do; None for bare lines and job frames.
        lines: How many they are.
    """

    kind: str
    session_id: str | None
    lines: int = 1


class _BareKind(NamedTuple):
    """A kind of bulk in bare lines. `ends` matches the newline before a line that does not begin as they do."""

    kind: str
    ends: re.Pattern[bytes]


class BulkLines:
    """Recognises lines of bulk.

    Args:
        catalog: The known kinds. Only those that exist now are recognised.
    """

    def __init__(self, catalog: Catalog) -> None:
        kinds = [kind for kind, event_type, _ in catalog if is_bulk(event_type) and not issubclass(event_type, Log)]
        levels = [level.value for level in LogLevel if is_sheddable(Log(level=level, message=""))]
        bodies = b'(?P<kind>%b)":' % b"|".join(kind.encode() for kind in kinds)
        logs = b'(?P<log>Log)":{"level":"(?:%b)"' % b"|".join(level.encode() for level in levels)
        self._match = re.compile(rb'(?:%b|%b)?\{"(?:%b|%b)' % (_JOB_FRAME, _ENVELOPE, bodies, logs)).match
        self._bare = {
            b'{"%b"' % kind.encode(): _BareKind(kind, re.compile(rb'\n(?!\{"%b":)' % kind.encode())) for kind in kinds
        }
        self._longest_head = 1 + max(map(len, self._bare), default=0)

    def split_lines(
        self, data: bytes, begin: int, end: int, may_leave_out: Callable[[str | None], bool]
    ) -> Iterator[bytes | LeftOut]:
        """Yield the lines between two places of `data`, without their newlines; lines of bulk are only counted.

        Most lines under pressure are bare, and of the same kind as the one before. Searching for the end of such a run
        costs a third of splitting it.

        Args:
            data: The lines.
            begin: Where the first line begins.
            end: The place after the last line's newline.
            may_leave_out: Called with the session that lines name. Returns False if they must be decoded.
        """
        while begin < end:
            head = data[begin : begin + self._longest_head]
            known = self._bare.get(head[: head.find(b":")])
            if known is not None and may_leave_out(None):
                match = known.ends.search(data, begin, end)
                assert match is not None  # at the last newline at the latest
                yield LeftOut(known.kind, None, data.count(b"\n", begin, match.end()))
                begin = match.end()
            else:
                newline = data.index(b"\n", begin, end)
                line = data[begin:newline]
                left_out = self.recognise_line(line)
                yield line if left_out is None or not may_leave_out(left_out.session_id) else left_out
                begin = newline + 1

    def recognise_line(self, line: bytes) -> LeftOut | None:
        """Return the bulk that one line certainly holds, or None."""
        match = self._match(line)
        if match is None:
            return None
        kind, session_id = match["kind"] or match["log"], match["session"]
        try:
            return LeftOut(kind.decode(), None if session_id is None else session_id.decode())
        except UnicodeDecodeError:
            return None


def find_kind(line: bytes) -> str | None:
    """Return the first word in a line that could be a kind: a guess, where no time is left to decode."""
    match = _ANY_KIND.search(line)
    return None if match is None else match[1].decode()
