"""The tables of the closing report: time by layer kind, the slowest layers, the proofs, and state programs."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from proofstream import safe_text
from proofstream_console import words
from proofstream_console.durations import DurationTally, sources_of
from proofstream_console.formats import (
    DOT,
    UNKNOWN,
    bar,
    count,
    counted,
    duration,
    fine_percent,
    index,
    kind_style,
    shapes,
    size,
)
from proofstream_console.phase_summary import IN_PROOFS
from proofstream_console.proof_summary import LayerSummary, ProofSummary
from proofstream_console.run_summary import RunSummary
from proofstream_console.state_summary import StateProgramSummary

_WIDE = 64
_NARROW = 48
_MAX_ABORTED = 5
_MAX_PHASES = 12
"""Phases in their table: those that took the most time."""


def _table() -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("  ", width=0, no_wrap=True)
    return table


def _titled(title: str, table: Table, *remarks: str) -> Group:
    """Put a title above a table, and beneath it the remarks that are not empty.

    Not the table's own title and caption, which would be wrapped to the table's width.
    """
    said = "; ".join(filter(None, remarks))
    below = [Text(f"  {said}", style="dim")] if said else []
    return Group(Text(title, style="bold"), table, *below)


def kind_table(summary: RunSummary, width: int) -> Group:
    """Make the table of the time in layers, the kind that took the most first."""
    tallies = [*summary.by_kind.values(), *summary.parts.values()]
    table = _table()
    columns = _tally_columns(width)
    table.add_column("kind", no_wrap=True)
    for name in ("count", *columns, "share"):
        table.add_column(name, justify="right", no_wrap=True)
    bar_width = max(0, min(24, width - 62))
    if bar_width:
        table.add_column("", no_wrap=True)
    whole = sum(tally.total_ns for tally in summary.by_kind.values())
    for kind, tally in sorted(summary.by_kind.items(), key=lambda item: -item[1].total_ns):
        share = tally.total_ns / whole if whole else 0.0
        style = kind_style(kind)
        drawn = [Text(bar(share, bar_width), style=style)] if bar_width else []
        cells = _tally_cells(tally, columns)
        table.add_row("", Text(kind, style=style), *cells, Text(fine_percent(share)), *drawn)
    for part, tally in summary.parts.items():
        # They may overlap with layers, so they have no share.
        table.add_row("", Text(words.PARTS.get(part, part.value)), *_tally_cells(tally, columns))
    title = "Time in layers, by kind" + words.worth(sources_of(tallies))
    untimed = (words.untimed(summary.by_kind.values(), "layer"), words.untimed(summary.parts.values(), "part"))
    return _titled(title, table, *untimed)


def phase_table(summary: RunSummary, width: int) -> Group:
    """Make the table of the phases that took the most time."""
    phases = list(summary.phases)
    shown = phases[:_MAX_PHASES]
    tallies = [tally for _, _, tally in phases]
    table = _table()
    columns = ["total", *(["longest"] if width >= _WIDE else [])]
    whole = _time_of_all_proofs(summary)
    last = [*(["self"] if width >= _NARROW else []), *(["share"] if whole else [])]
    table.add_column(
        "phase", no_wrap=True, overflow="ellipsis", max_width=max(12, width - (44 if width >= _WIDE else 34))
    )
    for name in ("count", *columns, *last):
        table.add_column(name, justify="right", no_wrap=True)
    for where, name, tally in shown:
        cells = {
            "self": Text(duration(tally.self_ns) if tally.timed else UNKNOWN),
            "share": Text(fine_percent(tally.total_ns / whole) if whole and where == IN_PROOFS else ""),
        }
        title = Text(words.phase_title(where, name))
        table.add_row("", title, *_tally_cells(tally, columns), *(cells[column] for column in last))
    hidden = len(phases) - len(shown)
    more = f"{counted(hidden, 'more phase')} not shown" if hidden else ""
    return _titled("Phases" + words.worth(sources_of(tallies)), table, more, words.untimed(tallies, "phase"))


def _time_of_all_proofs(summary: RunSummary) -> int:
    """Return the time that all proofs took together; 0 if it is not known of each."""
    totals = summary.totals
    if summary.open_proofs or not totals.all_timed:
        return 0
    return totals.proof_time.total_ns + totals.aborted_time.total_ns


def _tally_columns(width: int) -> list[str]:
    return ["total", *(["mean"] if width >= _NARROW else []), *(["longest"] if width >= _WIDE else [])]


def _tally_cells(tally: DurationTally, columns: list[str]) -> list[Text]:
    values = {"total": tally.total_ns, "mean": tally.mean_ns, "longest": tally.longest_ns}
    return [
        Text(count(tally.count)),
        *(Text(_figure(tally, column, values[column]) if tally.timed else UNKNOWN) for column in columns),
    ]


def _figure(tally: DurationTally, column: str, ns: int) -> str:
    """Return a figure, or a bound of it where 0 ms are reported."""
    if column == "total":
        return words.total_time(tally)
    if column == "mean":
        bound = tally.bound_ns(tally.total_ns, tally.below_unit)
        bound = None if bound is None else bound // tally.timed
    else:
        bound = tally.bound_ns(ns, 1)
    return duration(ns) if bound is None else f"<{duration(bound)}"


def slowest_table(summary: RunSummary, width: int) -> Group:
    """Make the table of the slowest layers."""
    layers = summary.slowest
    title = "Slowest layers" if len(layers) > 1 else "Slowest layer"
    table = _table()
    many = summary.totals.proofs > 1
    wide = width >= _WIDE
    if many:
        table.add_column("proof", no_wrap=True, overflow="ellipsis", max_width=max(3, width // 4))
    table.add_column("layer", justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    if wide:
        table.add_column("shapes", no_wrap=True, overflow="ellipsis")
    for layer in layers:
        proof = [Text(words.layer_proof(layer))] if many else []
        cells = [
            Text(index(layer.index)),
            Text(layer.kind, style=kind_style(layer.kind)),
            Text(words.short_time(layer.took)),
        ]
        last = [_layer_note(layer)] if wide else []
        table.add_row("", *proof, *cells, Text(count(layer.rounds)), *last)
    return _titled(title + words.worth({layer.took.source for layer in layers}), table)


def _layer_note(layer: LayerSummary) -> Text:
    note = Text("")
    if layer.input_shape is not None and layer.output_shape is not None:
        note.append(shapes(layer.input_shape, layer.output_shape), "dim")
    remarks = [
        *(["aborted"] if layer.aborted else []),
        *([] if layer.start_seen else ["start not seen"]),
        *([] if layer.end_seen or layer.aborted else ["no end event"]),
    ]
    if remarks:
        note.append((f" {DOT} " if note else "") + ", ".join(remarks), "yellow")
    return note


def proof_table(summary: RunSummary, width: int) -> Group:
    """Make the table of the last proofs, preceded by the last aborted ones."""
    recent = {proof.number for proof in summary.recent}
    aborted = [proof for proof in summary.recent_aborted if proof.number not in recent][-_MAX_ABORTED:]
    shown = [*aborted, *summary.recent, *summary.open_proofs[: summary.recent.maxlen]]
    table = _table()
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("proof", no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
    table.add_column("layers", justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for proof in shown:
        took = summary.elapsed(proof.proof) if proof.proof is not None else proof.took
        table.add_row(
            "",
            Text(count(proof.number + 1)),
            Text(words.full_title(proof)),
            Text(count(proof.layers_done)),
            Text(count(proof.rounds)),
            Text(UNKNOWN if took is None else words.short_time(took)),
            _short_outcome(proof),
        )
    return _titled(_proofs_title(summary.totals.proofs, len(shown), len(aborted)), table)


def state_tables(summary: RunSummary, width: int) -> Iterator[Group]:
    """Yield a table for each state circuit: what the runs of its programs have moved."""
    circuits = summary.states.circuits
    for circuit in circuits:
        programs = [(name, program) for name, program in circuit.programs.items() if program.runs]
        which = words.state_convention(circuit) if len(circuits) == 1 else words.state_circuit(circuit)
        if programs:
            yield _titled(f"State programs ({which})", _state_table(programs, width))


def _state_table(programs: list[tuple[str, StateProgramSummary]], width: int) -> Table:
    table = _table()
    timed = any(program.timed_ns for _, program in programs)
    columns = ["runs", *(["sequences"] if width >= _NARROW else []), "moved", *(["bandwidth"] if timed else [])]
    table.add_column("program", no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for name, program in programs:
        cells = {
            "runs": count(program.runs),
            "sequences": count(program.sequences),
            "moved": size(program.moved_bytes),
            "bandwidth": words.bandwidth(program),
        }
        table.add_row("", Text(safe_text(name)), *(Text(cells[column]) for column in columns))
    return table


def _proofs_title(total: int, shown: int, aborted: int) -> str:
    if shown == total:
        return "Proofs"
    before = f", and {counted(aborted, 'aborted one')} before" if aborted else ""
    return f"Proofs (the last {count(shown - aborted)} of {count(total)}{before})"


def _short_outcome(proof: ProofSummary) -> Text:
    if proof.proof is not None:
        return Text("not finished", style="yellow")
    said = Text(words.short_outcome(proof), style="green" if proof.aborted_reason is None else "red")
    if proof.trace_id:
        said.append("\n").append_text(trace_text(proof))
    return said


def trace_text(proof: ProofSummary) -> Text:
    """Return a proof's trace id, with a remark if the trace is not exported."""
    trace = Text(safe_text(proof.trace_id or "", 64), style="cyan")
    return trace if proof.trace_sampled else trace.append(" (not sampled, not exported)", "yellow")
