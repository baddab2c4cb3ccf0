"""Plugins in trouble: not working, dropping events, or not delivering."""

from __future__ import annotations

import msgspec

from proofstream import PluginHealth
from proofstream_console.formats import clip, clip_optional, count_by_name

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


def dropped_events(health: PluginHealth) -> int:
    """Return how many events a plugin's lane could not hold. A missing health report is nothing that was sent."""
    return sum(number for kind, number in health.dropped.items() if kind != PluginHealth.__name__)


def condense(health: PluginHealth) -> PluginHealth:
    """Return the part of a plugin's health that is shown. Its size is bounded; a producer may have written it."""
    things: dict[str, int] = {}
    for thing, number in undelivered(health).items():
        count_by_name(things, thing, number)
    dropped = dropped_events(health)
    return msgspec.structs.replace(
        health,
        plugin=clip(health.plugin),
        reason=clip_optional(health.reason),
        dropped={"events": dropped} if dropped else {},
        counters={_LOST + thing: number for thing, number in things.items()},
        derives=(),
    )


def is_troubled(health: PluginHealth) -> bool:
    """Return whether a plugin does not work, its lane dropped events, or it failed to deliver something."""
    return health.status in NOT_WORKING or bool(dropped_events(health)) or bool(undelivered(health))
