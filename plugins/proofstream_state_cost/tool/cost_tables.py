"""The tables of the command's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from rich.table import Table
from rich.text import Text

from proofstream_state_cost.settings import Settings
from proofstream_state_cost.states.costing import ProgramCost
from proofstream_state_cost.states.plan import StatePlan
from proofstream_state_cost.states.state_circuit import CircuitState, Section
from proofstream_state_cost.states.u64 import u64_product, u64_sum
from proofstream_state_cost.tool.priced_circuit import VERIFY_RUNS, PricedCircuit, per_second

_MIB = 2**20
_ROOM_FOR_OP = 100
_TOTAL = "total"


@dataclass(frozen=True, slots=True)
class StateRow:
    """A row of a table: states of one group, one size and one dtype."""

    label: str
    elements: int
    dtype: str
    each: int


def states_table(priced: PricedCircuit) -> Table:
    """Make the table of the states that programs move, by group."""
    table = _table("group", "states", "elements", "dtype", "bytes each", "bytes", "MiB", left=("group", "dtype"))
    rows: dict[StateRow, int] = {}
    for state in priced.costs.circuit.recurrent_states:
        row = row_of(state, priced)
        rows[row] = rows.get(row, 0) + 1
    for row, count in rows.items():
        whole = u64_product(row.each, count, subject=row.label)
        cells = (
            format_count(count),
            format_count(row.elements),
            row.dtype,
            format_count(row.each),
            format_count(whole),
            format_mib(whole),
        )
        table.add_row(row.label, *cells)
    all_bytes = priced.costs.live_bytes
    table.add_row(
        _TOTAL,
        format_count(sum(rows.values())),
        "",
        "",
        "",
        format_count(all_bytes),
        format_mib(all_bytes),
        style="bold",
    )
    return table


def row_of(state: CircuitState, priced: PricedCircuit) -> StateRow:
    """Return the row to which a state belongs."""
    formats = priced.costs.formats
    return StateRow(label_of(state), state.elements, state.dtype(formats).value, state.unit_bytes(formats))


def label_of(state: CircuitState) -> str:
    """Return the label that a state shares with the other states of its group."""
    return state.group if state.section is Section.MAIN else f"draft {state.group}"


def programs_table(priced: PricedCircuit, *, slots: int | None, width: int) -> Table:
    """Make the table of the bytes that one run of each program writes, by program and group."""
    with_op = width >= _ROOM_FOR_OP
    columns = ["program", *(["what it does"] if with_op else []), "bytes", "MiB"]
    if slots is not None:
        columns += [f"{format_count(slots)} slots, bytes", "MiB"]
    table = _table(*columns, left=("program", "what it does"))
    for cost in priced.costs.programs.values():
        what = what_it_does(cost)
        first = [cost.name, what] if with_op else [cost.name]
        table.add_row(*first, *_amounts(cost.bytes, slots, cost.name), style="bold")
        if not with_op:
            table.add_row(Text(f"  {what}", style="dim"))
        for group in cost.groups:
            name = Text(f"  {group.group}")
            table.add_row(name, *([""] if with_op else []), *_amounts(group.bytes, slots, group.group))
    return table


def what_it_does(cost: ProgramCost) -> str:
    """Return a program's operation with its places: `copy live -> checkpoint`."""
    program = cost.priced.program
    moved = program.to.value if program.from_ is None else f"{program.from_.value} -> {program.to.value}"
    return f"{program.op.value} {moved}"


def rate_table(priced: PricedCircuit, rate: Decimal, *, slots: int | None) -> Table:
    """Make the table of bytes a second at a rate of verifies."""
    columns = [f"at {rate:f} verifies/s", "bytes/s", "MiB/s"]
    if slots is not None:
        columns += [f"{format_count(slots)} slots, bytes/s", "MiB/s"]
    table = _table(*columns, left=(columns[0],))
    programs = priced.costs.programs
    for name in VERIFY_RUNS:
        table.add_row(name, *_speeds(programs[name].bytes, rate, slots, name))
    checkpoint = programs[VERIFY_RUNS[0]].bytes
    then = max(programs[name].bytes for name in VERIFY_RUNS[1:])
    whole = u64_sum((name, size) for name, size in (("a verify", checkpoint), ("a verify", then)))
    table.add_row("checkpoint, then one", *_speeds(whole, rate, slots, "a verify"), style="bold")
    return table


def plan_table(priced: PricedCircuit, plan: StatePlan) -> Table:
    """Make the table of the memory that an engine holds, by group and holding."""
    table = _table("plan", "held as", "states", "units each", "bytes", "MiB", left=("plan", "held as"))
    sums: dict[tuple[str, str, int], list[int]] = {}
    for term in plan.terms:
        label = label_of(priced.costs.circuit.states[term.state])
        sums.setdefault((label, term.holding.value, term.units), []).append(term.bytes)
    for (label, holding, units), sizes in sums.items():
        whole = u64_sum((label, size) for size in sizes)
        table.add_row(
            label, holding, format_count(len(sizes)), format_count(units), format_count(whole), format_mib(whole)
        )
    table.add_row(_TOTAL, "", "", "", format_count(plan.bytes), format_mib(plan.bytes), style="bold")
    return table


def comparison_table(all_priced: Sequence[PricedCircuit], settings: Settings) -> Table:
    """Make the table of one sequence's recurrent state in bytes, with a column for each convention."""
    table = _table("bytes", *(priced.costs.convention for priced in all_priced), left=("bytes",))
    sizes = [{group.group: group.bytes for group in priced.costs.programs["slot_zero"].groups} for priced in all_priced]
    for group in dict.fromkeys(name for each in sizes for name in each):
        table.add_row(group, *(format_count(each[group]) if group in each else "" for each in sizes))
    totals = [priced.costs.live_bytes for priced in all_priced]
    _add_sums(table, _TOTAL, totals)
    if settings.slots is not None:
        name = f"{format_count(settings.slots)} slots"
        _add_sums(table, name, [u64_product(size, settings.slots, subject=name) for size in totals])
    if settings.rate is not None:
        speeds = [format_speed(size, settings.rate) for size in totals]
        table.add_row(f"at {settings.rate:f}/s", *speeds)
    plans = [priced.plan for priced in all_priced if priced.plan is not None]
    if plans and (settings.verify_steps or settings.kv_blocks):
        _add_sums(table, f"plan, {format_count(settings.slots or 1)} slots", [plan.bytes for plan in plans])
    return table


def _add_sums(table: Table, name: str, sizes: Sequence[int]) -> None:
    table.add_row(name, *map(format_count, sizes), style="bold")
    table.add_row("  MiB", *map(format_mib, sizes))


def format_count(value: int) -> str:
    """Format a whole number with commas between thousands."""
    return f"{value:,}"


def format_mib(value: float) -> str:
    """Format bytes as MiB."""
    return f"{value / _MIB:,.2f}"


def format_speed(value: int, rate: Decimal) -> str:
    """Format a number of bytes times a rate."""
    each = per_second(value, rate)
    return f"{each:,}" if isinstance(each, int) else f"{each:,.1f}"


def _amounts(value: int, slots: int | None, name: str) -> list[str]:
    cells = [format_count(value), format_mib(value)]
    if slots is not None:
        whole = u64_product(value, slots, subject=f"{name} of {slots} slots")
        cells += [format_count(whole), format_mib(whole)]
    return cells


def _speeds(value: int, rate: Decimal, slots: int | None, name: str) -> list[str]:
    cells = [format_speed(value, rate), format_mib(per_second(value, rate))]
    if slots is not None:
        whole = u64_product(value, slots, subject=f"{name} of {slots} slots")
        cells += [format_speed(whole, rate), format_mib(per_second(whole, rate))]
    return cells


def _table(*columns: str, left: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return table
