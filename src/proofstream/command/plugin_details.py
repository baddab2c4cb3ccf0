"""Describes one plugin: its condition and all that it declares."""

from __future__ import annotations

import inspect
from typing import Any

from proofstream.command.settings import defaults_of, shown
from proofstream.contracts import Command, Option, OptionKind, Tool
from proofstream.loader import PluginRecord, Registry

_USED = {
    True: "unasked",
    "command": "unasked by the command, only when asked for in a Python process",
    False: "only when asked for",
}


def describe_plugin(record: PluginRecord, registry: Registry) -> dict[str, Any]:
    """Return all that is to be said of one plugin, as JSON can hold it."""
    name = record.name
    return {
        "name": name,
        "summary": _summary(record),
        "status": record.status.value,
        "reason": record.reason,
        "hint": record.hint,
        "distribution": record.distribution,
        "version": record.version,
        "used": None if record.hooks is None else _USED.get(record.autoload),
        "flags": [_flag(option) for option, owner in registry.options.values() if owner == name],
        "commands": [_command(command) for command, owner in registry.commands.values() if owner == name],
        "sources": [
            {"source": source.form, "summary": source.summary, "live": source.live, "waits": source.waits}
            for source, owner in registry.sources.values()
            if owner == name
        ],
        "events": [
            {"kind": kind, "summary": (event_type.__doc__ or "").strip().partition("\n")[0]}
            for kind, event_type, owner in registry.catalog
            if owner == name
        ],
        "derives": list(record.derives),
        "settings": settings_of(record),
    }


def settings_of(record: PluginRecord) -> list[dict[str, str]]:
    """Return the keys of the plugin's configuration table, if it says which it has."""
    model = record.settings_model()
    return [
        {"key": key.full_name, "type": key.type, "default": shown(key.default), "meaning": key.meaning}
        for key in ([] if model is None else defaults_of(record.name, model))
    ]


def _summary(record: PluginRecord) -> str:
    if record.hooks is None:
        return ""
    plugin = record.hooks.plugin
    # Its module's summary first: that of a class often says no more than its name.
    texts = (getattr(inspect.getmodule(plugin), "__doc__", None), plugin.__doc__)
    text = inspect.cleandoc(next(filter(None, texts), ""))
    return " ".join(text.partition("\n\n")[0].split())


def _flag(option: Option) -> dict[str, Any]:
    value = {
        OptionKind.SWITCH: "",
        OptionKind.OPTIONAL_VALUE: f" [{option.metavar}]",
        OptionKind.REPEATED: f" {option.metavar} ...",
    }.get(option.kind, f" {option.metavar}")
    return {"flag": "/".join(option.flags) + value, "summary": option.summary, "key": option.key}


def _command(command: Command | Tool) -> dict[str, Any]:
    flags = [_flag(option) for option in command.options] if isinstance(command, Tool) else []
    argument = command.argument if isinstance(command, Tool) else f"[{'|'.join(command.sources)}]"
    form = f"{command.name} {argument}"
    return {"command": form, "summary": command.summary, "flags": flags}
