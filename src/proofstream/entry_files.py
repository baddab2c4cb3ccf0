"""Finds entry points as `importlib.metadata` does, without loading it, which takes as long as all of proofstream.

Only what lies in plain folders is read here. Where anything is unusual, such as a zip file on the path, a distribution
that another finder provides, or a line that is malformed, `importlib.metadata` itself is asked.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, cast

import msgspec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_INFO = (".dist-info", ".egg-info")
_VALUE = re.compile(r"([\w.]+)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\]\s*)?", re.ASCII)
_SEPARATORS = re.compile(r"[-_.]+")


class _Distribution(msgspec.Struct, frozen=True):
    name: str
    version: str


class _EntryPoint(msgspec.Struct, frozen=True):
    """An entry point with as much of `importlib.metadata.EntryPoint` as is used here."""

    name: str
    value: str
    module: str
    attr: str | None
    dist: _Distribution


class _UnusualError(Exception):
    """Something is not as in a plain folder."""


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, sorted by name."""
    try:
        found = list(_in_plain_folders(group))
    except Exception:  # noqa: BLE001 - whatever is wrong here, the real one decides what becomes of it
        return entry_points_by_metadata(group)
    return sorted(found, key=lambda point: (point.name, point.value))


def entry_points_by_metadata(group: str) -> list[EntryPoint]:
    """Return them as `importlib.metadata` finds them."""
    from importlib import metadata

    return sorted(metadata.entry_points(group=group), key=lambda point: (point.name, point.value))


def _in_plain_folders(group: str) -> Iterator[EntryPoint]:
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        raise _UnusualError
    seen: set[str] = set()
    for folder in sys.path:
        for name, info in _infos(folder or "."):
            if name not in seen:  # of two distributions of one name, the first on the path is the one that is imported
                seen.add(name)
                yield from _points_of(info, group)


def _infos(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the folders that describe distributions, each with the distribution's normalized name."""
    if folder.lower().rstrip(os.sep).endswith(".egg"):
        raise _UnusualError
    try:
        children = os.listdir(folder)  # noqa: PTH208 - paths as objects would take longer than the rest
    except FileNotFoundError:
        return
    for child in children:
        stem, ending = os.path.splitext(child)  # noqa: PTH122 - as above
        if ending.lower() in _INFO:
            if ending not in _INFO:
                raise _UnusualError
            yield _SEPARATORS.sub("-", stem.partition("-")[0]).lower(), os.path.join(folder, child)  # noqa: PTH118


def _points_of(info: str, group: str) -> Iterator[EntryPoint]:
    text = _read(info, "entry_points.txt")
    if f"[{group}]" not in text:
        return
    dist: _Distribution | None = None
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line.strip("[]")
        elif line and not line.startswith("#") and section == group:
            dist = dist or _distribution(info)
            yield _point(line, dist)


def _point(line: str, dist: _Distribution) -> EntryPoint:
    name, _, value = map(str.strip, line.partition("="))
    parts = _VALUE.fullmatch(value)
    if parts is None:
        raise _UnusualError
    return cast("EntryPoint", _EntryPoint(name, value, parts[1], parts[2], dist))


def _distribution(info: str) -> _Distribution:
    head, _, _ = (_read(info, "METADATA") or _read(info, "PKG-INFO")).partition("\n\n")
    fields: dict[str, str] = {}
    for line in head.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.lower(), value.strip())
    return _Distribution(fields["name"], fields["version"])


def _read(info: str, name: str) -> str:
    try:
        with open(os.path.join(info, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123 - as above
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return ""
