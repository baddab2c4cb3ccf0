"""Finds the line on which a TOML text declares a key, so that a message can name it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from proofstream import parse_toml

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the top, as in `("block", "mamba", "state", 0, "shape")`."""

_BARE: Final = re.compile(r"\s*[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\s*")
_QUOTED: Final = r""""(?:\\.|[^"\\])*"|'[^']*'"""
_HEADER: Final = re.compile(rf"""(\[\[?)((?:[^\[\]"'#]|{_QUOTED})+)\]\]?\s*(?:#.*)?""")
_KEY: Final = re.compile(rf"""((?:[^="'#]|{_QUOTED})+)=""")
_MARK: Final = re.compile(rf""".*?("{{3}}|'{{3}}|{_QUOTED}|#.*|[\[\]{{}}])""")
_LONG_STRINGS: Final = {
    '"""': re.compile(r'(?:\\.|[^\\])*?("{3,5})'),
    "'''": re.compile(r".*?('{3,5})"),
}
"""The end of a string of several lines, by its opening quotes."""


class TomlLines:
    """The lines of a valid TOML text, by the keys that they declare.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {}
        self._tables: dict[KeyPath, int] = {}
        table: KeyPath = ()
        for number, line in _statements(text):
            if header := _HEADER.fullmatch(line):
                table = self._open(_keys(header[2]), is_array=header[1] == "[[")
                self._declare(table, number)
            elif key := _KEY.match(line):
                self._declare((*table, *_keys(key[1])), number)

    def find(self, path: Sequence[str | int]) -> int | None:
        """Return the line that declares a path or else the nearest table around it; None if neither is declared."""
        lines = (self._lines.get(tuple(path[:length])) for length in range(len(path), 0, -1))
        return next((line for line in lines if line is not None), None)

    def _declare(self, path: KeyPath, line: int) -> None:
        """Record the line of a path, and of the tables around it that have no line yet."""
        while path and path not in self._lines:
            self._lines[path] = line
            path = path[:-1]

    def _open(self, keys: Sequence[str], *, is_array: bool) -> KeyPath:
        """Return the path of a header's table. An array on the way means its last table; `[[...]]` adds a table."""
        path: KeyPath = ()
        for key in keys[:-1]:
            path = self._last((*path, key))
        path = (*path, keys[-1])
        if is_array:
            self._tables[path] = self._tables.get(path, 0) + 1
        return self._last(path)

    def _last(self, path: KeyPath) -> KeyPath:
        count = self._tables.get(path)
        return path if count is None else (*path, count - 1)


def _keys(dotted: str) -> list[str]:
    """Return the parts of a dotted key. A quoted key is left to the parser, which knows all escapes."""
    if _BARE.fullmatch(dotted):
        return dotted.strip().split(".")
    keys: list[str] = []
    table: Any = parse_toml(f"{dotted} = 0")
    while table != 0:
        [key] = table
        keys.append(key)
        table = table[key]
    return keys


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines on which a statement begins: none inside an array, an inline table or a long string."""
    depth, quote = 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if depth == 0 and not quote:
            yield number, line.strip()
        depth, quote = _skim(line, depth, quote)


def _skim(line: str, depth: int, quote: str) -> tuple[int, str]:
    """Return how many brackets, and which long string, are open at the end of a line."""
    position = 0
    while match := (_LONG_STRINGS[quote] if quote else _MARK).match(line, position):
        position = match.end()
        mark = match[1]
        if quote:
            quote = ""
        elif mark in _LONG_STRINGS:
            quote = mark
        else:
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark, 0)
    return depth, quote
