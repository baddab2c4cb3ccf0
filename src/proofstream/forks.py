"""Ends the children that a plugin forks on one of our threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator


@contextlib.contextmanager
def ending_forked_children() -> Generator[None]:
    """End the process where a plugin's code returns, or raises, in a child that it has forked.

    The child has none of our other threads. Our code on this one would wait there for events without end, or use what
    belongs to the parent. Children that end by themselves, or run another program, never come here.
    """
    pid = os.getpid()
    status = 1
    try:
        yield
        status = 0
    finally:
        if os.getpid() != pid:
            os._exit(status)  # not sys.exit, which would write again what the parent has buffered
