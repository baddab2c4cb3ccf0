"""The closing report: how the proofs ended, where the time went, what was lost, and what the numbers rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proofstream import LogLevel, safe_text
from proofstream_console import words
from proofstream_console.durations import sources_of
from proofstream_console.formats import CHECK, CROSS, WAIT, count, counted, duration
from proofstream_console.proof_summary import ProofSummary
from proofstream_console.report_tables import (
    kind_table,
    phase_table,
    proof_table,
    slowest_table,
    state_tables,
    trace_text,
)
from proofstream_console.run_summary import RunSummary
from proofstream_console.totals import Totals

_DISAGREE_NS = 100_000_000
_DISAGREE_PERCENT = 125
_MAX_TROUBLED = 16


def closing_report(summary: RunSummary, *, width: int) -> RenderableType:
    """Make the report for a terminal of that width."""
    totals = summary.totals
    if summary.is_empty:
        return Text("Nothing was received.", style="yellow")
    blocks: list[RenderableType] = [*_headlines(summary), _grid(_facts(summary))]
    if totals.proofs > 1:
        blocks += [Text(""), proof_table(summary, width)]
    if summary.by_kind or summary.parts:
        blocks += [Text(""), kind_table(summary, width)]
    if len(summary.phases):
        blocks += [Text(""), phase_table(summary, width)]
    if summary.slowest and totals.proofs:
        blocks += [Text(""), slowest_table(summary, width)]
    for table in state_tables(summary, width):
        blocks += [Text(""), table]
    if summary.report_lines:
        blocks += [Text(""), _grid(_plugin_lines(summary))]
    return Group(*blocks)


# How it ended


def _headlines(summary: RunSummary) -> Iterator[Text]:
    open_proofs, totals = summary.open_proofs, summary.totals
    if not totals.proofs:
        parts = [counted(tally.count, words.PARTS.get(part, part.value)) for part, tally in summary.parts.items()]
        beside = f", but {' and '.join(parts)} outside of one" if parts else ""
        yield Text(f"No proof was seen{beside}.", style="bold yellow")
    elif totals.proofs == 1:
        for proof in (*summary.recent, *open_proofs):
            yield _headline(summary, proof)
    else:
        ended = [f"{count(totals.complete)} complete"]
        ended += [f"{count(totals.aborted)} aborted"] if totals.aborted else []
        ended += [f"{count(len(open_proofs))} not finished"] if open_proofs else []
        good = totals.complete == totals.proofs
        mark, style = (CHECK, "bold green") if good else (CROSS, "bold red")
        yield Text(f"{mark} ", style=style).append(f"{counted(totals.proofs, 'proof')}: {', '.join(ended)}", "bold")


def _headline(summary: RunSummary, proof: ProofSummary) -> Text:
    title = words.full_title(proof)
    if proof.proof is not None:
        said = words.not_finished(proof, summary.elapsed)
        return Text(f"{WAIT} ", style="bold yellow").append(title, "bold").append(f": {said}")
    good = proof.aborted_reason is None
    mark, style = (CHECK, "bold green") if good else (CROSS, "bold red")
    return Text(f"{mark} ", style=style).append(title, "bold").append(": ").append(words.outcome(proof), style)


# The facts beneath the headline


def _grid(rows: Iterable[tuple[str, Text]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(f"  {name}"), value)
    return table


def _facts(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    if summary.totals.proofs:
        yield from _proof_facts(summary)
    yield "lost", _counted_or_nothing(summary.totals.lost, "event")
    yield "refused", _counted_or_nothing(summary.totals.refused, "line")
    if summary.unknown_kinds:
        yield "unknown", Text(words.unknown_kinds(summary.unknown_kinds), style="yellow")
    if log_counts := _log_counts(summary):
        yield "log", log_counts
    if summary.time_sources:
        yield "times", Text(words.times(summary.time_sources, summary.time_resolution_ns))
    if said := _disagreement(summary):
        yield "", Text(said, style="yellow")
    yield from _sessions(summary)
    if summary.totals.at_once:
        yield "at once", Text(words.sessions_at_once(summary.totals.at_once), style="yellow")
    yield from _devices(summary)
    yield from _states(summary)
    yield from _trouble(summary)


def _devices(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    for line in words.device_lines(summary.devices, whole_run=True):
        yield "device", Text(line)
    if said := words.energy(summary.energy, summary.devices):
        yield "energy", Text(said)


def _trouble(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    troubled = summary.troubled_plugins
    for health in troubled[:_MAX_TROUBLED]:
        yield "trouble", Text(words.plugin_trouble(health), style="red")
    if (more := len(troubled) - _MAX_TROUBLED) > 0:
        yield "", Text(f"and {counted(more, 'more plugin')} in trouble", style="red")


def _plugin_lines(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    """Yield the lines that plugins added, each under its plugin's name."""
    for plugin, text in summary.report_lines:
        yield safe_text(plugin, words.MAX_NAME), Text(safe_text(text, words.MAX_MESSAGE))
    if summary.report_lines_left_out:
        yield "", Text(words.hidden_lines(summary.report_lines_left_out), style="dim")


def _proof_facts(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    totals, proofs = summary.totals, [*summary.open_proofs, *summary.recent]
    if totals.proofs == 1:
        yield "layers", Text(words.layers_of(proofs[0]) + _without_end(proofs[0].layers_without_end))
    else:
        done = totals.layers_done + sum(proof.layers_done for proof in summary.open_proofs)
        yield "layers", Text(count(done) + _without_end(totals.layers_without_end))
    yield "rounds", Text(count(summary.rounds))
    if said := words.proof_times(totals.proof_time):
        yield "proof time", Text(said)
    if said := _stages(summary, proofs[0] if totals.proofs == 1 else None):
        yield "stages", Text(said)
    if totals.proofs == 1 and proofs[0].trace_id:
        yield "trace", trace_text(proofs[0])


def _stages(summary: RunSummary, only: ProofSummary | None) -> str:
    """Return the time in each stage, of the only proof or of all complete proofs together."""
    if only is not None:
        known = [(name, took) for name, took in only.stages if took.is_known]
        whole = only.took.ns if only.took is not None and only.took.is_known else 0
        return words.stages([(name, took.ns) for name, took in known], whole, {took.source for _, took in known})
    stages = summary.totals.stages or {"layers": summary.totals.layers_time}
    tallies = [(name, tally) for name, tally in stages.items() if tally.timed]
    whole = summary.totals.proof_time.total_ns if summary.totals.stages else 0
    return words.stages(
        [(name, tally.total_ns) for name, tally in tallies], whole, sources_of(tally for _, tally in tallies)
    )


def _log_counts(summary: RunSummary) -> Text:
    errors, warnings = summary.log_counts.get(LogLevel.Error, 0), summary.log_counts.get(LogLevel.Warn, 0)
    said = [counted(errors, "error")] if errors else []
    said += [counted(warnings, "warning")] if warnings else []
    return Text(", ".join(said), style="red" if errors else "yellow")


def _sessions(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    totals = summary.totals
    if totals.sessions == 1 and summary.sources:
        yield "source", Text(safe_text(summary.sources[0]))
    elif totals.sessions > 1:
        yield "sources", Text(f"{counted(totals.sessions, 'session')}, the last from {safe_text(summary.sources[-1])}")
    if totals.broken_off:
        why = f", the last: {safe_text(totals.broken_reason)}" if totals.broken_reason else ""
        yield "broken off", Text(f"{counted(totals.broken_off, 'session')}{why}", style="yellow")


def _states(summary: RunSummary) -> Iterator[tuple[str, Text]]:
    for circuit in summary.states.circuits:
        yield "state", Text(words.state_costs(circuit))
    if summary.states.forgotten:
        yield "", Text(f"and {counted(summary.states.forgotten, 'state circuit')} before", style="dim")


def _without_end(layers: int) -> str:
    if not layers:
        return ""
    return f", {count(layers)} of them without an end event"


def _counted_or_nothing(number: int, noun: str) -> Text:
    return Text(counted(number, noun), style="bold red") if number else Text(f"no {noun}s", style="dim")


def _disagreement(summary: RunSummary) -> str:
    """Return a remark if the producer's own sum of layer times is far from the measured sum of the same layers."""
    sums: list[Totals | ProofSummary] = [summary.totals, *summary.open_proofs]
    measured = sum(each.measured_ns for each in sums)
    reported = sum(each.reported_ms for each in sums) * 1_000_000
    far = max(reported, measured) * 100 > min(reported, measured) * _DISAGREE_PERCENT
    if not reported or not far or abs(reported - measured) < _DISAGREE_NS:
        return ""
    return f"the producer reports {duration(reported)} for its layers, not {duration(measured)}"
