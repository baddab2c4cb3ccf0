"""Keeps rows at the bottom of a terminal to which others write, too: a prover, a shell, the process itself.

The terminal scrolls only the rows above (DECSTBM), and the cursor stays in those, where the last writer left it. So
other lines are written as if nothing else were shown: they wrap, scroll into the history, and may be unfinished. Each
frame saves that cursor with its colours, and restores it. It has no line feed, so that `Output` writes it at once and
no other program's text comes in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

_SAVE, _RESTORE = "\x1b7", "\x1b8"
_DOWN = "\x1bD"
"""One row down, in the same column. At the bottom everything scrolls."""

_NEXT_ROW = "\x1bE"
_PLAIN = "\x1b[0m"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CUT, _WRAP = "\x1b[?7l", "\x1b[?7h"
"""What becomes of a row that is too long: a terminal may have become narrower a moment ago."""

_ERASE_ROW, _ERASE_BELOW = "\x1b[2K", "\x1b[J"
_SCROLL_ALL = f"{_SAVE}\x1b[r{_RESTORE}"
_ERASE_BELOW_CURSOR = f"{_DOWN}{_SAVE}{_PLAIN}\r{_ERASE_BELOW}{_RESTORE}\x1b[A"

RELEASE = f"{_SCROLL_ALL}{_ERASE_BELOW_CURSOR}{_SHOW_CURSOR}"
"""Gives a terminal back, wherever the rows are now: all of them are below the cursor."""

LEAST_ROWS = 3
"""A terminal needs so many: two that scroll, and one that does not."""


class Anchor:
    """What is drawn.

    Attributes:
        rows: The rows.
    """

    def __init__(self) -> None:
        self._size = os.terminal_size((0, 0))
        self.rows: list[str] = []

    def is_displaced(self, size: os.terminal_size) -> bool:
        """Return whether the terminal has another size than when the rows were drawn."""
        return bool(self.rows) and size != self._size

    def draw(
        self, size: os.terminal_size, rows: Sequence[str], above: Sequence[str], *, lost: bool, again: bool
    ) -> str:
        """Return what draws the rows, and inserts others above them, which scroll away.

        Args:
            size: The terminal's.
            rows: The rows to keep, at most two fewer than the terminal has. None may be wider than the terminal.
            above: The others.
            lost: Whether the rows may have been moved or overwritten, as while the process was suspended.
            again: Whether to draw all of them, because another program may have overwritten some.
        """
        before = len(self.rows)
        moved = before > 0 and (lost or size != self._size)
        said = self._vanish(moved=True) if moved else ""
        anew = moved or again or len(rows) != before
        if anew:
            if len(rows) < before and not moved:
                said += self._vanish(moved=False)
            said += _hold(size.lines, len(rows))
        said += _insert(above, size.lines - len(rows))
        said += _paint(
            (size.lines - len(rows) + number, row)
            for number, row in enumerate(rows, 1)
            if anew or row != self.rows[number - 1]
        )
        self._size, self.rows = size, list(rows)
        return f"{_HIDE_CURSOR}{said}{_SHOW_CURSOR}" if said else ""

    def leave(self, size: os.terminal_size, above: Sequence[str]) -> str:
        """Return what removes the rows, inserts others, and lets the whole terminal scroll."""
        said = self._vanish(moved=size != self._size) + _insert(above, size.lines) + _SHOW_CURSOR
        self.rows = []
        return said

    def _vanish(self, *, moved: bool) -> str:
        """Return what removes the rows. A terminal that changed its size may have moved, wrapped and cut them."""
        if moved:
            return _SCROLL_ALL + _ERASE_BELOW_CURSOR
        top = self._size.lines - len(self.rows) + 1
        return f"{_SAVE}{_PLAIN}\x1b[{top}H{_ERASE_BELOW}{_RESTORE}{_SCROLL_ALL}"


def _hold(lines: int, rows: int) -> str:
    """Return what frees so many rows at the bottom, which needs no scrolling if the cursor is above, and holds them."""
    if not rows:
        return _SCROLL_ALL
    return f"{_SCROLL_ALL}{_DOWN * rows}\x1b[{rows}A{_SAVE}\x1b[1;{lines - rows}r{_RESTORE}"


def _insert(above: Sequence[str], lines: int) -> str:
    """Return what inserts rows above the cursor's, which another program may not have finished."""
    at_once = max(1, lines - 1)
    parts = [above[first : first + at_once] for first in range(0, len(above), at_once)]
    return "".join(
        f"{_DOWN * len(part)}{_SAVE}{_PLAIN}{_CUT}\x1b[{len(part)}A\r\x1b[{len(part)}L"
        f"{_NEXT_ROW.join(part)}{_WRAP}{_RESTORE}"
        for part in parts
    )


def _paint(rows: Iterable[tuple[int, str]]) -> str:
    """Return what draws each row at its place."""
    said = "".join(f"\x1b[{at}H{_ERASE_ROW}{row}" for at, row in rows)
    return f"{_SAVE}{_PLAIN}{_CUT}{said}{_WRAP}{_RESTORE}" if said else ""
