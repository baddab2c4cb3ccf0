"""The benchmarks still work, and docs/performance.md shows their figures. How fast anything is, is not tested."""

from __future__ import annotations

import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proofstream import Catalog, LayerEnd, LayerStart, LineDecoder, ProofComplete, SumcheckRound

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if "\n    harness.main(measure)\n" in path.read_text("utf-8"))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_gives_figures(name: str, tmp_path: Path) -> None:
    into = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "--short", "--json", into],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "plugins")])},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(into.read_text("utf-8"))["results"]
    assert results
    for result in results:
        assert result["name"]
        assert result["unit"]
        assert math.isfinite(result["value"]), result
        assert math.isfinite(result["noise"]), result
    shown = [result["name"] for result in results if not result["series"]]
    assert len(shown) == len(set(shown))
    assert len(done.stdout.splitlines()) == len(shown)


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return runpy.run_path(str(FOLDER / "report.py"))


def test_the_page_shows_the_figures_that_are_kept(report: dict[str, Any]) -> None:
    text = report["PAGE"].read_text("utf-8")
    assert text == report["page"](text, report["kept"]()), "run: .venv-bench/bin/python benchmarks/report.py"


def test_the_page_has_a_place_for_each_benchmark(report: dict[str, Any]) -> None:
    blocks: list[str] = report["BLOCK"].findall(report["PAGE"].read_text("utf-8"))
    assert {words.partition(" ")[2] for words in blocks} - {""} >= set(NAMES)


def test_figures_are_shown_with_their_noise_and_goal(report: dict[str, Any]) -> None:
    result, measured = report["Result"], report["Measured"]
    rows = [
        result("one way", 0.4126, "x", 0.05, "another", goal=0.4),
        result("a long run", 1234.5, "us", note="of many"),
        result("kept", 97.25, "%", goal=97.0, better="higher"),
    ]
    text = "".join(f"<!-- made by scripts/bench: {words} -->\nold\n<!-- end -->\n" for words in ("goals", "figures it"))
    page: str = report["page"](text, {"it": measured("usual", 1.0, {}, rows)})
    assert "old" not in page
    assert "| one way | another | at most 0.4 times | 0.413 ± 0.05 times | **missed** |" in page
    assert "| kept |  | at least 97 % | 97.2 % | reached |" in page
    assert "| a long run | 1,230 µs | of many |" in page


def test_a_long_stream_is_one_that_a_prover_could_write(report: dict[str, Any]) -> None:
    harness = report["harness"]
    decoder = LineDecoder(Catalog())
    lines: list[bytes] = harness.proof(5, 4)
    decoded = [decoder.decode(line) for line in harness.interleaved([harness.of_job(lines, job) for job in "ab"])]
    events = [one.event for one in decoded if one.job_id == "a"]
    assert len(events) * 2 == len(decoded) == len(lines) * 2
    started = [event.layer_idx for event in events if isinstance(event, LayerStart)]
    assert started == [4, 3, 2, 1, 0]
    assert [event.layer_idx for event in events if isinstance(event, LayerEnd)] == started
    rounds = [
        (event.layer_idx, event.round, event.total_rounds) for event in events if isinstance(event, SumcheckRound)
    ]
    assert rounds == [(layer, number, 4) for layer in started for number in range(4)]
    assert sum(isinstance(event, ProofComplete) for event in events) == 1


def test_ratios_are_those_of_the_same_round(report: dict[str, Any]) -> None:
    # The machine became ten times as slow after the first round: that is no noise of the ratio.
    assert report["harness"].ratio([2.0, 20.0, 22.0], [1.0, 10.0, 10.0]) == (2.0, pytest.approx(0.1))
