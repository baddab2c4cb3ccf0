"""Bytes that runs move: exact, additive, refused above 2^64 - 1."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proofstream import StateBytes, StateDeclaration, StateProgramRun
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.moved_bytes import MovedBytes
from proofstream_state_cost.states.costing import CircuitCosts, cost_circuit

MOST = 2**64 - 1


def costs(*sizes: int) -> CircuitCosts:
    states = [
        StateDeclaration(id=f"l{layer}.mix.{local}", kind="recurrent", section="main", format="fp8", elements=size)
        for layer, size in enumerate(sizes)
        for local in ("h", "conv")
    ]
    return cost_circuit(circuit_from_declarations("c", states), {}, convention="declared")


def run(sequences: int, duration_ns: int | None = None, program: str = "slot_zero") -> StateProgramRun:
    unset = msgspec.UNSET if duration_ns is None else duration_ns
    return StateProgramRun(program=program, sequences=sequences, duration_ns=unset)


RUNS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 9), st.integers(0, MOST)),
        st.one_of(st.none(), st.integers(0, 9), st.integers(0, MOST)),
    ),
    max_size=12,
)


@given(st.integers(0, 2**20), RUNS)
def test_taken_bytes_are_those_of_the_counted_runs(size: int, runs: list[tuple[int, int | None]]) -> None:
    of = costs(size)
    unit = of.live_bytes
    moved = MovedBytes()
    counted = [(n, ns) for n, ns in runs if moved.count_run(of, run(n, ns))]
    taken = moved.take_moved()

    assert counted == [(n, ns) for n, ns in runs if n * unit <= MOST]
    assert sum(each.runs for each in taken) == len(counted)
    assert sum(each.sequences for each in taken) == sum(n for n, _ in counted)
    assert sum(each.bytes for each in taken) == unit * sum(n for n, _ in counted)
    assert sum(each.timed_ns for each in taken) == sum(ns for _, ns in counted if ns)
    assert sum(each.timed_bytes for each in taken) == unit * sum(n for n, ns in counted if ns)
    for each in taken:
        assert each.bytes == sum(group.bytes for group in each.states)
        assert max(each.bytes, each.sequences, each.timed_ns) <= MOST
    assert moved.take_moved() == []


def test_programs_and_circuits_are_kept_apart() -> None:
    one, other = costs(1), costs(1)
    moved = MovedBytes()
    for of, program in ((one, "slot_zero"), (other, "slot_zero"), (one, "commit_accepted"), (one, "slot_zero")):
        assert moved.count_run(of, run(1, program=program))
    assert [(each.program, each.runs) for each in moved.take_moved()] == [
        ("slot_zero", 2),
        ("slot_zero", 1),
        ("commit_accepted", 1),
    ]


def test_an_event_has_its_groups() -> None:
    moved = MovedBytes()
    moved.count_run(costs(3, 4), run(5))
    (only,) = moved.take_moved()
    assert only.states == (
        StateBytes(group="mix.h", kind="recurrent", states=2, bytes=35),
        StateBytes(group="mix.conv", kind="recurrent", states=2, bytes=35),
    )
