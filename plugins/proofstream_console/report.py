"""The closing report: how the proofs ended, where the time went, what was lost, and what the numbers rest on."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from proofstream import IntervalKind
from proofstream_console import words
from proofstream_console.model import Model
from proofstream_console.summaries import LayerSummary, ProofSummary, Tally, Totals
from proofstream_console.text import CHECK, CROSS, DOT, WAIT, count, counted, duration, fine_percent, safe_text
from proofstream_console.view import kind_style, shapes

_WIDE = 64
_NARROW = 48
_PARTS = {
    IntervalKind.WEIGHT_OPENING: "weight opening",
    IntervalKind.WEIGHT_BINDING: "weight binding",
    IntervalKind.STARK_PROOF: "STARK proof",
}
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MAX_ABORTED = 5
_NOTABLE_SHARE = 0.01
_DISAGREE_NS = 100_000_000
_DISAGREE_RATIO = 1.25


def report(model: Model, *, width: int) -> RenderableType:
    """The report for a terminal of that width."""
    totals = model.totals
    if model.is_empty:
        return Text("Nothing was received.", style="yellow")
    blocks: list[RenderableType] = [*_headlines(model), _facts(model)]
    if totals.proofs > 1:
        blocks += [Text(""), _proof_table(model, width)]
    if model.by_kind or model.parts:
        blocks += [Text(""), _kind_table(model, width)]
    if model.slowest and totals.proofs:
        blocks += [Text(""), _slowest_table(model, width)]
    return Group(*blocks)


# How it ended


def _headlines(model: Model) -> Iterator[Text]:
    open_proofs, totals = model.open_proofs, model.totals
    if not totals.proofs:
        yield Text("No proof was seen.", style="bold yellow")
    elif totals.proofs == 1:
        for proof in (*model.recent, *open_proofs):
            yield _headline(model, proof)
    else:
        parts = [f"{count(totals.complete)} complete"]
        parts += [f"{count(totals.aborted)} aborted"] if totals.aborted else []
        parts += [f"{count(len(open_proofs))} not finished"] if open_proofs else []
        good = totals.complete == totals.proofs
        mark, style = (CHECK, "bold green") if good else (CROSS, "bold red")
        yield Text(f"{mark} ", style=style).append(f"{counted(totals.proofs, 'proof')}: {', '.join(parts)}", "bold")


def _headline(model: Model, proof: ProofSummary) -> Text:
    title = words.full_title(proof)
    if proof.proof is not None:
        active = proof.proof.active_layers
        place = f", in layer {active[-1].key} {active[-1].layer_kind}" if active else ""
        after = duration(model.elapsed_ns(proof.proof))
        return (
            Text(f"{WAIT} ", style="bold yellow").append(title, "bold").append(f": not finished after {after}{place}")
        )
    good = proof.aborted_reason is None
    mark, style = (CHECK, "bold green") if good else (CROSS, "bold red")
    return Text(f"{mark} ", style=style).append(title, "bold").append(": ").append(words.outcome(proof), style)


# What is known besides


def _facts(model: Model) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _fact_rows(model):
        table.add_row(Text(f"  {name}"), value)
    return table


def _fact_rows(model: Model) -> Iterator[tuple[str, Text]]:
    if model.totals.proofs:
        yield from _proof_facts(model)
    yield "lost", _counted_or_nothing(model.lost, "event")
    yield "refused", _counted_or_nothing(model.totals.refused, "line")
    if model.time_sources:
        yield "times", Text("; ".join(words.TIME_SOURCES.get(s, safe_text(s)) for s in sorted(model.time_sources)))
    if said := _disagreement(model):
        yield "", Text(said, style="yellow")
    yield from _sessions(model)
    for device in model.devices.known:
        yield "device", Text(words.device_line(device))
    for health in model.troubled_plugins:
        yield "trouble", Text(words.plugin_trouble(health), style="red")


def _proof_facts(model: Model) -> Iterator[tuple[str, Text]]:
    totals, proofs = model.totals, [*model.open_proofs, *model.recent]
    if totals.proofs == 1:
        yield "layers", Text(words.layers_of(proofs[0]) + _without_end(proofs[0].layers_without_end))
    else:
        done = totals.layers_done + sum(proof.layers_done for proof in model.open_proofs)
        yield "layers", Text(count(done) + _without_end(totals.layers_without_end))
    yield "rounds", Text(count(model.rounds))
    times = totals.proof_time
    if times.count > 1:
        yield "proof time", Text(f"{duration(times.mean_ns)} on average, {duration(times.longest_ns)} at most")
    if totals.proofs == 1 and proofs[0].trace_id:
        yield "trace", Text(safe_text(proofs[0].trace_id, 64), style="cyan")


def _sessions(model: Model) -> Iterator[tuple[str, Text]]:
    totals = model.totals
    if totals.sessions == 1 and model.sources:
        yield "source", Text(safe_text(model.sources[0]))
    elif totals.sessions > 1:
        yield "sources", Text(f"{counted(totals.sessions, 'session')}, the last from {safe_text(model.sources[-1])}")
    if totals.broken_off:
        why = f", the last: {safe_text(totals.broken_reason)}" if totals.broken_reason else ""
        yield "broken off", Text(f"{counted(totals.broken_off, 'session')}{why}", style="yellow")


def _without_end(layers: int) -> str:
    if not layers:
        return ""
    return f", {count(layers)} of them without an end event"


def _counted_or_nothing(number: int, noun: str) -> Text:
    return Text(counted(number, noun), style="bold red") if number else Text("nothing", style="dim")


def _disagreement(model: Model) -> str:
    """The producer's own sum of layer times, where it is far from the measured one of the same layers."""
    sums: list[Totals | ProofSummary] = [model.totals, *model.open_proofs]
    measured = sum(each.measured_ns for each in sums)
    reported = sum(each.reported_ms for each in sums) * 1_000_000
    far = reported > measured * _DISAGREE_RATIO or measured > reported * _DISAGREE_RATIO
    if not reported or not far or abs(reported - measured) < _DISAGREE_NS:
        return ""
    return f"the producer reports {duration(reported)} for its layers, not {duration(measured)}"


# Tables


def _table(title: str) -> Table:
    table = Table(
        box=None,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    table.add_column("  ", width=0, no_wrap=True)
    return table


def _kind_table(model: Model, width: int) -> Table:
    table = _table("Time by layer kind")
    columns = _tally_columns(width)
    table.add_column("kind", no_wrap=True)
    for name in ("count", *columns, "share"):
        table.add_column(name, justify="right", no_wrap=True)
    bar_width = max(0, min(24, width - 62))
    if bar_width:
        table.add_column("", no_wrap=True)
    whole = sum(tally.total_ns for tally in model.by_kind.values())
    for kind, tally in sorted(model.by_kind.items(), key=lambda item: -item[1].total_ns):
        share = tally.total_ns / whole if whole else 0.0
        style = kind_style(kind)
        bar = [Text(_bar(share, bar_width), style=style)] if bar_width else []
        cells = _tally_cells(tally, columns)
        table.add_row("", Text(kind, style=style), *cells, Text(fine_percent(share)), *bar)
    for name, tally in _other_times(model):
        table.add_row("", Text(name), *_tally_cells(tally, columns))
    return table


def _other_times(model: Model) -> Iterator[tuple[str, Tally]]:
    """What takes time and is no layer; it may overlap with layers, and has no share for that."""
    for part, tally in model.parts.items():
        yield _PARTS[part], tally
    after = model.totals.after_layers
    if after.total_ns > model.totals.proof_time.total_ns * _NOTABLE_SHARE:
        yield "after layers", after


def _tally_columns(width: int) -> list[str]:
    return ["total", *(["mean"] if width >= _NARROW else []), *(["longest"] if width >= _WIDE else [])]


def _tally_cells(tally: Tally, columns: list[str]) -> list[Text]:
    values = {"total": tally.total_ns, "mean": tally.mean_ns, "longest": tally.longest_ns}
    return [Text(count(tally.count)), *(Text(duration(values[column])) for column in columns)]


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).strip()


def _slowest_table(model: Model, width: int) -> Table:
    layers = model.slowest
    table = _table("Slowest layers" if len(layers) > 1 else "Slowest layer")
    many = model.totals.proofs > 1
    wide = width >= _WIDE
    for name in [*(["proof"] if many else []), "layer"]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    if wide:
        table.add_column("shapes", no_wrap=True, overflow="ellipsis")
    for layer in layers:
        proof = [Text(count(layer.proof_number + 1))] if many else []
        cells = [
            Text(str(layer.index)),
            Text(layer.kind, style=kind_style(layer.kind)),
            Text(duration(layer.duration_ns)),
        ]
        last = [_layer_note(layer)] if wide else []
        table.add_row("", *proof, *cells, Text(count(layer.rounds)), *last)
    return table


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


def _proof_table(model: Model, width: int) -> Table:
    recent = {proof.number for proof in model.recent}
    aborted = [proof for proof in model.recent_aborted if proof.number not in recent][-_MAX_ABORTED:]
    shown = [*aborted, *model.recent, *model.open_proofs[: model.recent.maxlen]]
    table = _table(_proofs_title(model.totals.proofs, len(shown), len(aborted)))
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("proof", no_wrap=True, overflow="ellipsis", max_width=max(12, width // 3))
    table.add_column("layers", justify="right", no_wrap=True)
    table.add_column("rounds", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("outcome", overflow="fold")
    for proof in shown:
        open_ns = model.elapsed_ns(proof.proof) if proof.proof is not None else 0
        time = duration(open_ns if proof.duration_ns is None else proof.duration_ns)
        table.add_row(
            "",
            Text(count(proof.number + 1)),
            Text(words.full_title(proof)),
            Text(count(proof.layers_done)),
            Text(count(proof.rounds)),
            Text(time),
            _short_outcome(proof),
        )
    return table


def _proofs_title(total: int, shown: int, aborted: int) -> str:
    if shown == total:
        return "Proofs"
    before = f", and {counted(aborted, 'aborted one')} before" if aborted else ""
    return f"Proofs (the last {count(shown - aborted)} of {count(total)}{before})"


def _short_outcome(proof: ProofSummary) -> Text:
    if proof.proof is not None:
        return Text("not finished", style="yellow")
    if proof.aborted_reason is None:
        said = Text("complete", style="green")
    else:
        said = Text(f"aborted{words.last_place(proof)}: {safe_text(proof.aborted_reason)}", style="red")
    if proof.trace_id:
        said.append(f"\n{safe_text(proof.trace_id, 64)}", "dim cyan")
    return said
