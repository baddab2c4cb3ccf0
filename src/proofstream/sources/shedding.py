"""Recognises lines that certainly hold bulk by their first bytes, so that they can be left out without decoding."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from proofstream.catalog import Catalog
from proofstream.events import Log, LogLevel, is_bulk, is_sheddable

# The forms that `wire` describes, as our encoder and the known provers write them: without spaces, in this order. Lines
# of any other form are decoded, which is always right and only slower.
_JOB_FRAME = rb'\{"job_id":(?:"[^"\\]*"|[0-9]+),"event":'
_ENVELOPE = (
    rb'\{"v":1,(?:"(?:seq|time_unix_nano)":[0-9]+,)*(?:"session_id":"(?P<session>[^"\\]*)",)?'
    rb'(?:"(?:origin|job_id|traceparent)":"[^"\\]*",)*"event":'
)
_ANY_KIND = re.compile(rb'"([A-Z][A-Za-z0-9_]*)":')
_UNREADABLE = "Unreadable"


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


class BulkLines:
    """Recognises lines of bulk.

    Args:
        catalog: The known kinds. Only those that exist now are recognised.
    """

    def __init__(self, catalog: Catalog) -> None:
        kinds = [kind for kind, event_type, _ in catalog if is_bulk(event_type) and not issubclass(event_type, Log)]
        levels = [level.value for level in LogLevel if is_sheddable(Log(level=level, message=""))]
        bodies = rb"(?P<kind>%b)\":" % b"|".join(kind.encode() for kind in kinds)
        logs = rb"(?P<log>Log)\":\{\"level\":\"(?:%b)\"" % b"|".join(level.encode() for level in levels)
        self._match = re.compile(rb'(?:%b|%b)?\{"(?:%b|%b)' % (_JOB_FRAME, _ENVELOPE, bodies, logs)).match
        # Most lines are bare, and for those a look into a dict is several times faster than the pattern.
        self._bare = {b'{"%b"' % kind.encode(): LeftOut(kind, None) for kind in kinds}

    def recognise(self, lines: Sequence[bytes]) -> list[LeftOut | None]:
        """Return what each line is known to hold, as if it stood alone; None for a line that must be decoded."""
        bare = self._bare
        found = [bare.get(line[: line.find(b":")]) for line in lines]
        return [known if known is not None else self._wrapped(line) for known, line in zip(found, lines, strict=True)]

    def _wrapped(self, line: bytes) -> LeftOut | None:
        match = self._match(line)
        if match is None:
            return None
        kind, session_id = match["kind"] or match["log"], match["session"]
        try:
            return LeftOut(kind.decode(), None if session_id is None else session_id.decode())
        except UnicodeDecodeError:
            return None


def count_kinds(lines: Sequence[bytes]) -> Counter[str]:
    """Count lines that there is no time left to decode, by the first word in them that could be a kind."""
    counts: Counter[str] = Counter()
    for line in lines:
        match = _ANY_KIND.search(line)
        if match is not None:
            counts[match[1].decode()] += 1
        elif line.strip():
            counts[_UNREADABLE] += 1
    return counts
