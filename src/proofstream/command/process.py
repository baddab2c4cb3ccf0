"""Handles the command as a process: its standard streams, its signals, its end."""

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
    """Open the null device for closed standard streams; otherwise the next file would get their number."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # os.open reuses the lowest free descriptor, so it lands on this one. A closed stdin yields nothing, so
            # write-only will do.
            os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 - it stays open until the end


def on_signals(stop: Callable[[int], None]) -> None:
    """Call `stop` on the first signal, which lets plugins finish; end the process at once on the second."""
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
    """Return whether our parent made us ignore the signal, as `nohup` does."""
    return signal.getsignal(number) is signal.SIG_IGN


def end_soon(status: int) -> None:
    """Let the interpreter end, without waiting for threads that a plugin left behind."""
    if voice.is_stuck or _is_held():
        # A stuck thread may hold a stream's lock, and the interpreter aborts if it cannot flush that stream at its end.
        _leave(status)

    def end() -> None:
        time.sleep(_END_WITHIN_S)
        _leave(status)

    threading.Thread(target=end, name="proofstream-end", daemon=True).start()


def _leave(status: int) -> NoReturn:
    """End the process at once. Show the cursor first, which an unfinished live view may have hidden."""
    with suppress(OSError):
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
    os._exit(status)


def _is_held() -> bool:
    """Return whether a thread of ours still runs. All of them have had the time that they were promised."""
    names = {thread.name for thread in threading.enumerate()} - {VOICE_THREAD}
    return any(name.startswith("proofstream-") for name in names)


def called_as() -> str:
    """Return what to type to call the command again."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{Path(sys.executable).name} -m proofstream"
    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    return min(str(called), os.path.relpath(called), key=len)


def called_from() -> str:
    """Return what to type before another program of this environment: the command's folder, if that was needed."""
    head, slash, _ = called_as().rpartition(os.sep)
    return head + slash
