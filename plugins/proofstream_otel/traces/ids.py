"""Derives trace and span ids from the stream itself, so that every replay gives the same ids."""

from __future__ import annotations

from proofstream import Interval, derived_id

_TRACE_BYTES = 16
_SPAN_BYTES = 8


def session_span_id(session_id: str, part: int) -> str:
    """Return the id of a session's own span, as 16 hex digits; `part` counts how often the session resumed."""
    return derived_id(_SPAN_BYTES, session_id, "session", str(part))


def proof_trace_id(session_id: str, proof_ordinal: int) -> str:
    """Return the id of the trace of one proof, as 32 hex digits."""
    return derived_id(_TRACE_BYTES, session_id, "trace", str(proof_ordinal))


def alone_trace_id(interval: Interval) -> str:
    """Return the id of the trace of an interval outside of any proof, as 32 hex digits."""
    return derived_id(_TRACE_BYTES, interval.session_id, "alone", str(interval.ordinal))


def span_id(interval: Interval) -> str:
    """Return the id of an interval's span, as 16 hex digits."""
    return derived_id(_SPAN_BYTES, interval.session_id, str(interval.ordinal), interval.kind._value_)


def stage_span_id(proof: Interval, stage: str) -> str:
    """Return the id of the span of one of a proof's stages, as 16 hex digits."""
    return derived_id(_SPAN_BYTES, proof.session_id, str(proof.ordinal), "stage", stage)
