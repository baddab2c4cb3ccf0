"""Writes the figures of benchmarks/results into docs/performance.md and its plots: python benchmarks/report.py."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import harness
from harness import ROOT, Result

PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"
RESULTS = Path(__file__).parent / "results"
BLOCK = re.compile(r"<!-- made by scripts/bench: ([a-z_ ]+) -->\n.*?<!-- end -->\n", re.DOTALL)
DIGITS = 3


class Measured(NamedTuple):
    """The kept figures of one benchmark."""

    form: str
    seconds: float
    machine: dict[str, Any]
    results: list[Result]


def kept(folder: Path = RESULTS) -> dict[str, Measured]:
    """Return all figures that are kept, by benchmark."""
    found: dict[str, Measured] = {}
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        results = [Result(**row) for row in data["results"]]
        found[path.stem] = Measured(data["form"], data["seconds"], data["machine"], results)
    return found


def page(text: str, measured: dict[str, Measured]) -> str:
    """Return the page with the present figures between its marks: `machine`, `goals`, `peers`, `figures NAME`."""
    return BLOCK.sub(lambda found: block(found[1], measured), text)


def block(words: str, measured: dict[str, Measured]) -> str:
    """Return one block with its marks."""
    what, _, name = words.partition(" ")
    if what == "machine":
        inside = machines(measured)
    elif what == "goals":
        inside = goals(measured)
    elif name not in measured:
        inside = "Not measured yet.\n"
    elif what == "peers":
        inside = peers(measured[name].results)
    else:
        inside = figures(measured[name].results)
    return f"<!-- made by scripts/bench: {words} -->\n{inside}<!-- end -->\n"


def machines(measured: dict[str, Measured]) -> str:
    """Describe each machine that was measured on."""
    by_machine: dict[str, list[str]] = {}
    for name, one in measured.items():
        it = one.machine
        words = f"{it['cpu']}, {it['cores']} cores, {it['memory_gb']} GB; {it['system']}; {it['python']}"
        by_machine.setdefault(words, []).append(
            f"`{name}`" if one.form == "usual" else f"`{name}` (in its {one.form} form)"
        )
    minutes = sum(one.seconds for one in measured.values()) / 60
    lines = [f"- {words}: {', '.join(names)}\n" for words, names in by_machine.items()]
    return f"{''.join(lines)}\nTogether that took {minutes:.0f} minutes.\n"


def goals(measured: dict[str, Measured]) -> str:
    """Return the table of all goals."""
    rows = ["| what | against | goal | measured | |\n", "|---|---|---|---|---|\n"]
    for one in measured.values():
        for result in harness.figures(one.results):
            if result.goal is not None:
                word = "at most" if result.better == "lower" else "at least"
                goal = f"{word} {amount(result.goal, result.unit)}"
                reached = "reached" if result.reached else "**missed**"
                rows.append(f"| {result.name} | {result.against} | {goal} | {with_noise(result)} | {reached} |\n")
    return "".join(rows)


def figures(results: Sequence[Result]) -> str:
    """Return the table of a benchmark's figures."""
    shown = [result for result in results if not result.series or result.name != result.series]
    with_notes = any(result.note for result in shown)
    rows = [f"| what | measured |{' note |' if with_notes else ''}\n", f"|---|---|{'---|' if with_notes else ''}\n"]
    for result in shown:
        against = f", against {result.against}" if result.against and result.against not in result.name else ""
        note = f" {result.note} |" if with_notes else ""
        rows.append(f"| {result.name}{against} | {with_noise(result)} |{note}\n")
    return "".join(rows)


def peers(results: Sequence[Result]) -> str:
    """Return the table of the peers, one row for each."""
    rows = ["| way | on the prover's thread | in the process | the outcome |\n", "|---|---|---|---|\n"]
    for alone, whole in zip(results[::2], results[1::2], strict=True):
        side = alone.name.partition(": ")[0]
        rows.append(f"| {side} | {with_noise(alone)} | {with_noise(whole)} | {alone.note} |\n")
    return "".join(rows)


def with_noise(result: Result) -> str:
    """Return a figure with its noise, if that shows."""
    noise = f" ± {digits(result.noise, 2)}" if result.noise else ""
    return f"{digits(result.value)}{noise} {unit_of(result.unit)}".rstrip()


def amount(value: float, unit: str) -> str:
    """Return a goal."""
    return f"{value:g} {unit_of(unit)}"


def unit_of(unit: str) -> str:
    """Return a unit as it is written in a text."""
    if unit == "x":
        return "times"
    return re.sub(r"^us\b", "µs", unit)


def digits(value: float, count: int = DIGITS) -> str:
    """Return a number with few digits, and without an exponent."""
    text = f"{value:.{count}g}"
    return f"{float(text):,.0f}" if "e+" in text else text


def write() -> None:
    """Write the page and the plots."""
    measured = kept()
    PAGE.write_text(page(PAGE.read_text("utf-8"), measured), encoding="utf-8")
    try:
        import plots
    except ModuleNotFoundError as missing:
        raise SystemExit(
            f"report: the plots are as they were, because they need {missing.name}: use .venv-bench"
        ) from missing
    for name, draw in plots.PLOTS.items():
        if name in measured:
            draw(measured[name].results, IMAGES / f"performance-{name}.svg")


if __name__ == "__main__":
    write()
