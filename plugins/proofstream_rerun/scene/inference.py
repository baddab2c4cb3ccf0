"""The drawing of activations, their statistics, and attention heads.

They come in bursts, one event per layer. A tensor of all of them is drawn whenever their number has doubled, and once
more when the burst is over, so that the bytes written stay proportional to the bytes received.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from proofstream import ActivationStats, AttentionHeatmap, LayerActivation
from proofstream_rerun.picture import palette
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.field import M31_PRIME
from proofstream_rerun.picture.marks import PLAIN, BarRow, Floats, Sheet

MAX_LAYERS = 1024
"""The most layers whose activations are drawn."""
MAX_SAMPLES = 256
"""The most values of one layer that are drawn."""
MAX_MAPS = 64
"""The most layers whose attention is drawn."""
MAX_MAP_BYTES = 2**20
"""The most bytes that the attention of one layer takes, all heads together."""
MAX_ATTENTION_BYTES = 64 * 2**20
"""The most bytes that attention takes in all open recordings together. Drawing it takes as much again."""
MAX_SIDE = 64
"""The most queries, and the most keys, of one head that are drawn: the first ones."""

_BLACK_SHARE = 0.25
"""The share of the values' range that is added below it, for cells without a value."""

STATISTICS = ("mean", "std_dev", "min", "max", "sparsity")


class AttentionRoom:
    """The room for attention, which all open recordings share.

    Args:
        end_superseded: Ends a recording that only waits for late events, which gives room back; returns False if there
            are no such recordings.
    """

    def __init__(self, end_superseded: Callable[[], bool]) -> None:
        self._end_superseded = end_superseded
        self._free = MAX_ATTENTION_BYTES

    def take_bytes(self, size: int) -> bool:
        """Take room, or return False if there is too little. A negative size gives room back."""
        while size > self._free:
            if not self._end_superseded():
                return False
        self._free -= size
        return True


class Inference:
    """Draws one proof's activations and attention heads.

    Args:
        canvas: Where to draw.
        room: The room for attention.
    """

    def __init__(self, canvas: Canvas, room: AttentionRoom) -> None:
        self._canvas = canvas
        self._room = room
        self._samples: dict[int, Sequence[int]] = {}
        self._statistics: dict[int, ActivationStats] = {}
        self._drawn = 0
        self._was_walking = False
        self._heads: dict[int, dict[int, Floats]] = {}
        self._stale_heads: dict[int, None] = {}
        self.undrawn: int = 0

    def add_activations(self, event: LayerActivation) -> None:
        """Add a layer's activations."""
        index = event.layer_idx
        if index not in self._samples and len(self._samples) >= MAX_LAYERS:
            self.undrawn += 1
            return
        self._samples[index] = event.output_sample[:MAX_SAMPLES]
        self._statistics[index] = event.stats
        # If the layer was drawn already, the tensor is stale although its size is unchanged.
        self._drawn = min(self._drawn, len(self._samples) - 1)

    def add_attention_head(self, event: AttentionHeatmap) -> None:
        """Add the attention scores of one head."""
        heads = self._heads.get(event.layer_idx)
        if heads is None:
            if len(self._heads) >= MAX_MAPS:
                self.undrawn += 1
                return
            heads = self._heads[event.layer_idx] = {}
        matrix = _matrix(event)
        scores = matrix[:MAX_SIDE, :MAX_SIDE].copy()
        self.undrawn += scores.size < matrix.size
        before = heads.get(event.head_idx)
        more = scores.nbytes - (0 if before is None else before.nbytes)
        is_large = sum(map_.nbytes for map_ in heads.values()) + more > MAX_MAP_BYTES
        if is_large or not self._room.take_bytes(more):
            self.undrawn += 1
            return
        heads[event.head_idx] = scores
        self._stale_heads[event.layer_idx] = None

    def give_room_back(self) -> None:
        """Give the room for attention back, because nothing more is drawn."""
        self._room.take_bytes(-sum(map_.nbytes for heads in self._heads.values() for map_ in heads.values()))
        self._heads.clear()

    def catch_up(self, *, is_walking: bool, at_end: bool) -> None:
        """Draw what is known, if that has doubled since the last time or no more is expected.

        Args:
            is_walking: Whether the walk has begun. The forward pass comes before it, so the burst is over.
            at_end: Whether no more events can come.
        """
        known = len(self._samples)
        is_complete = at_end or (is_walking and not self._was_walking)
        self._was_walking = is_walking
        if known > self._drawn and (is_complete or known >= 2 * self._drawn):
            self._drawn = known
            self._draw_activations()
        for index in self._stale_heads:
            if self._heads[index]:
                self._draw_heads(index)
        self._stale_heads.clear()

    def _draw_activations(self) -> None:
        layers = sorted(self._samples)
        sheet = Sheet(_signed_shares([self._samples[index] for index in layers]), ("layer", "value"), _shown(-1.0, 1.0))
        self._canvas.add_row("inference/activations", sheet, PLAIN)
        # Layer indices are unsigned 64-bit integers, so clamp them well inside int64.
        abscissa = np.minimum(np.array(layers, np.float64), 2.0**62).astype(np.int64)
        statistics = [self._statistics[index] for index in layers]
        for column, name in enumerate(STATISTICS):
            values = np.array([getattr(of_layer, name) for of_layer in statistics], np.float64)  # None becomes NaN
            bars = BarRow(values, abscissa, palette.SERIES_COLORS[column])
            self._canvas.add_row(f"inference/{name}", bars, PLAIN)

    def _draw_heads(self, index: int) -> None:
        heads = self._heads[index]
        rows = max(scores.shape[0] for scores in heads.values())
        columns = max(scores.shape[1] for scores in heads.values())
        stack = np.full((len(heads), rows, columns), np.nan, np.float32)
        for place, head in enumerate(sorted(heads)):
            scores = heads[head]
            stack[place, : scores.shape[0], : scores.shape[1]] = scores
        known = stack[np.isfinite(stack)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        sheet = Sheet(stack, ("head", "query", "key"), _shown(low, high))
        self._canvas.add_row(f"inference/attention/layer_{index:03d}", sheet, PLAIN)


def _shown(low: float, high: float) -> tuple[float, float]:
    """Return the range of values that colours stand for: it begins so far below all of them that no value is black."""
    return low - _BLACK_SHARE * ((high - low) or 1.0), high


def _signed_shares(samples: list[Sequence[int]]) -> Floats:
    """Return field elements as signed numbers (p - 1 is -1), divided by the largest magnitude of their layer.

    The result has one row for each layer; shorter rows are filled with NaN.
    """
    width = max(1, *map(len, samples))
    values = np.full((len(samples), width), np.nan, np.float64)
    for row, sample in enumerate(samples):
        values[row, : len(sample)] = sample
    signed = np.where(values > M31_PRIME / 2, values - M31_PRIME, values)
    largest = np.nanmax(np.abs(signed), axis=1, keepdims=True, initial=1.0)
    shares: Floats = (signed / largest).astype(np.float32)
    return shares


def _matrix(event: AttentionHeatmap) -> Floats:
    """Return the scores as a matrix of queries and keys.

    It is square if the number of scores is a square, else as wide as the sequence is long if that divides the number,
    else nearly square. NaN fills the last row, and replaces scores that do not fit 32 bits.
    """
    scores = np.array(event.scores, np.float64)  # None becomes NaN
    scores[np.abs(scores) > np.finfo(np.float32).max] = np.nan
    width = _width(len(scores), event.seq_len)
    height = max(1, math.ceil(len(scores) / width))
    filled = np.full(height * width, np.nan, np.float32)
    filled[: len(scores)] = scores
    return filled.reshape(height, width)


def _width(scores: int, seq_len: int) -> int:
    root = math.isqrt(scores)
    if root * root == scores:
        return max(1, root)
    return seq_len if seq_len and scores % seq_len == 0 else root + 1
