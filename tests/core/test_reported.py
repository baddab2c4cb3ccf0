"""Figures that say nothing are told from those that do, by one rule."""

from __future__ import annotations

import pytest

from proofstream import (
    Closed,
    GpuSnapshot,
    GpuStatus,
    Interval,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Opened,
    ProofComplete,
    ProofEvent,
    ProofStart,
    ReportedDevices,
    StarkProofEnd,
    StarkProofStart,
    SumcheckRound,
    Timelines,
    gpu_snapshot,
    reported_claim,
    reported_duration_ms,
    reported_rounds,
)
from proofstream.reported import MAX_DEVICES
from proofstream.testing import envelopes

MS = 1_000_000


def intervals_of(*events: ProofEvent, step_ns: int = 2 * MS) -> list[Interval]:
    """The intervals of a stream, in the order in which they opened."""
    timelines = Timelines()
    changes = [change for envelope in envelopes(events, step_ns=step_ns) for change in timelines.feed(envelope)]
    assert any(isinstance(change, Closed) for change in changes)
    return [change.interval for change in changes if isinstance(change, Opened)]


def proof_start() -> ProofStart:
    return ProofStart(model_name="m", backend="cpu-gkr", num_layers=2, input_shape=(1, 1), output_shape=(1, 1))


def proof_complete(duration_ms: int) -> ProofComplete:
    return ProofComplete(
        duration_ms=duration_ms, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="sequential"
    )


def layer_start(claim: float | None = 0.5) -> LayerStart:
    return LayerStart(
        layer_idx=0,
        kind=LayerKind.MatMul,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=claim,
        gpu_device=None,
    )


def layer_end(duration_ms: int = 0, rounds: int = 0) -> LayerEnd:
    return LayerEnd(
        layer_idx=0,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=None,
        duration_ms=duration_ms,
        rounds_completed=rounds,
    )


def sumcheck_round(number: int, claim: float | None) -> SumcheckRound:
    return SumcheckRound(
        layer_idx=0, round=number, total_rounds=40, poly_deg2=None, poly_deg3=None, claim_value_approx=claim
    )


def status(device: GpuSnapshot, done: int, total: int) -> GpuStatus:
    return GpuStatus(devices=[device], matmul_done=0, matmul_total=0, layers_done=done, layers_total=total)


class TestDurations:
    def test_a_zero_beside_a_measured_millisecond_says_nothing(self) -> None:
        proof, layer, stark = intervals_of(
            proof_start(),
            layer_start(),
            layer_end(0),
            StarkProofStart(num_activation_layers=0, num_add_layers=0, num_layernorm_layers=0),
            StarkProofEnd(duration_ms=0),
            proof_complete(0),
        )
        assert [reported_duration_ms(interval) for interval in (proof, layer, stark)] == [None, None, None]

    def test_a_zero_below_a_millisecond_is_a_duration(self) -> None:
        proof, layer = intervals_of(proof_start(), layer_start(), layer_end(0), proof_complete(0), step_ns=1000)
        assert (reported_duration_ms(proof), reported_duration_ms(layer)) == (0, 0)

    def test_any_other_duration_is_passed_on_whatever_was_measured(self) -> None:
        proof, layer = intervals_of(proof_start(), layer_start(), layer_end(9), proof_complete(10**9))
        assert (reported_duration_ms(proof), reported_duration_ms(layer)) == (10**9, 9)

    def test_an_end_that_was_not_seen_reports_nothing(self) -> None:
        proof, layer = intervals_of(proof_start(), layer_start(), proof_complete(4))
        assert (reported_duration_ms(layer), reported_rounds(layer)) == (None, None)
        assert reported_rounds(proof) is None


class TestRounds:
    def test_a_zero_beside_counted_rounds_says_nothing(self) -> None:
        _, layer = intervals_of(proof_start(), layer_start(), sumcheck_round(0, None), layer_end(rounds=0))
        assert reported_rounds(layer) is None

    def test_a_zero_without_rounds_and_any_other_number_are_passed_on(self) -> None:
        _, without = intervals_of(proof_start(), layer_start(), layer_end(rounds=0))
        _, other = intervals_of(proof_start(), layer_start(), sumcheck_round(0, None), layer_end(rounds=9))
        assert (reported_rounds(without), reported_rounds(other)) == (0, 9)


class TestClaims:
    @pytest.mark.parametrize("number", [1, 2, 29, 30, 31, 39])
    def test_the_starting_claim_halved_once_a_round_says_nothing(self, number: int) -> None:
        _, layer = intervals_of(proof_start(), layer_start(0.3235507309436798), layer_end())
        assert reported_claim(sumcheck_round(number, 0.3235507309436798 / 2 ** min(number, 30)), layer) is None

    @pytest.mark.parametrize(
        ("start", "number", "claim"),
        [(0.5, 0, 0.5), (0.5, 1, 0.7), (0.5, 1, None), (0.0, 1, 0.0), (None, 1, 0.25), (0.5, 3, 0.25)],
    )
    def test_any_other_claim_is_passed_on(self, start: float | None, number: int, claim: float | None) -> None:
        _, layer = intervals_of(proof_start(), layer_start(start), layer_end())
        assert reported_claim(sumcheck_round(number, claim), layer) == claim

    def test_a_round_of_an_unknown_layer_is_passed_on(self) -> None:
        assert reported_claim(sumcheck_round(1, 0.25), None) == 0.25


class TestDevices:
    @pytest.mark.parametrize(
        ("utilization", "done", "total", "shown"),
        [
            (0.25, 1, 4, None),
            (0.25, 2, 4, 0.25),
            (1 / 3, 1, 3, None),
            (0.0, 0, 0, 0.0),
            (None, 1, 4, None),
            (1.0, 0, 0, 1.0),
            (55.0, 2, 4, None),
            (-0.1, 2, 4, None),
        ],
    )
    def test_a_share_of_layers_and_an_impossible_share_are_no_utilization(
        self, utilization: float | None, done: int, total: int, shown: float | None
    ) -> None:
        device = gpu_snapshot(device_id=0, device_name="gpu", utilization=utilization)
        assert ReportedDevices().utilization(status(device, done, total), device) == shown

    def test_devices_are_followed_within_bounds(self) -> None:
        devices = ReportedDevices()
        for amount in (80, 70):
            for device_id in range(MAX_DEVICES + 10):
                device = gpu_snapshot(device_id=device_id, device_name="gpu", free_memory_bytes=amount)
                shown = devices.free_memory_bytes(device)
                assert shown == (amount if amount == 70 and device_id < MAX_DEVICES else None)

    def test_free_memory_counts_once_it_changes_and_for_each_device_by_itself(self) -> None:
        devices = ReportedDevices()

        def free(device_id: int, amount: int | None) -> int | None:
            device = gpu_snapshot(device_id=device_id, device_name="gpu", free_memory_bytes=amount)
            return devices.free_memory_bytes(device)

        assert [free(0, 80), free(0, 80), free(0, 70), free(0, 80), free(0, None)] == [None, None, 70, 80, None]
        assert free(1, 80) is None
        assert [free(2, 0), free(2, 0), free(2, 80), free(2, 0)] == [None, None, None, None]
        devices.forget()
        assert free(0, 60) is None
