"""What touches the terminal: live view or plain lines, drawn no more often than asked, and the terminal left clean."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from proofstream import LogLevel
from proofstream_console import words
from proofstream_console.model import Model
from proofstream_console.news import LogLine, News, PluginTrouble, ProofEnded
from proofstream_console.output import Output
from proofstream_console.pace import Bucket, Throttle
from proofstream_console.plain import PlainLines
from proofstream_console.report import report
from proofstream_console.settings import Settings, read_settings
from proofstream_console.text import CHECK, CROSS, count, safe_text
from proofstream_console.view import LiveView

_PLAIN_WIDTH = 100
_SHOW_CURSOR = "\x1b[?25h"
_LEVEL_STYLES = {LogLevel.Warn: "yellow", LogLevel.Error: "bold red"}


def open_screen(
    table: Mapping[str, Any], target: IO[str] | None, *, clock: Callable[[], float], live: bool
) -> Screen | None:
    """The screen as configured; None if nothing is to be shown, or there is nowhere to show it.

    Raises:
        ConfigError: The configuration is not acceptable.
    """
    settings = read_settings(table)
    if not settings.enabled or target is None:
        return None
    model = Model(clock=clock, live=live, max_recent=settings.max_proofs, max_slowest=settings.slowest)
    return Screen(model, settings, target, clock=clock)


def is_live(settings: Settings, output: Output, environ: Mapping[str, str]) -> bool:
    """Whether the live view is right for this terminal, or plain lines are."""
    if settings.mode == "plain" or not output.isatty() or environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        return False
    return settings.mode == "live" or not environ.get("NO_COLOR")


class Screen:
    """Shows a model on a stream.

    Args:
        model: What to show.
        settings: How.
        target: The stream, standard error as a rule.
        clock: A monotonic clock in seconds.
        environ: The environment's variables.
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        target: IO[str],
        *,
        clock: Callable[[], float],
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.model = model
        self._clock = clock
        self.output = Output(target)
        self._live_mode = is_live(settings, self.output, environ)
        self._console = Console(
            # Output has what rich uses of a text file.
            file=cast("IO[str]", self.output),
            force_terminal=self._live_mode,
            width=None if self._live_mode or "COLUMNS" in environ else _PLAIN_WIDTH,
            no_color=True if not self._live_mode or environ.get("NO_COLOR") else None,
            markup=False,
            emoji=False,
            highlight=False,
            force_jupyter=False,
        )
        per_s = settings.log_lines_per_s
        self._bucket = Bucket(per_s=per_s, burst=max(2 * per_s, 20) if per_s else 0)
        self._plain = PlainLines(model, progress_s=settings.progress_s, bucket=self._bucket)
        self._view = LiveView(model, max_layers=settings.max_layers, max_proofs=settings.max_proofs)
        self._throttle = Throttle(settings.refresh_s, start=clock())
        self._live: Live | None = None
        self._first_end: Text | None = None

    def refresh(self) -> None:
        """Show what is new, if it is time to and the stream takes it."""
        now = self._clock()
        if self._throttle.due(now) and self.output.ready():
            if self._live_mode:
                self._draw(now)
            else:
                self._write_lines(now)

    def close(self, timeout_s: float) -> None:
        """Take the live view away, print the report, and wait for the stream to take it, within `timeout_s` seconds."""
        now = self._clock()
        if self._live_mode:
            above = self._above(now)
            self._stop_live()
            self._print(above)
        else:
            self._write_lines(now)
        self._console.print(report(self.model, width=self._console.width))
        if not self.output.drain(timeout_s):
            self.output.give_up()

    def counters(self) -> dict[str, int]:
        """What could not be shown."""
        return {"unshown_bytes": self.output.unshown_bytes, "unshown_news": self.model.news.unheard}

    # Plain lines

    def _write_lines(self, now: float) -> None:
        for line in self._plain.lines(now, self.model.take_news()):
            self.output.write(line + "\n")

    # The live view

    def _draw(self, now: float) -> None:
        above = self._above(now)
        width, height = self._console.size
        view = Group(*self._view.lines(width=width, height=height))
        # One write for all of it: no half-drawn frames.
        with self._console:
            if self._live is None:
                self._start_live()
            assert self._live is not None
            self._print(above)
            self._live.update(view, refresh=True)

    def _start_live(self) -> None:
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            # What others print goes above the view, unless it goes somewhere else.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )
        atexit.register(self._show_cursor)
        self._live.start()

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
            atexit.unregister(self._show_cursor)

    def _show_cursor(self) -> None:
        self.output.write(_SHOW_CURSOR)

    def _print(self, lines: list[Text]) -> None:
        if lines:
            self._console.print(Group(*lines))

    def _above(self, now: float) -> list[Text]:
        """What scrolls by above the live view."""
        lines: list[Text] = []
        for news in self.model.take_news():
            lines += [line for line in self._news_lines(news) if self._bucket.take(now)]
        if self._bucket.has_room(now) and (missed := self._bucket.take_refused()):
            lines.append(Text(f"({count(missed)} more lines not shown)", style="dim"))
        return lines

    def _news_lines(self, news: News) -> list[Text]:
        match news:
            case LogLine(level=level, message=message):
                text = f"{level.value.lower():<5} {safe_text(message, words.MAX_MESSAGE)}"
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
        if news.proof.number == 0 and self.model.totals.proofs == 1:
            self._first_end = line
            return []
        held, self._first_end = self._first_end, None
        return [line] if held is None else [held, line]
