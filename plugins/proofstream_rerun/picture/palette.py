"""Colours and their meanings. Colours are packed as 0xRRGGBBAA, the form of Rerun's arrays."""

from __future__ import annotations

import enum

from proofstream import LayerKind, LogLevel


def packed(rgb: tuple[int, int, int], alpha: int = 0xFF) -> int:
    """Pack red, green, blue and opacity, each from 0 to 255, into one number."""
    red, green, blue = rgb
    return red << 24 | green << 16 | blue << 8 | alpha


def shaded(rgb: tuple[int, int, int], share: float) -> int:
    """Return a packed, opaque colour with `share` (0 to 1) of its brightness."""
    red, green, blue = rgb
    return packed((int(red * share), int(green * share), int(blue * share)))


BACKGROUND = (14, 17, 24)
PLACEHOLDER = packed((72, 74, 92))
EDGE = packed((0x66, 0xAA, 0xEE))
FAR_EDGE = packed((0x3E, 0x68, 0x96))
BACKBONE = packed((60, 62, 90))
PROVED_RGB = (0x00, 0xE6, 0x76)
PROVED = packed(PROVED_RGB)
ACTIVE = packed((0x00, 0xE5, 0xFF))
ABORTED = packed((0xFF, 0x3B, 0x30))
PROGRESS = packed(PROVED_RGB)
CLAIM = packed((0xB0, 0xC4, 0xDE))
ROUND_CLAIM = packed((0x7A, 0x9A, 0xC8))
LABEL = packed((0xC8, 0xCC, 0xD8))


class LayerState(enum.IntEnum):
    """The state of one layer, or of all layers that share a state timeline."""

    WAITING = 0
    PROVING = 1
    PROVED = 2
    SKIPPED = 3
    DEFERRED = 4
    END_NOT_SEEN = 5
    ABORTED = 6
    PARTLY_DONE = 7
    """Some layers of the group are done, others have not begun, and no layer is being proved."""
    DONE = 8
    """All layers of the group are done, but not all in the same state."""

    @property
    def word(self) -> str | None:
        """The word that a state timeline shows; None while the layer waits."""
        return None if self is LayerState.WAITING else self.name.lower().replace("_", " ")


_LAYER_STATE_COLORS: dict[LayerState, int] = {
    LayerState.PROVING: packed((0x00, 0xB8, 0xD4)),
    LayerState.PROVED: packed((0x00, 0xA0, 0x58)),
    LayerState.SKIPPED: packed((0x60, 0x7D, 0x8B)),
    LayerState.DEFERRED: packed((0x5C, 0x6B, 0xC0)),
    LayerState.END_NOT_SEEN: packed((0xC0, 0x8A, 0x20)),
    LayerState.ABORTED: packed((0xD0, 0x30, 0x28)),
    LayerState.PARTLY_DONE: packed((0x2E, 0x6B, 0x50)),
    LayerState.DONE: packed((0x00, 0x8A, 0x6A)),
}

RUNNING_WORD, COMPLETE_WORD, ABORTED_WORD = "running", "complete", str(LayerState.ABORTED.word)
COMPLETE_UNTIMED_WORD = "complete; when is not known"
"""The states of a proof, besides the stages of one that has layers."""

STATE_COLORS: dict[str, int] = {
    **{str(state.word): color for state, color in _LAYER_STATE_COLORS.items()},
    **{kind.value: packed(kind.color_rgb) for kind in LayerKind},
    RUNNING_WORD: packed((0x3C, 0x78, 0xA8)),
    "before_layers": packed((0x5A, 0x62, 0x78)),
    "layers": packed((0x3C, 0x78, 0xA8)),
    "after_layers": packed((0x8A, 0x62, 0xA8)),
    COMPLETE_WORD: packed((0x00, 0xA0, 0x58)),
    COMPLETE_UNTIMED_WORD: packed((0x00, 0xA0, 0x58)),
    "opening": packed((0xEC, 0x6E, 0xAD)),
    "binding": packed((0xF5, 0xD0, 0x42)),
}
"""The colour of every word that a state timeline may show: states of layers and of the proof, the kind of a device's
current layer, and whether weight openings, weight bindings or STARK proofs are open. The names of phases are their
producer's, and the viewer chooses colours for them."""

SERIES_COLORS: tuple[int, ...] = tuple(
    packed(rgb)
    for rgb in ((0x42, 0x9B, 0xF5), (0xF5, 0xA5, 0x42), (0x4C, 0xC6, 0x71), (0xA8, 0x55, 0xD4), (0xF5, 0xD0, 0x42))
)
"""The colours of the lines of a plot, in order; further lines start over."""

LEVELS: dict[LogLevel, str] = {
    LogLevel.Trace: "TRACE",
    LogLevel.Debug: "DEBUG",
    LogLevel.Info: "INFO",
    LogLevel.Warn: "WARN",
    LogLevel.Error: "ERROR",
    LogLevel.Unknown: "INFO",
}
"""Rerun's word for each level."""
