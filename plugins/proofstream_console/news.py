"""News: what happened since the views last looked, a few lines' worth, and the number of what did not fit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from proofstream import LogLevel, PluginHealth
from proofstream_console.pace import Bucket, Throttle
from proofstream_console.proof_summary import ProofSummary
from proofstream_console.session_summary import SessionSummary

MAX_WAITING = 256
"""News of one urgency that wait to be shown."""

_COUNT_HIDDEN_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class ProofOpened:
    """A proof began."""

    proof: ProofSummary


@dataclass(frozen=True, slots=True)
class ProofEnded:
    """A proof ended, successfully or not."""

    proof: ProofSummary


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the producer's log, as it was written."""

    level: LogLevel
    message: str


@dataclass(frozen=True, slots=True)
class PluginTrouble:
    """A plugin stalled or failed."""

    health: PluginHealth


@dataclass(frozen=True, slots=True)
class ProofSilent:
    """A proof has been silent for longer than usual. `longest_ns` is the longest silence before, in the same stage."""

    proof: ProofSummary
    stage: str | None
    silent_ns: int
    longest_ns: int


@dataclass(frozen=True, slots=True)
class ProofsAtOnce:
    """A session's proofs cannot be told apart: one began while another was open, and no job ids say which is which."""

    source: str


@dataclass(frozen=True, slots=True)
class SessionHeard:
    """A prover has connected, or has been heard for a while and has not begun a proof."""

    session: SessionSummary


News: TypeAlias = SessionHeard | ProofOpened | ProofEnded | LogLine | PluginTrouble | ProofSilent | ProofsAtOnce


def is_urgent(news: News) -> bool:
    """Return whether a reader must see it before anything else."""
    match news:
        case LogLine(level=level):
            return level in (LogLevel.Warn, LogLevel.Error)
        case ProofEnded(proof=proof):
            return proof.aborted_reason is not None
        case ProofOpened() | SessionHeard():
            return False
        case PluginTrouble() | ProofSilent() | ProofsAtOnce():
            return True


class NewsDesk:
    """Holds news until they are taken. Other news never crowd out urgent ones."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, News]] = deque()
        self._urgent: deque[tuple[int, News]] = deque()
        self._number = 0
        self._unheard = 0

    def put_news(self, news: News) -> None:
        """Hold a piece of news, if there is room."""
        self._number += 1
        shelf = self._urgent if is_urgent(news) else self._waiting
        if len(shelf) < MAX_WAITING:
            shelf.append((self._number, news))
        else:
            self._unheard += 1

    def take_unheard(self) -> int:
        """Return how many did not find room since the last call."""
        unheard, self._unheard = self._unheard, 0
        return unheard

    def take_news(self) -> list[News]:
        """Return all that is held, oldest first."""
        if not (self._waiting or self._urgent):
            return []
        taken = sorted([*self._waiting, *self._urgent], key=lambda item: item[0])
        self._waiting.clear()
        self._urgent.clear()
        return [news for _, news in taken]


class Reporter:
    """Takes the news that may be shown now, and counts the others.

    Args:
        desk: Holds the news.
        log_lines_per_s: Lines of the producer's log per second, on average.
        others_per_s: Other news per second, on average, and as many urgent ones.
    """

    def __init__(self, desk: NewsDesk, *, log_lines_per_s: float, others_per_s: float = 10) -> None:
        self._desk = desk
        self._logs = Bucket(per_s=log_lines_per_s, burst=max(1.0, 3 * log_lines_per_s) if log_lines_per_s else 0.0)
        self._urgent = Bucket(per_s=others_per_s, burst=3 * others_per_s)
        self._others = Bucket(per_s=others_per_s, burst=3 * others_per_s)
        self._hidden = 0
        self._count_hidden = Throttle(_COUNT_HIDDEN_EVERY_S, start=float("-inf"))

    def take_shown(self, now: float) -> list[News]:
        """Return the news to show at the time `now`, in seconds, oldest first."""
        shown: list[News] = []
        for news in self._desk.take_news():
            if self._bucket(news).lets_pass(now):
                shown.append(news)
            else:
                self._hidden += 1
        self._hidden += self._desk.take_unheard()
        return shown

    def _bucket(self, news: News) -> Bucket:
        if isinstance(news, LogLine):
            return self._logs
        return self._urgent if is_urgent(news) else self._others

    def take_hidden(self, now: float, *, at_once: bool = False) -> int:
        """Return how many were hidden since this last returned a count: at most once a second, or `at_once`."""
        if not self._hidden or not (self._count_hidden.is_due(now) or at_once):
            return 0
        hidden, self._hidden = self._hidden, 0
        return hidden
