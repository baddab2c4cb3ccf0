"""Finds the parent of a proof: an explicit traceparent, else the current span, else TRACEPARENT, else no parent."""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import Any

import msgspec

from proofstream import Envelope, SessionOpened
from proofstream_otel.values.spans import Parent

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def parse_traceparent(traceparent: str) -> Parent | None:
    """Parse a W3C traceparent; return None if it is not valid."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    malformed = version == "ff" or (version == "00" and rest) or not int(trace_id, 16) or not int(span_id, 16)
    if malformed:
        return None
    return Parent(trace_id=trace_id, span_id=span_id, sampled=bool(int(flags, 16) & 1), remote=True)


def current_span(trace: Any) -> Parent | None:
    """Return the current span of this thread, or None; `trace` is the module ``opentelemetry.trace``."""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return Parent(
        trace_id=f"{span.trace_id:032x}",
        span_id=f"{span.span_id:016x}",
        sampled=span.trace_flags.sampled,
        remote=span.is_remote,
        trace_state=span.trace_state.to_header(),
        context=sys.modules["opentelemetry.context"].get_current(),
    )


class Parents:
    """Finds parents, and warns once about each kind of problem with one."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[str] = set()

    def of_session(self, opened: Envelope) -> Parent | None:
        """Return the parent that a session's opening names."""
        event = opened.event
        in_force = event.traceparent if isinstance(event, SessionOpened) else None
        # TRACEPARENT has the lowest priority, but the event does not say whether its value came from the variable or
        # the caller.
        ambient = in_force is not None and in_force == os.environ.get("TRACEPARENT", "").strip().lower()
        said = self._parsed(in_force)
        if said is not None and isinstance(event, SessionOpened) and isinstance(event.tracestate, str):
            said = msgspec.structs.replace(said, trace_state=event.tracestate)
        explicit = None if ambient else said
        if ambient and not _reads_traceparent():
            said = None
        return self._parsed(opened.traceparent) or explicit or _captured(opened) or said

    def of_proof(self, opened: Envelope, session: Parent | None) -> Parent | None:
        """Return the parent of a proof, or of an interval outside of any proof."""
        return self._parsed(opened.traceparent) or _captured(opened) or session

    def warn_unsampled(self, parent: Parent) -> None:
        """Warn once that an unsampled parent leaves our spans out, too."""
        self._once("unsampled", f"the parent trace {parent.trace_id} is not sampled, so neither is the proof's")

    def _parsed(self, traceparent: str | None) -> Parent | None:
        if not traceparent:
            return None
        parent = parse_traceparent(traceparent)
        if parent is None:
            self._once("invalid", f"traceparent {traceparent[:80]!r} is not valid; the trace begins here instead")
        return parent

    def _once(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            self._log.warning("%s", text)


def _reads_traceparent() -> bool:
    # Only here: this module is loaded with the plugin's class, and that one imports what is for TLS.
    from proofstream_otel import environment

    return environment.reads_traceparent()


def _captured(envelope: Envelope) -> Parent | None:
    return next((value for value in envelope.captured.values() if isinstance(value, Parent)), None)
