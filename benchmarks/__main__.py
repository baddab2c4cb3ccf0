"""Runs the benchmarks, each in a process of its own, and keeps their figures; scripts/bench calls it.

python benchmarks [--short|--long] [NAME ...]     figures into benchmarks/results, tables and plots into docs
python benchmarks --against COMMIT [NAME ...]     this tree and that commit in turns, and the ratio of each figure
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import harness
import report
from harness import ROOT, Result

FOLDER = Path(__file__).parent
TURNS = 5
"""How often both trees are measured when they are compared."""


def names() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(
        path.stem for path in FOLDER.glob("*.py") if "\n    harness.main(measure)\n" in path.read_text("utf-8")
    )


def run(name: str, form: str, into: Path, tree: Path = ROOT) -> list[Result]:
    """Run one benchmark on a tree, leave its figures in a file, and return them."""
    path = os.pathsep.join(str(tree / part) for part in ("src", "plugins"))
    command = [sys.executable, FOLDER / f"{name}.py", f"--{form}", "--json", into]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        timeout=4 * harness.DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"benchmarks: {name} ended with status {done.returncode}")
    return [Result(**row) for row in json.loads(into.read_text("utf-8"))["results"]]


def measure_all(chosen: Sequence[str], form: str, folder: Path) -> None:
    """Measure this tree, and print each figure as soon as it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    # The figures of the short form say nothing, so there several may run at once.
    with ThreadPoolExecutor(os.cpu_count() if form == "short" else 1) as pool:
        for name, results in zip(chosen, pool.map(lambda n: run(n, form, folder / f"{n}.json"), chosen), strict=True):
            print(name)
            for result in harness.figures(results):
                print(f"  {harness.as_text(result)}", flush=True)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check a commit out beside this tree, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "base"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def compare(chosen: Sequence[str], form: str, commit: str, turns: int) -> None:
    """Print, for each figure, how many times that of the commit it is: the median of all turns, and its noise."""
    with checked_out(commit) as base, tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "figures.json"
        for name in chosen:
            # In the disk's cache on both sides, before they are compared.
            sides = {"here": ROOT, "there": base}
            for tree in sides.values():
                run(name, "short", into, tree)
            found: dict[str, dict[str, list[float]]] = {}
            units: dict[str, str] = {}
            for turn in range(turns):
                for side in list(sides)[:: 1 if turn % 2 == 0 else -1]:
                    for result in harness.figures(run(name, form, into, sides[side])):
                        found.setdefault(result.name, {}).setdefault(side, []).append(result.value)
                        units[result.name] = result.unit
            print(name)
            for figure, values in found.items():
                print(f"  {comparison(figure, values, units[figure])}", flush=True)


def comparison(figure: str, values: dict[str, list[float]], unit: str) -> str:
    """Return one line: the ratio with its noise, and both medians."""
    here, there = values.get("here", []), values.get("there", [])
    if len(here) != len(there) or not all(there):
        return f"{figure}: not measured on both sides, or zero"
    ratio = harness.ratio(here, there)
    return (
        f"{figure}: {ratio.value:.3f} ± {ratio.noise:.3f} times"
        f" ({harness.middle(there).value:.4g} -> {harness.middle(here).value:.4g} {unit})"
    )


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures what observing costs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these: {', '.join(names())}")
    parser.add_argument(
        "--short", action="store_const", const="short", dest="form", help="a minute, to see that all work"
    )
    parser.add_argument("--long", action="store_const", const="long", dest="form", help="much more of each, for memory")
    parser.add_argument("--against", metavar="COMMIT", help="measure that commit, too, in turns; nothing is kept")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"how often, with --against (default {TURNS})")
    parser.add_argument(
        "--out", type=Path, help="the folder for the figures, instead of benchmarks/results and the docs"
    )
    options = parser.parse_args()
    chosen = options.names or names()
    if unknown := set(chosen) - set(names()):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    if options.against:
        compare(chosen, options.form or "compare", options.against, options.turns)
        return
    form = options.form or "usual"
    if options.out or form == "short":
        with tempfile.TemporaryDirectory() as folder:
            measure_all(chosen, form, options.out or Path(folder))
        return
    measure_all(chosen, form, report.RESULTS)
    report.write()


if __name__ == "__main__":
    main()
