"""Turns what was drawn into prepared calls of Rerun: one for each entity, however many rows it got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import rerun as rr

from proofstream_rerun.picture.canvas import Canvas, Rows, Track
from proofstream_rerun.picture.marks import Mark, PropertyValue
from proofstream_rerun.sdk.arrow import TimeColumn
from proofstream_rerun.sdk.columns import columns_of, times_of
from proofstream_rerun.sdk.recording_streams import send_property
from proofstream_rerun.sdk.recordings import Write
from proofstream_rerun.sdk.static_components import AXES, look_content, static_content

# Estimates of the memory that a call, a row's times and a name take, for the backlog's limit.
_CALL_BYTES = 64
_ROW_BYTES = 40
_NAME_BYTES = 40


@dataclass(frozen=True, slots=True)
class RowsWrite:
    """Rows of one entity."""

    path: str
    times: tuple[TimeColumn, ...]
    columns: Sequence[rr.ComponentColumn]
    size_bytes: int

    def send(self, stream: rr.RecordingStream) -> None:
        """Send it to a stream."""
        stream.send_columns(self.path, indexes=self.times, columns=self.columns)


@dataclass(frozen=True, slots=True)
class StaticWrite:
    """Static content of one entity: it holds at all times."""

    path: str
    content: Iterable[rr.DescribedComponentBatch]
    size_bytes: int

    def send(self, stream: rr.RecordingStream) -> None:
        """Send it to a stream."""
        stream.log(self.path, self.content, static=True)


@dataclass(frozen=True, slots=True)
class PropertyWrite:
    """Facts about the whole recording."""

    name: str
    values: Mapping[str, PropertyValue]

    @property
    def size_bytes(self) -> int:
        """Roughly how many bytes it holds."""
        return _NAME_BYTES * (1 + len(self.values))

    def send(self, stream: rr.RecordingStream) -> None:
        """Send it to a stream."""
        send_property(stream, self.name, self.values)


def new_writes(canvas: Canvas) -> list[Write]:
    """Take what was drawn since the last call, as writes."""
    writes: list[Write] = [_static_write(path, mark) for path, mark in canvas.take_statics()]
    for track, rows in canvas.take_rows():
        if not track.has_look:  # before its first row, so that no frame shows the entity in the default look
            track.has_look = True
            writes += _looks(track)
        writes += _row_writes(track.path, rows)
    return writes


def snapshot_writes(canvas: Canvas) -> list[Write]:
    """Return everything that still matters of what was drawn, for viewers that start late."""
    writes: list[Write] = [StaticWrite("/", AXES, _ROW_BYTES)]
    writes += [_static_write(path, mark) for (path, _), mark in canvas.statics.items()]
    for track in canvas.tracks.values():
        if track.kept:
            writes += _looks(track)
            writes += _row_writes(track.path, track.kept)
    return writes


def _row_writes(path: str, rows: Rows) -> Iterable[Write]:
    start = 0
    for marks in _batches(rows.marks):
        columns, size = columns_of(marks)
        times = times_of(rows.moments[start : start + len(marks)])
        start += len(marks)
        yield RowsWrite(path, times, columns, _CALL_BYTES + size + _ROW_BYTES * len(marks))


def _batches(marks: Sequence[Mark]) -> Iterable[Sequence[Mark]]:
    """Split marks into runs that one call can send: one kind each."""
    return (list(group) for _, group in groupby(marks, key=type))


def _looks(track: Track) -> list[Write]:
    content = look_content(track.look)
    return [] if not content else [StaticWrite(track.path, content, _NAME_BYTES * (1 + len(track.look.names)))]


def _static_write(path: str, mark: Mark) -> StaticWrite:
    content, size = static_content(mark)
    return StaticWrite(path, content, _CALL_BYTES + size)
