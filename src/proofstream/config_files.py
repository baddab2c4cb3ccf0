"""Finds and reads configuration files: the user's own, a named one, or the current folder's if the user trusts it.

``proofstream.toml`` in the current folder, or ``[tool.proofstream]`` of ``pyproject.toml`` there, may have come with a
clone or a download. Its keys could write files, start programs or send data elsewhere, and only the plugins know
which of theirs do. Therefore such a file has no effect until the user trusts it as a whole.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from proofstream.errors import ConfigError
from proofstream.inputs import parse_toml, read_small_file
from proofstream.notices import warn_once
from proofstream.text import LONGEST_LINE, safe_text
from proofstream.trust import Trust, place_of, trust_in, users_config_file

CONFIG_FILE = "proofstream.toml"
PROJECT_FILE = "pyproject.toml"
CONFIG_VARIABLE = "PROOFSTREAM_CONFIG"
MAX_CONFIG_BYTES = 2**20
"""The longest configuration file."""

_MOST_KEYS_SHOWN = 8

_log = logging.getLogger("proofstream")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigFile:
    """A configuration file that was read.

    Attributes:
        path: Its path, as it was given or found.
        content: Its bytes.
        document: Its parsed keys and tables; of ``pyproject.toml`` those of ``[tool.proofstream]``.
    """

    path: Path
    content: bytes
    document: dict[str, Any]

    @property
    def keys(self) -> str:
        """The first of its keys, as one safe line."""
        names = [name for key, value in self.document.items() for name in _names_of(key, value)]
        more = [f"{len(names) - _MOST_KEYS_SHOWN} more"] if len(names) > _MOST_KEYS_SHOWN else []
        return ", ".join([*(safe_text(name, limit=80) for name in names[:_MOST_KEYS_SHOWN]), *more])


def read_config_file(path: Path) -> ConfigFile:
    """Read a configuration file.

    Raises:
        ConfigError: It cannot be read, is longer than `MAX_CONFIG_BYTES`, or is not TOML.
    """
    try:
        content = read_small_file(path, MAX_CONFIG_BYTES)
        document = parse_toml(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{shown_path(path)}: {error.strerror or error}") from None
    except ValueError as error:  # not UTF-8, not TOML, or a path with a NUL in it
        raise ConfigError(f"{shown_path(path)}: {safe_text(str(error), LONGEST_LINE)}") from None
    return ConfigFile(path=path, content=content, document=_own_part(path, document))


def find_config_file(folder: Path) -> ConfigFile | None:
    """Read the configuration file of a folder, trusted or not; return None if it has none.

    Raises:
        ConfigError: As `read_config_file`.
    """
    for name in (CONFIG_FILE, PROJECT_FILE):
        if _is_file(folder / name):
            file = read_config_file(folder / name)
            if name == CONFIG_FILE or file.document:
                return file
    return None


def _own_part(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    if path.name != PROJECT_FILE:
        return document
    part = document
    for key in ("tool", "proofstream"):
        inner: object = part.get(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{shown_path(path)}: {key} is not a table")
        part = cast("dict[str, Any]", inner)
    return part


def users_file(environ: Mapping[str, str]) -> ConfigFile | None:
    """Read the user's own file, if there is one.

    Raises:
        ConfigError: As `read_config_file`.
    """
    path = users_config_file(environ)
    if path is None or not _is_file(path):
        return None
    if hasattr(os, "geteuid") and path.stat().st_uid not in (0, os.geteuid()):
        warn_once(f"{shown_path(path)} is not used, because it belongs to another user (name it with --config)")
        return None
    _log.info("settings from %s", shown_path(path))
    return read_config_file(path)


def trusted_file(folder: Path, environ: Mapping[str, str]) -> ConfigFile | None:
    """Return the folder's file if the user trusts it; if not, say so once."""
    try:
        file = find_config_file(folder)
    except ConfigError as error:
        warn_once(f"{error}; this file is not used")
        return None
    if file is None or not file.document:
        return None
    place = place_of(file.path)
    trust = trust_in(place, file.content, environ)
    if trust is Trust.GIVEN:
        return file
    why = "it has changed since you trusted it" if trust is Trust.OUTDATED else "you have not trusted it"
    how = f"to use it, run: proofstream trust {_quoted(place)}; or name it with --config or {CONFIG_VARIABLE}"
    warn_once(f"{shown_path(place)} is not used, because {why}; it sets {file.keys} ({how})")
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that may not be searched
        return False


def _names_of(key: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [key]
    return [f"{key}.{inner}" for inner in cast("dict[str, Any]", value)] or [key]


def _quoted(path: Path) -> str:
    return shown_path(Path(shlex.quote(str(path))))


def shown_path(path: Path) -> str:
    """Return a path as a message shows it: in one line, and never cut, so that the user can find the file."""
    return safe_text(str(path), limit=len(str(path)) or 1)
