"""Costs as values, and the bytes that runs move: exact, additive, refused where there is no exact number."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream import StateBytes, StateProgramRun
from proofstream_state_cost.moved_bytes import MovedBytes
from proofstream_state_cost.states.costing import CircuitCosts, cost_circuit, unread_keys
from proofstream_state_cost.states.errors import MissingFormat, Overflow
from proofstream_state_cost.states.state_circuit import (
    CircuitState,
    Dtype,
    Section,
    StateCircuit,
    StateFormat,
    StateKind,
    VerifyRule,
)
from proofstream_state_cost.tool.priced_circuit import per_second

MOST = 2**64 - 1


def circuit(*sizes: int, key: str | None = None) -> StateCircuit:
    return StateCircuit(
        name="c",
        states=tuple(
            CircuitState(
                id=f"l{layer}.mix.{local}",
                local=local,
                block="mix",
                layer=layer,
                section=Section.MAIN,
                kind=StateKind.RECURRENT,
                format=StateFormat(key=key) if key else StateFormat(dtype=Dtype.FP8),
                elements=size,
                verify=VerifyRule.H_STEPS,
            )
            for layer, size in enumerate(sizes)
            for local in ("h", "conv")
        ),
    )


def costs(*sizes: int) -> CircuitCosts:
    return cost_circuit(circuit(*sizes), {}, convention="declared")


def run(sequences: int, duration_ns: int | None = None, program: str = "slot_zero") -> StateProgramRun:
    unset = msgspec.UNSET if duration_ns is None else duration_ns
    return StateProgramRun(program=program, sequences=sequences, duration_ns=unset)


@given(st.lists(st.integers(0, 2**40), max_size=5))
def test_groups_add_up_to_their_program(sizes: list[int]) -> None:
    for cost in costs(*sizes).programs.values():
        assert cost.bytes == sum(group.bytes for group in cost.groups) == 2 * sum(sizes)
        assert [(g.group, g.kind, g.states) for g in cost.groups] == [
            (f"mix.{local}", "recurrent", len(sizes)) for local in ("h", "conv") if sizes
        ]


def test_the_four_programs_are_there_also_without_states() -> None:
    assert costs().totals == dict.fromkeys(("verify_checkpoint", "verify_rollback", "commit_accepted", "slot_zero"), 0)
    assert costs().live_bytes == 0


def test_names_and_formats() -> None:
    made = cost_circuit(circuit(3, key="h"), {"h": Dtype.F16, "kv": Dtype.F32}, convention="x")
    assert (made.name, made.convention, made.live_bytes) == (made.circuit.name, "x", 12)
    assert unread_keys(made.circuit, made.formats) == ["kv"]
    with pytest.raises(MissingFormat):
        cost_circuit(circuit(3, key="h"), {}, convention="x")
    with pytest.raises(Overflow):
        costs(2**63)


RUNS = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 9), st.integers(0, MOST)),
        st.one_of(st.none(), st.integers(0, 9), st.integers(0, MOST)),
    ),
    max_size=12,
)


@given(st.integers(0, 2**20), RUNS)
def test_what_is_taken_is_what_was_added(size: int, runs: list[tuple[int, int | None]]) -> None:
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
    assert only.states == [
        StateBytes(group="mix.h", kind="recurrent", states=2, bytes=35),
        StateBytes(group="mix.conv", kind="recurrent", states=2, bytes=35),
    ]


@given(st.integers(0, MOST), st.integers(1, 10**9))
def test_a_whole_rate_is_exact(number: int, rate: int) -> None:
    assert per_second(number, Decimal(rate)) == number * rate
    assert isinstance(per_second(number, Decimal(rate)), int)


def test_a_rate_with_a_fraction() -> None:
    assert per_second(10, Decimal("0.5")) == 5
    assert isinstance(per_second(10, Decimal("0.5")), int)
    assert per_second(1, Decimal("0.1")) == 0.1
    assert per_second(MOST, Decimal("1e-9")) == pytest.approx(MOST / 1e9)
