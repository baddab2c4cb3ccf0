"""The strip of a proof's layers: rows of marks, the taller the longer a layer took."""

from __future__ import annotations

import math
from itertools import groupby

from rich.text import Text

from proofstream_console.formats import CROSS, DOT, LEVELS, LINE, RUNNING, kind_style
from proofstream_console.layer_strip import Cell, Folded

_LEVELS_PER_DECADE = 3
"""How much taller a mark is for ten times the time."""


def draw_strip(strip: Folded, *, width: int) -> list[Text]:
    """Return rows of marks, all but the last equally long. Layers that have not begun are dots."""
    marks = [_mark(cell, strip.longest_ns, is_running=at in strip.running) for at, cell in enumerate(strip.cells)]
    marks += [(DOT, "bright_black")] * strip.to_come
    if not marks:
        return []
    each = math.ceil(len(marks) / math.ceil(len(marks) / max(1, width)))
    return [_row(marks[at : at + each]) for at in range(0, len(marks), each)]


def _row(marks: list[tuple[str, str]]) -> Text:
    """Return one row. Neighbours of one style are one piece, because each piece costs rich as much as a line."""
    pieces = (
        ("".join(glyph for glyph, _ in alike), style) for style, alike in groupby(marks, key=lambda mark: mark[1])
    )
    return Text.assemble("  ", *pieces)


def _mark(cell: Cell, longest_ns: int, *, is_running: bool) -> tuple[str, str]:
    if cell.aborted:
        return CROSS, "red"
    if is_running:
        return RUNNING, "bold"
    if not cell.longest_ns:
        return LINE, kind_style(cell.kind)  # it was left, and its time is not known
    below = round(math.log10(longest_ns / cell.longest_ns) * _LEVELS_PER_DECADE)
    return LEVELS[max(0, len(LEVELS) - 1 - below)], kind_style(cell.kind)
