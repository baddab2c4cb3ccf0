"""Loads a plugin from a Python file that the command line names, so that it can be tried without packaging it.

Only ``--plugin-file`` leads here: a configuration file or the environment cannot have a file executed.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from proofstream.command.logs import traceback_hint
from proofstream.errors import UsageError, describe
from proofstream.hookspecs import PROJECT

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_log = logging.getLogger("proofstream.loader")


def load_plugin_file(path: Path) -> tuple[str, object]:
    """Import a file and make its plugin; return the plugin's name and the instance.

    The plugin is the one class in the file that has hooks. Its name is its class attribute `name`, or the file's stem
    with dashes for underscores. The file stands alone: its folder is not searched for further modules.

    Raises:
        UsageError: The file cannot be read or imported, holds no plugin or several, or its name makes no plugin name.
    """
    name = path.stem.lower().replace("_", "-")
    module_name = f"{PROJECT}_plugin_file_{name.replace('-', '_')}"
    try:
        module = _import(path, module_name)
        found = _plugin_class(path, module)
        instance = found()
    except (UsageError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - importing third-party code may raise anything
        _log.debug("plugin file %s could not be loaded", path, exc_info=True)
        raise UsageError(_message(path, error), hint=traceback_hint() or None) from None
    name = str(getattr(found, "name", name))
    if not _NAME.fullmatch(name):
        hint = "name the file with letters, digits and underscores, or give the class an attribute `name`"
        raise UsageError(f"plugin file {path}: {name!r} is not a plugin name", hint=hint)
    return name, instance


def _import(path: Path, module_name: str) -> ModuleType:
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"cannot read the plugin file {path}: {error.strerror or error}") from None
    loader = importlib.machinery.SourceFileLoader(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    assert spec is not None, "a loader is given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # where msgspec and dataclasses look annotations up
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _plugin_class(path: Path, module: ModuleType) -> type:
    own = {value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__}
    with_hooks = {cls for cls in own if any(name.startswith(f"{PROJECT}_") for name in dir(cls))}
    # A class that another one of the file extends is a base, not a plugin.
    plugins = [cls for cls in with_hooks if not any(cls in other.__mro__[1:] for other in with_hooks)]
    if len(plugins) == 1:
        return plugins[0]
    if plugins:
        names = ", ".join(sorted(cls.__name__ for cls in plugins))
        raise UsageError(f"plugin file {path} has several classes with hooks: {names}", hint="one file, one plugin")
    hint = "mark a method such as proofstream_consume with @proofstream.hookimpl"
    raise UsageError(f"plugin file {path} has no class with hooks", hint=hint)


def _message(path: Path, error: BaseException) -> str:
    """Return one line that says what is wrong and, if it is in the file itself, in which line."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line, what = error.lineno, f"{type(error).__name__}: {error.msg}"
    else:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line, what = lines[-1] if lines else None, describe(error)
    return f"plugin file {path}{'' if line is None else f', line {line}'}: {what}"
