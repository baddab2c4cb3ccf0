"""Handles the command as a process: its standard streams, its signals, its end."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from proofstream.command.patience import finishes_within
from proofstream.command.voice import VOICE_THREAD, voice

_END_WITHIN_S = 1.0
_LAST_WRITE_S = 0.25
"""How long leaving waits for a terminal. A terminal that is not frozen answers within a few milliseconds."""

_GIVE_BACK = b"\x1b7\x1b[r\x1b8\x1bD\x1b7\x1b[m\r\x1b[J\x1b8\x1b[A\x1b[?25h"
"""Lets all of a terminal scroll, erases what is below the cursor, and shows it: what a live view leaves undone."""

_SIGNALS_THREAD = "proofstream-signals"


def handle_interrupts() -> None:
    """Let a Ctrl-C raise KeyboardInterrupt again. While the command was imported, it ended the process at once."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    numbers = ending_signals()
    seen: list[int] = []

    def handle(number: int, _frame: object) -> None:
        if seen:
            _leave(128 + number)
        seen.append(number)
        stop(number)

    for number in numbers:
        signal.signal(number, handle)
    _watch_for_second(numbers)
    if hasattr(signal, "SIGTSTP") and signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL:
        signal.signal(signal.SIGTSTP, _suspend)


def _suspend(number: int, _frame: object) -> None:
    """Give the terminal back before Ctrl-Z suspends the process. A live view sees afterwards that it was suspended."""
    finishes_within(_LAST_WRITE_S, _give_terminal_back)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    signal.signal(number, _suspend)


def ending_signals() -> list[int]:
    """Return the signals that end the command, without SIGHUP if our parent made us ignore it, as `nohup` does."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    return [
        number for number in numbers if not (number.name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN)
    ]


def _watch_for_second(numbers: Collection[int]) -> None:
    """End the process on the second signal even while the main thread is in a call that no handler interrupts.

    It is while it waits for the lock of a stream that another thread is stuck in.
    """
    if sys.platform == "win32":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # A forked child gets a terminal's Ctrl-C as well, and would count it here a second time.
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))

    def watch() -> None:
        seen = 0
        while byte := os.read(reader, 1):
            seen += byte[0] in numbers
            if seen > 1:
                _leave(128 + byte[0])

    with suppress(RuntimeError):  # the system has no thread left; the handler sees to most second signals
        threading.Thread(target=watch, name=_SIGNALS_THREAD, daemon=True).start()


def end_soon(status: int) -> None:
    """Let the interpreter end, without waiting for threads that a plugin left behind, or for a stopped stream."""
    for number in ending_signals():
        # No handler of ours could run while the interpreter ends, so the system itself ends the process.
        signal.signal(number, signal.SIG_DFL)
    # The interpreter looks through all objects several times as it ends, and has nothing to gain from it.
    gc.freeze()
    # A stuck thread may hold a stream's lock, and the interpreter aborts if it cannot flush that stream at its end.
    if voice.is_stuck or _is_held() or not finishes_within(_END_WITHIN_S, _flush_standard_streams):
        _leave(status)

    def end() -> None:
        time.sleep(_END_WITHIN_S)
        _leave(status)

    try:
        threading.Thread(target=end, name="proofstream-end", daemon=True).start()
    except RuntimeError:  # the system has no thread left
        _leave(status)


def _leave(status: int) -> NoReturn:
    """End the process at once. Give the terminal back first, in case of an unfinished live view."""
    finishes_within(_LAST_WRITE_S, _give_terminal_back)
    os._exit(status)


def _give_terminal_back() -> None:
    if os.isatty(2):
        os.write(2, _GIVE_BACK)


def _flush_standard_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _is_held() -> bool:
    """Return whether a thread of ours still runs. All of them have had the time that they were promised."""
    names = {thread.name for thread in threading.enumerate()} - {VOICE_THREAD, _SIGNALS_THREAD}
    return any(name.startswith("proofstream-") for name in names)


def called_as() -> str:
    """Return what to type to call the command again."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{Path(sys.executable).name} -m proofstream"
    import shutil  # only here, because it loads all kinds of compression

    found = shutil.which(called.name)
    if found is not None and Path(found).resolve() == called.resolve():
        return called.name
    return min(str(called), os.path.relpath(called), key=len)


def called_from() -> str:
    """Return what to type before another program of this environment: the command's folder, if that was needed."""
    head, slash, _ = called_as().rpartition(os.sep)
    return head + slash
