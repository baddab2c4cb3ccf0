"""Delivers byte streams that end when their writer closes them: standard input and named pipes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from proofstream.contracts import Feed, SourceRequest
from proofstream.envelopes import ARRIVAL
from proofstream.errors import SourceError
from proofstream.sources.arrivals import Arrivals, Block, arrivals_at
from proofstream.sources.compression import begins_compressed, may_begin_compressed
from proofstream.sources.lines import InputSettings, LineReader
from proofstream.sources.pacing import StopFlag
from proofstream.sources.packed_streams import deliver_packed
from proofstream.sources.prior import Prior
from proofstream.sources.reconstruct import scan
from proofstream.sources.routing import SessionRouter
from proofstream.sources.stamping import Stamper
from proofstream.wire import LineDecoder

_LOOK_UP_S = 0.2


def deliver_stream(arrivals: Arrivals, settings: InputSettings, feed: Feed, *, stopped: Callable[[], bool]) -> None:
    """Deliver lines as they arrive, until the writer closes the stream.

    Args:
        arrivals: The stream. It is stopped at the end.
        settings: How to read it.
        feed: The host.
        stopped: Called five times a second. Returns True to stop.

    Raises:
        SourceError: The stream cannot be read.
    """
    try:
        begin = _begin(arrivals, stopped)
        if begins_compressed(b"".join(block.data for block in begin)):
            deliver_packed(begin, arrivals, settings, feed, stopped)
            return
        router = SessionRouter(feed, source=settings.name, time_source=ARRIVAL)
        if not deliver_lines(begin, arrivals, settings, router, stopped):
            router.close("interrupted")
            return
    finally:
        arrivals.stop()
        arrivals.join()
    if arrivals.error is not None:
        router.close("lost", arrivals.error.strerror)
        raise SourceError(f"cannot read {settings.name}: {arrivals.error.strerror}") from arrivals.error
    router.close("ended")


def _begin(arrivals: Arrivals, stopped: Callable[[], bool]) -> deque[Block]:
    """Read the blocks that say whether the stream is compressed."""
    begin = deque[Block]()
    while not stopped() and may_begin_compressed(b"".join(block.data for block in begin)):
        block = arrivals.next_block(_LOOK_UP_S)
        if block is not None:
            begin.append(block)
        elif arrivals.has_ended:
            break
    return begin


def deliver_lines(
    begin: deque[Block],
    arrivals: Arrivals,
    settings: InputSettings,
    router: SessionRouter,
    stopped: Callable[[], bool],
) -> bool:
    """Deliver lines as they arrive, until the stream ends. Returns False if it was stopped first.

    Args:
        begin: What was read of it before.
        arrivals: The rest.
        settings: How to read it.
        router: Takes the lines.
        stopped: Called five times a second. Returns True to stop.
    """
    reader = LineReader(settings.decoder, settings.max_line_bytes)
    stamper = Stamper(arrivals.began_unix_nano)
    time_unix_nano = arrivals.began_unix_nano
    while not stopped():
        block = begin.popleft() if begin else arrivals.next_block(_LOOK_UP_S)
        if block is not None:
            time_unix_nano = block.time_unix_nano
            items = reader.read_bytes(block.data)
            prior = _prior(block, settings)
            if prior is None:
                router.route_stamped(stamper.stamp(items, block.time_unix_nano))
            else:
                prior.route_items(items, router)
                prior.finish(router)
        elif arrivals.has_ended:
            router.route_stamped(stamper.stamp(reader.finish(), time_unix_nano))
            return True
    return False


def _prior(block: Block, settings: InputSettings) -> Prior | None:
    if not block.was_waiting:
        return None
    found = scan(
        [block.data],
        settings.decoder,
        max_line_bytes=settings.max_line_bytes,
        mtime_ns=block.time_unix_nano,
        last_line=False,
    )
    return None if found is None else Prior(found)


class StdinSource:
    """Reads standard input from construction on: plugins may take longer to get ready than a layer takes to prove."""

    def __init__(self, request: SourceRequest, decoder: LineDecoder, *, descriptor: int = 0) -> None:
        self._settings = InputSettings(name="standard input", decoder=decoder, max_line_bytes=request.max_line_bytes)
        self._stop = StopFlag()
        self._arrivals = arrivals_at(descriptor)

    def stop(self) -> None:
        """Make `run` return soon."""
        self._stop.set()

    def run(self, feed: Feed) -> None:
        """Deliver until standard input ends.

        Raises:
            SourceError: Standard input cannot be read.
        """
        deliver_stream(self._arrivals, self._settings, feed, stopped=lambda: bool(self._stop) or feed.stopping)
