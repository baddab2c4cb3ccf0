"""The plugin compared with naive calls to Rerun, by the figures that benchmarks/rerun_cost.py gives."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "rerun_cost.py"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_few_entities_and_small_files(tmp_path: Path) -> None:
    into = tmp_path / "figures.json"
    command: list[str | Path] = [sys.executable, BENCHMARK, "--short", "--json", into]
    subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    figures = {result["name"]: result["value"] for result in json.loads(into.read_text("utf-8"))["results"]}

    assert figures["rerun, entities, gain"] >= 20
    assert figures["rerun, bytes of the file, gain"] >= 10
