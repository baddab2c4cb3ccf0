"""What is shown of state programs: what they cost, under which convention, and what their runs have moved."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import proofstream as ps
from proofstream.testing import InlineHost, envelopes
from proofstream_console import ConsolePlugin, words
from proofstream_console.closing_report import report
from proofstream_console.formats import size
from proofstream_console.live_view import LiveView
from proofstream_console.run_summary import RunSummary
from proofstream_console.state_summary import MAX_CIRCUITS, MAX_PROGRAMS

MIB = 2**20
GIB = 2**30
NAME = "nano-30b"
START = ps.ProofStart(model_name="nano", backend="gpu", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
COMPLETE = ps.ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="x")
PROGRAMS = ("verify_checkpoint", "verify_rollback", "commit_accepted", "slot_zero")


def cost(program: str = "slot_zero", number: int = 48 * MIB, **changes: Any) -> ps.StateProgramCost:
    fields: dict[str, Any] = {
        "proof": 0,
        "circuit": NAME,
        "convention": "vllm",
        "program": program,
        "op": "copy",
        "recurrent_layers": 23,
        "bytes": number,
        "states": [ps.StateBytes(group="mamba.h", kind="recurrent", states=23, bytes=number)],
    }
    return ps.StateProgramCost(**fields | changes)


def moved(program: str = "slot_zero", sequences: int = 8, *, timed_ns: int = 0, **changes: Any) -> ps.StateBytesMoved:
    fields: dict[str, Any] = {
        "circuit": NAME,
        "convention": "vllm",
        "program": program,
        "runs": 2,
        "sequences": sequences,
        "bytes": sequences * 48 * MIB,
        "states": [],
        "timed_bytes": sequences * 48 * MIB if timed_ns else 0,
        "timed_ns": timed_ns,
    }
    return ps.StateBytesMoved(**fields | changes)


def fed(*events: ps.ProofEvent, clock: float = 0.0) -> RunSummary:
    model = RunSummary(clock=lambda: clock)
    model.feed(tuple(envelopes(events, close=False)))
    return model


def shown(model: RunSummary, width: int = 100) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False).print(report(model, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def live_line(model: RunSummary, width: int) -> str:
    lines = [line.plain for line in LiveView(model, max_layers=4, max_proofs=4).lines(width=width, height=24)]
    found = [line for line in lines if line.startswith("state")]
    assert len(found) <= 1
    assert all(len(line) <= width for line in lines)
    return found[0] if found else ""


def test_nothing_is_said_where_nothing_is_known() -> None:
    model = fed(START, COMPLETE)
    assert live_line(model, 80) == ""
    assert not [line for line in shown(model) if "state" in line.lower()]


def test_programs_that_cost_the_same_are_told_at_once() -> None:
    model = fed(START, *map(cost, PROGRAMS), COMPLETE)
    (circuit,) = model.states.circuits
    assert words.state_costs(circuit) == (
        "48.0 MiB per sequence for verify_checkpoint, verify_rollback, commit_accepted, slot_zero "
        "(derived; nano-30b, convention vllm, 23 recurrent layers)"
    )
    assert "  state    48.0 MiB per sequence for verify_checkpoint," in "\n".join(shown(model))
    assert not [line for line in shown(model) if line.startswith("State programs")]


def test_programs_that_cost_differently_are_told_apart() -> None:
    model = fed(cost(), cost("ring_save", MIB), cost("prefix_save", 96 * MIB), cost("ring_restore", MIB))
    (circuit,) = model.states.circuits
    said = words.state_costs(circuit)
    assert "48.0 MiB per sequence for slot_zero; 1.00 MiB per sequence for ring_save, ring_restore; 96.0 MiB" in said
    assert live_line(model, 80) == "state (vllm, derived) · 1.00 MiB to 96.0 MiB per sequence · nano-30b"


def test_the_latest_word_on_a_program_counts() -> None:
    model = fed(cost(number=1), cost(number=2), cost(number=2))
    assert model.states.circuits[0].costs == {2: ["slot_zero"]}


def test_runs_have_a_table() -> None:
    model = fed(
        START,
        *map(cost, PROGRAMS),
        moved("verify_checkpoint", 64, timed_ns=3_000_000),
        moved("verify_checkpoint", 64, timed_ns=1_000_000),
        moved("slot_zero", 1),
        COMPLETE,
    )
    table = shown(model)[shown(model).index("State programs (convention vllm)") :]
    assert [line.split() for line in table[1:4]] == [
        ["program", "runs", "sequences", "moved", "bandwidth"],
        ["verify_checkpoint", "4", "128", "6.00", "GiB", "1.46", "TiB/s"],
        ["slot_zero", "2", "1", "48.0", "MiB"],
    ]
    assert len(table) == 4


def test_there_is_no_bandwidth_without_a_duration() -> None:
    model = fed(cost(), moved())
    assert "bandwidth" not in "\n".join(shown(model))
    assert live_line(model, 80) == "state (vllm, derived) · 48.0 MiB per sequence · 384 MiB moved · nano-30b"


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (120, "state (vllm, derived) · 48.0 MiB per sequence · 384 MiB moved · 375 GiB/s · nano-30b"),
        (80, "state (vllm, derived) · 48.0 MiB per sequence · 384 MiB moved · 375 GiB/s"),
        (64, "state (vllm, derived) · 48.0 MiB per sequence · 384 MiB moved"),
        (40, "state (vllm, derived) · 384 MiB moved"),
        (12, "state (vllm…"),
    ],
)
def test_what_does_not_fit_is_left_out(width: int, expected: str) -> None:
    assert live_line(fed(cost(), moved(timed_ns=1_000_000)), width) == expected


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_of_the_report_is_wider_than_the_terminal(width: int) -> None:
    wide: dict[str, Any] = {"circuit": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "convention": "transformers"}
    model = fed(*(cost(program, **wide) for program in PROGRAMS), *(moved(p, timed_ns=10**6, **wide) for p in PROGRAMS))
    assert max(len(line) for line in shown(model, width)) <= width


def test_runs_without_a_cost_are_shown_too() -> None:
    model = fed(moved())
    assert live_line(model, 80) == "state (vllm, derived) · 384 MiB moved · nano-30b"
    (circuit,) = model.states.circuits
    assert words.state_costs(circuit) == "nano-30b, convention vllm"


def test_conventions_are_never_mixed() -> None:
    other: dict[str, Any] = {"convention": "transformers"}
    model = fed(START, cost(), cost(number=64 * MIB, **other), moved(**other))
    assert [(c.convention, c.total.runs) for c in model.states.circuits] == [("transformers", 2), ("vllm", 0)]
    assert live_line(model, 80).startswith("state (transformers, derived) · 64.0 MiB per sequence")
    lines = shown(model)
    assert len([line for line in lines if line.startswith("  state ")]) == 2
    assert "State programs (nano-30b, convention transformers)" in lines


def test_what_others_wrote_cannot_do_harm() -> None:
    bad = "\x1b[2J\u202e" + "x" * 10_000
    model = fed(cost(bad, circuit=bad, convention=bad), moved(bad, circuit=bad, convention=bad))
    text = "\n".join([*shown(model), live_line(model, 80)])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 3000


def test_what_is_remembered_is_bounded() -> None:
    many = [cost(f"p{n}", circuit=f"c{n % 9}") for n in range(9)]
    model = fed(START, *many, *(cost(f"p{n}", circuit="last") for n in range(100)))
    assert len(model.states.circuits) == MAX_CIRCUITS
    assert len(model.states.circuits[0].programs) == MAX_PROGRAMS
    assert model.states.forgotten == 10 - MAX_CIRCUITS
    assert any("and 7 state circuits before" in line for line in shown(model))


def test_derived_events_are_none_of_the_producers() -> None:
    plain, priced = fed(START, COMPLETE), fed(START, COMPLETE, cost(), moved())
    assert priced.totals == plain.totals
    alone = RunSummary(clock=lambda: 0.0)
    alone.feed(tuple(envelopes([cost(), moved()], close=False)[1:]))
    assert not alone.was_opened
    assert alone.is_empty


def test_an_engine_that_runs_beside_a_silent_proof_does_not_hide_the_silence() -> None:
    now = [0.0]
    model = RunSummary(clock=lambda: now[0])
    items = envelopes([START, ps.StateProgramRun(program="slot_zero", sequences=1)], close=False)
    model.feed(tuple(items[:-1]))
    now[0] = 60.0
    model.feed((items[-1],))
    assert model.quiet_s("test-session") == 60.0
    assert model.totals.events == 2


def test_the_plugin_prints_it() -> None:
    out = io.StringIO()
    host = InlineHost(ConsolePlugin(stream=out), {"mode": "plain"})
    host.feed(envelopes([START, *map(cost, PROGRAMS), moved(timed_ns=1_000_000), COMPLETE]))
    host.close()
    text = out.getvalue()
    assert "48.0 MiB per sequence for verify_checkpoint" in text
    assert "State programs (convention vllm)" in text
    assert "375 GiB/s" in text


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (49_082_368, "46.8 MiB"),
        (9.996 * MIB, "10.0 MiB"),
        (99.96 * MIB, "100 MiB"),
        (1023.4 * MIB, "1,023 MiB"),
        (1023.6 * MIB, "1.00 GiB"),
        (2**64 - 1, "16.0 EiB"),
        (2.0**80, "1,048,576 EiB"),
    ],
)
def test_a_size_reads(number: float, expected: str) -> None:
    assert size(number) == expected


@given(st.integers(0, 2**64 - 1))
def test_a_size_is_right_to_three_digits(number: int) -> None:
    value, unit = size(number).split()
    power = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit)
    assert float(value.replace(",", "")) * 1024**power == pytest.approx(number, rel=0.0051)
    assert len(value) <= len("1,023")
