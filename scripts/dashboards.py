"""Builds grafana/dashboards/*.json from grafana/boards; run it after a change there.

.venv/bin/python scripts/dashboards.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "grafana"))

from boards.gpu import gpu  # noqa: E402 - found by the line above
from boards.latency import latency  # noqa: E402
from boards.pipeline import pipeline  # noqa: E402
from boards.states import states  # noqa: E402

BOARDS = {"proof-latency": latency, "gpu-beside-proofs": gpu, "pipeline-health": pipeline, "state-traffic": states}


def text(make: Callable[[], Dashboard]) -> str:
    """Return a dashboard as JSON; its panels are numbered so that links to them stay valid."""
    made = make().build()
    for number, panel in enumerate(made.panels or [], start=1):
        panel.id_val = number
    return json.dumps(made, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def texts() -> dict[str, str]:
    """Return the files' contents by name."""
    return {f"{name}.json": text(make) for name, make in BOARDS.items()}


def main() -> None:
    """Write all dashboards."""
    folder = ROOT / "grafana" / "dashboards"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
