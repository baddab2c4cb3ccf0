"""Plugins in trouble: not working, dropping events, or not delivering."""

from __future__ import annotations

from proofstream import PluginHealth

NOT_WORKING = frozenset({"stalled", "failed", "broken"})
"""A plugin's status when it needs attention."""

_LOST = "lost_"
"""How the counters of undelivered things begin."""


def undelivered(health: PluginHealth) -> dict[str, int]:
    """Return how many of each thing a plugin could not deliver, such as `spans`."""
    return {
        name.removeprefix(_LOST).replace("_", " "): count
        for name, count in health.counters.items()
        if name.startswith(_LOST) and count
    }


def is_troubled(health: PluginHealth) -> bool:
    """Return whether a plugin does not work, its lane dropped events, or it failed to deliver something."""
    return health.status in NOT_WORKING or bool(health.dropped) or bool(undelivered(health))
