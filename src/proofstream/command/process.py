"""The command as a process: its standard streams, its signals, its end."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from proofstream.command.voice import VOICE_THREAD, voice

_END_WITHIN_S = 1.0
_SHOW_CURSOR = b"\x1b[?25h"


def fill_standard_streams() -> None:
    """Put something in the place of standard streams that are closed: the next file would take their number."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest free number. From what is closed nothing can be read, so this is for writing also as 0.
            os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 - it is open until the end


def on_signals(stop: Callable[[int], None]) -> None:
    """The first signal lets plugins finish; the second one ends the process at once."""
    seen: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if seen:
            _leave(128 + number)
        seen.append(number)
        stop(number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and not (name == "SIGHUP" and _is_ignored(number)):
            signal.signal(number, handle)


def _is_ignored(number: int) -> bool:
    """Whether our parent said that the signal does not concern us, as `nohup` does."""
    return signal.getsignal(number) is signal.SIG_IGN


def end_soon(status: int) -> None:
    """Let the interpreter end, but not wait for threads that a plugin has left behind."""
    if voice.is_stuck or _is_held():
        # Whoever is stuck may hold the lock of a stream, of which the interpreter would die while it ends.
        _leave(status)

    def end() -> None:
        time.sleep(_END_WITHIN_S)
        _leave(status)

    threading.Thread(target=end, name="proofstream-end", daemon=True).start()


def _leave(status: int) -> NoReturn:
    """End the process here and now. A live view that cannot be ended has hidden the terminal's cursor."""
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
    os._exit(status)


def _is_held() -> bool:
    """Whether a thread of ours still runs: all of them have been given the time that they were promised."""
    names = {thread.name for thread in threading.enumerate()} - {VOICE_THREAD}
    return any(name.startswith("proofstream-") for name in names)


def called_as() -> str:
    """What to type to call the command again."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{Path(sys.executable).name} -m proofstream"
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    return min(str(called), os.path.relpath(called), key=len)


def called_from() -> str:
    """What to type before the name of another program of this environment: the command's folder, if it was needed."""
    head, slash, _ = called_as().rpartition(os.sep)
    return head + slash
