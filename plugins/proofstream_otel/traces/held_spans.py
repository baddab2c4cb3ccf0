"""Holds ended spans of proofs and sessions for a moment, because derived events about them may come later.

A plugin that prices a proof's state programs answers the proof's start, or its circuit, on a lane of its own. A short
proof, and any proof in a replay, may have ended here before the answer comes.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from proofstream import CircuitCompiled, PluginHealth, ProofEvent, SessionOpened, StateProgramCost
from proofstream_otel.traces.open_spans import OpenSpan
from proofstream_otel.values.spans import SpanValues

HOLD_S = 1.0
"""How long to wait for a cost while other events keep arriving."""

MAX_HELD = 2048
"""The most spans held. The host keeps its plugins closer together than this many proofs, by holding the source back."""

TELLING = frozenset({PluginHealth, SessionOpened, CircuitCompiled, StateProgramCost})
"""The kinds that tell whether costs may arrive."""

_COST = StateProgramCost.__name__
_ACTIVE = frozenset({"starting", "ready", "stalled"})


class ExpectedCosts:
    """Decides whether costs may still arrive. Without a plugin that derives them, no span is held.

    Args:
        live: Whether events happen now. A recording may contain costs, and a replay has time to wait.
        instance: The host's `service.instance.id`, which marks its sessions. The host reports its plugins only after a
            while; until then, costs may arrive for those sessions.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, *, live: bool, instance: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._expected = not live
        self._possible = False
        self._has_health = False
        self._instance = instance
        self._clock = clock

    def learn_from(self, event: ProofEvent) -> None:
        """Learn from an event whether costs may arrive."""
        if self._expected:
            return
        match event:
            case PluginHealth():
                self._has_health, self._possible = True, False
                self._expected = _COST in event.derives and event.status in _ACTIVE
            case SessionOpened() if not self._has_health and self._instance:
                self._possible |= event.resource.get("service.instance.id") == self._instance
            case CircuitCompiled():
                self._expected = event.states is not msgspec.UNSET
            case StateProgramCost():
                self._expected = True
            case _:
                pass

    def due_s(self) -> float:
        """Return until when costs of the latest event may arrive, or minus infinity if none are expected."""
        return self._clock() + HOLD_S if self._expected or self._possible else -math.inf


class SpanEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a span.

    Attributes:
        session_id: Its session.
        proof: The proof's ordinal in the session; None for the session's own span.
        end_unix_nano: When it ended.
        said: The attributes of its end event.
        error: Why it failed, or None.
        due_s: Until when it is held.
    """

    session_id: str
    proof: int | None
    end_unix_nano: int
    said: dict[str, Any]
    error: str | None = None
    due_s: float


class HeldSpans:
    """Holds ended spans, and writes them in the order of their ends.

    Args:
        write: Takes a finished span.
    """

    def __init__(self, write: Callable[[SpanValues], object]) -> None:
        self._write = write
        self._held: deque[tuple[OpenSpan, SpanEnd]] = deque()

    def hold_span(self, span: OpenSpan, end: SpanEnd) -> None:
        """Hold a span that has ended; write it at once if it need not wait."""
        self._held.append((span, end))
        self.release_until(-math.inf)
        if len(self._held) > MAX_HELD:
            self._write_oldest()

    def find_span(self, session_id: str, proof: int | None) -> OpenSpan | None:
        """Return the latest held span of a proof or, without one, of a session; None if it was written already."""
        for span, end in reversed(self._held):
            if end.proof == proof and end.session_id == session_id:
                return span
        return None

    def release_until(self, now: float) -> None:
        """Write the spans that are due by `now`, a time of the clock. A span behind one that waits waits, too."""
        while self._held and self._held[0][1].due_s <= now:
            self._write_oldest()

    def _write_oldest(self) -> None:
        span, end = self._held.popleft()
        self._write(span.finish(end_unix_nano=end.end_unix_nano, said=end.said, error=end.error))
