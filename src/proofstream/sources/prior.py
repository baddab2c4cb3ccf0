"""What was there before reading began: nobody stamped it, so it is laid out as a file is, and that is said."""

from __future__ import annotations

from proofstream.envelopes import HOST
from proofstream.events import Log, LogLevel
from proofstream.sources.lines import LineResult
from proofstream.sources.reconstruct import Reconstruction, Scan
from proofstream.sources.routing import SessionRouter
from proofstream.wire import Decoded, Refusal, encode_event


class Prior:
    """Takes the lines that were there before, and counts those whose times are not known.

    Args:
        found: What the first pass over them found.
    """

    def __init__(self, found: Scan) -> None:
        self._found = found
        self._reconstruction = Reconstruction(found)
        self._lines = 0

    def route_item(self, item: LineResult, router: SessionRouter) -> None:
        """Hand one on, with the time that it is given."""
        if isinstance(item, Refusal):
            router.route_item(item, at=max(0, self._found.begins_unix_nano))
        elif item.time_unix_nano is not None:
            router.route_item(item)
        else:
            self._lines += 1
            router.route_item(item, at=self._reconstruction.time_of(item))

    def finish(self, router: SessionRouter) -> None:
        """Say in their session what the times of these lines are worth."""
        if not self._lines:
            return
        lines = "1 line was" if self._lines == 1 else f"{self._lines} lines were"
        text = f"{lines} there before reading began; their times are not known but laid out from reported durations"
        event = Log(level=LogLevel.Info, message=text)
        router.route_item(Decoded(event=event, raw=encode_event(event), origin=HOST), at=self._found.ends_unix_nano)
        router.flush()
