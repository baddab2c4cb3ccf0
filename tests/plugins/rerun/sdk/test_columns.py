"""Columns made directly from arrays equal those of Rerun's archetypes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import rerun as rr

from proofstream import RoundPoly, RoundPolyDeg3, SecureField, SumcheckRound
from proofstream_rerun.picture.field import M31_PRIME, sum_over_bits
from proofstream_rerun.picture.marks import Boxes, BoxGroup, Document, LogEntry, Numbers, Points, StateChange, Strips
from proofstream_rerun.sdk.columns import columns_of, times_of


def values(columns: Iterable[Any]) -> dict[str, tuple[str, list[Any]]]:
    """Return the type and the rows of columns by their components."""
    found: dict[str, tuple[str, list[Any]]] = {}
    for column in columns:
        array = column.as_arrow_array()
        found[str(column.component_descriptor())] = str(array.type), array.to_pylist()
    return found


def boxes(count: int, start: float) -> Boxes:
    points = np.arange(start, start + 3 * count, dtype=np.float32).reshape(-1, 3)
    return Boxes(points, points + 100, np.arange(count, dtype=np.uint32))


def test_boxes_in_parts_are_put_together() -> None:
    origin, aside = (0.0, 0.0, 0.0), (1.0, 2.0, 3.0)
    one, two, three = boxes(2, 0.0), boxes(1, 50.0), boxes(3, 70.0)
    stock = [(origin, one), (aside, two)]
    rows = [BoxGroup(stock, 1, (), 2), BoxGroup(stock, 2, [(aside, three)], 6), BoxGroup([], 0, [(origin, two)], 1)]
    columns, size = columns_of(rows)
    parts = [one, one, two, three, two]
    places = [origin, origin, aside, aside, origin]
    expected = rr.Boxes3D.columns(
        centers=np.concatenate([b.centers + np.array(p, np.float32) for p, b in zip(places, parts, strict=True)]),
        half_sizes=np.concatenate([part.half_sizes for part in parts]),
        colors=np.concatenate([part.colors for part in parts]),
    ).partition([2, 6, 1])
    assert values(columns) == values(expected)
    assert size == 9 * 28


def test_points_have_one_colour_in_each_row() -> None:
    columns, _ = columns_of([Points([(1, 2, 3), (4, 5, 6)], ["a", "b"], 7), Points([], [], 8)])
    expected = rr.Points3D.columns(
        positions=[(1, 2, 3), (4, 5, 6)], colors=np.array([7, 7], np.uint32), labels=["a", "b"]
    ).partition([2, 0])
    assert values(columns) == values(expected)


def test_strips() -> None:
    strip = np.arange(6, dtype=np.float32).reshape(2, 3)
    colors = np.array([9], np.uint32)
    columns, _ = columns_of([Strips([strip, strip + 1], colors), Strips([], colors)])
    expected = [
        *rr.LineStrips3D.columns(strips=[strip, strip + 1]).partition([2, 0]),
        *rr.LineStrips3D.columns(colors=[9, 9]),
    ]
    assert values(columns) == values(expected)


def test_numbers_states_lines_and_documents() -> None:
    columns, _ = columns_of([Numbers((0.5,)), Numbers((1.0, 2.0))])
    assert values(columns) == values(rr.Scalars.columns(scalars=[0.5, 1.0, 2.0]).partition([1, 2]))
    columns, _ = columns_of([StateChange("proving"), StateChange(None), StateChange("proved")])
    assert values(columns) == values(rr.StateChange.columns(state=["proving", "proved"]).partition([1, 0, 1]))
    columns, _ = columns_of([LogEntry("ä", "INFO"), LogEntry("", "WARN")])
    assert values(columns) == values(rr.TextLog.columns(text=["ä", ""], level=["INFO", "WARN"]))
    columns, _ = columns_of([Document("# a")])
    assert values(columns) == values(rr.TextDocument.columns(text=["# a"], media_type=["text/markdown"]))


def element(*limbs: int) -> SecureField:
    a, b, c, d = limbs
    return SecureField(a=a, b=b, c=c, d=d)


def sumcheck_round(number: int, claim: float | None, **polynomial: Any) -> SumcheckRound:
    given = {"poly_deg2": None, "poly_deg3": None, **polynomial}
    return SumcheckRound(layer_idx=3, round=number, total_rounds=3, claim_value_approx=claim, **given)


def test_rounds_have_their_polynomials_and_the_sum_to_check() -> None:
    high = M31_PRIME - 1
    c0, c1, c2, c3 = element(1, 2, 3, 4), element(high, high, 0, 1), element(high, 5, 6, 7), element(0, 0, 0, high)
    rounds = [
        sumcheck_round(0, 0.25, poly_deg2=RoundPoly(c0=c0, c1=c1, c2=c2)),
        sumcheck_round(1, None),
        sumcheck_round(2, 0.75, poly_deg3=RoundPolyDeg3(c0=c0, c1=c1, c2=c2, c3=c3)),
    ]
    columns, _ = columns_of(rounds)
    found = {name.rpartition(":")[2]: rows for name, (_, rows) in values(columns).items()}
    tuples = [(1, 2, 3, 4), (high, high, 0, 1), (high, 5, 6, 7), (0, 0, 0, high)]
    assert found["c0"] == [[[1, 2, 3, 4]], [], [[1, 2, 3, 4]]]
    assert found["c3"] == [[], [], [[0, 0, 0, high]]]
    assert found["p0_plus_p1"] == [[list(sum_over_bits(tuples[:3]))], [], [list(sum_over_bits(tuples))]]
    assert found["Layer"] == [[3], [3], [3]]
    assert found["Round"] == [[0], [1], [2]]
    assert found["Rounds"] == [[3], [3], [3]]
    assert found["scalars"][0] == [sum_over_bits(tuples[:3])[0] / M31_PRIME]
    assert math.isnan(found["scalars"][1][0])


def test_the_timelines_are_exact() -> None:
    moments = [(0, 5, 1_700_000_000_000_000_001), (1, 6, 2**63 - 1)]
    prover_time, event, wall_time = times_of(moments)
    assert [column.timeline_name() for column in (prover_time, event, wall_time)] == [
        "prover_time",
        "event",
        "wall_time",
    ]
    assert str(prover_time.as_arrow_array().type) == "duration[ns]"
    assert prover_time.as_arrow_array().cast("int64").to_pylist() == [0, 1]
    assert event.as_arrow_array().to_pylist() == [5, 6]
    assert str(wall_time.as_arrow_array().type) == "timestamp[ns]"
    assert wall_time.as_arrow_array().cast("int64").to_pylist() == [1_700_000_000_000_000_001, 2**63 - 1]
