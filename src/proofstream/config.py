"""Merges the configuration: defaults, the user's own file, a named or trusted file, the environment, then flags.

A file's top-level keys belong to the host, and each table belongs to a plugin. In the environment,
``PROOFSTREAM_STRICT=1`` sets a key of the host and ``PROOFSTREAM_OTEL_ENDPOINT=...`` a key of a plugin.

``proofstream.toml`` in the current folder, or ``[tool.proofstream]`` of ``pyproject.toml`` there, may have come with a
clone or a download. Its keys could write files, start programs or send data elsewhere, and only the plugins know
which of theirs do. Therefore such a file has no effect until the user trusts it as a whole.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proofstream.config_table import read_table
from proofstream.errors import ConfigError
from proofstream.inputs import parse_toml, read_small_file
from proofstream.notices import warn_user
from proofstream.text import safe_text
from proofstream.trust import Trust, place_of, trust_in, users_config_file

ENV_PREFIX = "PROOFSTREAM_"
CONFIG_FILE = "proofstream.toml"
PROJECT_FILE = "pyproject.toml"
MAX_CONFIG_BYTES = 2**20
"""The longest configuration file."""

_LONGEST_S = 365 * 24 * 3600.0
"""The longest deadline: a year. An infinite one would overflow the clock of Python's wait calls."""
_CONFIG_VARIABLE = "PROOFSTREAM_CONFIG"
_NOT_HOST_KEYS = frozenset({"config", "log"})
_LONGEST_REASON = 1000
_MOST_KEYS_SHOWN = 8
_MOST_REMEMBERED = 1000

_log = logging.getLogger("proofstream")
_said: set[str] = set()
"""Warnings that this process has given. A service may open a session for each request."""


class HostSettings(BaseModel):
    """The host's own settings.

    Attributes:
        plugins: If given, use only these plugins.
        plugin_autoload: Also use plugins that were not asked for by name.
        strict: End the run when a plugin fails.
        intake_capacity: Events that may wait for the bus.
        lane_capacity: Events that may wait for one plugin before bulk events are dropped.
        memory_bytes: About how much memory waiting events may take in all: one half before the bus, where connections
            may fill half with bytes that are not decoded, and one half in the plugins' queues.
        configure_timeout_s: How long requested plugins may take to get ready.
        close_timeout_s: How long plugins may take to finish.
        progress_timeout_s: How long to wait, at the end of a file, for a plugin that makes no progress.
        stalled_after_s: A plugin that works on one batch for longer than this is called stalled.
        max_line_bytes: The longest line that is read.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", frozen=True)

    plugins: tuple[str, ...] | None = None
    plugin_autoload: bool = True
    strict: bool = False
    intake_capacity: int = Field(default=131_072, gt=0)
    lane_capacity: int = Field(default=8192, gt=1)
    memory_bytes: int = Field(default=256 * 2**20, ge=2**20)
    configure_timeout_s: float = Field(default=10.0, gt=0, le=_LONGEST_S)
    close_timeout_s: float = Field(default=5.0, gt=0, le=_LONGEST_S)
    progress_timeout_s: float = Field(default=5.0, gt=0, le=_LONGEST_S)
    stalled_after_s: float = Field(default=30.0, gt=0, le=_LONGEST_S)
    max_line_bytes: int = Field(default=16 * 2**20, gt=0)

    @field_validator("plugins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(name.strip() for name in value.split(",") if name.strip())
        return value


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


@dataclass(kw_only=True, slots=True)
class Config:
    """The merged configuration.

    Attributes:
        host: The host's own settings.
        tables: The plugins' tables by plugin name, not yet validated.
        origin: The configuration file that was used besides the user's own, or None.
    """

    host: HostSettings = field(default_factory=HostSettings)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    origin: Path | None = None

    def table(self, plugin: str) -> dict[str, Any]:
        """Return one plugin's table."""
        return self.tables.setdefault(plugin, {})


def load_config(
    *,
    plugins: Iterable[str],
    path: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str],
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    host_overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Merge the configuration.

    Args:
        plugins: The names of all plugins, installed or not. A table of any other name is an error.
        path: The file that the user named. It must exist. By default that of ``PROOFSTREAM_CONFIG``.
        folder: Where to look for a file that the user trusts otherwise. By default the current folder.
        environ: The environment.
        overrides: Plugin settings from flags or arguments, by plugin.
        host_overrides: Host settings from flags or arguments.

    Raises:
        ConfigError: A file cannot be read, or a key or value is invalid.
    """
    names = set(plugins)
    host: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {}
    named = path or (Path(environ[_CONFIG_VARIABLE]) if environ.get(_CONFIG_VARIABLE) else None)
    chosen = read_config_file(named) if named is not None else _trusted_file(folder or Path(), environ)
    for file in (_users_file(environ, names), chosen):
        if file is not None:
            _merge_file(file, names, host, tables)
    _apply_environment(environ, names, host, tables)
    for name, table in (overrides or {}).items():
        tables.setdefault(name, {}).update(table)
    host.update(host_overrides or {})
    return Config(host=read_table(HostSettings, host), tables=tables, origin=None if chosen is None else chosen.path)


def _merge_file(file: ConfigFile, names: set[str], host: dict[str, Any], tables: dict[str, dict[str, Any]]) -> None:
    """Add a file's keys to those of the files before it, whose values they replace."""
    where, of_host = _shown(file.path), dict[str, Any]()
    for key, value in file.document.items():
        if not isinstance(value, dict):
            of_host[key] = value
        elif key in names:
            tables.setdefault(key, {}).update(cast("dict[str, Any]", value))
        else:
            raise ConfigError(f"{where}: [{safe_text(key)}] is not the table of a plugin", hint=_known(names))
    try:
        read_table(HostSettings, of_host)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    host.update(of_host)


def _known(names: set[str]) -> str:
    return "plugins: " + (", ".join(sorted(names)) or "none are installed")


# Files


def read_config_file(path: Path) -> ConfigFile:
    """Read a configuration file.

    Raises:
        ConfigError: It cannot be read, is longer than `MAX_CONFIG_BYTES`, or is not TOML.
    """
    try:
        content = read_small_file(path, MAX_CONFIG_BYTES)
        document = parse_toml(content.decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{_shown(path)}: {error.strerror or error}") from None
    except ValueError as error:  # not UTF-8, not TOML, or a path with a NUL in it
        raise ConfigError(f"{_shown(path)}: {safe_text(str(error), _LONGEST_REASON)}") from None
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
            raise ConfigError(f"{_shown(path)}: {key} is not a table")
        part = cast("dict[str, Any]", inner)
    return part


def _users_file(environ: Mapping[str, str], names: set[str]) -> ConfigFile | None:
    """Return the user's own file, if there is one, without the tables of plugins that this environment lacks."""
    path = users_config_file(environ)
    if path is None or not _is_file(path):
        return None
    if hasattr(os, "geteuid") and path.stat().st_uid not in (0, os.geteuid()):
        _warn_once(f"{_shown(path)} is not used, because it belongs to another user (name it with --config)")
        return None
    _log.info("settings from %s", _shown(path))
    file = read_config_file(path)
    foreign = [key for key, value in file.document.items() if isinstance(value, dict) and key not in names]
    if foreign:
        tables = safe_text(", ".join(f"[{key}]" for key in foreign), _LONGEST_REASON)
        _warn_once(f"{_shown(path)}: not used, because no plugin of this name is installed here: {tables}")
    kept = {key: value for key, value in file.document.items() if key not in foreign}
    return ConfigFile(path=path, content=file.content, document=kept)


def _trusted_file(folder: Path, environ: Mapping[str, str]) -> ConfigFile | None:
    """Return the folder's file if the user trusts it; if not, say so once."""
    try:
        file = find_config_file(folder)
    except ConfigError as error:
        _warn_once(f"{error}; this file is not used")
        return None
    if file is None or not file.document:
        return None
    place = place_of(file.path)
    trust = trust_in(place, file.content, environ)
    if trust is Trust.GIVEN:
        return file
    why = "it has changed since you trusted it" if trust is Trust.OUTDATED else "you have not trusted it"
    how = f"to use it, run: proofstream trust {_quoted(place)}; or name it with --config or {_CONFIG_VARIABLE}"
    _warn_once(f"{_shown(place)} is not used, because {why}; it sets {file.keys} ({how})")
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that may not be searched
        return False


def _warn_once(message: str) -> None:
    if message not in _said and len(_said) < _MOST_REMEMBERED:
        _said.add(message)
        warn_user(message)


def _names_of(key: str, value: object) -> list[str]:
    if not isinstance(value, dict):
        return [key]
    return [f"{key}.{inner}" for inner in cast("dict[str, Any]", value)] or [key]


def _quoted(path: Path) -> str:
    return _shown(Path(shlex.quote(str(path))))


def _shown(path: Path) -> str:
    """Return a path as a message shows it: in one line, and never cut, so that the user can find the file."""
    return safe_text(str(path), limit=len(str(path)) or 1)


# Environment and flags


def _apply_environment(
    environ: Mapping[str, str], names: set[str], host: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    by_prefix = {name.replace("-", "_").upper() + "_": name for name in names}
    for variable, value in sorted(environ.items()):
        if not variable.startswith(ENV_PREFIX):
            continue
        rest = variable.removeprefix(ENV_PREFIX)
        if rest.lower() in HostSettings.model_fields:
            host[rest.lower()] = value
            continue
        prefix = next((p for p in by_prefix if rest.startswith(p)), None)
        if prefix is not None:
            tables.setdefault(by_prefix[prefix], {})[rest.removeprefix(prefix).lower()] = value
        elif rest.lower() not in _NOT_HOST_KEYS:
            raise ConfigError(f"{safe_text(variable)} is not a setting", hint=_known(names))


def parse_set(text: str) -> tuple[str, str, Any]:
    """Split ``plugin.key=value``. The value is parsed as TOML if it is valid TOML, else it is text.

    Raises:
        ConfigError: The text does not have that form.
    """
    left, equals, value = text.partition("=")
    plugin, dot, key = left.strip().partition(".")
    if not (equals and dot and plugin and key):
        raise ConfigError(f"--set {text!r} is not of the form plugin.key=value")
    try:
        return plugin, key, parse_toml(f"value = {value}")["value"]
    except ValueError:
        return plugin, key, value
