"""The helpers with which producers make events."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proofstream as ps
from proofstream.events import M31_PRIME


def make_activation(values: Sequence[int], **more: Any) -> ps.LayerActivation:
    return ps.activation(layer_idx=1, node_id=2, kind=ps.LayerKind.MatMul, output_shape=(1, 1), values=values, **more)


class TestActivation:
    def test_statistics_are_over_all_values_and_the_sample_is_not(self) -> None:
        made = make_activation([0] * 128 + [4] * 128)

        assert made.output_sample == (0,) * 128
        assert made.stats == ps.ActivationStats(mean=2.0, std_dev=2.0, min=0.0, max=4.0, sparsity=0.5)

    @pytest.mark.parametrize(("max_sample", "length"), [(0, 0), (-3, 0), (2, 2), (10**9, 5)])
    def test_the_sample_has_the_requested_size(self, max_sample: int, length: int) -> None:
        assert make_activation(range(5), max_sample=max_sample).output_sample == tuple(range(length))

    def test_an_empty_tensor_has_no_statistics(self) -> None:
        made = make_activation([])

        assert made.output_sample == ()
        assert made.stats == ps.ActivationStats(mean=None, std_dev=None, min=None, max=None, sparsity=None)

    @given(st.lists(st.integers(0, M31_PRIME - 1), min_size=1, max_size=50))
    def test_numpy_arrays_give_the_same_statistics_as_lists(self, values: list[int]) -> None:
        numpy = pytest.importorskip("numpy")
        plain = make_activation(values)
        array = make_activation(numpy.array(values, dtype=numpy.uint32))

        assert array.output_sample == plain.output_sample
        assert all(type(value) is int for value in array.output_sample)
        for name in plain.stats.__struct_fields__:
            value = getattr(array.stats, name)
            assert type(value) is float
            assert value == pytest.approx(getattr(plain.stats, name), rel=1e-9, abs=1e-3)

    def test_an_array_of_any_shape_is_read_row_by_row(self) -> None:
        numpy = pytest.importorskip("numpy")
        made = make_activation(numpy.arange(12, dtype=numpy.uint32).reshape(3, 4), max_sample=6)

        assert made.output_sample == (0, 1, 2, 3, 4, 5)
        assert made.stats.max == 11.0

    @given(st.lists(st.integers(0, M31_PRIME - 1), min_size=1, max_size=50))
    def test_statistics_are_consistent(self, values: list[int]) -> None:
        stats = ps.activation_stats(values)

        assert stats.mean is not None
        assert stats.std_dev is not None
        assert (stats.min, stats.max) == (min(values), max(values))
        assert min(values) - 1e-6 <= stats.mean <= max(values) + 1e-6
        assert 0 <= stats.std_dev <= (max(values) - min(values)) / 2 + 1e-6
        assert stats.sparsity == values.count(0) / len(values)


class TestHeatmap:
    @given(st.integers(0, 150))
    def test_the_side_follows_from_the_true_length(self, seq_len: int) -> None:
        matrix = [[row * 1000.0 + column for column in range(seq_len)] for row in range(seq_len)]
        made = ps.attention_heatmap(layer_idx=1, head_idx=2, num_heads=3, scores=matrix)

        side = min(seq_len, 64)
        assert made.seq_len == seq_len
        assert len(made.scores) == side * side
        numbers = [score for score in made.scores if score is not None]
        columns = [int(number) % 1000 for number in numbers[:side]]
        rows = [int(number) // 1000 for number in numbers[::side]] if side else []
        assert rows == columns == sorted(set(columns))
        if seq_len <= 64:
            assert columns == list(range(seq_len))
        else:
            steps = {after - before for before, after in itertools.pairwise(columns)}
            assert max(steps) - min(steps) <= 1
            assert columns[0] == 0

    @pytest.mark.parametrize("scores", [[[1.0], [1.0]], [[1.0, 2.0]], [[]]])
    def test_a_matrix_that_is_not_square_is_refused(self, scores: list[list[float]]) -> None:
        with pytest.raises(ValueError, match="square"):
            ps.attention_heatmap(layer_idx=0, head_idx=0, num_heads=1, scores=scores)

    def test_nan_and_infinity_become_none(self) -> None:
        made = ps.attention_heatmap(layer_idx=0, head_idx=0, num_heads=1, scores=[[math.nan, 1.0], [-math.inf, 0.0]])

        assert made.scores == (None, 1.0, None, 0.0)

    def test_numpy_matrices_are_accepted(self) -> None:
        numpy = pytest.importorskip("numpy")
        made = ps.attention_heatmap(
            layer_idx=0, head_idx=0, num_heads=1, scores=numpy.full((100, 100), 0.25, dtype=numpy.float32)
        )

        assert made.scores == (0.25,) * 4096
        assert all(type(score) is float for score in made.scores)


@pytest.mark.parametrize(
    ("shape", "cost"), [((1, 1, 1), 1), ((4, 8, 16), 512), ((3, 5, 7), 128), ((0, 5, 7), 1), ((2**12, 2**13, 3), 2**27)]
)
def test_matmul_trace_cost(shape: tuple[int, int, int], cost: int) -> None:
    assert ps.matmul_trace_cost(*shape) == cost


@given(st.integers(1, 2**40))
def test_trace_cost_is_the_next_power_of_two(cells: int) -> None:
    cost = ps.matmul_trace_cost(cells, 1, 1)

    assert cost.bit_count() == 1
    assert cost // 2 < cells <= cost


def test_claims_are_shown_by_their_first_limb() -> None:
    assert ps.claim_approx(ps.SecureField(M31_PRIME, 9, 9, 9)) == 1.0
    assert ps.claim_approx(ps.SecureField(0, 9, 9, 9)) == 0.0


@pytest.mark.parametrize(
    ("commitment", "shown"),
    [(bytes(range(32)), "0001020304050607"), (b"\xff", "ff"), (b"", ""), (b"\xab" * 8, "ab" * 8)],
)
def test_commitments_are_shown_by_their_first_8_bytes(commitment: bytes, shown: str) -> None:
    assert ps.commitment_hex(commitment) == shown


def test_unknown_figures_of_a_gpu_stay_none() -> None:
    snapshot = ps.gpu_snapshot(device_id=0, device_name="NVIDIA H100")

    assert snapshot.utilization is None
    assert snapshot.free_memory_bytes is None
    assert ps.gpu_snapshot(device_id=0, device_name="x", utilization=0.0, free_memory_bytes=0).utilization == 0.0
