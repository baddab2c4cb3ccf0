"""Spans of proofs and sessions that have ended and wait a moment: what a plugin derives from them may come later.

Who prices a proof's state programs answers to its start, or to its circuit, on a lane of its own. Of a short proof, and
in a replay of any proof, the end may have passed here when the answer comes.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from proofstream import CircuitCompiled, PluginHealth, ProofEvent, SessionOpened, StateProgramCost
from proofstream_otel.traces.open_spans import Page
from proofstream_otel.values.spans import SpanValues

HOLD_S = 1.0
"""How long an answer is waited for while other events keep coming."""

MAX_HELD = 2048
"""Spans that wait at most; a host holds a source back before its plugins are further apart than so many proofs."""

PRICER = "state-cost"
"""The plugin whose answers are waited for. Those of others are, once they have given one."""

_MAY_ANSWER = frozenset({"starting", "ready", "stalled"})


class Answers:
    """Whether there is anybody who answers: where nobody prices, no span is held back.

    Args:
        live: Whether events happen now. A recording may have answers of its own, and whoever replays it has time.
        instance: The `service.instance.id` of the host. It says who its plugins are, but not at once: until then, there
            may be somebody.
        clock: A monotonic clock in seconds.
    """

    def __init__(self, *, live: bool, instance: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._expected = not live
        self._maybe = False
        self._told = False
        self._instance = instance
        self._clock = clock

    def hear(self, event: ProofEvent) -> None:
        """Learn from an event that there is somebody."""
        if self._expected:
            return
        match event:
            case PluginHealth():
                self._told, self._maybe = True, False
                self._expected = event.plugin == PRICER and event.status in _MAY_ANSWER
            case SessionOpened() if not self._told and self._instance:
                self._maybe |= event.resource.get("service.instance.id") == self._instance
            case CircuitCompiled():
                self._expected = event.states is not msgspec.UNSET
            case _:
                self._expected = isinstance(event, StateProgramCost)

    def due(self) -> float:
        """Until when what just came may still be answered; long ago if there is nobody."""
        return self._clock() + HOLD_S if self._expected or self._maybe else -math.inf


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a span ended.

    Attributes:
        session_id: Its session.
        proof: The proof's ordinal in it; None for the session's own span.
        end_unix_nano: When it ended.
        said: Attributes.
        error: Why it failed, or None.
        due_s: Until when it waits.
    """

    session_id: str
    proof: int | None
    end_unix_nano: int
    said: dict[str, Any]
    error: str | None = None
    due_s: float


class Endings:
    """Holds ended spans back, and writes them in the order in which they ended.

    Args:
        write: Takes a finished span.
    """

    def __init__(self, write: Callable[[SpanValues], None]) -> None:
        self._write = write
        self._held: deque[tuple[Page, Ending]] = deque()

    def hold(self, page: Page, ending: Ending) -> None:
        """Take a span that has ended; where nothing is waited for it is written at once."""
        self._held.append((page, ending))
        self.release(-math.inf)
        if len(self._held) > MAX_HELD:
            self._let_go()

    def find(self, session_id: str, proof: int | None) -> Page | None:
        """The page of a proof, or with None of a session, if it still waits; the latest one."""
        for page, ending in reversed(self._held):
            if ending.proof == proof and ending.session_id == session_id:
                return page
        return None

    def release(self, now: float) -> None:
        """Write what waits no longer than until `now`, a time of the clock."""
        while self._held and self._held[0][1].due_s <= now:
            self._let_go()

    def _let_go(self) -> None:
        page, ending = self._held.popleft()
        self._write(page.close(end_unix_nano=ending.end_unix_nano, said=ending.said, error=ending.error))
