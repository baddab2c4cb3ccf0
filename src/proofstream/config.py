"""Merges the configuration: defaults, then a file, then the environment, then flags.

The file is ``proofstream.toml``, or the table ``[tool.proofstream]`` of ``pyproject.toml``, in the current folder. Its
top-level keys belong to the host, and each table belongs to a plugin. In the environment, ``PROOFSTREAM_STRICT=1``
sets a key of the host and ``PROOFSTREAM_OTEL_ENDPOINT=...`` a key of a plugin.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from proofstream.config_table import read_table
from proofstream.errors import ConfigError

ENV_PREFIX = "PROOFSTREAM_"
CONFIG_FILE = "proofstream.toml"
_LONGEST_S = 365 * 24 * 3600.0
"""The longest deadline: a year. An infinite one would overflow the clock of Python's wait calls."""
_NOT_HOST_KEYS = frozenset({"log"})


class HostSettings(BaseModel):
    """The host's own settings.

    Attributes:
        plugins: If given, use only these plugins.
        plugin_autoload: Also use plugins that were not asked for by name.
        strict: End the run when a plugin fails.
        intake_capacity: Events that may wait for the bus.
        lane_capacity: Events that may wait for one plugin before bulk events are dropped.
        memory_bytes: About how much memory waiting events may take in all: one half for the plugins' queues, a quarter
            each for the intake and for what connections have sent and is not decoded.
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


@dataclass(kw_only=True, slots=True)
class Config:
    """The merged configuration.

    Attributes:
        host: The host's own settings.
        tables: The plugins' tables by plugin name, not yet validated.
        origin: The configuration file, or None.
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
        path: The file that the user named. It must exist.
        folder: Where to look for a file otherwise. By default the current folder.
        environ: The environment.
        overrides: Plugin settings from flags or arguments, by plugin.
        host_overrides: Host settings from flags or arguments.

    Raises:
        ConfigError: A file cannot be read, or a key or value is invalid.
    """
    names = set(plugins)
    document, origin = _read(path, folder if folder is not None else Path())
    tables = {key: dict(cast("dict[str, Any]", value)) for key, value in document.items() if isinstance(value, dict)}
    host = {key: value for key, value in document.items() if key not in tables}
    unknown = sorted(set(tables) - names)
    if unknown:
        raise ConfigError(f"{origin}: [{unknown[0]}] is not the table of a plugin", hint=_known(names))
    _apply_environment(environ, names, host, tables)
    for name, table in (overrides or {}).items():
        tables.setdefault(name, {}).update(table)
    host.update(host_overrides or {})
    return Config(host=_host_settings(host, origin), tables=tables, origin=origin)


def _known(names: set[str]) -> str:
    return "plugins: " + (", ".join(sorted(names)) or "none are installed")


def _read(path: Path | None, folder: Path) -> tuple[dict[str, Any], Path | None]:
    if path is not None:
        document = _parse(path)
        return (_tool_table(document) if path.name == "pyproject.toml" else document), path
    own = folder / CONFIG_FILE
    if own.is_file():
        return _parse(own), own
    project = folder / "pyproject.toml"
    if project.is_file():
        table = _tool_table(_parse(project))
        if table:
            return table, project
    return {}, None


def _tool_table(document: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = document.get("tool", {}).get("proofstream", {})
    return table


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


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
            raise ConfigError(f"{variable} is not a setting", hint=_known(names))


def _host_settings(values: Mapping[str, Any], origin: Path | None) -> HostSettings:
    try:
        return read_table(HostSettings, values)
    except ConfigError as error:
        if origin is None:
            raise
        raise ConfigError(f"{origin}: {error}") from None


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
        return plugin, key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return plugin, key, value
