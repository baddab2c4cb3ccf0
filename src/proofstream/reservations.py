"""Gives the results of a run their names before its plugins are configured: all together, and none that is in use."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from proofstream.contracts import Artefact, Option
from proofstream.errors import UsageError
from proofstream.outputs import Output, Wanted, remove_unwritten, reserve_together

_YES = frozenset({"1", "on", "t", "true", "y", "yes"})
"""What pydantic reads as true from the environment."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A result that a setting asks for."""

    plugin: str
    key: str
    value: object
    artefact: Artefact
    path: Path
    replaces: bool

    @property
    def wanted(self) -> Wanted:
        return Wanted(path=self.path, files=self.artefact.files)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A result of a run.

    Attributes:
        plugin: The plugin that writes it.
        output: Its name.
        next_step: What to do with it.
        made: What was created for it, before the plugin was configured.
        before: What was there then.
    """

    plugin: str
    output: Output
    next_step: str
    made: Sequence[Path]
    before: object


class Reservations:
    """The results that the settings of a run ask for, under names that are free.

    A result whose plugin has a true setting `overwrite` keeps its name.

    Args:
        options: Flags, with the plugin each belongs to.
        tables: The merged configuration tables of the plugins that run.

    Raises:
        UsageError: Two results have the same name.
    """

    def __init__(self, options: Iterable[tuple[Option, str]], tables: Mapping[str, Mapping[str, Any]]) -> None:
        asked = _asked(options, tables)
        _refuse_same_names(asked)
        reserved = reserve_together([each.wanted for each in asked if not each.replaces])
        self.results: list[Result] = []
        self._tables = {name: dict(table) for name, table in tables.items()}
        for each in asked:
            if each.replaces:
                output, made = Output(path=each.path, asked=each.path, number=1), list[Path]()
            elif each.wanted in reserved:
                output, made = reserved[each.wanted]
            else:
                continue
            self.results.append(
                Result(
                    plugin=each.plugin,
                    output=output,
                    next_step=each.artefact.next_step,
                    made=made,
                    before=_state_of(output.path),
                )
            )
            self._rename(each, output.path)

    def _rename(self, asked: _Asked, path: Path) -> None:
        if asked.artefact.path_in(asked.value) == path:
            return
        table, fresh = self._tables[asked.plugin], asked.artefact.value_for(path)
        value = table[asked.key]
        renamed = [fresh if each == asked.value else each for each in _values(value)]
        table[asked.key] = renamed if isinstance(value, list | tuple) else fresh

    def table_of(self, plugin: str) -> dict[str, Any]:
        """Return a plugin's configuration table, with the names that its results got."""
        return self._tables.get(plugin, {})

    def outputs_of(self, plugin: str) -> dict[Path, Output]:
        """Return the results that were created for a plugin, by their paths."""
        return {each.output.path: each.output for each in self.results if each.plugin == plugin and each.made}

    @property
    def notice(self) -> str | None:
        """A line about results that got another name than was asked for; None if all have theirs."""
        moved = [each.output for each in self.results if each.output.number > 1]
        if not moved:
            return None
        there = [str(output.asked) for output in moved if os.path.lexists(output.asked)]
        why = f"{_listed(there)} exist{'s' if len(there) == 1 else ''}" if there else "the names were taken meanwhile"
        return f"{why}, so this run writes {_listed([str(output.path) for output in moved])}"

    @property
    def written(self) -> list[Result]:
        """The results that have changed since: an older file that was left alone is none."""
        return [each for each in self.results if _state_of(each.output.path) not in (None, each.before)]

    def release(self, plugin: str) -> None:
        """Remove the files that a plugin has not written to. It must not run any more."""
        for each in self.results:
            if each.plugin == plugin:
                remove_unwritten(each.made)


def results_asked(
    options: Iterable[tuple[Option, str]], tables: Mapping[str, Mapping[str, Any]]
) -> list[tuple[Path, str]]:
    """Return the names of the results that settings ask for, each with the plugin that writes it."""
    return [(each.path, each.plugin) for each in _asked(options, tables)]


def _asked(options: Iterable[tuple[Option, str]], tables: Mapping[str, Mapping[str, Any]]) -> list[_Asked]:
    return [
        _Asked(
            plugin=plugin,
            key=option.key,
            value=value,
            artefact=artefact,
            path=_expanded(path),
            replaces=str(tables[plugin].get("overwrite")).lower() in _YES,
        )
        for option, plugin in options
        if (artefact := option.artefact) is not None and plugin in tables
        for value in _values(tables[plugin].get(option.key))
        if (path := artefact.path_in(value)) is not None
    ]


def _refuse_same_names(asked: Sequence[_Asked]) -> None:
    seen: dict[str, _Asked] = {}
    for each in asked:
        other = seen.setdefault(os.path.normpath(each.path), each)
        if other is not each:
            both = f"{other.plugin}.{other.key} and {each.plugin}.{each.key}"
            raise UsageError(f"{both} name the same result, {each.path}", hint="give each a name of its own")


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _values(value: object) -> list[object]:
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else [value]


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # no such user; the plugin says so
        return path


def _state_of(path: Path) -> object:
    """Return what tells a file, or a folder and the files in it, from an earlier state; None if it does not exist."""
    try:
        found = sorted([path, *path.iterdir()]) if path.is_dir() else [path]
        return [(str(each), each.stat().st_mtime_ns, each.stat().st_size) for each in found]
    except (OSError, ValueError):
        return None
