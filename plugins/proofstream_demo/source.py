"""The source ``demo:NAME``: proves a model on this machine, verifies the proof, and delivers the events as they happen.

To leave time to watch, it pauses between layers, never between a LayerStart and its LayerEnd. ``?pace=SECONDS`` is the
sum of all pauses; ``?pace=0`` proves at full speed. Durations in the events do not include the pauses. The work on the
weights after the layers takes about a second and has no pauses.
"""

from __future__ import annotations

import threading
import time

from proofstream import Feed, Source, SourceRequest
from proofstream_demo.request import SCHEME, DemoRequest, parse_request

_LISTEN_S = 0.05
"""How often a pause checks for a stop. `Feed.stopping` can only be polled, so the pause sleeps in short steps."""


class Stopped(Exception):
    """The walk was told to stop."""


def open_demo(request: SourceRequest) -> Source:
    """Make the source. Heavy modules are imported only when it runs.

    Raises:
        UsageError: As in `parse_request`.
    """
    return DemoSource(parse_request(request))


class DemoSource:
    """Proves one model, once."""

    def __init__(self, request: DemoRequest) -> None:
        self._request = request
        self._stop = threading.Event()

    def run(self, feed: Feed) -> None:
        """Prove, verify, and deliver the events. When stopped midway, leave the proof open."""
        session = feed.open_session(source=f"{SCHEME}:{self._request.model}", time_source="arrival")
        try:
            # Imported here, so that the command line does not load numpy.
            from proofstream_demo.demonstration import demonstrate

            demonstrate(self._request, session.emit, pause=lambda seconds: self._pause(feed, seconds))
        except Stopped:
            session.close("interrupted", "the demo was stopped")
        else:
            session.close("ended")

    def stop(self) -> None:
        """End the pauses, and the proof at the next layer or the next part of the work on a weight."""
        self._stop.set()

    def _pause(self, feed: Feed, seconds: float) -> None:
        """Wait `seconds`, or until told to stop.

        Raises:
            Stopped: The source or its host was told to stop.
        """
        end = time.monotonic() + seconds
        while not (self._stop.is_set() or feed.stopping):
            left = end - time.monotonic()
            if left <= 0:
                return
            self._stop.wait(min(left, _LISTEN_S))
        raise Stopped
