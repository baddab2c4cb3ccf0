"""Reads a pipe whose content is compressed. It has no arrival times to measure, since a packer writes in large blocks.

So it is kept in a file without a name until it ends, and is then read like a file that is redirected into the command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import BinaryIO

from proofstream.contracts import Feed
from proofstream.envelopes import ARRIVAL
from proofstream.errors import SourceError
from proofstream.sources.arrivals import Arrivals, Block
from proofstream.sources.lines import InputSettings
from proofstream.sources.replaying import Replay
from proofstream.sources.routing import SessionRouter

MAX_KEPT_BYTES = 4 * 2**30
"""The longest compressed stream that is read."""

_LOOK_UP_S = 0.2


def deliver_packed(
    begin: Iterable[Block], arrivals: Arrivals, settings: InputSettings, feed: Feed, stopped: Callable[[], bool]
) -> None:
    """Deliver a compressed stream once it has ended.

    Args:
        begin: What was read of it.
        arrivals: The rest.
        settings: How to read it.
        feed: The host.
        stopped: Returns True to stop.

    Raises:
        SourceError: It cannot be kept, or its content cannot be read.
    """
    feed.announce(f"{settings.name} is compressed, so it is read once it has ended")
    with _make_file(settings.name) as file:
        for block in begin:
            _keep(block, file, settings.name)
        while not arrivals.has_ended:
            if stopped():
                SessionRouter(feed, source=settings.name, time_source=ARRIVAL).close("interrupted")
                return
            arrived = arrivals.next_block(_LOOK_UP_S)
            if arrived is not None:
                _keep(arrived, file, settings.name)
        file.seek(0)
        Replay(settings, stopped=stopped).deliver(file, feed, latest_ns=time.time_ns())
    if arrivals.error is not None:
        raise SourceError(f"cannot read {settings.name}: {arrivals.error.strerror}") from arrivals.error


def _make_file(name: str) -> BinaryIO:
    import tempfile  # slow to load

    try:
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        raise _cannot_keep(name, error) from error


def _keep(block: Block, file: BinaryIO, name: str) -> None:
    if file.tell() + len(block.data) > MAX_KEPT_BYTES:
        raise SourceError(f"{name} is compressed, and longer than {MAX_KEPT_BYTES} bytes", hint="give the file's PATH")
    left = memoryview(block.data)
    try:
        while left:
            left = left[file.write(left) :]
    except OSError as error:
        raise _cannot_keep(name, error) from error


def _cannot_keep(name: str, error: OSError) -> SourceError:
    return SourceError(f"cannot keep {name} in a temporary file: {error.strerror or error}")
