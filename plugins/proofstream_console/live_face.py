"""The live face: the view at the bottom of the terminal, with the news scrolling by above it."""

from __future__ import annotations

import atexit
import os

from rich.console import Console, Group
from rich.text import Text

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

_SUSPENDED_S = 0.3
"""A process that looks at the terminal no more often was suspended, and the shell has used the terminal."""

_GAP_FROM_LINES = (12, 30)
"""A terminal of so many has one or two empty rows above the view: a change of size ends the scrolling of a part, and
what others write until that is seen lands there.
"""

_LEVEL_STYLES = {LogLevel.Warn: "yellow", LogLevel.Error: "bold red"}


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
        self._looked_at = 0.0
        self._is_lost = False
        self._draw_again = Throttle(_DRAW_AGAIN_EVERY_S, start=0.0)
        self._gives_back = False
        self._first_end: Text | None = None

    def show_news(self, now: float) -> None:
        """Draw the view, and insert the news above it."""
        self._look(now)
        columns, lines = self._size
        gap = sum(lines >= least for least in _GAP_FROM_LINES)
        view = self._view.lines(width=columns, height=lines - gap) if lines >= LEAST_ROWS else []
        above = self._styled(self._above(now, last=False))
        self._draw([*[""] * gap, *self._styled(view)], above, again=self._draw_again.is_due(now))

    def recover(self, now: float) -> None:
        """Take the view away from where it does not belong, faster than it can be drawn."""
        self._look(now)
        if self._is_lost or self._anchor.is_displaced(self._size):
            self._draw([""] * min(self._anchor.height, self._size.lines - 2), [], again=True)

    def _look(self, now: float) -> None:
        """Look how large the terminal is, and whether the process was suspended."""
        self._measure()
        self._is_lost |= self._anchor.height > 0 and now - self._looked_at > _SUSPENDED_S
        self._looked_at = now

    def _draw(self, rows: list[str], above: list[str], *, again: bool) -> None:
        frame = self._anchor.draw(self._size, rows, above, lost=self._is_lost, again=again)
        self._is_lost = False
        if frame:
            self._give_back_at_exit()
            self._output.write(frame)

    def finish(self, now: float) -> None:
        """Remove the view, and leave the terminal as it was."""
        self._measure()
        above = self._styled(self._above(now, last=True))
        if self._anchor.height:
            self._output.write(self._anchor.leave(self._size, above))
        else:
            self._output.write("".join(f"{row}\n" for row in above))
        atexit.unregister(self._give_back)

    def _measure(self) -> None:
        """Look how large the terminal is. The report is made for that width, too."""
        self._size = self._output.size() or self._size
        self._console.width = self._size.columns

    def _styled(self, lines: list[Text]) -> list[str]:
        """Return the rows that lines take, with their colours as control sequences."""
        if not lines:
            return []
        with self._console.capture() as capture:
            self._console.print(Group(*lines))
        return capture.get().splitlines()

    def _give_back_at_exit(self) -> None:
        if not self._gives_back:
            # The process may end without calling `finish`.
            atexit.register(self._give_back)
            self._gives_back = True

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
