"""The command's answer as text: how states were counted, the tables, and notes on the numbers."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from proofstream import safe_text
from proofstream_state_cost.settings import Settings
from proofstream_state_cost.states.state_circuit import is_moved
from proofstream_state_cost.tool.cost_tables import (
    StateRow,
    comparison_table,
    format_count,
    label_of,
    plan_table,
    programs_table,
    rate_table,
    row_of,
    states_table,
)
from proofstream_state_cost.tool.priced_circuit import PricedCircuit, unread_note

_WIDEST = 3
_UNBOUNDED = 10_000
_NARROWEST = 40
_WRITTEN = "bytes are those that a program writes; a copy reads as many"
_SPEED = "at {rate:f}/s means bytes a second, at so many checkpoints a second of one sequence"
_PICK = "each program around a verify writes the total once; --convention NAME shows them one by one"
_NO_STATE = "No layer keeps recurrent state: the programs around a verify write nothing."


def one_convention(priced: PricedCircuit, settings: Settings, *, width: int) -> Iterator[RenderableType]:
    """Compose the answer for one convention."""
    costs = priced.costs
    yield _headline(
        costs.name, costs.circuit.recurrent_layers, f"{format_count(costs.live_bytes)} bytes of recurrent state"
    )
    yield _listed([("convention", f"{costs.convention}: {priced.counts}")])
    yield Text("")
    if costs.circuit.recurrent_states:
        yield states_table(priced)
        yield from _widest(priced)
        yield Text("")
        yield programs_table(priced, slots=settings.slots, width=width)
        yield Text("")
        if settings.rate is not None:
            yield rate_table(priced, settings.rate, slots=settings.slots)
            yield Text("")
    else:
        yield Text(_NO_STATE)
        yield Text("")
    if priced.plan is not None:
        yield plan_table(priced, priced.plan)
        yield Text("")
    yield _notes([*_unmoved(priced), *priced.notes, *map(unread_note, priced.unread)])


def several_conventions(
    all_priced: Sequence[PricedCircuit], settings: Settings, *, left_out: Sequence[str]
) -> Iterator[RenderableType]:
    """Compose the answer for all conventions side by side."""
    costs = all_priced[0].costs
    yield _headline(costs.name, costs.circuit.recurrent_layers, "by convention")
    yield _listed((priced.costs.convention, priced.counts) for priced in all_priced)
    yield Text("")
    if costs.circuit.recurrent_states:
        yield comparison_table(all_priced, settings)
    else:
        yield Text(_NO_STATE)
    yield Text("")
    shared = [note for note in all_priced[0].notes if all(note in priced.notes for priced in all_priced)]
    own = [f"{priced.costs.convention}: {note}" for priced in all_priced for note in priced.notes if note not in shared]
    speed = [] if settings.rate is None else [_SPEED.format(rate=settings.rate)]
    unread = [unread_note(key) for key in all_priced[0].unread if all(key in priced.unread for priced in all_priced)]
    yield _notes([*([_PICK] if costs.circuit.recurrent_states else []), *speed, *left_out, *shared, *own, *unread])


def _listed(rows: Iterable[tuple[str, str]], *, style: str = "") -> Table:
    """Return a table of names and texts; a long text is folded."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold", style=style)
    for name, text in rows:
        table.add_row(_text(name), _text(text))
    return table


def render_text(parts: Iterator[RenderableType], *, width: int, colour: bool) -> str:
    """Render an answer for a terminal of this width. A wider table keeps its width, so that no number is cut."""
    console = Console(file=io.StringIO(), force_terminal=colour, highlight=False, emoji=False)
    with console.capture() as capture:
        for part in parts:
            console.width = max(width, _needed(part, console))
            console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _needed(part: RenderableType, console: Console) -> int:
    """Return the width that a table of numbers needs; other text can be folded."""
    if not isinstance(part, Table) or not all(column.no_wrap for column in part.columns):
        return _NARROWEST
    return console.measure(part, options=console.options.update(width=_UNBOUNDED)).maximum


def _headline(name: str, layers: int, what: str) -> Text:
    plural = "layer" if layers == 1 else "layers"
    return _text(f"{name}: {format_count(layers)} recurrent {plural}, {what}", style="bold")


def _text(text: str, *, style: str = "") -> Text:
    """Make text safe to print, since parts of it were read from a file. Nothing is cut."""
    return Text(safe_text(text, limit=len(text)), style=style)


def _widest(priced: PricedCircuit) -> Iterator[Text]:
    """Yield the widest states: one of each size, and how many others are as wide."""
    alike: dict[StateRow, list[str]] = {}
    for state in priced.costs.circuit.recurrent_states:
        alike.setdefault(row_of(state, priced), []).append(state.id)
    widest = sorted(alike.items(), key=lambda item: -item[0].each)
    for position, (row, ids) in enumerate(islice(widest, _WIDEST)):
        others = f", and {format_count(len(ids) - 1)} more" if len(ids) > 1 else ""
        size = f"{format_count(row.each)} bytes = {format_count(row.elements)} elements x {row.dtype}"
        yield Text(f"{'widest' if not position else 'then':<6}  {ids[0]}{others}: {size}", style="dim")


def _unmoved(priced: PricedCircuit) -> Iterator[str]:
    states = [state for state in priced.costs.circuit.states if not is_moved(state) and state.of is None]
    others = dict.fromkeys(map(label_of, states))
    if others:
        yield f"no program moves {', '.join(others)}"


def _notes(notes: Sequence[str]) -> Table:
    return _listed((("note", note) for note in (_WRITTEN, *notes)), style="dim")
