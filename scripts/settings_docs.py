"""Writes the tables of all keys into docs/configuration.md, from the models; run it after a change there.

.venv/bin/python scripts/settings_docs.py
"""

from __future__ import annotations

import importlib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from proofstream.command.settings import keys_of, markdown
from proofstream.config import Config

if TYPE_CHECKING:
    from proofstream.config_table import TableModel

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
_BEGIN = "<!-- made by scripts/settings_docs.py: begin -->\n"
_END = "<!-- made by scripts/settings_docs.py: end -->\n"


def models() -> dict[str, TableModel]:
    """Return the models of the plugins that come with proofstream, whatever packages are installed beside it."""
    points = metadata.distribution("proofstream").entry_points.select(group="proofstream")
    return {p.name: importlib.import_module(f"{p.module}.settings").Settings for p in sorted(points)}


def page(text: str) -> str:
    """Return the page with present tables."""
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{markdown(keys_of(Config(), models()))}{_END}{after}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
