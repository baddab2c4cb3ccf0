"""What is there: plugins, event types and sources, as data for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proofstream.loader import Registry


def plugins(registry: Registry) -> list[dict[str, Any]]:
    """Each plugin with its status and, where it cannot be used, the reason and a hint."""
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
    """Each event type with its fields and who declares it."""
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
    """Each kind of source with its form and who declares it."""
    return [
        {"source": source.form, "summary": source.summary, "live": source.live, "plugin": owner}
        for source, owner in registry.sources.values()
    ]


def shown(row: dict[str, Any], columns: Sequence[str]) -> list[str]:
    """One row as text."""
    return [_cell(row[column]) for column in columns]


def _cell(value: str | bool | list[str] | None) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else str(value)
