"""Reads a prover's pipe to its end where the command gave up before, so that SIGPIPE does not kill the prover.

This is for the command's own failures: a mistake in a flag, a plugin that cannot start, a stream that cannot be read
any further. A command that was told to end, by a signal or by ``--strict``, ends.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Sequence

from proofstream.command.early import certain_sources, is_stream
from proofstream.command.process import ending_signals
from proofstream.sources.arrivals import stop_early
from proofstream.sources.builtin import path_of
from proofstream.threads import ThreadError, start_thread

_READ_BYTES = 64 * 1024
_SAY_AFTER_S = 0.5
"""A pipe that ends sooner needs no line, as its writer has not noticed anything."""

_LINE = "reading on, so that the prover is not killed; Ctrl-C ends"


def pipes_among(words: Sequence[str]) -> list[str]:
    """Return the words that name the pipe that a command was going to read, as far as its arguments can tell."""
    # The value of a flag may be a pipe of another kind, but hardly ever is it a dash.
    return [*certain_sources(words), *(["-"] if "-" in words else [])]


def read_on(pipes_named: Iterable[str], say: Callable[[str], None]) -> None:
    """Read these pipes until their writers close them.

    A named pipe that no prover has opened is left alone: one that opens it later waits for the next reader.

    Args:
        pipes_named: A SOURCE, or words that may be one.
        say: Shows the user a line.
    """
    if sys.platform == "win32":
        return  # where no signal ends a writer, and `select` knows no pipes
    pipes = [descriptor for word in set(pipes_named) if (descriptor := _open_pipe(word)) is not None]
    if not pipes:
        return
    stop_early()  # it reads ahead only so far, and would take turns with us
    for number in ending_signals():
        signal.signal(number, signal.SIG_DFL)
    told = threading.Timer(_SAY_AFTER_S, say, args=[_LINE])
    told.daemon = True
    try:
        start_thread(told)
    except ThreadError:  # which may be the very failure
        say(_LINE)
    while pipes:
        for descriptor in select.select(pipes, [], [])[0]:
            if not _discard(descriptor):
                pipes.remove(descriptor)
    told.cancel()


def _open_pipe(word: str) -> int | None:
    """Return a descriptor of the pipe that a word names; None if it names none, or one without a writer."""
    if word == "-":
        return 0 if is_stream(0) else None
    try:
        path = path_of(word)
        if not stat.S_ISFIFO(path.stat().st_mode):
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    return descriptor if _discard(descriptor) else None


def _discard(descriptor: int) -> bool:
    """Read once and forget it; return False at the end of the pipe."""
    try:
        return bool(os.read(descriptor, _READ_BYTES))
    except BlockingIOError:
        return True
    except OSError:
        return False
