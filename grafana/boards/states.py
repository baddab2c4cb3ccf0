"""The dashboard "State traffic": what a model's state programs cost, and what an engine moves with them."""

from __future__ import annotations

from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.kit import WHERE, About, Query, board, choice, counted, lines, number, row, rows, window

CIRCUIT, CONVENTION = "proofstream_state_circuit", "proofstream_state_convention"
PROGRAM, KIND, GROUP = "proofstream_state_program", "proofstream_state_kind", "proofstream_state_group"
WHICH = f'{WHERE}, {CIRCUIT}=~"$circuit", {CONVENTION}=~"$convention"'
BY = f"{CIRCUIT}, {CONVENTION}, {PROGRAM}"
NAME = f"{{{{{PROGRAM}}}}} of {{{{{CIRCUIT}}}}}, {{{{{CONVENTION}}}}}"
COST = "proofstream_state_program_cost_bytes"


def states() -> Dashboard:
    """The dashboard."""
    made = board(
        uid="proofstream-states",
        title="State traffic",
        text="What the programs that move a model's recurrent state write for one sequence, and how much an inference "
        "engine has moved with them. Bytes are derived from the states' declarations, under the convention named.",
        variables=[
            choice("circuit", "State circuit", "Which models' states", f"label_values({COST}, {CIRCUIT})"),
            choice("convention", "Convention", "How states are counted", f"label_values({COST}, {CONVENTION})"),
            window(),
        ],
    )
    row(made, "What it costs", *_costs())
    row(made, "What is moved", *_traffic())
    return made


def _costs() -> list[Any]:
    # The same circuit may be priced by many processes.
    each = f"max by ({BY}, {KIND}, {GROUP}) (last_over_time({COST}{{{WHICH}}}[$__range]))"
    return [
        number(
            About(
                title="Bytes per sequence",
                text="What one run of a program writes for one sequence, of all states. A copy is read as well: memory "
                "sees about twice as much.",
                unit="bytes",
                width=10,
            ),
            Query(expr=f"sum by ({BY}) ({each})", legend=NAME, once=True),
        ),
        rows(
            About(
                title="Bytes per sequence, by states",
                text="The same by block and state, such as mamba.conv. Another convention gives other numbers for the "
                "same model: compare only what has the same.",
                unit="bytes",
                width=14,
            ),
            ("Bytes", "bytes", Query(expr=each, once=True, shape=PromQueryFormat.TABLE)),
            labels={CIRCUIT: "Circuit", CONVENTION: "Convention", PROGRAM: "Program", KIND: "Kind", GROUP: "States"},
        ),
    ]


def _traffic() -> list[Any]:
    timed = f"sum by ({BY}) (increase(proofstream_state_program_timed_moved_bytes_total{{{WHICH}}}[$window]))"
    time = f"sum by ({BY}) (increase(proofstream_state_program_time_seconds_total{{{WHICH}}}[$window]))"
    return [
        number(
            About(
                title="Moved",
                text="What all runs wrote in the time shown.",
                unit="bytes",
                width=5,
            ),
            Query(
                expr=counted(f"proofstream_state_program_moved_bytes_total{{{WHICH}}}"),
                legend="in the time shown",
                once=True,
            ),
        ),
        lines(
            About(
                title="Moved by program",
                text="What the runs of each program wrote, over the window before each moment.",
                unit="bytes",
                width=10,
            ),
            Query(
                expr=f"sum by ({BY}) (increase(proofstream_state_program_moved_bytes_total{{{WHICH}}}[$window]))",
                legend=NAME,
            ),
            stacked=True,
        ),
        lines(
            About(
                title="Bandwidth by program",
                text="Bytes written over the time that the runs took, as far as the engine tells it, over the window "
                "before each moment. Far below what the memory can do: the copies are too small, or wait.",
                unit="binBps",
                width=9,
            ),
            Query(expr=f"{timed} / ({time} > 0)", legend=NAME),
        ),
        lines(
            About(
                title="Runs by program",
                text="How often each program ran, over the window before each moment. A rollback for each commit means "
                "that drafts are refused half of the time.",
                unit="short",
            ),
            Query(
                expr=f"sum by ({BY}) (increase(proofstream_state_program_runs_total{{{WHICH}}}[$window]))", legend=NAME
            ),
            stacked=True,
        ),
        lines(
            About(
                title="Sequences per run",
                text="For how many sequences at once each program ran, on average over the window before each moment.",
                unit="short",
            ),
            Query(
                expr=f"sum by ({BY}) (increase(proofstream_state_program_sequences_total{{{WHICH}}}[$window]))"
                f" / (sum by ({BY}) (increase(proofstream_state_program_runs_total{{{WHICH}}}[$window])) > 0)",
                legend=NAME,
            ),
        ),
    ]
