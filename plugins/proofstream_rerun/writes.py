"""What was drawn as prepared calls of Rerun: one for each entity and write, however many rows there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import rerun as rr

from proofstream_rerun.arrow import TimeColumn
from proofstream_rerun.canvas import Canvas, Rows, Track
from proofstream_rerun.columns import ALONE, columns_of, times_of
from proofstream_rerun.marks import Boxes, Edges, Labels, Look, Mark, Nodes, Strips
from proofstream_rerun.recordings import PropertyValue, Write
from proofstream_rerun.streams import send_property

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
        """Put it on one stream."""
        stream.send_columns(self.path, indexes=self.times, columns=self.columns)


@dataclass(frozen=True, slots=True)
class StaticWrite:
    """What holds for one entity at any time."""

    path: str
    content: rr.AsComponents
    size_bytes: int

    def send(self, stream: rr.RecordingStream) -> None:
        """Put it on one stream."""
        stream.log(self.path, self.content, static=True)


@dataclass(frozen=True, slots=True)
class PropertyWrite:
    """Facts about the whole recording."""

    name: str
    values: Mapping[str, PropertyValue]

    @property
    def size_bytes(self) -> int:
        """About how many bytes it holds."""
        return _NAME_BYTES * (1 + len(self.values))

    def send(self, stream: rr.RecordingStream) -> None:
        """Put it on one stream."""
        send_property(stream, self.name, self.values)


def new_writes(canvas: Canvas) -> list[Write]:
    """What was drawn since the last time."""
    writes: list[Write] = [_static_write(path, mark) for path, mark in canvas.take_statics()]
    for track, rows in canvas.take_rows():
        if not track.has_look:
            track.has_look = True
            writes += _looks(track)
        writes += _row_writes(track.path, rows)
    return writes


def snapshot_writes(canvas: Canvas) -> list[Write]:
    """All that still matters of what was drawn, for those who come late."""
    writes: list[Write] = [StaticWrite("/", rr.ViewCoordinates.RIGHT_HAND_Y_UP, _ROW_BYTES)]
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
        times = times_of(rows.moments.part(start, start + len(marks)))
        start += len(marks)
        yield RowsWrite(path, times, columns, _CALL_BYTES + size + _ROW_BYTES * len(marks))


def _batches(marks: Sequence[Mark]) -> Iterable[Sequence[Mark]]:
    """Marks that can be sent at once."""
    for kind, group in groupby(marks, key=type):
        batch = list(group)
        if issubclass(kind, ALONE):
            yield from ([mark] for mark in batch)
        else:
            yield batch


def _looks(track: Track) -> list[Write]:
    content = _look_content(track.look)
    return [] if content is None else [StaticWrite(track.path, content, _NAME_BYTES * (1 + len(track.look.names)))]


def _look_content(look: Look) -> rr.AsComponents | None:
    names, colors = look.names, np.array(look.colors, np.uint32)
    match look.kind:
        case "lines":
            return rr.SeriesLines(names=names, colors=colors, widths=[2.0] * len(names))
        case "steps":
            mode = rr.components.InterpolationMode.StepAfter
            return rr.SeriesLines(names=names, colors=colors, widths=[2.5] * len(names), interpolation_mode=mode)
        case "points":
            return rr.SeriesPoints(names=names, colors=colors, marker_sizes=[2.0] * len(names))
        case "trail":
            return rr.LineStrips3D.from_fields(radii=[0.1])
        case "cursor":
            return rr.Points3D.from_fields(radii=[-7.0], show_labels=True)
        case _:
            return None


def _static_write(path: str, mark: Mark) -> StaticWrite:
    content, size = _static_content(mark)
    return StaticWrite(path, content, _CALL_BYTES + size)


def _static_content(mark: Mark) -> tuple[rr.AsComponents, int]:
    match mark:
        case Boxes(centers=centers, half_sizes=half_sizes, colors=colors):
            boxes = rr.Boxes3D(centers=centers, half_sizes=half_sizes, colors=colors, fill_mode="solid")
            return boxes, 2 * centers.nbytes + colors.nbytes
        case Labels(positions=positions, colors=colors, labels=labels):
            points = rr.Points3D(positions, colors=colors, labels=labels, radii=[-1.0], show_labels=True)
            return points, positions.nbytes + _NAME_BYTES * len(labels)
        case Strips(strips=strips, colors=colors):
            lines = rr.LineStrips3D(strips, colors=colors, radii=[-1.5])
            return lines, sum(strip.nbytes for strip in strips)
        case Nodes(ids=ids, positions=positions, labels=labels, colors=colors):
            nodes = rr.GraphNodes(ids, positions=positions, labels=labels, colors=colors)
            return nodes, _NAME_BYTES * len(ids)
        case Edges(pairs=pairs):
            edges = rr.GraphEdges(pairs, graph_type="directed")
            return edges, _NAME_BYTES * len(pairs)
        case _:
            raise TypeError(f"{type(mark).__name__} is never static")
