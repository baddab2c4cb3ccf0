"""Starts our threads, or says in a line why there is none to be had."""

from __future__ import annotations

import threading

from proofstream.errors import ProofstreamError


class ThreadError(ProofstreamError):
    """No thread can be started, because a limit is reached or the interpreter ends."""


def start_thread(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        ThreadError: The system has none left, or the interpreter ends.
    """
    try:
        thread.start()
    except RuntimeError as error:
        hint = None if has_main_ended() else "see `ulimit -u`, and the limit of the container or the service on tasks"
        raise ThreadError(f"no thread can be started: {error}", hint=hint) from None


def has_main_ended() -> bool:
    """Return whether the main thread's code has come to its end."""
    return not threading.main_thread().is_alive()
