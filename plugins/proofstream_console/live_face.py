"""The live face: the view at the bottom of the terminal, with the news scrolling by above it."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Sequence
from typing import TypeAlias

from rich.console import Console, Group
from rich.style import Style
from rich.text import Span, Text

from proofstream import LogLevel, safe_text
from proofstream_console import words
from proofstream_console.anchor import LEAST_ROWS, RELEASE, Anchor
from proofstream_console.formats import CHECK, CROSS
from proofstream_console.live_view import LiveView
from proofstream_console.news import (
    LogLine,
    News,
    PluginTrouble,
    ProofEnded,
    ProofsAtOnce,
    ProofSilent,
    Reporter,
)
from proofstream_console.output import Output
from proofstream_console.pace import Throttle
from proofstream_console.run_summary import RunSummary

_LAST_WAIT_S = 0.25
_DRAW_AGAIN_EVERY_S = 2.0
"""Another program may have cleared the terminal, or written over the view."""

_SUSPENDED_S = 0.6
"""A process that has not looked at the terminal for so long was suspended, and the shell has used the terminal."""

_GAP_FROM_LINES = (12, 30)
"""A terminal of so many has one or two empty rows above the view: a change of size ends the scrolling of a part, and
what others write until that is seen lands there.
"""

_LEVEL_STYLES = {LogLevel.Warn: "yellow", LogLevel.Error: "bold red"}

_Look: TypeAlias = tuple[str, str | Style, tuple[Span, ...]]


def _look_of(line: Text) -> _Look:
    """Return all that a row's bytes depend on, but for the terminal's colours, which do not change."""
    return line.plain, line.style, tuple(line.spans)


class LiveFace:
    """Draws the view at the bottom of the terminal.

    Args:
        console: Makes the terminal's control sequences for colours.
        summary: The run so far.
        reporter: The news.
        view: The view.
        output: The terminal.
    """

    def __init__(
        self, console: Console, summary: RunSummary, reporter: Reporter, view: LiveView, output: Output
    ) -> None:
        self._console = console
        self._summary = summary
        self._reporter = reporter
        self._view = view
        self._output = output
        self._anchor = Anchor()
        self._size = os.terminal_size(console.size)
        self._looked_at = time.monotonic()
        self._lock = threading.Lock()
        self._draw_again = Throttle(_DRAW_AGAIN_EVERY_S, start=0.0)
        self._first_end: Text | None = None
        self._styled_before: dict[_Look, str] = {}

    def show_news(self, now: float) -> None:
        """Draw the view, and insert the news above it."""
        columns, lines = size = self._measure()
        gap = sum(lines >= least for least in _GAP_FROM_LINES)
        view = self._view.lines(width=columns, height=lines - gap) if lines >= LEAST_ROWS else []
        rows = [*[""] * gap, *self._styled_rows(view)]
        self._draw(size, rows, self._styled(self._above(now, last=False)), again=self._draw_again.is_due(now))
        if self._output.look is None:
            self._output.look = self._look
            # The process may end without calling `finish`.
            atexit.register(self._give_back)

    def finish(self, now: float) -> None:
        """Remove the view, and leave the terminal as it was."""
        self._output.look = None
        atexit.unregister(self._give_back)
        size = self._measure()
        above = self._styled(self._above(now, last=True))
        with self._lock:
            if self._anchor.rows:
                self._output.write(self._anchor.leave(size, above))
            else:
                self._output.write("".join(f"{row}\n" for row in above))

    def _measure(self) -> os.terminal_size:
        """Return how large the terminal is. The report is made for that width, too."""
        size = self._output.size() or self._size
        self._size, self._console.width = size, size.columns
        return size

    def _draw(self, size: os.terminal_size, rows: Sequence[str], above: Sequence[str], *, again: bool) -> None:
        """Draw rows that were made for a terminal of that size; if it has another one now, the rows before."""
        with self._lock:
            size_now = self._output.size() or size
            if size_now != size:
                rows = self._anchor.rows[: max(0, size_now.lines - LEAST_ROWS + 1)]
            frame = self._anchor.draw(size_now, rows, above, lost=self._was_suspended(), again=again)
            self._looked_at = time.monotonic()
            if frame:
                self._output.write(frame)

    def _look(self) -> bool:
        """Put the view where it belongs, sooner than a new one can be made. Called on the writer's thread.

        Return whether it was somewhere else.
        """
        size = self._output.size() or self._size
        has_changed = self._was_suspended() or self._anchor.is_displaced(size)
        if has_changed:
            self._draw(self._size, self._anchor.rows, (), again=True)
        self._looked_at = time.monotonic()
        return has_changed

    def _was_suspended(self) -> bool:
        return time.monotonic() - self._looked_at > _SUSPENDED_S

    def _styled_rows(self, lines: list[Text]) -> list[str]:
        """Return the same for lines that take one row each. Most are as in the view before, which costs less."""
        looks = [_look_of(line) for line in lines]
        new = {look: line for look, line in zip(looks, lines, strict=True) if look not in self._styled_before}
        rows = self._styled(list(new.values()))
        if len(rows) != len(new):
            return self._styled(lines)
        styled = self._styled_before | dict(zip(new, rows, strict=True))
        self._styled_before = {look: styled[look] for look in looks}
        return [styled[look] for look in looks]

    def _styled(self, lines: list[Text]) -> list[str]:
        """Return the rows that lines take, with their colours as control sequences."""
        if not lines:
            return []
        with self._console.capture() as capture:
            self._console.print(Group(*lines))
        return capture.get().splitlines()

    def _give_back(self) -> None:
        self._output.write(RELEASE)
        self._output.drain(_LAST_WAIT_S)

    def _above(self, now: float, *, last: bool) -> list[Text]:
        lines = [line for news in self._reporter.take_shown(now) for line in self._lines(news)]
        if hidden := self._reporter.take_hidden(now, at_once=last):
            lines.append(Text(words.hidden_lines(hidden), style="dim"))
        return lines

    def _lines(self, news: News) -> list[Text]:
        match news:
            case LogLine(level=level, message=message):
                text = f"{level.value.lower():<5}  {safe_text(message, words.MAX_MESSAGE)}"
                return [Text(text, style=_LEVEL_STYLES.get(level, ""))]
            case PluginTrouble(health=health):
                return [Text(words.plugin_trouble(health), style="red")]
            case ProofSilent(proof=proof):
                return [Text(f"warn   {words.proof_name(proof)} {words.unusual_silence(news)}", style="yellow")]
            case ProofsAtOnce(source=source):
                return [Text(f"warn   {words.proofs_at_once(source)}", style="yellow")]
            case ProofEnded():
                return self._ended(news)
            case _:
                return []

    def _ended(self, news: ProofEnded) -> list[Text]:
        """Return the lines for a proof's end. The first waits for a second one: the report covers a single proof."""
        good = news.proof.aborted_reason is None
        line = Text(f"{CHECK if good else CROSS} ", style="green" if good else "red")
        line.append(words.proof_ended(news.proof))
        if news.proof.number == 0 and self._summary.totals.proofs == 1:
            self._first_end = line
            return []
        held, self._first_end = self._first_end, None
        return [line] if held is None else [held, line]
