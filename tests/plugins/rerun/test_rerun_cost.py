"""The plugin compared with naive calls to Rerun, by the figures that benchmarks/rerun_cost.py prints."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "rerun_cost.py"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_few_entities_small_files_and_many_events_a_second() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARK, "--json"], capture_output=True, text=True, timeout=280, check=True
    )
    ratios = json.loads(done.stdout)["ratios"]

    assert ratios["entities"] >= 20
    assert ratios["file_bytes"] >= 10
    assert ratios["events_per_s"] >= 10
