"""Helpers for producers: compute the statistics, samples and approximations that some events carry."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from proofstream.events import (
    ActivationStats,
    AttentionHeatmap,
    GpuSnapshot,
    LayerActivation,
    LayerKind,
    SecureField,
)

HEATMAP_SIDE = 64
"""The most rows and columns that an attention heat map carries."""

# The producer shortens commitments to this many bytes on the wire.
_COMMITMENT_BYTES = 8


def activation(
    *,
    layer_idx: int,
    node_id: int,
    kind: LayerKind,
    output_shape: tuple[int, int],
    values: Sequence[int],
    max_sample: int = 128,
) -> LayerActivation:
    """Make a `LayerActivation` from a whole tensor.

    Args:
        layer_idx: The layer's index in the circuit.
        node_id: The node's id in the computation graph.
        kind: The operation that the layer computes.
        output_shape: Rows and columns of the tensor.
        values: All values, row-major, as raw M31 integers. A numpy array of any shape is accepted.
        max_sample: The most leading values that the event carries. The statistics cover all of `values`.
    """
    flat = _flat(values)
    return LayerActivation(
        layer_idx=layer_idx,
        node_id=node_id,
        kind=kind,
        output_shape=output_shape,
        output_sample=[int(v) for v in flat[: max(0, max_sample)]],
        stats=activation_stats(flat),
    )


def activation_stats(values: Sequence[int]) -> ActivationStats:
    """Compute mean, population standard deviation, extremes and share of zeros. All are None for an empty tensor."""
    if len(values) == 0:
        return ActivationStats(mean=None, std_dev=None, min=None, max=None, sparsity=None)
    array = _as_array(values)
    if array is not None:
        return _array_stats(array)
    numbers = [float(v) for v in values]
    count = len(numbers)
    mean = math.fsum(numbers) / count
    variance = math.fsum((x - mean) ** 2 for x in numbers) / count
    return ActivationStats(
        mean=mean,
        std_dev=math.sqrt(variance),
        min=min(numbers),
        max=max(numbers),
        sparsity=sum(x == 0.0 for x in numbers) / count,
    )


def _as_array(values: object) -> Any | None:
    """Return `values` if it is a numpy array, without importing numpy: a caller that has an array has imported it."""
    numpy = sys.modules.get("numpy")
    return values if numpy is not None and isinstance(values, numpy.ndarray) else None


def _flat(values: Sequence[int]) -> Sequence[int]:
    array = _as_array(values)
    return values if array is None else array.reshape(-1)


def _array_stats(array: Any) -> ActivationStats:
    """Compute the same statistics at numpy's speed, because this runs on the prover's thread."""
    numbers = array.astype("float64")
    return ActivationStats(
        mean=float(numbers.mean()),
        std_dev=float(numbers.std()),
        min=float(numbers.min()),
        max=float(numbers.max()),
        sparsity=float((numbers == 0.0).mean()),
    )


def attention_heatmap(
    *, layer_idx: int, head_idx: int, num_heads: int, scores: Sequence[Sequence[float]]
) -> AttentionHeatmap:
    """Make an `AttentionHeatmap` from one head's whole score matrix.

    A matrix larger than 64x64 is sampled at evenly spaced rows and columns. `seq_len` stays the true length, so the
    sample has ``min(seq_len, 64)`` rows and columns.

    Args:
        layer_idx: The layer's index in the circuit.
        head_idx: The head's index, from 0.
        num_heads: How many heads the layer has.
        scores: The square matrix: ``seq_len`` rows of ``seq_len`` numbers.

    Raises:
        ValueError: The matrix is not square.
    """
    seq_len = len(scores)
    if any(len(row) != seq_len for row in scores):
        raise ValueError("attention scores must be a square matrix: seq_len rows of seq_len numbers")
    side = min(seq_len, HEATMAP_SIDE)
    picks = [i * seq_len // side for i in range(side)]
    return AttentionHeatmap(
        layer_idx=layer_idx,
        head_idx=head_idx,
        num_heads=num_heads,
        seq_len=seq_len,
        scores=[float(scores[i][j]) for i in picks for j in picks],
    )


def matmul_trace_cost(m: int, k: int, n: int) -> int:
    """Count the trace cells of an (m x k) by (k x n) product as the producer does: m*k*n, up to a power of two."""
    return 1 << max(0, m * k * n - 1).bit_length()


def claim_approx(claim: SecureField) -> float:
    """Return a claim as a number from 0 to 1, for display only: its first limb divided by the M31 prime."""
    return claim.as_f32()


def commitment_hex(commitment: bytes) -> str:
    """Return the first 8 bytes of a commitment in lower-case hex."""
    return commitment[:_COMMITMENT_BYTES].hex()


def gpu_snapshot(
    *, device_id: int, device_name: str, utilization: float | None = None, free_memory_bytes: int | None = None
) -> GpuSnapshot:
    """Make a `GpuSnapshot`. Unknown figures stay None and are never shown as 0."""
    return GpuSnapshot(
        device_id=device_id, device_name=device_name, utilization=utilization, free_memory_bytes=free_memory_bytes
    )
