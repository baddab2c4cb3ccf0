"""Costs of programs: groups add up, and numbers above 2^64 - 1 are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.integers(0, 2**40), max_size=5))
def test_groups_add_up_to_their_program(sizes: list[int]) -> None:
    for cost in costs(*sizes).programs.values():
        assert cost.bytes == sum(group.bytes for group in cost.groups) == 2 * sum(sizes)
        assert [(g.group, g.kind, g.states) for g in cost.groups] == [
            (f"mix.{local}", "recurrent", len(sizes)) for local in ("h", "conv") if sizes
        ]


def test_the_four_programs_exist_even_without_states() -> None:
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
