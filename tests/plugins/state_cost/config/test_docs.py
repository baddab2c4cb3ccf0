"""docs/state-models.md names every type and convention, and its figures are those of the program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from proofstream_state_cost.config.conventions import PRESETS
from proofstream_state_cost.config.counted_states import count_states
from proofstream_state_cost.config.families import KNOWN
from proofstream_state_cost.config.model_config import parse_model_config
from proofstream_state_cost.states.programs import StateProgram, price_programs

_ROOT: Final = Path(__file__).parents[4]
_PAGE: Final = (_ROOT / "docs" / "state-models.md").read_text(encoding="utf-8")
_MODELS: Final[list[dict[str, Any]]] = json.loads((_ROOT / "tests/data/state/golden.json").read_text(encoding="utf-8"))[
    "models"
]
_ROWS: Final = re.findall(r"^\| (\S+/\S+) \| (\d+) \| (.*) \|$", _PAGE, flags=re.MULTILINE)


def test_every_type_has_a_row() -> None:
    families = _PAGE.split("## Families")[1].split("\n## ")[0]
    for model_type in KNOWN:
        assert f"`{model_type}`" in families


def test_every_convention_has_a_row() -> None:
    conventions = _PAGE.split("## Conventions")[1].split("\n## ")[0]
    for name in PRESETS:
        assert f"\n| `{name}` |" in conventions


def test_there_are_figures() -> None:
    assert len(_ROWS) == 12


@pytest.mark.parametrize(("name", "layers", "figures"), _ROWS, ids=[name for name, _, _ in _ROWS])
def test_the_figures_are_those_of_the_program(name: str, layers: str, figures: str) -> None:
    (golden,) = [model for model in _MODELS if model["name"].split(" ")[0] == name]
    model = parse_model_config({"model_type": golden["model_type"], **golden["config"]})
    assert int(layers) == len(model.recurrent_layer_ids)
    found: list[str] = []
    for preset in PRESETS.values():
        if preset.why_not(model) is None:
            (zero,) = price_programs(count_states(model, preset), preset.formats, [StateProgram.SLOT_ZERO])
            found.append(f"{zero.bytes:,}")
        else:
            found.append("-")
    assert figures.split(" | ") == found
