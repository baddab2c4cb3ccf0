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
from proofstream_console.closing_report import closing_report
from proofstream_console.formats import MAX_NAMED, size
from proofstream_console.live_view import LiveView
from proofstream_console.run_summary import RunSummary
from proofstream_console.state_summary import MAX_CIRCUITS

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
    summary = RunSummary(clock=lambda: clock)
    summary.add_batch(tuple(envelopes(events, close=False)))
    return summary


def shown(summary: RunSummary, width: int = 100) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False).print(closing_report(summary, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def live_line(summary: RunSummary, width: int) -> str:
    lines = [line.plain for line in LiveView(summary, max_layers=4, max_proofs=4).lines(width=width, height=24)]
    found = [line for line in lines if line.startswith("state")]
    assert len(found) <= 1
    assert all(len(line) <= width for line in lines)
    return found[0] if found else ""


def test_nothing_is_said_where_nothing_is_known() -> None:
    summary = fed(START, COMPLETE)
    assert live_line(summary, 80) == ""
    assert not [line for line in shown(summary) if "state" in line.lower()]


def test_programs_of_equal_cost_share_a_line() -> None:
    summary = fed(START, *map(cost, PROGRAMS), COMPLETE)
    (circuit,) = summary.states.circuits
    assert words.state_costs(circuit) == (
        "48.0 MiB per sequence for verify_checkpoint, verify_rollback, commit_accepted, slot_zero "
        "(derived; nano-30b, convention vllm, 23 recurrent layers)"
    )
    assert "  state    48.0 MiB per sequence for verify_checkpoint," in "\n".join(shown(summary))
    assert not [line for line in shown(summary) if line.startswith("State programs")]


def test_programs_of_different_cost_are_listed_apart() -> None:
    summary = fed(cost(), cost("ring_save", MIB), cost("prefix_save", 96 * MIB), cost("ring_restore", MIB))
    (circuit,) = summary.states.circuits
    said = words.state_costs(circuit)
    assert "48.0 MiB per sequence for slot_zero; 1.00 MiB per sequence for ring_save, ring_restore; 96.0 MiB" in said
    assert live_line(summary, 80) == "state (vllm, derived) · 1.00 MiB to 96.0 MiB per sequence · nano-30b"


def test_the_latest_word_on_a_program_counts() -> None:
    summary = fed(cost(number=1), cost(number=2), cost(number=2))
    assert summary.states.circuits[0].costs == {2: ["slot_zero"]}


def test_runs_have_a_table() -> None:
    summary = fed(
        START,
        *map(cost, PROGRAMS),
        moved("verify_checkpoint", 64, timed_ns=3_000_000),
        moved("verify_checkpoint", 64, timed_ns=1_000_000),
        moved("slot_zero", 1),
        COMPLETE,
    )
    table = shown(summary)[shown(summary).index("State programs (convention vllm)") :]
    assert [line.split() for line in table[1:4]] == [
        ["program", "runs", "sequences", "moved", "bandwidth"],
        ["verify_checkpoint", "4", "128", "6.00", "GiB", "1.46", "TiB/s"],
        ["slot_zero", "2", "1", "48.0", "MiB"],
    ]
    assert len(table) == 4


def test_there_is_no_bandwidth_without_a_duration() -> None:
    summary = fed(cost(), moved())
    assert "bandwidth" not in "\n".join(shown(summary))
    assert live_line(summary, 80) == "state (vllm, derived) · 48.0 MiB per sequence · 384 MiB moved · nano-30b"


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
def test_parts_that_do_not_fit_are_left_out(width: int, expected: str) -> None:
    assert live_line(fed(cost(), moved(timed_ns=1_000_000)), width) == expected


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_of_the_report_is_wider_than_the_terminal(width: int) -> None:
    wide: dict[str, Any] = {"circuit": "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "convention": "transformers"}
    summary = fed(
        *(cost(program, **wide) for program in PROGRAMS), *(moved(p, timed_ns=10**6, **wide) for p in PROGRAMS)
    )
    assert max(len(line) for line in shown(summary, width)) <= width


def test_runs_without_a_cost_are_shown_too() -> None:
    summary = fed(moved())
    assert live_line(summary, 80) == "state (vllm, derived) · 384 MiB moved · nano-30b"
    (circuit,) = summary.states.circuits
    assert words.state_costs(circuit) == "nano-30b, convention vllm"


def test_conventions_are_never_mixed() -> None:
    other: dict[str, Any] = {"convention": "transformers"}
    summary = fed(START, cost(), cost(number=64 * MIB, **other), moved(**other))
    assert [(c.convention, c.total.runs) for c in summary.states.circuits] == [("transformers", 2), ("vllm", 0)]
    assert live_line(summary, 80).startswith("state (transformers, derived) · 64.0 MiB per sequence")
    lines = shown(summary)
    assert len([line for line in lines if line.startswith("  state ")]) == 2
    assert "State programs (nano-30b, convention transformers)" in lines


def test_hostile_text_cannot_do_harm() -> None:
    bad = "\x1b[2J\u202e" + "x" * 10_000
    summary = fed(cost(bad, circuit=bad, convention=bad), moved(bad, circuit=bad, convention=bad))
    text = "\n".join([*shown(summary), live_line(summary, 80)])
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 3000


def test_the_number_of_remembered_circuits_is_bounded() -> None:
    many = [cost(f"p{n}", circuit=f"c{n % 9}") for n in range(9)]
    summary = fed(START, *many, *(cost(f"p{n}", circuit="last") for n in range(100)))
    assert len(summary.states.circuits) == MAX_CIRCUITS
    assert len(summary.states.circuits[0].programs) == MAX_NAMED
    assert summary.states.forgotten == 10 - MAX_CIRCUITS
    assert any("and 7 state circuits before" in line for line in shown(summary))


def test_derived_events_are_not_counted_as_events_of_producers() -> None:
    plain, priced = fed(START, COMPLETE), fed(START, COMPLETE, cost(), moved())
    assert priced.totals == plain.totals
    alone = RunSummary(clock=lambda: 0.0)
    alone.add_batch(tuple(envelopes([cost(), moved()], close=False)[1:]))
    assert not alone.was_opened
    assert alone.is_empty


def test_an_engine_that_runs_beside_a_silent_proof_does_not_hide_the_silence() -> None:
    now = [0.0]
    summary = RunSummary(clock=lambda: now[0])
    items = envelopes([START, ps.StateProgramRun(program="slot_zero", sequences=1)], close=False)
    summary.add_batch(tuple(items[:-1]))
    now[0] = 60.0
    summary.add_batch((items[-1],))
    assert summary.quiet_s("test-session") == 60.0
    assert summary.totals.events == 2


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
