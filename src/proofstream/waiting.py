"""Waits for a condition by polling it, so that whatever makes it true need not know of the wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable


def wait_until(
    condition: Callable[[], bool], *, deadline: float, wakeups: Iterable[float] = (0.001, 0.005, 0.02)
) -> bool:
    """Poll `condition` until it holds. Return False if the monotonic clock reaches `deadline` first.

    The pauses between polls are `wakeups`, in seconds. The last one repeats.
    """
    pauses = iter(wakeups)
    pause = next(pauses)
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(pause, left))
        pause = next(pauses, pause)
    return True
