"""Activations, their statistics, and attention heads, as they are drawn.

They come in bursts, one event for each layer. A tensor of them all is drawn when twice as many are known as were drawn
last, and once more when the burst is over, so that the bytes stay in proportion to what came.
"""

from __future__ import annotations

import math

import numpy as np

from proofstream import ActivationStats, AttentionHeatmap, LayerActivation
from proofstream_rerun.picture import palette
from proofstream_rerun.picture.canvas import Canvas
from proofstream_rerun.picture.field import M31_PRIME
from proofstream_rerun.picture.marks import PLAIN, BarRow, Floats, Sheet

MAX_LAYERS = 1024
"""Layers whose activations are drawn at most."""
MAX_SAMPLES = 256
"""Values of one layer that are drawn at most."""
MAX_MAPS = 64
"""Layers whose attention is drawn at most."""
MAX_MAP_BYTES = 2**20
"""Bytes of the attention of one layer, all heads together, at most."""
MAX_SIDE = 64
"""Queries and keys of one head that are drawn at most: the first ones."""

STATISTICS = ("mean", "std_dev", "min", "max", "sparsity")


class Inference:
    """What one proof's activations and attention heads show."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._samples: dict[int, list[int]] = {}
        self._statistics: dict[int, ActivationStats] = {}
        self._drawn = 0
        self._was_walking = False
        self._heads: dict[int, dict[int, Floats]] = {}
        self._stale_heads: dict[int, None] = {}
        self.undrawn: int = 0

    def add_activations(self, event: LayerActivation) -> None:
        """Take a layer's activations."""
        index = event.layer_idx
        if index not in self._samples and len(self._samples) >= MAX_LAYERS:
            self.undrawn += 1
            return
        self._samples[index] = event.output_sample[:MAX_SAMPLES]
        self._statistics[index] = event.stats
        self._drawn = min(self._drawn, len(self._samples) - 1)

    def add_attention_head(self, event: AttentionHeatmap) -> None:
        """Take the scores of one head."""
        heads = self._heads.get(event.layer_idx)
        if heads is None:
            if len(self._heads) >= MAX_MAPS:
                self.undrawn += 1
                return
            heads = self._heads[event.layer_idx] = {}
        matrix = _matrix(event)
        scores = matrix[:MAX_SIDE, :MAX_SIDE].copy()
        self.undrawn += scores.size < matrix.size
        if sum(map_.nbytes for map_ in heads.values()) + scores.nbytes > MAX_MAP_BYTES:
            self.undrawn += 1
            return
        heads[event.head_idx] = scores
        self._stale_heads[event.layer_idx] = None

    def catch_up(self, *, is_walking: bool, at_end: bool) -> None:
        """Draw what is known, if it is much more than what is drawn, or nothing more is expected.

        Args:
            is_walking: Whether the walk has begun: the forward pass comes before it.
            at_end: Whether nothing more can come.
        """
        known = len(self._samples)
        is_complete = at_end or (is_walking and not self._was_walking)
        self._was_walking = is_walking
        if known > self._drawn and (is_complete or known >= 2 * self._drawn):
            self._drawn = known
            self._draw_activations()
        for index in self._stale_heads:
            self._draw_heads(index)
        self._stale_heads.clear()

    def _draw_activations(self) -> None:
        layers = sorted(self._samples)
        sheet = _signed_shares([self._samples[index] for index in layers])
        self._canvas.add_row("inference/activations", Sheet(sheet, ("layer", "value")), PLAIN)
        is_whole = layers == list(range(len(layers)))
        abscissa = None if is_whole else np.minimum(np.array(layers, np.float64), 2.0**62).astype(np.int64)
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
        sheet = Sheet(stack, ("head", "query", "key"))
        self._canvas.add_row(f"inference/attention/layer_{index:03d}", sheet, PLAIN)


def _signed_shares(samples: list[list[int]]) -> Floats:
    """Field elements as the signed numbers they stand for, p - 1 being -1, as shares of the largest of their layer.

    Layers are one below the other, each filled up with NaN.
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
    """The scores as a matrix: as wide as the sequence was long if that fits the number of scores, else nearly square.

    The last row of what does not fill a matrix ends in NaN, which also stands for what 32 bits do not hold.
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
