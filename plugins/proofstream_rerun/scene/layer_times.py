"""The drawing of how long each layer took: a bar for each layer, in its kind's colour."""

from __future__ import annotations

import heapq

import numpy as np

from proofstream import Interval, LayerKind
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.marks import PLAIN, BarRow
from proofstream_rerun.picture.palette import packed
from proofstream_rerun.picture.texts import LayerTime

PLACES = {"measured": "measured", "reported": "reported", "at_least": "at_least", "derived": "at_most"}
"""The worth of a duration -> the entity that shows it. One of no known worth is not shown."""
SLOWEST = 10
"""How many of the slowest layers are named."""

_ROWS = 8
"""The rows that the bars get over the whole walk, even if no write is due, so that a replay shows them growing."""
_PATIENCE = 20
"""After so many writes a bar is drawn, however few there are to be drawn."""
_NS_PER_MS = 1e6


class LayerTimes:
    """Draws them for one recording.

    Args:
        canvas: Where to draw.
    """

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._times: dict[tuple[str, LayerKind], dict[int, float]] = {}
        self._stale: dict[tuple[str, LayerKind], None] = {}
        self._new = 0
        self._writes = 0

    def add_layer(self, index: int, kind: LayerKind, layer: Interval, *, layers: int) -> None:
        """Add a layer that has ended."""
        place, duration_ns = PLACES.get(layer.duration_source or ""), layer.duration_ns
        if place is None or duration_ns is None:
            return
        key = place, kind
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = {}
        times[index] = duration_ns / _NS_PER_MS
        self._stale[key] = None
        self._new += 1
        if self._new >= max(1, layers // _ROWS):
            self._draw()

    def catch_up(self, *, at_end: bool) -> None:
        """Draw the bars that have waited for long, or all at the end."""
        self._writes += 1
        if self._stale and (at_end or self._writes >= _PATIENCE):
            self._draw()

    @property
    def slowest(self) -> list[LayerTime]:
        """The layers that took longest, slowest first."""
        times = (
            LayerTime(index, kind.value, ms, place)
            for (place, kind), of_kind in self._times.items()
            for index, ms in of_kind.items()
        )
        return heapq.nlargest(SLOWEST, times, key=lambda time: time.ms)

    def _draw(self) -> None:
        self._new = self._writes = 0
        for place, kind in self._stale:
            times = self._times[place, kind]
            indices = np.fromiter(times, np.int64, len(times))
            values = np.fromiter(times.values(), np.float64, len(times))
            bars = BarRow(values, indices, packed(kind.color_rgb))
            self._canvas.add_row(f"time/{place}/{kind.value}", bars, PLAIN)
        self._stale.clear()
