"""The panels of the live view in a large terminal: time by kind, the slowest layers and the last ones, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.text import Text

from proofstream_console import words
from proofstream_console.formats import UNKNOWN, bar, count, counted, duration, fine_percent, index, kind_style, shapes
from proofstream_console.proof_summary import LayerSummary
from proofstream_console.proof_view import append_if_fits
from proofstream_console.run_summary import RunSummary

_LEAST_LINES = 4
"""A panel of fewer says too little."""

_MAX_LINES = 9
_LEAST_WIDTH = 38
_WIDEST = 51
"""Three of them are as wide as the lines above."""

_GAP = 3
_BAR_MAX = 20
_TOTAL_FROM_WIDTH, _COUNT_FROM_WIDTH = 46, 50


def draw_panels(summary: RunSummary, *, width: int, room: int, rows: int) -> list[Text]:
    """Return the panels that fit, in so many rows, as many beside each other as the width allows."""
    across = max(1, min(3, (width + _GAP) // (_LEAST_WIDTH + _GAP)))
    each = min(_WIDEST, (width + _GAP) // across - _GAP)
    lines: list[Text] = []
    for first in range(0, min(len(_PANELS), rows * across), across):
        height = min(_MAX_LINES, room - len(lines) - bool(lines))
        if height < _LEAST_LINES:
            break
        panels = [draw(summary, each, height) for draw in _PANELS[first : first + across]]
        lines += [Text("")] * bool(lines) + _beside(panels, each)
    return lines


def _beside(panels: Sequence[Sequence[Text]], width: int) -> list[Text]:
    lines: list[Text] = []
    for parts in zip_longest(*panels, fillvalue=Text("")):
        line = Text("")
        for number, part in enumerate(parts):
            column = part.copy()
            column.truncate(width, overflow="ellipsis", pad=number < len(parts) - 1)
            line.append_text(Text(" " * _GAP if number else "")).append_text(column)
        line.rstrip()
        lines.append(line)
    return lines


def _kinds(summary: RunSummary, width: int, height: int) -> list[Text]:
    tallies = sorted(summary.by_kind.items(), key=lambda item: -item[1].total_ns)
    whole = sum(tally.total_ns for _, tally in tallies)
    layers = sum(tally.count for _, tally in tallies)
    title = Text("  time in layers, by kind", style="dim")
    said = f"   {duration(whole) if whole else UNKNOWN} in {counted(layers, 'layer')}"
    lines = [append_if_fits(title, Text(said, style="dim"), width)]
    for kind, tally in tallies[: height - 1]:
        line = Text("  ").append(f"{kind:<10}", kind_style(kind))
        line.append(f" {fine_percent(tally.total_ns / whole) if whole else UNKNOWN:>7}")
        if width >= _TOTAL_FROM_WIDTH:
            line.append(f" {words.total_time(tally):>8}", "dim")
        if width >= _COUNT_FROM_WIDTH:
            line.append(f" {count(tally.count):>7}", "dim")
        room = min(_BAR_MAX, width - cell_len(line.plain) - 2)
        lines.append(line.append(f"  {bar(tally.total_ns / whole if whole else 0.0, room)}", kind_style(kind)))
    return lines


def _slowest(summary: RunSummary, width: int, height: int) -> list[Text]:
    return _layers("slowest layers", summary.slowest[: height - 1], width, many=summary.totals.proofs > 1)


def _last(summary: RunSummary, width: int, height: int) -> list[Text]:
    return _layers("last layers", list(summary.last_layers)[:-height:-1], width, many=summary.totals.proofs > 1)


def _layers(title: str, layers: Sequence[LayerSummary], width: int, *, many: bool) -> list[Text]:
    lines = [Text(f"  {title}", style="dim")]
    for layer in layers:
        line = Text(f"  {index(layer.index):>4}  ").append(f"{layer.kind:<10}", kind_style(layer.kind))
        line.append(f" {words.short_time(layer.took):>9}")
        if many:
            number, _, model = words.layer_proof(layer).partition(" ")
            line.append(f"  proof {number}", "dim")
            line = append_if_fits(line, Text(f" {model}", style="dim"), width)
        for detail in _details(layer):
            line = append_if_fits(line, Text(f"  {detail}", style="dim"), width)
        lines.append(line)
    return lines


def _details(layer: LayerSummary) -> list[str]:
    details = ["aborted"] if layer.aborted else []
    if layer.input_shape is not None and layer.output_shape is not None:
        details.append(shapes(layer.input_shape, layer.output_shape))
    return [*details, counted(layer.rounds, "round")] if layer.rounds else details


_PANELS = (_kinds, _slowest, _last)
"""The most important ones first."""
