"""Merges the configuration: defaults, the user's own file, a named or trusted file, the environment, then the call.

The call is the command's flags, or the arguments of `open_session`. A file's top-level keys belong to the host, as do
those of its table ``[host]``, which win; each other table belongs to a plugin. Each value keeps its origin, so that a
message can name it.

The caller answers for its own mistakes, and is told by a `ConfigError`. Other mistakes end a command, too, but not a
prover: if `lenient`, what a file or a variable says wrongly is left out with a warning.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from proofstream.config_files import (
    CONFIG_VARIABLE,
    ConfigFile,
    read_config_file,
    shown_path,
    trusted_file,
    users_file,
)
from proofstream.config_table import TableMistake, keys_in, read_table
from proofstream.config_variables import HOST_TABLE, about_stranger, read_variables, split_value
from proofstream.errors import ConfigError, describe, did_you_mean
from proofstream.inputs import parse_toml
from proofstream.notices import warn_once
from proofstream.plain_tables import Prepare
from proofstream.text import safe_text

if TYPE_CHECKING:
    from pydantic import BaseModel

    from proofstream.config_table import TableModel

    _Model = TypeVar("_Model", bound=BaseModel | msgspec.Struct)

_LONGEST_S = 365 * 24 * 3600.0
"""The longest deadline: a year. An infinite one would overflow the clock of Python's wait calls."""

_Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=_LONGEST_S)]


def _names(value: object) -> object:
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    return value


class HostSettings(msgspec.Struct, frozen=True, kw_only=True):
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

    plugins: Annotated[tuple[str, ...] | None, Prepare(_names)] = None
    plugin_autoload: bool = True
    strict: bool = False
    intake_capacity: Annotated[int, Meta(gt=0)] = 131_072
    lane_capacity: Annotated[int, Meta(gt=1)] = 8192
    memory_bytes: Annotated[int, Meta(ge=2**20)] = 256 * 2**20
    configure_timeout_s: _Seconds = 10.0
    close_timeout_s: _Seconds = 5.0
    progress_timeout_s: _Seconds = 5.0
    stalled_after_s: _Seconds = 30.0
    max_line_bytes: Annotated[int, Meta(gt=0)] = 16 * 2**20


class OriginKind(enum.Enum):
    """The kinds of places that values come from."""

    FILE = "file"
    VARIABLE = "variable"
    CALL = "call"


class Origin(NamedTuple):
    """The place that a value comes from.

    Attributes:
        kind: What it is.
        text: How a message names it.
    """

    kind: OriginKind
    text: str


def by_call(text: str) -> Origin:
    """Return the origin of what the caller says."""
    return Origin(OriginKind.CALL, text)


class Declared(Protocol):
    """The plugins, as the configuration sees them."""

    def settings_models(self, names: Collection[str] | None = None) -> Mapping[str, TableModel]:
        """Return the models of these plugins' tables, or of all, by plugin; without those that declare none."""
        ...

    def settings_given(self) -> Mapping[str, tuple[str, Mapping[str, Any]]]:
        """Return the settings that plugins' constructors were given, by plugin, each with its place for a message."""
        ...


class _Setting(NamedTuple):
    value: Any
    origin: Origin


_Table = dict[str, list[_Setting]]
"""The keys of a table, each with its settings in rising precedence."""


@dataclass(kw_only=True, slots=True)
class Config:
    """The merged configuration.

    Attributes:
        host: The host's own settings.
        origin: The configuration file that was used besides the user's own, or None.
        lenient: Whether the mistakes of files and variables are left out with a warning.
        plugins: The names of all plugins that there are.
        strangers: Variables that look like settings and are none.
    """

    host: HostSettings = field(default_factory=HostSettings)
    origin: Path | None = None
    lenient: bool = False
    plugins: tuple[str, ...] = ()
    strangers: list[str] = field(default_factory=list[str])
    _tables: dict[str, _Table] = field(default_factory=dict[str, _Table])

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]], *, host: HostSettings | None = None) -> Config:
        """Make a configuration of plugins' tables by plugin name."""
        config = cls(host=host or HostSettings())
        for name, table in tables.items():
            config.put(name, table, by_call("config"))
        return config

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """The plugins' tables by plugin name."""
        return {name: self.table(name) for name in self._tables if name != HOST_TABLE}

    def table(self, plugin: str) -> dict[str, Any]:
        """Return a copy of one plugin's table."""
        return {key: settings[-1].value for key, settings in self._tables.get(plugin, {}).items()}

    def origin_of(self, table: str, key: str) -> str | None:
        """Return where a value comes from; None for the default."""
        settings = self._tables.get(table, {}).get(key)
        return settings[-1].origin.text if settings else None

    def put(self, table: str, values: Mapping[str, Any], origin: Origin) -> None:
        """Set keys of a table, with precedence over all that was put before."""
        for key, value in values.items():
            self._tables.setdefault(table, {}).setdefault(key, []).append(_Setting(value, origin))

    def settle_host(self) -> None:
        """Read the host's own settings again.

        Raises:
            ConfigError: A key is unknown or a value is invalid.
        """
        self.host = self._settle(HOST_TABLE, HostSettings) or HostSettings()

    def settle(self, plugins: Declared, *, only: Collection[str] | None = None) -> None:
        """Check the plugins' tables by their models, with what their constructors were given, which wins.

        Args:
            plugins: The plugins.
            only: The plugins whose tables are checked; by default all.

        Raises:
            ConfigError: A key is unknown or a value is invalid.
        """
        for name, (place, given) in plugins.settings_given().items():
            self.put(name, given, by_call(place))
        for name, model in plugins.settings_models(self.tables if only is None else only).items():
            self._settle(name, model)
        self.warn_of_strangers(plugins)

    def warn_of_strangers(self, plugins: Declared) -> None:
        """Name the environment's variables that look like settings and are none, once in this process."""
        if self.strangers:
            models: dict[str, TableModel] = {HOST_TABLE: HostSettings, **plugins.settings_models()}
            keys = dict.fromkeys(self.plugins, ()) | {table: keys_in(model) for table, model in models.items()}
            for name in self.strangers:
                warn_once(about_stranger(name, keys=keys))

    def _settle(self, name: str, model: type[_Model]) -> _Model | None:
        """Return a table as its model; None if it is empty."""
        table = self._tables.get(name, {})
        while table:
            try:
                return read_table(model, self.table(name), name="" if name == HOST_TABLE else name)
            except Exception as error:  # noqa: BLE001 - a third-party validator may raise anything
                mistake = error if isinstance(error, TableMistake) else _of_validator(name, error)
                if not _split(table, mistake):
                    self._leave_out(table, mistake)
        return None

    def _leave_out(self, table: _Table, mistake: TableMistake) -> None:
        """Leave out what is wrong in a table, if it may be.

        Raises:
            ConfigError: It may not.
        """
        # Without the key of a mistake, any key of the table may be the wrong one, or lack another.
        wrong = {mistake.key: table[mistake.key]} if mistake.key in table else dict(table)
        forgiven = [key for key, given in wrong.items() if self._is_forgiven(given[-1].origin.kind, mistake)]
        if not forgiven:
            origins = dict.fromkeys(given[-1].origin.text for given in wrong.values())
            raise ConfigError(f"{', '.join(origins)}: {mistake}")
        for key in forgiven:
            _, origin = table[key].pop()
            if not table[key]:
                del table[key]
            if mistake.is_unknown and origin.kind is OriginKind.VARIABLE:
                self.strangers.append(origin.text)
            else:
                warn_once(f"{origin.text}: {mistake} (left out)")

    def _is_forgiven(self, kind: OriginKind, mistake: TableMistake) -> bool:
        if kind is OriginKind.VARIABLE and mistake.is_unknown:
            return True  # others may set it for a purpose of their own
        return self.lenient and kind is not OriginKind.CALL


def load_config(
    *,
    plugins: Iterable[str],
    path: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str],
    call: Mapping[str, Any] | None = None,
    called: str = "open_session(config=...)",
    lenient: bool = False,
) -> Config:
    """Merge the configuration, and check the host's own settings.

    Args:
        plugins: The names of all plugins, installed or not. A table of any other name is a mistake.
        path: The file that the user named. It must exist. By default that of ``PROOFSTREAM_CONFIG``.
        folder: Where to look for a file that the user trusts otherwise. By default the current folder.
        environ: The environment.
        call: Settings from flags or arguments, in a file's form.
        called: How a message names those.
        lenient: Whether to leave out the mistakes of files and variables, with a warning.

    Raises:
        ConfigError: A file cannot be read, or a key or value is invalid.
    """
    config = Config(lenient=lenient, plugins=tuple(plugins))
    tables = {HOST_TABLE, *config.plugins}
    own = _unless_unreadable(lambda: users_file(environ), lenient=lenient)
    chosen = _chosen_file(path, folder or Path(), environ, lenient=lenient)
    for file in (own, chosen):
        if file is not None:
            origin = Origin(OriginKind.FILE, shown_path(file.path))
            # The user's own file serves several environments, with different plugins.
            _put_document(config, file.document, origin, tables, forgives_tables=lenient or file is own)
    variables, strangers = read_variables(environ, host_keys=HostSettings.__struct_fields__, plugins=config.plugins)
    for variable in variables:
        config.put(variable.table, {variable.key: variable.value}, Origin(OriginKind.VARIABLE, variable.name))
    config.strangers.extend(strangers)
    _put_document(config, call or {}, by_call(called), tables)
    config.origin = None if chosen is None else chosen.path
    config.settle_host()
    for name in config.host.plugins or ():
        if name not in tables:  # no error, because several environments may share what says it
            near = did_you_mean(name, sorted(tables - {HOST_TABLE}))
            warn_once(f"{config.origin_of(HOST_TABLE, 'plugins')}: no plugin is named {safe_text(name)}{near}")
    return config


def _split(table: _Table, mistake: TableMistake) -> bool:
    """Make a list or a table of a variable's text, if that is what is wrong with it; return whether it was."""
    given = table.get(mistake.key or "")
    if given is None or given[-1].origin.kind is not OriginKind.VARIABLE or not isinstance(given[-1].value, str):
        return False
    value = split_value(given[-1].value, mistake.kind)
    if value is not None:
        given[-1] = given[-1]._replace(value=value)
    return value is not None


def _of_validator(name: str, error: Exception) -> TableMistake:
    what = str(error) if isinstance(error, ConfigError) else describe(error)
    return TableMistake(f"{name}: {what}")


def _chosen_file(path: Path | None, folder: Path, environ: Mapping[str, str], *, lenient: bool) -> ConfigFile | None:
    if path is not None:
        return read_config_file(path)
    named = environ.get(CONFIG_VARIABLE)
    if not named:
        return trusted_file(folder, environ)
    return _unless_unreadable(lambda: read_config_file(Path(named)), lenient=lenient, place=f"{CONFIG_VARIABLE}: ")


def _unless_unreadable(read: Callable[[], ConfigFile | None], *, lenient: bool, place: str = "") -> ConfigFile | None:
    try:
        return read()
    except ConfigError as error:
        if not lenient:
            raise ConfigError(f"{place}{error}") from None
        warn_once(f"{place}{error} (this file is not used)")
        return None


def _put_document(
    config: Config, document: Mapping[str, Any], origin: Origin, tables: set[str], *, forgives_tables: bool = False
) -> None:
    """Set the keys and tables of a file, or of a call in the same form; ``[host]`` wins over the keys at the top."""
    of_host = {key: value for key, value in document.items() if not isinstance(value, Mapping) and key not in tables}
    config.put(HOST_TABLE, of_host, origin)
    for name, table in document.items():
        if name in of_host:
            continue
        problem = _problem_of(name, table, tables)
        if problem is None:
            config.put(name, table, origin)
        elif forgives_tables:
            warn_once(f"{origin.text}: {problem} (left out)")
        else:
            raise ConfigError(f"{origin.text}: {problem}", hint=_known(tables))


def _problem_of(name: str, table: object, tables: set[str]) -> str | None:
    if name not in tables:
        near = did_you_mean(name, sorted(tables))
        return f"[{safe_text(name)}] is the table of no plugin that is installed here{near}"
    return None if isinstance(table, Mapping) else f"{name} must be a table, not {type(table).__name__}"


def _known(tables: set[str]) -> str:
    return "plugins: " + (", ".join(sorted(tables - {HOST_TABLE})) or "none are installed")


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
