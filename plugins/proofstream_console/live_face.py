"""The live face: rich's Live around the view, with the news scrolling by above it."""

from __future__ import annotations

import atexit
import sys

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from proofstream import LogLevel, safe_text
from proofstream_console import words
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
from proofstream_console.run_summary import RunSummary

_SHOW_CURSOR = "\x1b[?25h"
_LAST_WAIT_S = 0.25
_LEVEL_STYLES = {LogLevel.Warn: "yellow", LogLevel.Error: "bold red"}


class LiveFace:
    """Draws the view in place.

    Args:
        console: Draws on the terminal.
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
        self._live: Live | None = None
        self._first_end: Text | None = None

    def show_news(self, now: float) -> None:
        """Redraw the view, below the news."""
        width, height = self._console.size
        view = Group(*self._view.lines(width=width, height=height))
        above = self._above(now, last=False)
        # A single write, so that no half-drawn frame is ever seen.
        with self._console:
            live = self._start()
            self._print(above)
            live.update(view, refresh=True)

    def finish(self, now: float) -> None:
        """Remove the view, and leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            atexit.unregister(self._show_cursor)
        self._print(self._above(now, last=True))

    def _start(self) -> Live:
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                # Text that others print goes above the view, unless it goes to another place.
                redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
                redirect_stderr=True,
            )
            # The process may end without calling `finish`; the cursor must not stay hidden then.
            atexit.register(self._show_cursor)
            self._live.start()
        return self._live

    def _show_cursor(self) -> None:
        self._output.write(_SHOW_CURSOR)
        self._output.drain(_LAST_WAIT_S)

    def _print(self, lines: list[Text]) -> None:
        if lines:
            self._console.print(Group(*lines))

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
