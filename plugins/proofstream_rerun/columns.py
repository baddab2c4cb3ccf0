"""Marks as columns of Rerun's components: one row for each mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import rerun as rr

from proofstream import SecureField, SumcheckRound
from proofstream_rerun.arrow import TimeColumn, components, numbers, own_component, strips, text, vectors
from proofstream_rerun.canvas import Moments
from proofstream_rerun.field import M31_PRIME, coefficients
from proofstream_rerun.layout import placed
from proofstream_rerun.marks import (
    BarRow,
    Boxes,
    BoxGroup,
    Cleared,
    Document,
    Line,
    Mark,
    Numbers,
    Placed,
    Points,
    Sheet,
    State,
    Strips,
)

Columns = tuple[Sequence[rr.ComponentColumn], int]
"""Columns, and about how many bytes they hold."""

_LEVEL_BYTES = 8
_ROUND_BYTES = 120
_LIMBS = 4
_MARKDOWN = "text/markdown"

_POINT = np.zeros((1, 3), np.float32)
_COLOR = np.zeros(1, np.uint32)
_BOXES = components(rr.Boxes3D.columns(centers=_POINT, half_sizes=_POINT, colors=_COLOR))
_POINTS = components(rr.Points3D.columns(positions=_POINT, colors=_COLOR, labels=[""]))
_STRIPS = components(rr.LineStrips3D.columns(strips=[_POINT], colors=_COLOR))
_SCALARS = components(rr.Scalars.columns(scalars=[0.0]))["scalars"]
_STATE = components(rr.StateChange.columns(state=[""]))["state"]
_LOG = components(rr.TextLog.columns(text=[""], level=["INFO"]))
_DOCUMENT = components(rr.TextDocument.columns(text=[""], media_type=[_MARKDOWN]))
_ROUND = {
    **{name: own_component("Round", name, "uint64") for name in ("layer", "round", "total_rounds")},
    **{name: own_component("Round", name, "uint32", _LIMBS) for name in ("c0", "c1", "c2", "c3", "p0_plus_p1")},
}
ROUND_NAMES = tuple(_ROUND)
"""What is written of a round, besides its claim."""


def times_of(moments: Moments) -> tuple[TimeColumn, ...]:
    """The three timelines of some rows."""
    return (
        TimeColumn("prover_time", moments.prover_ns, "duration[ns]"),
        TimeColumn("event", moments.seq, "int64"),
        TimeColumn("wall_time", moments.wall_ns, "timestamp[ns]"),
    )


ALONE = (Sheet, BarRow)
"""Kinds of marks of which Rerun takes only one at once."""


def columns_of(marks: Sequence[Mark]) -> Columns:
    """The columns of marks that are all of one kind; of one mark if it is of a kind that comes alone."""
    return _COLUMNS[type(marks[0])](marks)


def _boxes(marks: Sequence[BoxGroup]) -> Columns:
    stocks = {id(mark.stock): _stock(mark.stock) for mark in marks}
    parts: list[Boxes] = []
    for mark in marks:
        boxes, ends = stocks[id(mark.stock)]
        parts.append(boxes.first(ends[mark.count]))
        if mark.more:
            parts.append(placed(mark.more))
    lengths = [mark.boxes for mark in marks]
    centers = np.concatenate([part.centers for part in parts])
    half_sizes = np.concatenate([part.half_sizes for part in parts])
    colors = np.concatenate([part.colors for part in parts])
    columns = [
        _BOXES["centers"].column(vectors(_BOXES["centers"].type, centers), lengths),
        _BOXES["half_sizes"].column(vectors(_BOXES["half_sizes"].type, half_sizes), lengths),
        _BOXES["colors"].column(numbers(colors), lengths),
    ]
    return columns, 2 * centers.nbytes + colors.nbytes


def _stock(stock: Sequence[Placed]) -> tuple[Boxes, Sequence[int]]:
    """All boxes of a stock, and how many of them so many parts have."""
    return placed(stock), [0, *accumulate(len(part.colors) for _, part in stock)]


def _points(marks: Sequence[Points]) -> Columns:
    lengths = [len(mark.positions) for mark in marks]
    positions = np.array(list(chain.from_iterable(mark.positions for mark in marks)), np.float32).reshape(-1, 3)
    labels = list(chain.from_iterable(mark.labels for mark in marks))
    colors = np.repeat(np.array([mark.color for mark in marks], np.uint32), lengths)
    columns = [
        _POINTS["positions"].column(vectors(_POINTS["positions"].type, positions), lengths),
        _POINTS["colors"].column(numbers(colors), lengths),
        _POINTS["labels"].column(text(labels), [len(mark.labels) for mark in marks]),
    ]
    return columns, positions.nbytes + sum(map(len, labels))


def _strips(marks: Sequence[Strips]) -> Columns:
    parts = list(chain.from_iterable(mark.strips for mark in marks))
    component = _STRIPS["strips"]
    colors = np.concatenate([mark.colors for mark in marks])
    columns = [
        component.column(strips(component.type, parts), [len(mark.strips) for mark in marks]),
        _STRIPS["colors"].column(numbers(colors), [len(mark.colors) for mark in marks]),
    ]
    return columns, sum(part.nbytes for part in parts)


def _numbers(marks: Sequence[Numbers]) -> Columns:
    values = np.array(list(chain.from_iterable(mark.values for mark in marks)), np.float64)
    return [_SCALARS.column(numbers(values), [len(mark.values) for mark in marks])], values.nbytes


def _states(marks: Sequence[State]) -> Columns:
    states = [mark.state for mark in marks if mark.state is not None]
    lengths = [0 if mark.state is None else 1 for mark in marks]
    return [_STATE.column(text(states), lengths)], sum(map(len, states))


def _lines(marks: Sequence[Line]) -> Columns:
    columns = [
        _LOG["text"].column(text([mark.text for mark in marks])),
        _LOG["level"].column(text([mark.level for mark in marks])),
    ]
    return columns, sum(len(mark.text) + _LEVEL_BYTES for mark in marks)


def _documents(marks: Sequence[Document]) -> Columns:
    texts = [mark.text for mark in marks]
    columns = [
        _DOCUMENT["text"].column(text(texts)),
        _DOCUMENT["media_type"].column(text([_MARKDOWN] * len(texts))),
    ]
    return columns, sum(map(len, texts))


def _sheets(marks: Sequence[Sheet]) -> Columns:
    (mark,) = marks
    data = _tensor(mark.values, mark.dimensions)
    return list(rr.Tensor.columns(data=[data])), mark.values.nbytes


def _bars(marks: Sequence[BarRow]) -> Columns:
    (mark,) = marks
    columns = rr.BarChart.columns(
        values=[_tensor(mark.values)],
        abscissa=None if mark.abscissa is None else [_tensor(mark.abscissa)],
        color=np.array([mark.color], np.uint32),
    )
    return list(columns), 2 * mark.values.nbytes


def _tensor(values: npt.NDArray[Any], dimensions: tuple[str, ...] = ()) -> rr.encodings.TensorData:
    """An array as Rerun wants it; given as an array, Rerun would look for torch each time."""
    buffer = rr.encodings.TensorBuffer(values.ravel())
    return rr.encodings.TensorData(shape=values.shape, buffer=buffer, dim_names=dimensions)


def _clearings(marks: Sequence[Cleared]) -> Columns:
    return list(rr.Clear.columns(is_recursive=[False] * len(marks))), len(marks)


def _rounds(rounds: Sequence[SumcheckRound]) -> Columns:
    claims = np.array([event.claim_value_approx for event in rounds], np.float64)  # None becomes NaN
    columns = [
        _SCALARS.column(numbers(claims)),
        _ROUND["layer"].column(numbers(np.array([event.layer_idx for event in rounds], np.uint64))),
        _ROUND["round"].column(numbers(np.array([event.round for event in rounds], np.uint64))),
        _ROUND["total_rounds"].column(numbers(np.array([event.total_rounds for event in rounds], np.uint64))),
        *_polynomials(rounds),
    ]
    return columns, _ROUND_BYTES * len(rounds)


def _polynomials(rounds: Sequence[SumcheckRound]) -> Iterable[rr.ComponentColumn]:
    """Coefficients and p(0) + p(1), four limbs each; a row has none of those that its round does not have."""
    given = [coefficients(event) for event in rounds]
    degrees = np.array([len(polynomial) for polynomial in given])
    sums = np.zeros((len(rounds), _LIMBS), np.uint64)
    for place in range(int(degrees.max())):
        has_one = degrees > place
        values = _limbs([polynomial[place] for polynomial in given if len(polynomial) > place])
        component = _ROUND[f"c{place}"]
        yield component.column(vectors(component.type, values), has_one.astype(np.int32))
        sums[has_one] += values.astype(np.uint64) * (2 if place == 0 else 1)
    if degrees.any():
        has_any = degrees > 0
        component = _ROUND["p0_plus_p1"]
        reduced = (sums[has_any] % M31_PRIME).astype(np.uint32)
        yield component.column(vectors(component.type, reduced), has_any.astype(np.int32))


def _limbs(elements: Sequence[SecureField]) -> npt.NDArray[np.uint32]:
    """Limbs of shape [n, 4]."""
    limbs = np.empty((len(elements), _LIMBS), np.uint32)
    limbs[:, 0] = [element.a for element in elements]
    limbs[:, 1] = [element.b for element in elements]
    limbs[:, 2] = [element.c for element in elements]
    limbs[:, 3] = [element.d for element in elements]
    return limbs


_COLUMNS: Mapping[type[Mark], Callable[[Sequence[Any]], Columns]] = {
    BoxGroup: _boxes,
    Points: _points,
    Strips: _strips,
    Numbers: _numbers,
    State: _states,
    Line: _lines,
    Document: _documents,
    Sheet: _sheets,
    BarRow: _bars,
    Cleared: _clearings,
    SumcheckRound: _rounds,
}
