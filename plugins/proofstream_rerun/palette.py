"""Colours, and the words for what they mean: packed as 0xRRGGBBAA, as Rerun takes them in arrays."""

from __future__ import annotations

import enum

from proofstream import LayerKind, LogLevel


def packed(rgb: tuple[int, int, int], alpha: int = 0xFF) -> int:
    """Red, green, blue and opacity, each from 0 to 255, in one number."""
    red, green, blue = rgb
    return red << 24 | green << 16 | blue << 8 | alpha


def shaded(rgb: tuple[int, int, int], share: float) -> int:
    """A colour with `share` of its brightness."""
    red, green, blue = rgb
    return packed((int(red * share), int(green * share), int(blue * share)))


BACKGROUND = (14, 17, 24)
PLACEHOLDER = packed((72, 74, 92))
EDGE = packed((0x66, 0xAA, 0xEE), 200)
BACKBONE = packed((60, 62, 90))
PROVED_RGB = (0x00, 0xE6, 0x76)
PROVED = packed(PROVED_RGB)
ACTIVE = packed((0x00, 0xE5, 0xFF))
ABORTED = packed((0xFF, 0x3B, 0x30))
PROGRESS = packed(PROVED_RGB)
CLAIM = packed((0xB0, 0xC4, 0xDE))
ROUND_CLAIM = packed((0x7A, 0x9A, 0xC8))
LABEL = packed((0xC8, 0xCC, 0xD8))


class LayerState(enum.Enum):
    """Where one layer stands, or all layers that share a lane; the value is what its lane shows."""

    WAITING = None
    PROVING = "proving"
    PROVED = "proved"
    SKIPPED = "skipped"
    DEFERRED = "deferred"
    END_NOT_SEEN = "end not seen"
    ABORTED = "aborted"
    PARTLY_DONE = "partly done"
    """Some layers of the lane are done, none is being proved, and others have not begun."""
    DONE = "done"
    """All layers of the lane are done, in more than one way."""


STATE_COLORS: dict[str, int] = {
    "proving": packed((0x00, 0xB8, 0xD4)),
    "proved": packed((0x00, 0xA0, 0x58)),
    "skipped": packed((0x60, 0x7D, 0x8B)),
    "deferred": packed((0x5C, 0x6B, 0xC0)),
    "end not seen": packed((0xC0, 0x8A, 0x20)),
    "aborted": packed((0xD0, 0x30, 0x28)),
    "partly done": packed((0x2E, 0x6B, 0x50)),
    "done": packed((0x00, 0x8A, 0x6A)),
}
"""The states of layers."""

_KIND_COLORS: dict[str, int] = {kind.value: packed(kind.color_rgb) for kind in LayerKind}
_PART_COLORS: dict[str, int] = {"opening": packed((0xEC, 0x6E, 0xAD)), "binding": packed((0xF5, 0xD0, 0x42))}

LANE_COLORS: dict[str, int] = {**STATE_COLORS, **_KIND_COLORS, **_PART_COLORS}
"""All that a lane may show: the state of layers, the kind of the layer that a device is at, weight openings and
bindings and STARK proofs."""

SERIES_COLORS: tuple[int, ...] = tuple(
    packed(rgb)
    for rgb in ((0x42, 0x9B, 0xF5), (0xF5, 0xA5, 0x42), (0x4C, 0xC6, 0x71), (0xA8, 0x55, 0xD4), (0xF5, 0xD0, 0x42))
)
"""One line after the other."""

LEVELS: dict[LogLevel, str] = {
    LogLevel.Trace: "TRACE",
    LogLevel.Debug: "DEBUG",
    LogLevel.Info: "INFO",
    LogLevel.Warn: "WARN",
    LogLevel.Error: "ERROR",
    LogLevel.Unknown: "INFO",
}
"""Rerun's word for each level."""
