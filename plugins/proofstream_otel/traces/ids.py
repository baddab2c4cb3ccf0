"""Trace and span ids, derived from what they stand for: the same stream gives the same ids on every replay."""

from __future__ import annotations

import hashlib

from proofstream import Interval

_TRACE_BYTES = 16
_SPAN_BYTES = 8


def session_trace_id(session_id: str) -> str:
    """The trace that a session's own span stands in, as 32 hex digits."""
    return _hash(_TRACE_BYTES, session_id, "session trace")


def session_span_id(session_id: str, part: int) -> str:
    """A session's own span, as 16 hex digits; `part` counts how often the session went on after it had ended."""
    return _hash(_SPAN_BYTES, session_id, "session", str(part))


def proof_trace_id(session_id: str, proof_ordinal: int) -> str:
    """The trace of one proof of a session."""
    return _hash(_TRACE_BYTES, session_id, "trace", str(proof_ordinal))


def alone_trace_id(interval: Interval) -> str:
    """The trace of an interval that belongs to no proof."""
    return _hash(_TRACE_BYTES, interval.session_id, "alone", str(interval.ordinal))


def span_id(interval: Interval) -> str:
    """The span of an interval."""
    return _hash(_SPAN_BYTES, interval.session_id, str(interval.ordinal), interval.kind.value)


def _hash(size: int, *parts: str) -> str:
    # The length in front keeps ("a", "bc") and ("ab", "c") apart.
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(encoded), encoded))
    taken = digest.digest()[:size]
    return taken.hex() if any(taken) else "1".zfill(2 * size)
