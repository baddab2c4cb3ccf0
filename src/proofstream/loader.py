"""Finds plugins by entry point, imports those that are wanted, and keeps a record of each.

One bad plugin never keeps another from loading. A plugin that was asked for by name must work; one that was merely
found may be absent.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import util
from typing import TYPE_CHECKING, Any, cast

import msgspec

from proofstream.catalog import Catalog
from proofstream.contracts import CORE_COMMANDS, CORE_FLAGS, Command, Option, SourceType, Tool
from proofstream.entry_files import entry_points as entry_points_of
from proofstream.envelopes import HOST, PRODUCER
from proofstream.errors import PluginError, ProofstreamError, UsageError, describe, did_you_mean, in_parentheses
from proofstream.health import PluginStatus
from proofstream.hooks import Hooks
from proofstream.hookspecs import PROJECT
from proofstream.sources.builtin import builtin_sources

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

    from proofstream.config_table import TableModel

HANDED_TO_ALL = frozenset({"SessionOpened", "SessionClosed", "EventsLost"})
"""The kinds that every plugin is handed, whatever its `wants`: where a stream begins, ends and has gaps."""

GROUP = PROJECT
"""The entry-point group."""

TRACEBACK_HINT = "the logger proofstream shows where at level DEBUG"
"""Tells a Python process how to see the traceback of a failure."""

_RESERVED = frozenset({HOST, PRODUCER, PROJECT})
"""Origins and owners that are not plugins."""

_log = logging.getLogger("proofstream.loader")


class PluginRecord(msgspec.Struct, kw_only=True):
    """A plugin that was found or given, and its condition.

    Attributes:
        name: Its entry-point name.
        distribution: The distribution that it comes from; '' for an instance that no entry point names.
        version: That distribution's version.
        status: Its condition.
        reason: Why it cannot be used, in one line.
        hint: What the user can do about it.
        hooks: Its hooks, once it is loaded.
        autoload: Whether it is used unasked; `command`: only by the command.
        tick_s: The seconds between the empty batches that it gets, whether events come or not; None for none.
        rederives: Whether it derives its events again when sessions are replayed; `asked`: only if the user asked for
            it.
        derives: The kinds that it derives from a producer's events.
        wants: The kinds that it is handed; None for all.
        only_publishes: Whether nothing comes from it but events for other plugins.
        complete: Whether its output may not have gaps if the user wants it.
        given_settings: The keys of its table that its constructor was given.
        models: The model of its table, or None if it has none; empty until it was asked for.
        wanted_by: Environment variables by which a user wants it.
        cause: The error that the plugin itself raised for the user.
    """

    name: str
    distribution: str
    version: str
    status: PluginStatus = PluginStatus.AVAILABLE
    reason: str | None = None
    hint: str | None = None
    hooks: Hooks | None = None
    autoload: bool | str = True
    tick_s: float | None = None
    rederives: bool | str = True
    derives: tuple[str, ...] = ()
    wants: frozenset[str] | None = None
    only_publishes: bool = False
    complete: bool = False
    given_settings: Mapping[str, Any] = {}
    models: tuple[TableModel | None, ...] = ()
    wanted_by: tuple[str, ...] = ()
    cause: ProofstreamError | None = None

    @property
    def label(self) -> str:
        """Its name, distribution and version, for messages."""
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def mark(self, status: PluginStatus, reason: str, hint: str | None = None) -> None:
        """Set a status in which it cannot be used.

        A missing plugin keeps its hooks, so that a user of its flag or source learns what to install.
        """
        self.status, self.reason, self.hint = status, reason, hint
        self.cause = None
        if status is not PluginStatus.MISSING:
            self.hooks = None

    def settings_model(self) -> TableModel | None:
        """Return the model of its table; None if it declares none, or cannot be asked. The hook is called once."""
        if not self.models:
            self.models = (self._ask_for_model(),)
        return self.models[0]

    def _ask_for_model(self) -> TableModel | None:
        try:
            model: object = None if self.hooks is None else self.hooks.call("proofstream_settings")
            if model is not None and not _is_model(model):
                raise TypeError("proofstream_settings did not return a pydantic model")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a third-party declaring hook may raise anything
            _log.warning("plugin %s: its table is not checked: %s", self.label, describe(error))
            return None
        return cast("TableModel | None", model)

    def error(self) -> ProofstreamError:
        """Return the error for the user who asked for it."""
        if self.cause is not None:
            return self.cause
        reason = f": {self.reason}" if self.reason else ""
        return PluginError(f"plugin {self.label} is {self.status.value}{reason}", hint=self.hint)


def _is_model(model: object) -> bool:
    if isinstance(model, type) and issubclass(model, msgspec.Struct):
        return True
    from pydantic import BaseModel  # a plugin with such a model has loaded it

    return isinstance(model, type) and issubclass(model, BaseModel)


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The choice of plugins to import.

    Attributes:
        asked: Names that must work.
        blocked: Names that must not even be imported.
        allowed: If not None, only these and the asked ones are imported.
    """

    asked: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None

    def admits(self, name: str) -> bool:
        """Return whether the plugin may be imported."""
        if name in self.blocked:
            return False
        return self.allowed is None or name in self.allowed or name in self.asked


class Registry(msgspec.Struct, kw_only=True):
    """All plugins of a host, and everything that they declare.

    Attributes:
        records: The plugins, by name.
        catalog: The event types of the core and the plugins.
        sources: Kinds of sources by scheme, with the plugin each comes from.
        options: Command-line flags, with the plugin each belongs to.
        commands: Commands, with the plugin each comes from.
        given: Names of the plugins that were given ready-made, whether or not they can be used.
    """

    records: dict[str, PluginRecord] = {}
    catalog: Catalog = msgspec.field(default_factory=Catalog)
    sources: dict[str, tuple[SourceType, str]] = {}
    options: dict[str, tuple[Option, str]] = {}
    commands: dict[str, tuple[Command | Tool, str]] = {}
    given: list[str] = []

    def require(self, name: str) -> PluginRecord:
        """Return the plugin of that name.

        Raises:
            PluginError: It is not installed, or cannot be used.
        """
        record = self.records.get(name)
        if record is None:
            known = ", ".join(sorted(self.records)) or "none"
            near = did_you_mean(name, self.records)
            raise PluginError(f"no plugin is named {name!r}{near}", hint=f"installed: {known}")
        if not record.status.is_usable:
            raise record.error()
        return record

    def settings_models(self, names: Collection[str] | None = None) -> dict[str, TableModel]:
        """Return the models of these plugins' tables, or of all, by plugin; without those that declare none."""
        asked = [record for name, record in self.records.items() if names is None or name in names]
        models = {record.name: record.settings_model() for record in asked}
        return {name: model for name, model in models.items() if model is not None}

    def settings_given(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Return the settings that plugins' constructors were given, by plugin, each with its place for a message."""
        return {
            record.name: (f"{type(record.hooks.plugin).__name__}(...)", record.given_settings)
            for record in self.records.values()
            if record.hooks is not None and record.given_settings
        }

    def automatic(self, *, by_command: bool) -> list[str]:
        """Return the names of the plugins that are used unasked."""
        return [name for name in self.enabled(by_command=by_command) if self.records[name].status.is_usable]

    def unmet_wishes(self, names: Iterable[str], environ: Mapping[str, str]) -> list[str]:
        """Say for which of these plugins, which would be used unasked, a variable is set in vain."""
        found: list[str] = []
        for record in (self.records[name] for name in names):
            variable = next((name for name in record.wanted_by if environ.get(name, "").strip()), None)
            if variable is not None and not record.status.is_usable:
                hint = in_parentheses(record.hint)
                found.append(f"{variable} is set, and plugin {record.name} cannot be used: {record.reason}{hint}")
        return found

    def enabled(self, *, by_command: bool) -> list[str]:
        """Return the names of the plugins that would be used unasked, even if they cannot be."""
        enabled = [record for record in self.records.values() if record.status is not PluginStatus.DISABLED]
        return [r.name for r in enabled if r.autoload is True or (by_command and r.autoload == "command")]


class _Origin(msgspec.Struct, frozen=True):
    """The distribution that an entry point comes from."""

    name: str
    version: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


class _Found(msgspec.Struct, frozen=True):
    """An entry point, and where it comes from."""

    point: EntryPoint
    origin: _Origin


def entry_points() -> list[EntryPoint]:
    """Return the entry points of the group, sorted by name."""
    return entry_points_of(GROUP)


def names_of(found: Iterable[EntryPoint], instances: Iterable[object]) -> set[str]:
    """Return the names of all plugins, installed or given, without importing any."""
    points = list(found)
    return {point.name for point in points} | {_name_of(instance, points)[0] for instance in instances}


def load(
    selection: Selection,
    *,
    found: Iterable[EntryPoint] | None = None,
    instances: Sequence[object] = (),
    named: Sequence[tuple[str, object]] = (),
    traceback_hint: str = TRACEBACK_HINT,
) -> Registry:
    """Load plugins and collect what they declare.

    Args:
        selection: Which plugins to import.
        found: The entry points; those of the environment by default.
        instances: Ready-made plugins; each takes the place of the entry point that names its class.
        named: Ready-made plugins with their names; each takes the place of the entry point of that name.
        traceback_hint: Says how to see the traceback of a plugin that raised an unexpected exception.

    Raises:
        UsageError: A plugin is both asked for and blocked, or no plugin has a blocked name.
    """
    both = selection.asked & selection.blocked
    if both:
        raise UsageError(f"plugin {min(both)!r} is both asked for and switched off")
    points = entry_points() if found is None else sorted(found, key=lambda ep: (ep.name, ep.value))
    strange = selection.blocked - {point.name for point in points}
    if strange:
        known = sorted({point.name for point in points})
        near = did_you_mean(min(strange), known)
        raise UsageError(f"no plugin is named {min(strange)!r}{near}", hint=f"installed: {', '.join(known) or 'none'}")
    registry = Registry()
    located = _located(points)
    for record in (*(_given(instance, located) for instance in instances), *(_named(*one) for one in named)):
        if record.name in registry.records:
            raise UsageError(f"two plugins named {record.name!r} were given")
        registry.records[record.name] = record
        registry.given.append(record.name)
    for record in _found(located, selection, given=set(registry.records), hint=traceback_hint):
        registry.records[record.name] = record
    registry.records = dict(sorted(registry.records.items()))
    _collect(registry, hint=traceback_hint)
    return registry


def _located(points: Iterable[EntryPoint]) -> list[_Found]:
    """Return the entry points with their origins; every question to a distribution reads and parses its metadata."""
    origins: dict[int, _Origin] = {}
    located: list[_Found] = []
    for point in points:
        if id(point.dist) not in origins:
            origins[id(point.dist)] = _origin(point.dist)
        located.append(_Found(point, origins[id(point.dist)]))
    return located


def _origin(distribution: Distribution | None) -> _Origin:
    return _Origin("unknown", "") if distribution is None else _Origin(distribution.name, distribution.version)


def _found(points: Iterable[_Found], selection: Selection, *, given: set[str], hint: str) -> list[PluginRecord]:
    by_name: dict[str, list[_Found]] = {}
    for found in points:
        if found.point.name not in given:
            by_name.setdefault(found.point.name, []).append(found)
    return [_record(same, selection, hint=hint) for same in by_name.values()]


def _record(same: list[_Found], selection: Selection, *, hint: str) -> PluginRecord:
    same = _without_usurpers(same)
    point, origin = same[0].point, same[0].origin
    record = PluginRecord(name=point.name, distribution=origin.name, version=origin.version)
    if len({found.origin.name for found in same}) > 1:
        owners = " and ".join(found.origin.label for found in same)
        record.mark(PluginStatus.BROKEN, f"two distributions have a plugin of this name: {owners}", "uninstall one")
    elif not selection.admits(point.name):
        record.mark(PluginStatus.DISABLED, "switched off")
    else:
        _load_point(record, point, hint=hint)
    return record


def _without_usurpers(same: list[_Found]) -> list[_Found]:
    """Return the entry points of one name without those that take it from a first-party plugin, which are named."""
    own = [found for found in same if found.origin.name == PROJECT]
    if not own:
        return same
    for other in sorted({found.origin.label for found in same} - {found.origin.label for found in own}):
        _log.warning(
            "the plugin %s of %s is not used, because a plugin of %s has this name; uninstall it, or rename its plugin",
            same[0].point.name,
            other,
            PROJECT,
        )
    return own


def _load_point(record: PluginRecord, point: EntryPoint, *, hint: str) -> None:
    try:
        target = _resolve(point)
        _adopt(record, target() if isinstance(target, type) else target)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == point.module.partition(".")[0]:
            record.mark(PluginStatus.BROKEN, f"{error} (a stale or incomplete install of {record.distribution}?)")
        else:
            _mark_missing(record, error.name)
    except PluginError as error:
        record.mark(PluginStatus.BROKEN, str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - importing third-party code may raise anything; the others must still load
        _mark_unexpected(record, error, hint=hint)


def _mark_unexpected(record: PluginRecord, error: BaseException, *, hint: str) -> None:
    """Mark a plugin that raised while it was loaded as broken; the traceback is logged, or the hint leads to it."""
    record.mark(PluginStatus.BROKEN, describe(error), hint or None)
    _log.debug("plugin %s could not be loaded", record.label, exc_info=error)


def _resolve(point: EntryPoint) -> Any:
    target: Any = importlib.import_module(point.module)
    for part in filter(None, (point.attr or "").split(".")):
        target = getattr(target, part)
    return target


def _first_missing(requires: str | Iterable[str]) -> str | None:
    for module in (requires,) if isinstance(requires, str) else requires:
        try:
            if util.find_spec(module) is None:
                return module
        except ModuleNotFoundError:
            return module
    return None


def _mark_missing(record: PluginRecord, module: str) -> None:
    hint = f"pip install '{record.distribution}[{record.name}]'" if record.distribution else None
    record.mark(PluginStatus.MISSING, f"needs {module}, which is not installed", hint)


def mark_unconfigured(record: PluginRecord, error: BaseException, *, hint: str | None) -> None:
    """Mark a plugin whose configure raised as missing or broken; `hint` says how to see an unexpected error's place."""
    own = type(record.hooks.plugin).__module__ if record.hooks is not None else ""
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != own.partition(".")[0]:
        _mark_missing(record, error.name)
        return
    if isinstance(error, ProofstreamError):
        record.mark(PluginStatus.BROKEN, str(error), error.hint)
        record.cause = error
    else:
        record.mark(PluginStatus.BROKEN, describe(error), hint)


def _adopt(record: PluginRecord, plugin: object) -> None:
    if record.name in _RESERVED:
        raise PluginError(
            f"a plugin cannot be named {record.name!r}: events of the core and of producers have that name"
        )
    record.hooks = Hooks(plugin, record.name)
    record.autoload = getattr(plugin, "autoload", True)
    record.rederives = getattr(plugin, "rederives", True)
    record.derives = _kinds("derives", getattr(plugin, "derives", ()))
    wants: object = getattr(plugin, "wants", None)
    record.wants = None if wants is None else frozenset(_kinds("wants", wants)) | HANDED_TO_ALL
    record.wanted_by = _variables(getattr(plugin, "wanted_by", ()))
    only: object = getattr(plugin, "only_publishes", False)
    if not isinstance(only, bool):
        raise PluginError(f"only_publishes is {only!r}; it must be True or False")
    record.only_publishes = only
    complete: object = getattr(plugin, "complete", False)
    if not isinstance(complete, bool):
        raise PluginError(f"complete is {complete!r}; it must be True or False")
    record.complete = complete
    given: object = getattr(plugin, "given_settings", {})
    if not isinstance(given, Mapping):
        raise PluginError(f"given_settings is {given!r}; it must be a mapping")
    record.given_settings = cast("Mapping[str, Any]", given)
    tick = getattr(plugin, "tick_s", None)
    record.tick_s = None if tick is None else float(tick)
    if record.tick_s is not None and not record.tick_s > 0:
        raise PluginError(f"tick_s is {tick!r}; it must be above 0")
    missing = _first_missing(getattr(plugin, "requires", ()))
    if missing is not None:
        _mark_missing(record, missing)


def _kinds(attribute: str, declared: object) -> tuple[str, ...]:
    """Return the kinds that an attribute of a plugin names."""
    kinds = tuple(cast("Sequence[object]", declared)) if isinstance(declared, tuple | list) else ()
    names = tuple(kind for kind in kinds if isinstance(kind, str) and kind.isidentifier() and kind[:1].isupper())
    if not isinstance(declared, tuple | list) or len(names) < len(kinds):
        raise PluginError(f"{attribute} is {declared!r}; it must be a tuple of kinds, such as ('StateProgramCost',)")
    return names


def _variables(declared: object) -> tuple[str, ...]:
    """Return the environment variables that a plugin's `wanted_by` names."""
    names = tuple(cast("Sequence[object]", declared)) if isinstance(declared, tuple | list) else (None,)
    variables = tuple(name for name in names if isinstance(name, str) and name)
    if len(variables) < len(names):
        raise PluginError(f"wanted_by is {declared!r}; it must be a tuple of environment variables")
    return variables


def _given(instance: object, points: Sequence[_Found]) -> PluginRecord:
    if isinstance(instance, type):
        raise UsageError(f"{instance.__name__} is a class; a plugin is given as an instance of one or by its name")
    name, point = _name_of(instance, [found.point for found in points])
    origin = next((found.origin for found in points if found.point is point), _Origin("", ""))
    return _ready_made(PluginRecord(name=name, distribution=origin.name, version=origin.version), instance)


def _name_of(instance: object, points: Iterable[EntryPoint]) -> tuple[str, EntryPoint | None]:
    """Return a given plugin's name, and the entry point that names its class, if there is one."""
    cls = type(instance)
    for point in points:
        if (point.module, point.attr) == (cls.__module__, cls.__qualname__):
            return point.name, point
    return str(getattr(instance, "name", cls.__name__)), None


def _named(name: str, instance: object) -> PluginRecord:
    try:
        return _ready_made(PluginRecord(name=name, distribution="", version=""), instance)
    except PluginError as error:
        raise PluginError(f"plugin {name}: {error}") from None


def _ready_made(record: PluginRecord, instance: object) -> PluginRecord:
    _adopt(record, instance)
    if record.hooks is not None and not record.hooks.any:
        raise UsageError(f"{record.name} is not a plugin: it implements no hook")
    return record


# Declarations


def _collect(registry: Registry, *, hint: str) -> None:
    for source in builtin_sources(registry.catalog):
        registry.sources[source.scheme] = (source, PROJECT)
    for record in sorted(registry.records.values(), key=_precedence):
        if record.hooks is None:
            continue
        try:
            _declare(registry, record, record.hooks)
        except PluginError as error:
            record.mark(PluginStatus.BROKEN, str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a third-party declaring hook may raise anything
            _mark_unexpected(record, error, hint=hint)


def _precedence(record: PluginRecord) -> tuple[bool, bool]:
    """Return what decides who keeps a name that two plugins declare.

    A third-party plugin never takes one from a first-party plugin, nor a plugin that is being tried out from an
    installed one. The others keep their order, which is that of their names.
    """
    return record.distribution != PROJECT, not record.distribution


def _declare(registry: Registry, record: PluginRecord, hooks: Hooks) -> None:
    sources: list[SourceType] = hooks.declare("proofstream_sources", catalog=registry.catalog)
    options: list[Option] = hooks.declare("proofstream_options")
    commands: list[Command | Tool] = hooks.declare("proofstream_commands")
    _refuse_others("source scheme", record.name, [s.scheme for s in sources], lambda key: _owner(registry.sources, key))
    _refuse_others(
        "flag", record.name, [f for o in options for f in o.flags], lambda key: _owner_of_flag(registry, key)
    )
    _refuse_others("command", record.name, [c.name for c in commands], lambda key: _owner_of_command(registry, key))
    registry.catalog.add(record.name, hooks.declare("proofstream_event_types"))
    registry.sources.update({s.scheme: (s, record.name) for s in sources})
    registry.options.update({o.flag: (o, record.name) for o in options})
    registry.commands.update({c.name: (c, record.name) for c in commands})


def _owner(declared: dict[str, tuple[Any, str]], key: str) -> str | None:
    return declared[key][1] if key in declared else None


def _owner_of_flag(registry: Registry, flag: str) -> str | None:
    if flag in CORE_FLAGS:
        return "proofstream"
    return next((owner for option, owner in registry.options.values() if flag in option.flags), None)


def _owner_of_command(registry: Registry, name: str) -> str | None:
    return "proofstream" if name in CORE_COMMANDS else _owner(registry.commands, name)


def _refuse_others(what: str, name: str, keys: Sequence[str], owner_of: Callable[[str], str | None]) -> None:
    for index, key in enumerate(keys):
        owner = name if key in keys[:index] else owner_of(key)
        if owner is not None:
            raise PluginError(f"{what} {key!r} is declared by both {owner} and {name}")
