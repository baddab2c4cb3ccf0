"""Rows as prepared calls of Rerun: one for each entity and write, however many rows there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import rerun as rr

from proofstream_rerun.canvas import Canvas, Moment, Row, Track
from proofstream_rerun.field import M31_PRIME
from proofstream_rerun.marks import (
    BarRow,
    Boxes,
    BoxGroup,
    Cleared,
    Document,
    Graph,
    Line,
    Look,
    Mark,
    Numbers,
    Points,
    Round,
    Sheet,
    State,
    Strips,
)
from proofstream_rerun.recordings import PropertyValue, Write

_LEVEL_BYTES = 8
_ROW_BYTES = 40
_DEGREE = 4


@dataclass(frozen=True, slots=True)
class RowsWrite:
    """Rows of one entity."""

    path: str
    times: tuple[rr.TimeColumn, ...]
    columns: tuple[rr.ComponentColumn, ...]
    size_bytes: int

    def send(self, stream: rr.RecordingStream) -> None:
        """Put it on one stream."""
        stream.send_columns(self.path, indexes=self.times, columns=self.columns)


@dataclass(frozen=True, slots=True)
class StaticWrite:
    """What holds for one entity at any time."""

    path: str
    content: tuple[rr.AsComponents, ...]
    size_bytes: int

    def send(self, stream: rr.RecordingStream) -> None:
        """Put it on one stream."""
        first, *more = self.content
        stream.log(self.path, first, *more, static=True)


@dataclass(frozen=True, slots=True)
class PropertyWrite:
    """Facts about the whole recording."""

    name: str
    values: Mapping[str, PropertyValue]
    size_bytes: int = 256

    def send(self, stream: rr.RecordingStream) -> None:
        """Put it on one stream."""
        stream.send_property(self.name, rr.AnyValues(**dict(self.values)))


def new_writes(canvas: Canvas) -> list[Write]:
    """What was drawn since the last time."""
    writes: list[Write] = [_static_write(path, mark) for path, mark in canvas.take_statics()]
    for track in canvas.tracks.values():
        if track.pending:
            if track.is_new:
                writes += _looks(track)
            writes += _row_writes(track.path, track.take())
    return writes


def snapshot_writes(canvas: Canvas) -> list[Write]:
    """All that still matters of what was drawn, for those who come late."""
    writes: list[Write] = [StaticWrite("/", (rr.ViewCoordinates.RIGHT_HAND_Y_UP,), _ROW_BYTES)]
    writes += [_static_write(path, mark) for path, mark in canvas.statics.items()]
    for track in canvas.tracks.values():
        kept = track.kept
        if kept:
            writes += _looks(track)
            writes += _row_writes(track.path, kept)
    return writes


# Static content


def _looks(track: Track) -> list[Write]:
    content = _look_content(track.look)
    return [] if content is None else [StaticWrite(track.path, (content,), 64 + 32 * len(track.look.names))]


def _look_content(look: Look) -> rr.AsComponents | None:
    names, colors = list(look.names), np.array(look.colors, np.uint32)
    match look.kind:
        case "lines":
            return rr.SeriesLines(names=names, colors=colors, widths=[2.0] * len(names))
        case "steps":
            mode = rr.components.InterpolationMode.StepAfter
            return rr.SeriesLines(names=names, colors=colors, widths=[2.5] * len(names), interpolation_mode=mode)
        case "points":
            return rr.SeriesPoints(names=names, colors=colors, marker_sizes=[2.0] * len(names))
        case "trail":
            return rr.LineStrips3D.from_fields(radii=[0.14])
        case "cursor":
            return rr.Points3D.from_fields(radii=[-7.0], show_labels=True)
        case _:
            return None


def _static_write(path: str, mark: Mark) -> StaticWrite:
    match mark:
        case Boxes():
            size = mark.centers.nbytes + mark.half_sizes.nbytes + mark.colors.nbytes
            boxes = rr.Boxes3D(centers=mark.centers, half_sizes=mark.half_sizes, colors=mark.colors, fill_mode="solid")
            return StaticWrite(path, (boxes,), size)
        case Points():
            points = rr.Points3D(
                mark.positions, colors=mark.colors, labels=list(mark.labels), radii=[-1.0], show_labels=True
            )
            return StaticWrite(path, (points,), mark.positions.nbytes + 16 * len(mark.labels))
        case Strips():
            strips = rr.LineStrips3D(list(mark.strips), colors=mark.colors, radii=[-1.5])
            return StaticWrite(path, (strips,), sum(strip.nbytes for strip in mark.strips))
        case Graph():
            nodes = rr.GraphNodes(
                list(mark.ids), positions=mark.positions, labels=list(mark.labels), colors=mark.colors
            )
            edges = rr.GraphEdges(list(mark.edges), graph_type="directed")
            return StaticWrite(path, (nodes, edges), 40 * (len(mark.ids) + len(mark.edges)))
        case _:
            raise TypeError(f"{type(mark).__name__} is never static")


# Rows


def _row_writes(path: str, rows: Sequence[Row]) -> Iterable[Write]:
    for kind, group in groupby(rows, key=lambda row: type(row[1])):
        of_kind = list(group)
        marks = [mark for _, mark in of_kind]
        columns, size = _COLUMNS[kind](marks)
        times = _times([moment for moment, _ in of_kind])
        yield RowsWrite(path, times, tuple(columns), size + _ROW_BYTES * len(of_kind))


def _times(moments: Sequence[Moment]) -> tuple[rr.TimeColumn, ...]:
    prover_ns = np.array([moment.prover_ns for moment in moments], np.int64)
    wall_ns = np.array([moment.wall_ns for moment in moments], np.int64)
    return (
        rr.TimeColumn("prover_time", duration=prover_ns.view("timedelta64[ns]")),
        rr.TimeColumn("event", sequence=np.array([moment.seq for moment in moments], np.int64)),
        rr.TimeColumn("wall_time", timestamp=wall_ns.view("datetime64[ns]")),
    )


_Columns = tuple[Iterable[rr.ComponentColumn], int]


def _box_columns(marks: Sequence[BoxGroup]) -> _Columns:
    parts = list(chain.from_iterable(mark.parts for mark in marks))
    centers = np.concatenate([part.centers for part in parts])
    half_sizes = np.concatenate([part.half_sizes for part in parts])
    colors = np.concatenate([part.colors for part in parts])
    lengths = [sum(len(part.colors) for part in mark.parts) for mark in marks]
    columns = rr.Boxes3D.columns(centers=centers, half_sizes=half_sizes, colors=colors).partition(lengths)
    return columns, centers.nbytes + half_sizes.nbytes + colors.nbytes


def _point_columns(marks: Sequence[Points]) -> _Columns:
    positions = np.concatenate([mark.positions for mark in marks])
    colors = np.concatenate([mark.colors for mark in marks])
    labels = list(chain.from_iterable(mark.labels for mark in marks))
    lengths = [len(mark.positions) for mark in marks]
    columns = rr.Points3D.columns(positions=positions, colors=colors, labels=labels).partition(lengths)
    return columns, positions.nbytes + sum(map(len, labels))


def _strip_columns(marks: Sequence[Strips]) -> _Columns:
    strips = list(chain.from_iterable(mark.strips for mark in marks))
    lengths = [len(mark.strips) for mark in marks]
    colors = np.concatenate([mark.colors for mark in marks])
    columns = [
        *rr.LineStrips3D.columns(strips=strips).partition(lengths),
        *rr.LineStrips3D.columns(colors=colors).partition([len(mark.colors) for mark in marks]),
    ]
    return columns, sum(strip.nbytes for strip in strips)


def _number_columns(marks: Sequence[Numbers]) -> _Columns:
    values = np.array(list(chain.from_iterable(mark.values for mark in marks)), np.float64)
    return rr.Scalars.columns(scalars=values).partition([len(mark.values) for mark in marks]), values.nbytes


def _state_columns(marks: Sequence[State]) -> _Columns:
    lengths = [0 if mark.state is None else 1 for mark in marks]
    states = [mark.state for mark in marks if mark.state is not None]
    return rr.StateChange.columns(state=states).partition(lengths), sum(map(len, states))


def _line_columns(marks: Sequence[Line]) -> _Columns:
    columns = rr.TextLog.columns(text=[mark.text for mark in marks], level=[mark.level for mark in marks])
    return columns, sum(len(mark.text) + _LEVEL_BYTES for mark in marks)


def _document_columns(marks: Sequence[Document]) -> _Columns:
    texts = [mark.text for mark in marks]
    columns = rr.TextDocument.columns(text=texts, media_type=[rr.MediaType.MARKDOWN] * len(texts))
    return columns, sum(map(len, texts))


def _sheet_columns(marks: Sequence[Sheet]) -> _Columns:
    data = [rr.encodings.TensorData(array=mark.values, dim_names=mark.dimensions) for mark in marks]
    return rr.Tensor.columns(data=data), sum(mark.values.nbytes for mark in marks)


def _bar_columns(marks: Sequence[BarRow]) -> _Columns:
    columns = rr.BarChart.columns(
        values=[rr.encodings.TensorData(array=mark.values) for mark in marks],
        abscissa=[rr.encodings.TensorData(array=mark.abscissa) for mark in marks],
        color=[mark.color for mark in marks],
    )
    return columns, sum(2 * mark.values.nbytes for mark in marks)


def _cleared_columns(marks: Sequence[Cleared]) -> _Columns:
    return rr.Clear.columns(is_recursive=[False] * len(marks)), len(marks)


class _Values:
    """A batch of a component of our own."""

    def __init__(self, name: str, values: pa.Array[Any]) -> None:
        self._descriptor = rr.ComponentDescriptor(f"Round:{name}", archetype="proofstream.Round")
        self._values = values

    def component_descriptor(self) -> rr.ComponentDescriptor:
        """Its name."""
        return self._descriptor

    def as_arrow_array(self) -> pa.Array[Any]:
        """Its values."""
        return self._values


def _values_column(name: str, values: np.ndarray[Any, Any], lengths: Sequence[int] | None = None) -> rr.ComponentColumn:
    batch = _Values(name, pa.array(values))
    return rr.ComponentColumn(batch.component_descriptor(), batch, lengths=lengths)


def _round_columns(marks: Sequence[Round]) -> _Columns:
    claims = np.array([mark.claim for mark in marks], np.float64)
    columns = [
        *rr.Scalars.columns(scalars=claims),
        *(
            _values_column(name, np.array([getattr(mark, name) for mark in marks], np.uint64))
            for name in ("layer", "round", "total")
        ),
        *_polynomial_columns(marks),
    ]
    return columns, 120 * len(marks)


def _polynomial_columns(marks: Sequence[Round]) -> Iterable[rr.ComponentColumn]:
    """Coefficients and p(0) + p(1), four limbs each; a row has none of those that its round has not."""
    degree = max(len(mark.coefficients) for mark in marks)
    if not degree:
        return
    table = np.zeros((len(marks), degree, _DEGREE), np.uint64)
    given = np.zeros((len(marks), degree), np.bool_)
    for row, mark in enumerate(marks):
        if mark.coefficients:
            table[row, : len(mark.coefficients)] = mark.coefficients
            given[row, : len(mark.coefficients)] = True
    for column in range(degree):
        limbs = table[given[:, column], column].astype(np.uint32).ravel()
        yield _values_column(f"c{column}", limbs, given[:, column] * _DEGREE)
    sums = (table[:, 0] + table.sum(axis=1)) % M31_PRIME
    has_one = given[:, 0]
    yield _values_column("p0_plus_p1", sums[has_one].astype(np.uint32).ravel(), has_one * _DEGREE)


_COLUMNS: Mapping[type[Mark], Callable[[Sequence[Any]], _Columns]] = {
    BoxGroup: _box_columns,
    Points: _point_columns,
    Strips: _strip_columns,
    Numbers: _number_columns,
    State: _state_columns,
    Line: _line_columns,
    Document: _document_columns,
    Sheet: _sheet_columns,
    BarRow: _bar_columns,
    Round: _round_columns,
    Cleared: _cleared_columns,
}
