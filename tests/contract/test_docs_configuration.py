"""docs/configuration.md lists every key, and each has a meaning."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from proofstream.command.settings import Key, keys_of
from proofstream.config import Config

REPOSITORY = Path(__file__).parents[2]
SCRIPT: dict[str, Any] = runpy.run_path(str(REPOSITORY / "scripts" / "settings_docs.py"))
KEYS = keys_of(Config(), SCRIPT["models"]())


def test_the_tables_are_those_of_the_models() -> None:
    text = SCRIPT["PAGE"].read_text("utf-8")
    assert text == SCRIPT["page"](text), "run: .venv/bin/python scripts/settings_docs.py"


@pytest.mark.parametrize("key", [pytest.param(key, id=key.full_name) for key in KEYS])
def test_a_key_has_a_type_and_a_meaning_that_is_a_sentence(key: Key) -> None:
    assert key.type != ""
    assert key.meaning[:1].isupper() or key.meaning.startswith("`")
    assert key.meaning.endswith(".")


def test_keys_of_every_plugin_with_settings_are_listed() -> None:
    tables = {key.table for key in KEYS}
    assert tables == {"host", "console", "gpu", "otel", "record", "rerun", "state-cost"}  # the demo has none
