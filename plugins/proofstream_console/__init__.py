"""Shows proofs in the terminal: a live view, plain lines if standard error is not a terminal, and a closing report."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, ClassVar

from proofstream import Batch, Option, OptionKind, PluginContext, hookimpl

if TYPE_CHECKING:
    from msgspec import Struct

    from proofstream_console.screen import Screen


class ConsolePlugin:
    """The plugin `console`.

    Args:
        stream: The stream to write to; standard error by default.
        clock: A monotonic clock in seconds.
    """

    requires: ClassVar[tuple[str, ...]] = ("rich",)
    autoload: ClassVar[str] = "command"
    tick_s: ClassVar[float] = 0.25

    def __init__(self, stream: IO[str] | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._screen: Screen | None = None

    @hookimpl
    def proofstream_options(self) -> Iterable[Option]:
        """Declare ``--console`` and ``--no-console``."""
        summary = "Show proofs in the terminal, on standard error."
        return [Option(flag="--console", key="enabled", kind=OptionKind.SWITCH, summary=summary)]

    @hookimpl
    def proofstream_settings(self) -> type[Struct]:
        """Declare the keys of the table."""
        from proofstream_console.settings import Settings

        return Settings

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        """Read the settings and look at the terminal, without drawing anything yet."""
        from proofstream_console.screen import open_screen

        stream = self._stream if self._stream is not None else sys.stderr
        self._screen = open_screen(context.config, stream, clock=self._clock, live=context.live)
        return self._screen is not None

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        """Add the batch, and show the news if it is time to."""
        if self._screen is not None:
            self._screen.add(batch)

    @hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        """Report how many bytes could not be shown."""
        return {} if self._screen is None else {"unshown_bytes": self._screen.output.unshown_bytes}

    @hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        """Print the closing report."""
        if self._screen is not None:
            # With a margin, because a plugin that takes all of its time is abandoned.
            self._screen.close(timeout_s * 0.8)
