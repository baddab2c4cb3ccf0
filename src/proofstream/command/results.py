"""What a command wrote, and what to do with it: the lines that it ends with."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from proofstream.command.process import called_as, called_from


def lines_about(results: Sequence[tuple[Path, str]], *, columns: int) -> list[str]:
    """One line for each result, or two where the terminal is too narrow for that.

    Args:
        results: Each result's path and what to do with it, as `Artefact.next_step` says it.
        columns: How many characters a line may have.
    """
    names = {"command": called_as(), "folder": called_from()}
    told = [(str(path), next_step.format(path=path, **names)) for path, next_step in results]
    width = max((len(path) for path, _ in told), default=0)
    lines = [f"  {path:<{width}}  {step}" for path, step in told]
    if all(len(line) <= columns for line in lines):
        return lines
    return [line for path, step in told for line in (f"  {path}", f"    {step}")]


def columns_of_standard_error() -> int:
    """How many characters a line on standard error may have; what is no terminal takes any number."""
    try:
        return os.get_terminal_size(2).columns or sys.maxsize
    except OSError:
        return sys.maxsize
