"""Lists plugins, event types and sources, for programs and for people."""

from __future__ import annotations

from typing import Any

from proofstream.command.voice import LONGEST_LINE
from proofstream.health import PluginStatus
from proofstream.loader import Registry
from proofstream.text import safe_text


def plugins(registry: Registry) -> list[dict[str, Any]]:
    """Return each plugin with its status and, if it cannot be used, the reason and a hint."""
    return [
        {
            "name": record.name,
            "status": record.status.value,
            "distribution": record.distribution,
            "version": record.version,
            "reason": record.reason,
            "hint": record.hint,
        }
        for record in registry.records.values()
    ]


def events(registry: Registry) -> list[dict[str, Any]]:
    """Return each event type with its fields and the plugin that declares it."""
    return [
        {
            "kind": kind,
            "fields": list(event_type.__struct_fields__),
            "plugin": owner,
            "summary": (event_type.__doc__ or "").strip().partition("\n")[0],
        }
        for kind, event_type, owner in registry.catalog
    ]


def sources(registry: Registry) -> list[dict[str, Any]]:
    """Return each kind of source with its form and the plugin that declares it."""
    return [
        {"source": source.form, "summary": source.summary, "live": source.live, "plugin": owner}
        for source, owner in registry.sources.values()
    ]


def for_people(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the same rows as text, with columns merged that are mostly empty, and without lists, which are long."""
    return [{key: cell(value) for key, value in _merged(row).items()} for row in rows]


def _merged(row: dict[str, Any]) -> dict[str, Any]:
    if "fields" in row or "flags" in row:
        return {key: value for key, value in row.items() if key not in ("fields", "flags")}
    if "nullable" in row:
        may_be = [word for word, is_so in (("absent", row["optional"]), ("null", row["nullable"])) if is_so]
        return {"name": row["name"], "type": row["type"], "may be": may_be, "meaning": row["meaning"]}
    if "distribution" not in row:
        return row
    return {
        "name": row["name"],
        "status": row["status"],
        "from": f"{row['distribution']} {row['version']}".strip(),
        "to use it": row["reason"] if row["status"] == PluginStatus.BROKEN.value else row["hint"] or row["reason"],
    }


def cell(value: str | bool | list[str] | None) -> str:
    """Return a value as text that is safe to print."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return safe_text(", ".join(value), LONGEST_LINE)
    return safe_text(value or "", LONGEST_LINE)
