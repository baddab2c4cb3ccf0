"""Calls one plugin's hooks: a typed face over pluggy."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, SupportsIndex, cast

import pluggy

from proofstream.contracts import Command, Option, SourceType, Tool
from proofstream.errors import PluginError, did_you_mean
from proofstream.hookspecs import PROJECT, PluginContext, ProofstreamHooks

_PREFIX = "proofstream_"
_DECLARED: dict[str, tuple[str, tuple[type, ...]]] = {
    "proofstream_event_types": ("event types", (object,)),  # the catalog checks them
    "proofstream_sources": ("SourceTypes", (SourceType,)),
    "proofstream_options": ("Options", (Option,)),
    "proofstream_commands": ("Commands and Tools", (Command, Tool)),
}
"""What each declaring hook returns a list of: in words, and its types."""
_HOOK_NAMES = frozenset(name for name in dir(ProofstreamHooks) if name.startswith(_PREFIX))


class Hooks:
    """The hooks that one plugin implements, checked and ready to be called.

    Args:
        plugin: The instance (or, for a plugin without state, the module).
        name: The plugin's name.

    Raises:
        PluginError: It implements a hook that does not exist, takes arguments that the hook does not give, wraps a
            hook, or has a ``proofstream_`` attribute that is not marked with `hookimpl`.
    """

    def __init__(self, plugin: object, name: str) -> None:
        self.plugin = plugin
        self.name = name
        self._impls = _register(plugin, name)
        _check_names(plugin, self._impls)

    def has(self, hook: str) -> bool:
        """Return whether the plugin implements the hook."""
        return hook in self._impls

    @property
    def any(self) -> bool:
        """Whether the plugin implements any hook."""
        return bool(self._impls)

    @property
    def act(self) -> bool:
        """Whether the plugin needs a lane; one that only declares does not."""
        return self.has("proofstream_configure") or self.has("proofstream_consume")

    def call(self, hook: str, **arguments: object) -> Any:
        """Call the hook with as many of the arguments as the plugin takes; None if it does not implement it."""
        impl = self._impls.get(hook)
        if impl is None:
            return None
        # Not pluggy's own call: it costs 2 us and is made for many implementations, and here a hook has one.
        return impl.function(*[arguments[name] for name in impl.argnames])

    def declare(self, hook: str, **arguments: object) -> list[Any]:
        """Return what the plugin declares by a hook of the plural kind.

        Raises:
            TypeError: The hook returned something else than a list of that.
        """
        words, types = _DECLARED[hook]
        declared = self.call(hook, **arguments)
        items = [] if declared is None else list(each_of(declared, hook, of=words))
        wrong = next((item for item in items if not isinstance(item, types)), None)
        if wrong is not None:
            raise TypeError(f"{hook} returned a list with a {type(wrong).__name__}; return a list of {words}")
        return items

    def configure(self, context: PluginContext) -> bool:
        """Configure the plugin; return whether it has anything to do in this run."""
        return self.call("proofstream_configure", context=context) is not False

    def report_health(self) -> Mapping[str, int]:
        """Return the plugin's own counters."""
        counters: Mapping[str, int] | None = self.call("proofstream_report_health")
        return {} if counters is None else {str(name): _counter(name, value) for name, value in counters.items()}


def each_of(result: Any, hook: str, *, of: str) -> Iterator[Any]:
    """Return an iterator over a hook's result.

    Raises:
        TypeError: It cannot: a single event, say. The message names the hook.
    """
    try:
        return iter(result)
    except TypeError:
        raise TypeError(f"{hook} returned one {type(result).__name__}; return a list of {of}") from None


def _counter(name: object, value: object) -> int:
    try:
        count = operator.index(cast("SupportsIndex", value))
    except TypeError:
        count = -1
    if count < 0:
        raise ValueError(f"proofstream_report_health: {name} is {value!r}; a counter is a whole number, 0 or more")
    return count


def _register(plugin: object, name: str) -> dict[str, pluggy.HookImpl]:
    manager = _Manager(PROJECT)
    manager.add_hookspecs(ProofstreamHooks)
    try:
        manager.register(plugin, name=name)
    except pluggy.PluginValidationError as error:
        raise PluginError(_wrong_argument(plugin) or " ".join(str(error).split())) from None
    callers = manager.get_hookcallers(plugin) or []
    return {caller.name: impl for caller in callers for impl in caller.get_hookimpls()}


class _Manager(pluggy.PluginManager):
    """Looks for hooks where they may be. Pluggy looks carefully at every attribute of a class, and that is slow."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        return None if name.startswith("__") else super().parse_hookimpl_opts(plugin, name)

    def parse_hookspec_opts(self, module_or_class: ModuleType | type, name: str) -> pluggy.HookspecOpts | None:
        return super().parse_hookspec_opts(module_or_class, name) if name.startswith(_PREFIX) else None


def _wrong_argument(plugin: object) -> str | None:
    """Return a line about the first hook that takes an argument which it is not given."""
    import inspect  # for mistakes alone, and slow to load

    for name in sorted(_HOOK_NAMES):
        method = getattr(plugin, name, None)
        if callable(method):
            given = [key for key in inspect.signature(getattr(ProofstreamHooks, name)).parameters if key != "self"]
            wrong = [key for key in inspect.signature(method).parameters if key not in given]
            if wrong:
                has = f"it has {', '.join(f'`{key}`' for key in given)}" if given else "it has none"
                return f"{name} has no argument `{wrong[0]}`; {has}"
    return None


def _check_names(plugin: object, impls: Mapping[str, pluggy.HookImpl]) -> None:
    for name, impl in impls.items():
        if name not in _HOOK_NAMES:
            hint = did_you_mean(name, _HOOK_NAMES)
            raise PluginError(f"{type(plugin).__name__} implements {name}, which is not a hook{hint}")
        if impl.wrapper or impl.hookwrapper:
            raise PluginError(f"{name} is a wrapper; hooks of proofstream cannot be wrapped")
    for name in dir(plugin):
        if name.startswith(_PREFIX) and name not in impls and callable(getattr(plugin, name, None)):
            raise PluginError(f"{name} is not marked with @proofstream.hookimpl")
