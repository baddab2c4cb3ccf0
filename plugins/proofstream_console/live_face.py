"""The live face: rich's Live around the view, and above it what scrolls by."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from proofstream import LogLevel
from proofstream_console import words
from proofstream_console.formats import CHECK, CROSS, counted, safe_text
from proofstream_console.live_view import LiveView
from proofstream_console.news import LogLine, News, PluginTrouble, ProofEnded, Reporter
from proofstream_console.run_summary import RunSummary

_SHOW_CURSOR = "\x1b[?25h"
_LEVEL_STYLES = {LogLevel.Warn: "yellow", LogLevel.Error: "bold red"}


class LiveFace:
    """Draws the view in place.

    Args:
        console: Where.
        model: What is known.
        reporter: The news.
        view: The view.
        write: Writes to the terminal without rich.
    """

    def __init__(
        self, console: Console, model: RunSummary, reporter: Reporter, view: LiveView, write: Callable[[str], object]
    ) -> None:
        self._console = console
        self._model = model
        self._reporter = reporter
        self._view = view
        self._write = write
        self._live: Live | None = None
        self._first_end: Text | None = None

    def show(self, now: float) -> None:
        """Draw the view anew, below what is new."""
        width, height = self._console.size
        view = Group(*self._view.lines(width=width, height=height))
        above = self._above(now, last=False)
        # One write for all of it: no frame is seen half drawn.
        with self._console:
            live = self._start()
            self._print(above)
            live.update(view, refresh=True)

    def finish(self, now: float) -> None:
        """Take the view away, and leave the terminal as it was."""
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
                # What others print goes above the view, unless it goes somewhere else.
                redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
                redirect_stderr=True,
            )
            # For a process that ends without our being asked to finish.
            atexit.register(self._show_cursor)
            self._live.start()
        return self._live

    def _show_cursor(self) -> None:
        self._write(_SHOW_CURSOR)

    def _print(self, lines: list[Text]) -> None:
        if lines:
            self._console.print(Group(*lines))

    def _above(self, now: float, *, last: bool) -> list[Text]:
        lines = [line for news in self._reporter.take(now) for line in self._lines(news)]
        if hidden := self._reporter.take_hidden(now, at_once=last):
            lines.append(Text(f"({counted(hidden, 'more line')} not shown)", style="dim"))
        return lines

    def _lines(self, news: News) -> list[Text]:
        match news:
            case LogLine(level=level, message=message):
                text = f"{level.value.lower():<5}  {safe_text(message, words.MAX_MESSAGE)}"
                return [Text(text, style=_LEVEL_STYLES.get(level, ""))]
            case PluginTrouble(health=health):
                return [Text(words.plugin_trouble(health), style="red")]
            case ProofEnded():
                return self._ended(news)
            case _:
                return []

    def _ended(self, news: ProofEnded) -> list[Text]:
        """The first end is held back until there is a second: of a single proof the report says all."""
        good = news.proof.aborted_reason is None
        line = Text(f"{CHECK if good else CROSS} ", style="green" if good else "red")
        line.append(words.proof_ended(news.proof))
        if news.proof.number == 0 and self._model.totals.proofs == 1:
            self._first_end = line
            return []
        held, self._first_end = self._first_end, None
        return [line] if held is None else [held, line]
