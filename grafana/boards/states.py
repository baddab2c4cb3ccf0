"""The dashboard "State traffic", which shows the costs of a model's state programs and the bytes an engine moves."""

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
    """Build the dashboard."""
    made = board(
        uid="proofstream-states",
        title="State traffic",
        text="Bytes that the programs which move a model's recurrent state write for one sequence, and bytes that an "
        "inference engine has moved with them. Bytes are computed from the states' declarations, by the convention "
        "shown.",
        variables=[
            choice("circuit", "State circuit", "State circuits to show", f"label_values({COST}, {CIRCUIT})"),
            choice("convention", "Convention", "Convention for counting states", f"label_values({COST}, {CONVENTION})"),
            window(),
        ],
    )
    row(made, "Costs", *_costs())
    row(made, "Traffic", *_traffic())
    return made


def _costs() -> list[Any]:
    # Many processes may report the costs of the same circuit.
    each = f"max by ({BY}, {KIND}, {GROUP}) (last_over_time({COST}{{{WHICH}}}[$__range]))"
    return [
        number(
            About(
                title="Bytes per sequence",
                text="Bytes that one run of a program writes for one sequence, over all states. A copy also reads, so "
                "the memory traffic is about twice as much.",
                unit="bytes",
                width=10,
            ),
            Query(expr=f"sum by ({BY}) ({each})", legend=NAME, once=True),
        ),
        rows(
            About(
                title="Bytes per sequence, by states",
                text="Bytes by block and state, such as mamba.conv. Compare only figures of the same convention, "
                "because conventions give different numbers for the same model.",
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
                text="Bytes that all runs wrote in the time range.",
                unit="bytes",
                width=5,
            ),
            Query(
                expr=counted(f"proofstream_state_program_moved_bytes_total{{{WHICH}}}"),
                legend="in the time range",
                once=True,
            ),
        ),
        lines(
            About(
                title="Moved by program",
                text="Bytes that the runs of each program wrote, over the window before each point.",
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
                text="Bytes written, divided by the time of the runs that the engine timed, over the window before "
                "each point. Far below the memory's bandwidth means that the copies are too small, or wait.",
                unit="binBps",
                width=9,
            ),
            Query(expr=f"{timed} / ({time} > 0)", legend=NAME),
        ),
        lines(
            About(
                title="Runs by program",
                text="Number of runs of each program, over the window before each point. One rollback per commit "
                "means that half of the drafts are rejected.",
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
                text="Mean number of sequences in one run of each program, over the window before each point.",
                unit="short",
            ),
            Query(
                expr=f"sum by ({BY}) (increase(proofstream_state_program_sequences_total{{{WHICH}}}[$window]))"
                f" / (sum by ({BY}) (increase(proofstream_state_program_runs_total{{{WHICH}}}[$window])) > 0)",
                legend=NAME,
            ),
        ),
    ]
