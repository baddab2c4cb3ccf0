"""Turns marks into columns of Rerun's components, one row for each mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import rerun as rr
from msgspec.structs import astuple

from proofstream import RoundPoly, RoundPolyDeg3, SumcheckRound
from proofstream_rerun.picture.canvas import Moment
from proofstream_rerun.picture.field import M31_PRIME
from proofstream_rerun.picture.layout import placed
from proofstream_rerun.picture.marks import (
    ORIGIN,
    BarRow,
    Boxes,
    BoxGroup,
    Cleared,
    Document,
    LogEntry,
    Mark,
    Numbers,
    Placed,
    Points,
    Sheet,
    StateChange,
    Strips,
)
from proofstream_rerun.sdk.arrow import (
    Component,
    TimeColumn,
    components,
    int64s,
    numbers,
    own_component,
    strips,
    tensors,
    text,
    uint32s,
    vectors,
)

Columns = tuple[Sequence[rr.ComponentColumn], int]
"""Columns, and roughly how many bytes they hold."""

# Estimates of memory, for the backlog's limit.
_LEVEL_BYTES = 8
_ROUND_BYTES = 120
_LIMBS = 4
"""A QM31 element is four M31 elements."""

_MARKDOWN = "text/markdown"

_BOXES = components(rr.Boxes3D(centers=[(0, 0, 0)], half_sizes=[(0, 0, 0)], colors=[0]))
_POINTS = components(rr.Points3D([(0, 0, 0)], colors=[0], labels=[""]))
_STRIPS = components(rr.LineStrips3D([[(0, 0, 0)]], colors=[0]))
_SCALARS = components(rr.Scalars(0.0))["scalars"]
_STATE = components(rr.StateChange(state=""))["state"]
_LOG = components(rr.TextLog("", level="INFO"))
_DOCUMENT = components(rr.TextDocument("", media_type=_MARKDOWN))
_SHEET = components(rr.Tensor(np.zeros(1), value_range=(0.0, 1.0)))
_BARS = components(rr.BarChart(np.zeros(1), abscissa=np.zeros(1), color=0))
_ROUND = {
    **{name: own_component("Round", name, "uint64") for name in ("Layer", "Round", "Rounds")},
    **{name: own_component("Round", name, "uint32", _LIMBS) for name in ("c0", "c1", "c2", "c3", "p0_plus_p1")},
}
ROUND_NAMES = tuple(_ROUND)
"""The figures that are written for a round, besides its claim. The viewer's table sorts them, capitals first."""


def times_of(moments: Sequence[Moment]) -> tuple[TimeColumn, ...]:
    """Return the times of rows on the three timelines."""
    flat = int64s([*chain.from_iterable(moments)])
    prover_ns, seq, wall_ns = np.ascontiguousarray(flat.reshape(-1, 3).T)
    return (
        TimeColumn("prover_time", prover_ns, "duration[ns]"),
        TimeColumn("event", seq, "int64"),
        TimeColumn("wall_time", wall_ns, "timestamp[ns]"),
    )


def columns_of(marks: Sequence[Mark]) -> Columns:
    """Return the columns of marks that are all of one kind."""
    return _COLUMNS[type(marks[0])](marks)


def _boxes(marks: Sequence[BoxGroup]) -> Columns:
    stocks = {key: _stock(stock) for key, stock in {id(mark.stock): mark.stock for mark in marks}.items()}
    parts: list[Placed] = []
    for mark in marks:
        boxes, ends = stocks[id(mark.stock)]
        parts.append((ORIGIN, boxes.first(ends[mark.count])))
        parts += mark.more
    lengths = [mark.boxes for mark in marks]
    merged = placed(parts)
    columns = [
        _BOXES["centers"].column(vectors(_BOXES["centers"].type, merged.centers), lengths),
        _BOXES["half_sizes"].column(vectors(_BOXES["half_sizes"].type, merged.half_sizes), lengths),
        _BOXES["colors"].column(numbers(merged.colors), lengths),
    ]
    return columns, 2 * merged.centers.nbytes + merged.colors.nbytes


def _stock(stock: Sequence[Placed]) -> tuple[Boxes, Sequence[int]]:
    """Return all boxes of a stock, and how many boxes its first 0, 1, 2, ... parts have."""
    return placed(stock), [0, *accumulate(len(part.colors) for _, part in stock)]


def _points(marks: Sequence[Points]) -> Columns:
    lengths = [len(mark.positions) for mark in marks]
    flat = chain.from_iterable(chain.from_iterable(mark.positions for mark in marks))
    positions = np.fromiter(flat, np.float32, 3 * sum(lengths)).reshape(-1, 3)
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


def _states(marks: Sequence[StateChange]) -> Columns:
    states = [mark.state for mark in marks if mark.state is not None]
    lengths = [0 if mark.state is None else 1 for mark in marks]
    return [_STATE.column(text(states), lengths)], sum(map(len, states))


def _lines(marks: Sequence[LogEntry]) -> Columns:
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
    of_data, of_range = _SHEET["data"], _SHEET["value_range"]
    ranges = np.array([mark.value_range for mark in marks], np.float64)
    columns = [
        of_data.column(tensors(of_data.type, [mark.values for mark in marks], marks[0].dimensions)),
        of_range.column(vectors(of_range.type, ranges)),
    ]
    return columns, sum(mark.values.nbytes for mark in marks)


def _bars(marks: Sequence[BarRow]) -> Columns:
    of_values, of_abscissa = _BARS["values"], _BARS["abscissa"]
    columns = [
        of_values.column(tensors(of_values.type, [mark.values for mark in marks])),
        _BARS["color"].column(numbers(np.array([mark.color for mark in marks], np.uint32))),
        of_abscissa.column(tensors(of_abscissa.type, [mark.abscissa for mark in marks])),
    ]
    return columns, 2 * sum(mark.values.nbytes for mark in marks)


def _clearings(marks: Sequence[Cleared]) -> Columns:
    return list(rr.Clear.columns(is_recursive=[False] * len(marks))), len(marks)


def _rounds(rounds: Sequence[SumcheckRound]) -> Columns:
    claimed = np.array([event.claim_value_approx for event in rounds], np.float64)  # None becomes NaN
    columns = [
        _ROUND["Layer"].column(numbers(np.array([event.layer_idx for event in rounds], np.uint64))),
        _ROUND["Round"].column(numbers(np.array([event.round for event in rounds], np.uint64))),
        _ROUND["Rounds"].column(numbers(np.array([event.total_rounds for event in rounds], np.uint64))),
        *_polynomials([event.poly_deg2 or event.poly_deg3 for event in rounds], claimed),
        _SCALARS.column(numbers(claimed)),
    ]
    return columns, _ROUND_BYTES * len(rounds)


def _polynomials(
    polynomials: Sequence[RoundPoly | RoundPolyDeg3 | None], claimed: npt.NDArray[np.float64]
) -> Iterable[rr.ComponentColumn]:
    """Make columns of the coefficients and of p(0) + p(1), four limbs each.

    p(0) = c0 and p(1) is the sum of all coefficients, limb by limb modulo 2^31 - 1. A cell is empty where a round has
    no such coefficient. The first limb over 2^31 - 1 replaces the claim that the producer reports.
    """
    given = [astuple(polynomial) for polynomial in polynomials if polynomial is not None]
    if not given:
        return
    limbs = uint32s([*chain.from_iterable(map(astuple, chain.from_iterable(given)))]).reshape(-1, _LIMBS)
    lengths = np.fromiter(map(len, given), np.int64, len(given))
    starts = np.cumsum(lengths) - lengths
    has_any = np.array([polynomial is not None for polynomial in polynomials])
    for place in range(int(lengths.max())):
        is_long = lengths > place
        has_one = has_any.copy()
        has_one[has_any] = is_long
        yield _vectors(_ROUND[f"c{place}"], limbs[starts[is_long] + place], has_one)
    sums = np.add.reduceat(limbs, starts, axis=0, dtype=np.uint64) + limbs[starts]
    remainders = (sums % M31_PRIME).astype(np.uint32)
    claimed[has_any] = remainders[:, 0] / M31_PRIME
    yield _vectors(_ROUND["p0_plus_p1"], remainders, has_any)


def _vectors(
    component: Component, values: npt.NDArray[np.uint32], has_one: npt.NDArray[np.bool_]
) -> rr.ComponentColumn:
    """Make a column of vectors, one in each row for which `has_one` is true."""
    return component.column(vectors(component.type, values), None if len(values) == len(has_one) else has_one)


_COLUMNS: Mapping[type[Mark], Callable[[Sequence[Any]], Columns]] = {
    BoxGroup: _boxes,
    Points: _points,
    Strips: _strips,
    Numbers: _numbers,
    StateChange: _states,
    LogEntry: _lines,
    Document: _documents,
    Sheet: _sheets,
    BarRow: _bars,
    Cleared: _clearings,
    SumcheckRound: _rounds,
}
