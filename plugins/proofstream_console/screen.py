"""The screen: a live view or plain lines, drawn no more often than configured, and the report at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import IO, Any, Protocol, cast

from rich.console import Console

from proofstream import Batch
from proofstream_console.closing_report import closing_report
from proofstream_console.live_face import LiveFace
from proofstream_console.live_view import LiveView
from proofstream_console.news import Reporter
from proofstream_console.output import Output
from proofstream_console.pace import Throttle
from proofstream_console.plain_face import PlainFace
from proofstream_console.run_summary import RunSummary
from proofstream_console.settings import Settings, read_settings

_PLAIN_WIDTH = 100
_QUIET_S = 0.5
"""The fewest seconds between two drawings while nothing is heard: then only the clocks of the view change."""


class Face(Protocol):
    """One way to show a run while it goes on."""

    def show_news(self, now: float) -> None:
        """Show the news at the time `now`, in seconds."""

    def finish(self, now: float) -> None:
        """Show the rest of the news, and leave the stream ready for the report."""


def open_screen(
    table: Mapping[str, Any],
    target: IO[str] | None,
    *,
    clock: Callable[[], float],
    live: bool,
    environ: Mapping[str, str] = os.environ,
) -> Screen | None:
    """Make the screen as configured; None if it is off, or there is no stream to write to.

    Args:
        table: The configuration table.
        target: The stream to write to.
        clock: A monotonic clock in seconds.
        live: Whether events happen while they are read.
        environ: The environment's variables.

    Raises:
        ConfigError: The configuration is not acceptable.
    """
    settings = read_settings(table)
    if not settings.enabled or target is None:
        return None
    output = Output(target)
    in_place = draws_in_place(settings, output, environ)
    summary = RunSummary(
        clock=clock,
        live=live,
        max_recent=settings.max_proofs,
        max_slowest=settings.slowest,
    )
    reporter = Reporter(summary.news, log_lines_per_s=settings.log_lines_per_s)
    console = _console(output, environ, in_place=in_place)
    if in_place:
        view = LiveView(summary, max_layers=settings.max_layers, max_proofs=settings.max_proofs)
        face: Face = LiveFace(console, summary, reporter, view, output)
    else:
        face = PlainFace(summary, reporter, output.write, progress_s=settings.progress_s)
    return Screen(summary, face, output, console, throttle=Throttle(settings.refresh_s, start=clock()), clock=clock)


def draws_in_place(settings: Settings, output: Output, environ: Mapping[str, str]) -> bool:
    """Return whether this stream gets the live view; else it gets plain lines."""
    if settings.mode == "plain" or not _can_be_drawn_on(output, environ):
        return False
    return settings.mode == "live" or not environ.get("NO_COLOR")


def _can_be_drawn_on(output: Output, environ: Mapping[str, str]) -> bool:
    """Return whether the stream is a terminal that takes control sequences and says how large it is."""
    if not output.isatty() or environ.get("TERM", "").lower() in {"dumb", "unknown"}:
        return False
    return not (output.has_unknown_size or Console().legacy_windows)


def _console(output: Output, environ: Mapping[str, str], *, in_place: bool) -> Console:
    return Console(
        # Output has all that rich uses of a text file.
        file=cast("IO[str]", output),
        force_terminal=in_place,
        width=None if in_place or "COLUMNS" in environ else _PLAIN_WIDTH,
        no_color=True if not in_place or environ.get("NO_COLOR") else None,
        markup=False,
        emoji=False,
        highlight=False,
        force_jupyter=False,
    )


class Screen:
    """Shows a run on a stream. Made by `open_screen`.

    Attributes:
        summary: The run so far.
        output: The stream.
    """

    def __init__(
        self,
        summary: RunSummary,
        face: Face,
        output: Output,
        console: Console,
        *,
        throttle: Throttle,
        clock: Callable[[], float],
    ) -> None:
        self.summary = summary
        self.output = output
        self._face = face
        self._console = console
        self._throttle = throttle
        self._clock = clock
        self._has_heard = True

    def add(self, batch: Batch) -> None:
        """Add the batch, and show the news, if it is time to and the stream accepts it."""
        self.summary.add_batch(batch)
        self._has_heard |= len(batch) > 0
        now = self._clock()
        quiet_s = 0.0 if self._has_heard else _QUIET_S
        if self.output.is_ready() and self._throttle.is_due(now, at_least_s=quiet_s):
            self._has_heard = False
            self._face.show_news(now)

    def close(self, timeout_s: float) -> None:
        """Print the report, and wait at most `timeout_s` seconds for the stream to accept it."""
        self._face.finish(self._clock())
        if self.summary.was_opened:  # otherwise the run ended before anything could be read, and the command says why
            self._print_report()
        self.output.close(timeout_s)

    def _print_report(self) -> None:
        with self._console.capture() as capture:
            self._console.print(closing_report(self.summary, width=self._console.width))
        lines = [*([] if self.summary.is_empty else [""]), *capture.get().splitlines()]
        self.output.write("".join(f"{line.rstrip()}\n" for line in lines))
