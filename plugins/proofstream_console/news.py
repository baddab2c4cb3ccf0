"""What happened since the views last looked: a few lines' worth, and the number of what did not fit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from proofstream import LogLevel, PluginHealth

if TYPE_CHECKING:
    from proofstream_console.model import ProofSummary

MAX_WAITING = 256
"""News of one urgency that wait to be shown."""


@dataclass(frozen=True, slots=True)
class ProofOpened:
    """A proof began."""

    proof: ProofSummary


@dataclass(frozen=True, slots=True)
class ProofEnded:
    """A proof ended, well or not."""

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


News: TypeAlias = ProofOpened | ProofEnded | LogLine | PluginTrouble


def is_urgent(news: News) -> bool:
    """Whether a person must see it before anything else."""
    match news:
        case LogLine(level=level):
            return level in (LogLevel.Warn, LogLevel.Error)
        case ProofEnded(proof=proof):
            return proof.aborted_reason is not None
        case ProofOpened():
            return False
        case PluginTrouble():
            return True


class NewsDesk:
    """Holds news until they are taken. What is urgent is not crowded out by what is not.

    Attributes:
        unheard: News that came while too many were waiting.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, News]] = deque()
        self._urgent: deque[tuple[int, News]] = deque()
        self._number = 0
        self.unheard = 0

    def put(self, news: News) -> None:
        """Hold it, if there is room."""
        self._number += 1
        shelf = self._urgent if is_urgent(news) else self._waiting
        if len(shelf) < MAX_WAITING:
            shelf.append((self._number, news))
        else:
            self.unheard += 1

    def take(self) -> list[News]:
        """All that is held, oldest first."""
        if not (self._waiting or self._urgent):
            return []
        taken = sorted([*self._waiting, *self._urgent], key=lambda item: item[0])
        self._waiting.clear()
        self._urgent.clear()
        return [news for _, news in taken]
