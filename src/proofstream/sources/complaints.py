"""Tells the user what goes wrong again and again without repeating the line each time."""

from __future__ import annotations

import time
from collections.abc import Callable

EVERY_S = 60.0


class Complaints:
    """Shows each kind of complaint at once, and then at most once a minute with the count since.

    Args:
        announce: Shows the user a line.
        clock: Returns monotonic seconds.
    """

    def __init__(self, announce: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._announce = announce
        self._clock = clock
        self._shown_at: dict[str, float] = {}
        self._more: dict[str, int] = {}

    def complain(self, text: str) -> None:
        """Show the line, or count it if it was shown less than a minute ago. There are few different lines."""
        if text in self._shown_at:
            self._more[text] = self._more.get(text, 0) + 1
        else:
            self._shown_at[text] = self._clock()
            self._announce(text)

    def show_due(self, *, at_end: bool = False) -> None:
        """Show the counts that are a minute old, or at the end all of them."""
        now = self._clock()
        for text, shown_at in list(self._shown_at.items()):
            if now - shown_at < EVERY_S and not at_end:
                continue
            del self._shown_at[text]
            more = self._more.pop(text, 0)
            if more:
                self._shown_at[text] = now
                self._announce(f"{text} ({more} more)")
