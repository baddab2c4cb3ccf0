"""Draws the plots of docs/performance.md from the figures. White, so that they can be read on a dark page, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from harness import Result
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

BLUE, ORANGE, GREEN, GREY, RED = "#1f6feb", "#bc4c00", "#1a7f37", "#57606a", "#cf222e"
COLORS = (BLUE, ORANGE, GREEN)

mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "proofstream",
        "font.family": "sans-serif",
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
        "font.size": 10,
        "text.color": "#1f2328",
        "axes.labelcolor": "#1f2328",
        "axes.edgecolor": GREY,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#d0d7de",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "figure.constrained_layout.use": True,
    }
)


def growth(results: Sequence[Result], path: Path) -> None:
    """Draw the cost of an event by layers, rounds and connections, one panel each."""
    panels = by_series(results)
    figure, axes = plt.subplots(1, len(panels), figsize=(9, 2.9), sharey=True, squeeze=False)
    for ax, (name, points), color in zip(axes[0], panels.items(), COLORS, strict=False):
        places = [point.x or 0.0 for point in points]
        ax.errorbar(
            places, [p.value for p in points], yerr=[p.noise for p in points], color=color, marker="o", capsize=3
        )
        ax.set_xscale("log")
        ax.set_xticks(places)
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel(name)
    axes[0][0].set_ylabel("µs of CPU per event")
    axes[0][0].set_ylim(bottom=0)
    save(figure, path)


def memory(results: Sequence[Result], path: Path) -> None:
    """Draw the memory over the runs, with the bound."""
    figure, ax = plt.subplots(figsize=(9, 3.2))
    for (name, points), color in zip(by_series(results).items(), COLORS, strict=False):
        label = name.rpartition("many ")[2]
        ax.plot(
            [point.x or 0.0 for point in points],
            [point.value for point in points],
            color=color,
            linewidth=1.2,
            label=label,
        )
    goal = next(result.goal for result in results if result.goal is not None and result.name.endswith("highest"))
    ax.axhline(goal, color=RED, linestyle="--", linewidth=1, label=f"goal: {goal:g} MB")
    ax.set_ylim(bottom=0)
    ax.set_xlim(0, 100)
    ax.set_xlabel("% of the run")
    ax.set_ylabel("resident memory, MB")
    ax.legend(loc="lower right", frameon=False, ncols=4)
    save(figure, path)


def peers(results: Sequence[Result], path: Path) -> None:
    """Draw the peers: what an event costs the prover's thread, and what the rest of the process."""
    sides: dict[str, dict[str, float]] = {}
    for result in results:
        side, _, where = result.name.partition(": ")
        sides.setdefault(side, {})[where] = max(0.0, result.value)
    figure, ax = plt.subplots(figsize=(9, 0.42 * len(sides) + 1.0))
    for place, (side, costs) in enumerate(sides.items()):
        alone, whole = costs["on the prover's thread"], costs["in the process"]
        ours = side.startswith("proofstream")
        ax.barh(place, alone, color=RED, label="on the prover's thread" if place == 0 else None)
        rest = max(0.0, whole - alone)
        ax.barh(place, rest, left=alone, color=BLUE if ours else GREY, alpha=0.55)
        ax.text(max(whole, alone), place, f" {alone:.3g} + {rest:.3g}", va="center", fontsize=9)
    ax.set_yticks(range(len(sides)), list(sides))
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("µs of CPU per event: on the prover's thread (red), and on others")
    ax.margins(x=0.12)
    save(figure, path)


def by_series(results: Sequence[Result]) -> Mapping[str, list[Result]]:
    """Return the points of each series."""
    found: dict[str, list[Result]] = {}
    for result in results:
        if result.series:
            found.setdefault(result.series, []).append(result)
    return found


def save(figure: Figure, path: Path) -> None:
    """Write the file, the same for the same figures."""
    figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})
    plt.close(figure)


PLOTS = {"growth": growth, "memory": memory, "peers": peers}
"""The benchmarks that have a plot: docs/images/performance-NAME.svg."""
