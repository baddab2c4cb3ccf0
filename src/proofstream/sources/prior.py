"""Handles lines that were written before reading began.

Their arrival times are unknown, so they are reconstructed as for a file. Each says so, and a log event says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from proofstream.envelopes import HOST, RECONSTRUCTED
from proofstream.events import Log, LogLevel
from proofstream.sources.lines import LineResult
from proofstream.sources.reconstruct import Reconstruction, Scan, own_time
from proofstream.sources.routing import SessionRouter
from proofstream.wire import Decoded, encode_event


class Prior:
    """Delivers the earlier lines with reconstructed times, and counts them.

    Args:
        found: The result of the first pass over these lines.
    """

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._reconstruction = Reconstruction(found)
        self._lines = 0

    def route_items(self, items: Sequence[LineResult], router: SessionRouter) -> None:
        """Hand lines to the router, each with its own or a reconstructed time."""
        begins = max(0, self._found.begins_unix_nano)
        stamped: list[tuple[LineResult, int | None, str | None]] = []
        for item, time in zip(items, self._reconstruction.times_of(items), strict=True):
            if own_time(item) is not None:
                stamped.append((item, None, None))
                continue
            self._lines += time is not None
            stamped.append((item, begins if time is None else time, RECONSTRUCTED))
        router.route_stamped(stamped)

    def finish(self, router: SessionRouter) -> None:
        """Add a log event to their session that says how many times are reconstructed."""
        if not self._lines:
            return
        if self._lines == 1:
            text = "1 line was written before reading began; its time is reconstructed from reported durations"
        else:
            what = f"{self._lines} lines were written before reading began"
            text = f"{what}; their times are reconstructed from reported durations"
        event = Log(level=LogLevel.Info, message=text)
        router.route_item(Decoded(event=event, raw=encode_event(event), origin=HOST), at=self._found.ends_unix_nano)
        router.flush()
