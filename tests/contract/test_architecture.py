"""ARCHITECTURE.md and the import contracts name the same modules."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def first_cells(heading: str) -> list[list[str]]:
    """The names in backticks in the first cell of each table row below a heading."""
    section = re.split(r"^#+ ", ARCHITECTURE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\|(.*?)\|", section, re.MULTILINE)
    return [names for row in rows if (names := re.findall(r"`([^`]+)`", row))]


def test_the_table_of_layers_is_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers: list[str] = project["tool"]["importlinter"]["contracts"][0]["layers"]

    assert [sorted(names) for names in first_cells("Who may import whom")] == [
        sorted(re.split(r"\s*[|:]\s*", layer)) for layer in layers
    ]


def test_every_wing_stands_in_the_table_of_wings() -> None:
    wings = [path.parent for path in ROOT.glob("plugins/proofstream_*/*/__init__.py")]
    wings.append(ROOT / "src/proofstream/command")

    named = [name for names in first_cells("Wings") for name in names]

    assert sorted(named) == sorted(f"{wing.parent.name}.{wing.name}" for wing in wings)
