"""Keeps the streams of one connection to a viewer, one for each recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import rerun as rr

from proofstream_rerun.outlets.backlog import Chapter, Entry
from proofstream_rerun.sdk.recording_streams import CallSender, Flushed, flush, open_stream

if TYPE_CHECKING:
    import rerun.blueprint as rrb

MAX_SHOWN = 64
"""How many applications' layouts are remembered, so that the same one is not sent twice in a row."""
MAX_ENDED = 8
"""How many streams of ended recordings stay open until a flush confirms that the viewer has received them."""
_TICK_S = 0.25
"""How long Rerun gathers single rows into a chunk: short, because a user is watching. An idle stream wakes so often."""


@dataclass(slots=True)
class _OpenStream:
    stream: rr.RecordingStream
    blueprint_version: int = 0
    is_ended: bool = False


class ViewerStreams:
    """Sends entries of the backlog over one connection. Each call may block as long as the peer makes it.

    Args:
        url: The viewer's URL.
        sender: Sends and counts the calls.
    """

    def __init__(self, url: str, sender: CallSender) -> None:
        self._url = url
        self._sender = sender
        self._opened: dict[Chapter, _OpenStream] = {}
        self._shown: dict[str, rrb.Blueprint] = {}

    def send_entry(self, entry: Entry) -> None:
        """Send an entry, after the properties and opening of its recording if that is new to the viewer."""
        chapter = entry.chapter
        opened = self._opened.get(chapter) or self._open(chapter)
        # Read the version before the blueprint: the lane may replace both meanwhile, writing the blueprint first. A new
        # blueprint under an old version is sent twice; an old one under a new version would stay.
        version = chapter.blueprint_version
        if opened.blueprint_version != version:
            self._show_blueprint(chapter, opened.stream)
            opened.blueprint_version = version
        self._sender.send_writes(entry.writes, opened.stream)
        opened.is_ended = entry.is_end

    def _show_blueprint(self, chapter: Chapter, stream: rr.RecordingStream) -> None:
        """Send a recording's layout, unless the application has it already: a server keeps each one that it is sent."""
        application_id = chapter.recording.application_id
        before = self._shown.pop(application_id, None)
        self._shown[application_id] = chapter.blueprint  # at the end, so that the one unused for longest goes first
        if len(self._shown) > MAX_SHOWN:
            del self._shown[next(iter(self._shown))]
        if before is not chapter.blueprint:
            self._sender.send_blueprint(chapter.blueprint, stream)

    def _open(self, chapter: Chapter) -> _OpenStream:
        stream = open_stream(chapter.recording, rr.GrpcSink(self._url), tick_s=_TICK_S)
        opened = self._opened[chapter] = _OpenStream(stream)
        self._sender.introduce(chapter.recording, stream)
        self._sender.send_writes(chapter.opening, stream)
        return opened

    @property
    def has_many_ended(self) -> bool:
        """True if `MAX_ENDED` streams or more wait for a flush, after which `release_ended` may close them."""
        return sum(opened.is_ended for opened in self._opened.values()) >= MAX_ENDED

    def flush(self, timeout_s: float) -> tuple[Flushed, str]:
        """Flush every stream, for up to `timeout_s` each; return the worst result, and Rerun's reason for it."""
        worst = Flushed.DONE, ""
        for opened in list(self._opened.values()):
            flushed, reason = flush(opened.stream, timeout_s)
            if flushed is Flushed.BROKEN:
                return flushed, reason
            if flushed is Flushed.SLOW:
                worst = flushed, reason
        return worst

    def streams(self) -> list[rr.RecordingStream]:
        """Return all open streams. Any thread may ask."""
        return [opened.stream for opened in list(self._opened.values())]  # a copy first: the outlet's thread adds some

    def release_ended(self) -> None:
        """Close the streams of recordings that have ended. Flush them first, or closing them blocks."""
        # Rerun closes a stream when the last reference to it is gone.
        self._opened = {chapter: opened for chapter, opened in self._opened.items() if not opened.is_ended}

    def close(self) -> None:
        """Close all streams. This returns at once if the peer has gone or has received everything."""
        self._opened.clear()
        self._shown.clear()
