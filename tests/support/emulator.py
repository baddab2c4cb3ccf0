"""A terminal, as far as our views and their neighbours use one: what it shows, and what has scrolled out of it.

It does what xterm does: when it gets fewer rows, those below the cursor go first; when it changes its size, all of it
scrolls again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKENS = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b([78DE])|([\r\n])|([^\x1b\r\n]+)|(.)", re.DOTALL)


@dataclass
class Row:
    """A row's text, and whether the next row continues it."""

    text: str = ""
    wraps: bool = False


@dataclass
class Emulator:
    """The terminal.

    Attributes:
        shows_cursor: Whether the cursor is shown.
        scrolls: The first and the last of the rows that scroll, from 0; the last is past the end.
        style: The colours in which the next text is written, as its control sequence.
    """

    columns: int
    lines: int
    shows_cursor: bool = True
    style: str = ""
    row: int = 0
    column: int = 0
    history: list[Row] = field(default_factory=list[Row])
    _pending: str = ""

    def __post_init__(self) -> None:
        self.rows = [Row() for _ in range(self.lines)]
        self.scrolls = (0, self.lines)
        self._cuts = False
        self._saved = (0, 0, "")

    # What it shows

    @property
    def screen(self) -> list[str]:
        """The rows that are shown."""
        return [row.text.rstrip() for row in self.rows]

    @property
    def said(self) -> list[str]:
        """All lines from the first one on, also those that scrolled out, without empty ones at the end."""
        lines = [""]
        for row in [*self.history, *self.rows]:
            lines[-1] += row.text
            if not row.wraps:
                lines[-1] = lines[-1].rstrip()
                lines.append("")
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def resize(self, columns: int, lines: int) -> None:
        """Change its size."""
        while len(self.rows) > lines and self.row < len(self.rows) - 1:
            self.rows.pop()
        while len(self.rows) > lines:
            self.history.append(self.rows.pop(0))
            self.row -= 1
        self.rows += [Row() for _ in range(lines - len(self.rows))]
        for row in self.rows:
            row.text = row.text[:columns]
        self.columns, self.lines = columns, lines
        self.column = min(self.column, columns - 1)
        self.scrolls = (0, lines)

    # What is written to it

    def write(self, text: str) -> None:
        """Take text with control sequences. One may be cut in two."""
        text = self._pending + text
        cut = re.search(r"\x1b(\[[0-9;?]*)?$", text)
        self._pending = cut.group() if cut else ""
        for found in _TOKENS.finditer(text[: len(text) - len(self._pending)]):
            numbers, letter, escape, feed, plain, other = found.groups()
            assert other is None, f"an unexpected character: {other!r}"
            if letter:
                self._control(numbers, letter)
            elif escape:
                self._escape(escape)
            elif feed:
                self.column = 0  # a terminal's driver turns a line feed into both
                if feed == "\n":
                    self._down()
            else:
                for character in plain:
                    self._put(character)

    def _put(self, character: str) -> None:
        if self.column >= self.columns:
            if self._cuts:
                self.column = self.columns - 1
            else:
                self.rows[self.row].wraps = True
                self._down()
                self.column = 0
        row = self.rows[self.row]
        row.text = row.text[: self.column].ljust(self.column) + character + row.text[self.column + 1 :]
        self.column += 1

    def _down(self) -> None:
        top, bottom = self.scrolls
        if self.row == bottom - 1:
            gone = self.rows.pop(top)
            if top == 0:
                self.history.append(gone)
            self.rows.insert(bottom - 1, Row())
        else:
            self.row = min(self.row + 1, self.lines - 1)

    def _escape(self, escape: str) -> None:
        match escape:
            case "7":
                self._saved = (self.row, self.column, self.style)
            case "8":
                self.row, self.column, self.style = self._saved
            case _:
                self._down()
                self.column = 0 if escape == "E" else min(self.column, self.columns - 1)

    def _control(self, numbers: str, letter: str) -> None:
        found = [int(number) for number in re.findall(r"\d+", numbers)]
        match letter:
            case "m":
                self.style = "" if numbers in ("", "0") else f"\x1b[{numbers}m"
            case "r":
                self.scrolls = (found[0] - 1, found[1]) if found else (0, self.lines)
                self.row = self.column = 0
            case "h" | "l":
                self._switch(numbers, on=letter == "h")
            case "A" | "H":
                self._move(letter, found[0] if found else 1)
            case _:
                self._erase(letter, found)

    def _move(self, letter: str, number: int) -> None:
        if letter == "A":
            self.row = max(self.scrolls[0], self.row - number)
            self.column = min(self.column, self.columns - 1)
        else:
            self.row, self.column = min(number, self.lines) - 1, 0

    def _erase(self, letter: str, found: list[int]) -> None:
        match letter, found:
            case "J", []:
                self.rows[self.row] = Row(self.rows[self.row].text[: self.column])
                self.rows[self.row + 1 :] = [Row() for _ in self.rows[self.row + 1 :]]
            case "K", [2]:
                self.rows[self.row] = Row()
            case "L", [number]:
                for _ in range(number):
                    self.rows.pop(self.scrolls[1] - 1)
                    self.rows.insert(self.row, Row())
            case _:
                raise AssertionError(f"an unexpected control sequence: {found}{letter}")

    def _switch(self, numbers: str, *, on: bool) -> None:
        if numbers == "?25":
            self.shows_cursor = on
        else:
            assert numbers == "?7", f"an unexpected switch: {numbers}"
            self._cuts = not on
