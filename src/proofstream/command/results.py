"""Lists the files and folders that a command wrote, and the next step for each."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from proofstream.command.process import called_as, called_from
from proofstream.command.voice import LONGEST_LINE
from proofstream.errors import UsageError
from proofstream.outputs import make_private_folder
from proofstream.sources.builtin import path_of
from proofstream.text import safe_text

_LONGEST_PATH = 1000


def make_folders(results: Iterable[tuple[Path, str]], *, optional: Collection[str]) -> None:
    """Make the folders that results lie in.

    Args:
        results: Each result's path, and the plugin that writes it.
        optional: Plugins that may go without: where that fails, the plugin says what it cannot write.

    Raises:
        UsageError: A folder cannot be made.
    """
    for path, plugin in results:
        try:
            make_private_folder(path.parent)
        except OSError as error:
            if plugin not in optional:
                raise UsageError(f"cannot make {path.parent}: {error.strerror or error}") from None


def spare_source(uri: str, results: Iterable[tuple[Path, str]]) -> None:
    """Check that no result is the file that the run reads: what replaces it would empty it, or be read at once.

    Raises:
        UsageError: A result is that file.
    """
    for path, _ in results:
        if _is_source(path, uri):
            raise UsageError(f"{path} is what this run reads", hint="choose another name for the result")


def _is_source(path: Path, uri: str) -> bool:
    try:
        if uri == "-":
            read = os.fstat(0)
            return stat.S_ISREG(read.st_mode) and os.path.samestat(path.stat(), read)
        # A file that is followed may not exist yet.
        return path.resolve() == path_of(uri).resolve() or os.path.samestat(path.stat(), path_of(uri).stat())
    except (OSError, ValueError):  # such as a SOURCE that is not a file
        return False


def lines_about(results: Sequence[tuple[Path, str]], *, columns: int) -> list[str]:
    """Return one line for each result, or two where the terminal is too narrow for that.

    Args:
        results: Each result's path and what to do with it, as `Artefact.next_step` says it.
        columns: How many characters a line may have.
    """
    names = {"command": called_as(), "folder": called_from()}
    told = [(_shown(path), step.format(path=shlex.quote(_shown(path)), **names)) for path, step in results]
    width = max((len(path) for path, _ in told), default=0)
    lines = [f"  {path:<{width}}  {step}" for path, step in told]
    if all(len(line) <= columns for line in lines):
        return lines
    return [line for path, step in told for line in (f"  {path}", f"    {step}")]


def _shown(path: Path) -> str:
    return safe_text(str(path), _LONGEST_PATH)


def columns_of_standard_error() -> int:
    """Return how many characters a line on standard error may have: as many as any if it is not a terminal."""
    try:
        return os.get_terminal_size(2).columns or LONGEST_LINE
    except OSError:
        return LONGEST_LINE
