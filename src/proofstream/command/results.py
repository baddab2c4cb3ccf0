"""Lists the files and folders that a command wrote, and the next step for each."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from proofstream.command.process import called_as, called_from
from proofstream.command.voice import LONGEST_LINE
from proofstream.contracts import Option
from proofstream.errors import UsageError
from proofstream.outputs import make_private_folder
from proofstream.sources.builtin import path_of
from proofstream.text import safe_text

_LONGEST_PATH = 1000


class Results:
    """The results that the settings of a run ask for, and which of them the run wrote.

    Make it before the run: only what changes from then on counts as written, so that an older file of the same name is
    not taken for a result.

    Args:
        options: Flags, with the plugin each belongs to.
        tables: The plugins' merged configuration tables.
    """

    def __init__(self, options: Iterable[tuple[Option, str]], tables: Mapping[str, Mapping[str, Any]]) -> None:
        self._expected: dict[Path, tuple[str, int | None]] = {}
        self._plugins: dict[Path, str] = {}
        self._numbered: dict[Path, frozenset[Path]] = {}
        for option, plugin in options:
            artefact = option.artefact
            if artefact is None:
                continue
            for value in _values(tables.get(plugin, {}).get(option.key)):
                path = artefact.path_in(value)
                if path is not None:
                    self._expected[path] = (artefact.next_step, _changed_at(path))
                    self._numbered[path] = _numbered_beside(path)
                    self._plugins[path] = plugin

    def make_folders(self, *, optional: Collection[str] = ()) -> None:
        """Make the folders that the results lie in.

        Args:
            optional: Plugins that may go without: where that fails, the plugin says what it cannot write.

        Raises:
            UsageError: A folder cannot be made.
        """
        for path, plugin in self._plugins.items():
            try:
                make_private_folder(path.parent)
            except OSError as error:
                if plugin not in optional:
                    raise UsageError(f"cannot make {path.parent}: {error.strerror or error}") from None

    def spare_source(self, uri: str) -> None:
        """Check that no result is the file that the run reads: a plugin that may overwrite it would empty it.

        Raises:
            UsageError: A result is that file.
        """
        for path in self._expected:
            if _is_source(path, uri):
                raise UsageError(f"{path} is what this run reads", hint="choose another name for the result")

    def written(self) -> list[tuple[Path, str]]:
        """Return each result that was written since, with its next step; under the name that it got."""
        found = [(self._path_of(path, before), step) for path, (step, before) in self._expected.items()]
        return [(path, step) for path, step in found if path is not None]

    def _path_of(self, path: Path, before: int | None) -> Path | None:
        """Return where a result is: a plugin that found the name in use took a numbered one beside it."""
        if _changed_at(path) not in (None, before):
            return path
        return min(_numbered_beside(path) - self._numbered[path], key=_number_of, default=None)


def _is_source(path: Path, uri: str) -> bool:
    try:
        read = os.fstat(0) if uri == "-" else path_of(uri).stat()
        return stat.S_ISREG(read.st_mode) and os.path.samestat(path.stat(), read)
    except (OSError, ValueError):  # such as a SOURCE that is not a file
        return False


def _values(value: object) -> list[object]:
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else [value]


def _numbered_beside(path: Path) -> frozenset[Path]:
    """Return the files `proof-2.rrd`, `proof-3.rrd`, ... beside `proof.rrd`."""
    name = re.compile(rf"{re.escape(path.stem)}-[0-9]+{re.escape(path.suffix)}")
    try:
        return frozenset(each for each in path.parent.iterdir() if name.fullmatch(each.name))
    except OSError:
        return frozenset()


def _number_of(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def _changed_at(path: Path) -> int | None:
    """Return when a file, or anything directly in a folder, changed last, in nanoseconds; None if it does not exist."""
    try:
        found = [path, *path.iterdir()] if path.is_dir() else [path]
        return max(each.stat().st_mtime_ns for each in found)
    except OSError:
        return None


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
