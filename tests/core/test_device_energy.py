"""The energy of one GPU: its counter where that is of use, its power where it is not, and nothing where neither is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream.device_energy import DeviceEnergy

S = 1_000_000_000
Figures = tuple[float, float | None, float | None]
"""A sample: second, joules by the counter, watts."""


def drawn(*samples: Figures, between: tuple[float, float] | None = None) -> tuple[Any, ...]:
    """Joules, and the seconds that are measured and integrated; over all samples unless told otherwise."""
    device = DeviceEnergy()
    for second, energy_j, power_w in samples:
        device.add_sample(round(second * S), energy_j=energy_j, power_w=power_w)
    start, end = between or (samples[0][0], samples[-1][0])
    found = device.between(round(start * S), round(end * S))
    return found.joules, found.measured_ns / S, found.integrated_ns / S


def test_a_counter_that_moves_is_taken_at_its_word() -> None:
    assert drawn((0, 50.0, 90.0), (1, 150.0, 90.0), (2, 250.0, 500.0)) == (200.0, 2, 0)
    assert drawn((0, 50.0, None), (1, 150.0, None)) == (100.0, 1, 0)


def test_a_counter_that_stands_still_while_power_is_drawn_is_no_counter() -> None:
    assert drawn((0, 7.0, 100.0), (1, 7.0, 100.0), (2, 7.0, 200.0)) == (250.0, 0, 2)
    assert drawn((0, 0.0, 100.0), (10, 0.0, 100.0)) == (1000.0, 0, 10)


def test_a_counter_that_stands_still_without_power_measures_zero() -> None:
    assert drawn((0, 7.0, 0.0), (1, 7.0, 0.0)) == (0.0, 1, 0)


def test_a_counter_that_stands_still_with_power_unknown_says_nothing() -> None:
    assert drawn((0, 7.0, None), (1, 7.0, None), (2, 7.0, None)) == (0.0, 0, 0)
    # It had lagged behind: now it tells of all the time.
    assert drawn((0, 7.0, None), (1, 7.0, None), (2, 207.0, None)) == (200.0, 2, 0)


def test_without_a_counter_power_is_integrated() -> None:
    assert drawn((0, None, 100.0), (1, None, 300.0), (3, None, 300.0)) == (800.0, 0, 3)


def test_a_counter_that_fell_costs_no_period() -> None:
    samples = ((0, 500.0, 100.0), (1, 600.0, 100.0), (2, 10.0, 100.0), (3, 110.0, 100.0))
    assert drawn(*samples) == (300.0, 2, 1)
    without_power = tuple((second, energy, None) for second, energy, _ in samples)
    assert drawn(*without_power) == (200.0, 2, 0)  # one second is not known


def test_a_counter_that_catches_up_does_not_count_twice() -> None:
    assert drawn((0, 0.0, 100.0), (1, 0.0, 100.0), (2, 200.0, 100.0)) == (200.0, 2, 0)
    # It did not count while it stood still.
    assert drawn((0, 0.0, 100.0), (1, 0.0, 100.0), (2, 100.0, 100.0)) == (200.0, 1, 1)


def test_a_counter_that_leaps_further_than_any_gpu_can_draw_is_not_believed() -> None:
    assert drawn((0, 1.0, 100.0), (1, 1e9, 100.0), (2, 1e9 + 100, 100.0)) == (200.0, 1, 1)


def test_a_device_that_did_not_answer_is_not_known_meanwhile() -> None:
    gap = ((0, None, 100.0), (1, None, None), (2, None, 100.0), (3, None, 100.0))
    assert drawn(*gap) == (100.0, 0, 1)
    # A counter that goes on has counted meanwhile.
    assert drawn((0, 10.0, 100.0), (1, None, None), (2, 210.0, 100.0)) == (200.0, 2, 0)


def test_power_is_not_integrated_over_minutes_without_a_sample() -> None:
    assert drawn((0, None, 100.0), (61, None, 100.0)) == (0.0, 0, 0)
    assert drawn((0, 5.0, 100.0), (61, 6105.0, 100.0)) == (6100.0, 61, 0)


def test_within_a_segment_energy_is_drawn_evenly() -> None:
    samples = ((0, 0.0, None), (10, 1000.0, None), (20, 1000.0, 0.0))
    assert drawn(*samples, between=(2.5, 5)) == (250.0, 2.5, 0)
    assert drawn(*samples, between=(-5, 5)) == (500.0, 5, 0)
    assert drawn((0, 0.0, None), (10, 1000.0, None), between=(5, 50)) == (500.0, 5, 0)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 1e300])
def test_impossible_figures_are_no_figures(bad: float) -> None:
    assert drawn((0, bad, 100.0), (1, bad, 100.0)) == (100.0, 0, 1)
    assert drawn((0, 1.0, bad), (1, 2.0, bad)) == (1.0, 1, 0)
    assert DeviceEnergy().between(0, S).joules == 0


def test_what_is_forgotten_changes_nothing_later() -> None:
    device = DeviceEnergy()
    for second in range(10):
        device.add_sample(second * S, energy_j=100.0 * second, power_w=None)
    before = device.between(5 * S, 9 * S)
    device.forget_before(5 * S)
    assert device.between(5 * S, 9 * S) == before
    assert device.between(0, 9 * S) == before


_FIGURE = st.one_of(st.none(), st.floats(0, 1000))


@given(st.lists(st.tuples(_FIGURE, _FIGURE), min_size=2, max_size=30))
def test_energy_is_never_negative_and_its_time_never_longer_than_the_time(figures: list[Any]) -> None:
    samples = [(second, energy, power) for second, (energy, power) in enumerate(figures)]
    joules, measured, integrated = drawn(*samples)
    assert joules >= 0
    assert 0 <= measured + integrated <= len(samples) - 1 + 1e-6
