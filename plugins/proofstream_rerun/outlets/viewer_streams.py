"""The streams of one connection to a viewer: one for each recording that the viewer was told of."""

from __future__ import annotations

from dataclasses import dataclass

import rerun as rr

from proofstream_rerun.outlets.backlog import Chapter, Entry
from proofstream_rerun.sdk.recording_streams import CallSender, Flushed, flush, open_stream

_TICK_S = 0.1
"""How long single rows are gathered: somebody watches."""


@dataclass(slots=True)
class _OpenStream:
    stream: rr.RecordingStream
    blueprint_version: int = 0
    is_ended: bool = False


class ViewerStreams:
    """Sends entries of the backlog over one connection. Each call may block for as long as the peer makes it.

    Args:
        url: Where to.
        sender: Counts what was sent.
    """

    def __init__(self, url: str, sender: CallSender) -> None:
        self._url = url
        self._sender = sender
        self._opened: dict[Chapter, _OpenStream] = {}

    def send_entry(self, entry: Entry) -> None:
        """Send an entry; a recording that is new to the viewer is introduced first."""
        chapter = entry.chapter
        opened = self._opened.get(chapter) or self._open(chapter)
        version = chapter.blueprint_version  # read first: a newer layout under an old version is sent once more
        if opened.blueprint_version != version:
            self._sender.send_blueprint(chapter.blueprint, opened.stream)
            opened.blueprint_version = version
        self._sender.send_writes(entry.writes, opened.stream)
        opened.is_ended = entry.is_end

    def _open(self, chapter: Chapter) -> _OpenStream:
        stream = open_stream(chapter.recording, rr.GrpcSink(self._url), tick_s=_TICK_S)
        opened = self._opened[chapter] = _OpenStream(stream)
        self._sender.introduce(chapter.recording, stream)
        self._sender.send_writes(chapter.opening, stream)
        return opened

    def flush(self, timeout_s: float) -> tuple[Flushed, str]:
        """Flush every stream, each for as long; returns the worst that happened, and what Rerun says of it."""
        worst = Flushed.DONE, ""
        for opened in list(self._opened.values()):
            flushed, reason = flush(opened.stream, timeout_s)
            if flushed is Flushed.BROKEN:
                return flushed, reason
            if flushed is Flushed.SLOW:
                worst = flushed, reason
        return worst

    def streams(self) -> list[rr.RecordingStream]:
        """All streams that are open."""
        return [opened.stream for opened in list(self._opened.values())]

    def release_ended(self) -> None:
        """Close the streams of recordings that have ended; they must have been flushed."""
        self._opened = {chapter: opened for chapter, opened in self._opened.items() if not opened.is_ended}

    def close(self) -> None:
        """Close all streams; that returns at once if the peer has gone, or has taken everything."""
        self._opened.clear()
