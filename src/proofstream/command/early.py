"""Begins to read standard input while most of the command is still to be imported.

Importing click, pydantic and the plugins takes several times as long as a small model's layers. Lines that wait in the
pipe meanwhile have no time of arrival, so reading must not wait for the whole command line to be understood.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Sequence

from proofstream.sources.arrivals import read_early

_SOURCE = "-"
_COMMAND = "run"
_HELP = frozenset({"--help", "-h", "--version"})
_SWITCHES = frozenset({"--follow", "--once", "--quiet", "--strict", "--traceback", "--verbose"})


def begin_reading(words: Sequence[str], *, descriptor: int = 0) -> None:
    """Begin to read standard input if these arguments certainly name it as the source, and it is a pipe or a socket."""
    if names_standard_input(words) and is_stream(descriptor):
        read_early(descriptor)


def names_standard_input(words: Sequence[str]) -> bool:
    """Return whether ``-`` is certainly the SOURCE of ``run``, and not perhaps the value of some plugin's flag."""
    return _SOURCE in certain_sources(words)


def certain_sources(words: Sequence[str]) -> list[str]:
    """Return the words that are no flags of ``run``, and not perhaps their values: SOURCE is one of them, if any is."""
    rest = _behind_plugin_files(words)
    if not rest or rest[0] != _COMMAND or _HELP.intersection(rest):
        return []
    return [word for before, word in itertools.pairwise(rest) if _takes_no_value(before)]


def _behind_plugin_files(words: Sequence[str]) -> Sequence[str]:
    """Return the words behind the only options that may stand in front of a command."""
    index = 0
    while index < len(words) and words[index].partition("=")[0] == "--plugin-file":
        index += 1 if "=" in words[index] else 2
    return words[index:]


def _takes_no_value(word: str) -> bool:
    if word == "--" or "=" in word or not word.startswith("-"):
        return True
    # Short flags are the command's own, and none of them takes a value.
    return word in _SWITCHES or (len(word) > 1 and not word.startswith("--"))


def is_stream(descriptor: int) -> bool:
    """Return whether a descriptor is a pipe or a socket."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
