"""Byte streams that end when their writer goes: standard input and named pipes."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from proofstream.contracts import Feed, SourceRequest
from proofstream.errors import SourceError
from proofstream.sources.lines import LineReader
from proofstream.sources.pacing import StopFlag
from proofstream.sources.routing import SessionRouter
from proofstream.wire import LineDecoder

_READ_BYTES = 64 * 1024
_LOOK_UP_S = 0.2


def deliver_stream(descriptor: int, *, name: str, feed: Feed, reader: LineReader, stopped: Callable[[], bool]) -> None:
    """Deliver what comes, as it comes, until the writer goes.

    Args:
        descriptor: What is read. It is not closed.
        name: What it is called before a person.
        feed: The host.
        reader: Reads the lines.
        stopped: Asked five times a second whether to stop.

    Raises:
        SourceError: It cannot be read.
    """
    router = SessionRouter(feed, source=name, time_source="arrival")
    while not stopped():
        try:
            ready, _, _ = select.select([descriptor], [], [], _LOOK_UP_S)
            if not ready:
                continue
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            continue
        except OSError as error:
            router.close("lost", error.strerror)
            raise SourceError(f"cannot read {name}: {error.strerror}") from error
        items = reader.feed(data) if data else reader.finish()
        for item in items:
            router.take(item)
        router.flush()
        if not data:
            router.close("ended")
            return
    router.close("interrupted")


class StdinSource:
    """Reads standard input."""

    def __init__(self, request: SourceRequest, decoder: LineDecoder, *, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._reader = LineReader(decoder, request.max_line_bytes)
        self._stop = StopFlag()

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def run(self, feed: Feed) -> None:
        """Deliver until standard input ends.

        Raises:
            SourceError: It cannot be read.
        """
        deliver_stream(
            self._descriptor,
            name="standard input",
            feed=feed,
            reader=self._reader,
            stopped=lambda: bool(self._stop) or feed.stopping,
        )
