"""What proofs and layers account for: of their own GPUs, up to their own share, and nothing that is not known."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

import proofstream as ps
from proofstream.gpu_energy import MAX_SAMPLES

S = 1_000_000_000
VISIBLE = "process.environment_variable.CUDA_VISIBLE_DEVICES"
START = ps.ProofStart(model_name=None, backend="gpu", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
COMPLETE = ps.ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="x")


def layer_start(index: int, device: int | None) -> ps.LayerStart:
    return ps.LayerStart(
        layer_idx=index,
        kind=ps.LayerKind.MatMul,
        input_shape=(1, 1),
        output_shape=(1, 1),
        trace_cost=1,
        claim_value_approx=0.5,
        gpu_device=device,
    )


def layer_end(index: int) -> ps.LayerEnd:
    kind = ps.LayerProofKind.Sumcheck
    return ps.LayerEnd(layer_idx=index, kind=kind, final_claim_value_approx=0.5, duration_ms=0, rounds_completed=0)


def gpu(index: int = 0, **figures: Any) -> ps.GpuReading:
    facts: dict[str, Any] = {"id": f"GPU-{index}", "index": index, "state": "ok"}
    return ps.GpuReading(**facts | figures)


class Run:
    """A run whose events are given by their seconds."""

    def __init__(self) -> None:
        self.ledger = ps.EnergyLedger()
        self.found: dict[tuple[str | None, str], ps.GpuEnergy | None] = {}
        self._timelines = ps.Timelines()

    def open(self, resource: dict[str, str]) -> None:
        """Open the session with the attributes of its process."""
        opened = ps.SessionOpened(source="x", time_source="envelope", traceparent=None, resource=resource)
        self.say(0, opened, None)

    def say(self, second: float, event: ps.ProofEvent, job: str | None = "a", session: str = "s") -> None:
        """A prover says something."""
        envelope = ps.Envelope(
            seq=0,
            time_unix_nano=round(second * S),
            session_id=session,
            origin=ps.PRODUCER,
            event=event,
            raw=b"",
            job_id=job,
        )
        for change in self._timelines.feed(envelope):
            self.ledger.follow(change, self._timelines.session(session))
            if isinstance(change, ps.Closed):
                interval = change.interval
                name = "proof" if isinstance(interval, ps.Proof) else f"layer {interval.key}"
                self.found[interval.job_id, name] = self.ledger.close(interval)

    def sample(self, second: float, *readings: ps.GpuReading) -> None:
        """The GPUs are sampled."""
        self.ledger.add_sample(round(second * S), ps.GpuTelemetry(devices=list(readings)))

    def samples(self, seconds: Iterable[int], *gpus: int, watts: float = 100.0) -> None:
        """GPUs with counters that all draw the same power."""
        for second in seconds:
            self.sample(second, *(gpu(index, energy_j=watts * second, power_w=watts) for index in gpus))

    def prove(self, begin: float, end: float, *, sampled: range = range(0)) -> ps.GpuEnergy | None:
        """One proof, with samples of one GPU inside."""
        self.say(begin, START)
        self.samples(sampled, 0)
        self.say(end, COMPLETE)
        return self.found["a", "proof"]


def energy(found: ps.GpuEnergy | None) -> ps.GpuEnergy:
    assert found is not None
    return found


def test_a_proof_and_its_layers_account_for_what_was_drawn_meanwhile() -> None:
    run = Run()
    run.samples(range(3), 0)
    run.say(2, START)
    run.say(2, layer_start(0, 0))
    run.samples(range(3, 7), 0)
    run.say(6, layer_end(0))
    run.samples(range(7, 13), 0)
    run.say(12, COMPLETE)
    assert run.found["a", "layer 0"] == ps.GpuEnergy(
        joules=400.0, source="measured", devices=("GPU-0",), missing=(), chosen_by="gpu_device", shared=False
    )
    assert energy(run.found["a", "proof"]).joules == 1000.0


def test_the_time_accounted_for_is_as_long_as_the_interval() -> None:
    run = Run()
    run.samples(range(1), 0)
    found = energy(run.prove(0.6, 4.4, sampled=range(1, 5)))  # after the sample at 4 s nothing is known
    assert found.joules == pytest.approx(380.0)
    assert not found.missing


def test_idle_time_before_a_proof_is_not_its_own() -> None:
    run = Run()
    run.sample(0, gpu(energy_j=0.0))
    run.say(9, START)
    run.sample(9, gpu(energy_j=900.0))  # idle for 9 s
    run.sample(10, gpu(energy_j=1600.0))
    run.sample(11, gpu(energy_j=2300.0))
    run.say(11, COMPLETE)
    assert energy(run.found["a", "proof"]).joules == 1400.0


def test_fewer_than_two_samples_tell_nothing() -> None:
    run = Run()
    run.samples(range(2), 0)
    assert run.prove(1.5, 2.5, sampled=range(2, 3)) is None
    assert Run().prove(0, 100) is None


def test_integrated_energy_says_so() -> None:
    run = Run()
    run.say(0, START)
    for second in range(5):
        run.sample(second, gpu(energy_j=7.0, power_w=100.0))
    run.say(4, COMPLETE)
    found = energy(run.found["a", "proof"])
    assert (found.joules, found.source, found.missing) == (400.0, "integrated", ())


def test_a_gpu_without_a_counter_does_not_count_as_zero() -> None:
    run = Run()
    run.say(0, START)
    for second in range(5):
        run.sample(second, gpu(0, energy_j=100.0 * second), gpu(1, power_w=50.0), gpu(2, utilization=1.0))
    run.say(4, COMPLETE)
    found = energy(run.found["a", "proof"])
    assert (found.joules, found.source) == (600.0, "mixed")
    assert (found.devices, found.missing) == (("GPU-0", "GPU-1"), ("GPU-2",))


def test_where_nothing_is_known_there_is_no_number() -> None:
    run = Run()
    run.say(0, START)
    for second in range(5):
        run.sample(second, gpu(0, utilization=1.0))
    run.say(4, COMPLETE)
    found = energy(run.found["a", "proof"])
    assert (found.joules, found.source, found.devices, found.missing) == (None, None, (), ("GPU-0",))


def test_a_reset_of_the_counter_is_integrated_or_said_to_be_missing() -> None:
    for watts, expected in ((100.0, (400.0, "mixed", ())), (None, (300.0, "measured", ("GPU-0",)))):
        run = Run()
        run.say(0, START)
        for second, counter in enumerate((500.0, 600.0, 0.0, 100.0, 200.0)):
            run.sample(second, gpu(energy_j=counter, power_w=watts))
        run.say(4, COMPLETE)
        found = energy(run.found["a", "proof"])
        assert (found.joules, found.source, found.missing) == expected


@pytest.mark.parametrize("gone", [(), (gpu(0, state="lost"),)])
def test_a_gpu_that_was_lost_on_the_way_is_missing(gone: tuple[ps.GpuReading, ...]) -> None:
    run = Run()
    run.say(0, START)
    run.samples(range(5), 0)
    for second in range(5, 9):
        run.sample(second, *gone)
    run.say(9, COMPLETE)
    found = energy(run.found["a", "proof"])
    assert (found.joules, found.devices, found.missing) == (400.0, ("GPU-0",), ("GPU-0",))


def test_a_proof_that_was_sampled_for_a_part_of_its_time_misses_the_rest() -> None:
    late = Run()
    found = energy(late.prove(0, 60, sampled=range(30, 61)))
    assert (found.joules, found.missing) == (3000.0, ("GPU-0",))
    early = Run()
    found = energy(early.prove(0, 60, sampled=range(30)))
    assert (found.joules, found.missing) == (2900.0, ("GPU-0",))


def test_a_proof_whose_first_samples_are_forgotten_misses_them() -> None:
    run = Run()
    count = 2 * MAX_SAMPLES + 10
    found = energy(run.prove(0, count - 1, sampled=range(count)))
    assert found.missing == ("GPU-0",)
    assert found.joules == pytest.approx(100.0 * (MAX_SAMPLES + 9))


def test_who_shared_is_remembered_as_long_as_the_samples_are() -> None:
    run = Run()
    ended = MAX_SAMPLES * 3 // 2
    run.say(0, START, "long")
    run.say(0, START, "b")
    run.samples(range(ended + 1), 0)
    run.say(ended, COMPLETE, "b")
    run.samples(range(ended + 1, 2 * MAX_SAMPLES), 0)
    run.say(2 * MAX_SAMPLES - 1, COMPLETE, "long")
    found = energy(run.found["long", "proof"])
    assert found.shared
    assert found.joules == pytest.approx(100.0 * (MAX_SAMPLES - 1) - 50.0 * (ended - MAX_SAMPLES))


# Which devices


def test_a_proof_accounts_for_the_devices_of_its_layers_only() -> None:
    run = Run()
    for job, device in (("a", 0), ("b", 1)):
        run.say(0, START, job)
        run.say(0, layer_start(0, device), job)
    for second in range(5):
        run.sample(second, gpu(0, energy_j=100.0 * second), gpu(1, energy_j=300.0 * second))
    for job, joules in (("a", 400.0), ("b", 1200.0)):
        run.say(4, layer_end(0), job)
        run.say(4, COMPLETE, job)
        for name in ("layer 0", "proof"):
            found = energy(run.found[job, name])
            assert (found.joules, found.shared, found.chosen_by) == (joules, False, "gpu_device")


def test_a_layer_accounts_for_its_device_and_the_proof_for_all_of_its_layers() -> None:
    run = Run()
    run.say(0, START)
    run.say(0, layer_start(0, 0))
    run.say(0, layer_start(1, 2))
    run.samples(range(5), 0, 1, 2)
    for index in (0, 1):
        run.say(4, layer_end(index))
    run.say(4, COMPLETE)
    assert energy(run.found["a", "layer 1"]).devices == ("GPU-2",)
    assert energy(run.found["a", "proof"]).devices == ("GPU-0", "GPU-2")


def test_device_0_in_every_layer_is_a_placeholder_if_several_devices_are_reported() -> None:
    snapshots = [
        ps.GpuSnapshot(device_id=number, device_name=f"GPU-{number}", utilization=0.5, free_memory_bytes=1)
        for number in range(2)
    ]
    for count, devices in ((1, ("GPU-0",)), (2, ("GPU-0", "GPU-1"))):
        run = Run()
        run.say(0, START)
        run.say(0, layer_start(0, 0))
        run.say(
            0,
            ps.GpuStatus(devices=snapshots[:count], matmul_done=0, matmul_total=0, layers_done=1, layers_total=9),
        )
        run.samples(range(5), 0, 1)
        run.say(4, layer_end(0))
        run.say(4, COMPLETE)
        assert {energy(run.found["a", name]).devices for name in ("layer 0", "proof")} == {devices}


def test_the_environment_of_the_process_tells_its_devices() -> None:
    run = Run()
    run.open({VISIBLE: "GPU-2"})
    run.say(0, START)
    run.samples(range(5), 0, 1, 2)
    run.say(4, COMPLETE)
    found = energy(run.found["a", "proof"])
    assert (found.joules, found.devices, found.chosen_by) == (400.0, ("GPU-2",), "visible_devices")


def test_a_process_that_sees_no_gpu_draws_nothing_that_is_known() -> None:
    run = Run()
    run.open({VISIBLE: ""})
    assert run.prove(0, 4, sampled=range(5)) is None


def test_a_device_that_is_not_watched_is_missing() -> None:
    run = Run()
    run.open({VISIBLE: "0,GPU-elsewhere"})
    found = energy(run.prove(0, 4, sampled=range(5)))
    assert (found.joules, found.devices, found.missing) == (400.0, ("GPU-0",), ("GPU-elsewhere",))


def test_a_process_in_python_tells_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[ps.Envelope] = []

    class Witness:
        @ps.hookimpl
        def proofstream_consume(self, batch: ps.Batch) -> None:
            seen.extend(batch)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    with ps.open_session(plugins=[Witness()]):
        pass
    (opened,) = [envelope.event for envelope in seen if isinstance(envelope.event, ps.SessionOpened)]
    said = {key: value for key, value in opened.resource.items() if "environment" in key}
    assert said == {VISIBLE: "GPU-1,GPU-2"}


# Sharing


def test_proofs_at_once_share_what_they_share() -> None:
    run = Run()
    run.say(0, START, "a")
    run.samples(range(5), 0)
    run.say(4, START, "b")
    run.samples(range(5, 9), 0)
    run.say(8, COMPLETE, "a")
    run.samples(range(9, 13), 0)
    run.say(12, COMPLETE, "b")
    a, b = energy(run.found["a", "proof"]), energy(run.found["b", "proof"])
    assert (a.joules, a.shared) == (600.0, True)
    assert (b.joules, b.shared) == (600.0, True)


def test_a_proof_that_ended_before_shares_nothing() -> None:
    run = Run()
    run.say(0, START, "long")
    run.say(0, START, "a")
    run.samples(range(5), 0)
    run.say(4, COMPLETE, "a")
    run.say(4, START, "b")
    run.samples(range(5, 9), 0)
    run.say(8, COMPLETE, "b")
    run.samples(range(9, 13), 0)
    run.say(12, COMPLETE, "long")
    assert [energy(run.found[job, "proof"]).joules for job in ("a", "b", "long")] == [200.0, 200.0, 800.0]
    run.samples(range(13, 17), 0)
    alone = energy(run.prove(12, 16))
    assert (alone.joules, alone.shared) == (400.0, False)


def test_only_the_devices_that_both_use_are_shared() -> None:
    run = Run()
    run.say(0, START, "a")
    run.say(0, START, "b")
    for index in (0, 1):
        run.say(0, layer_start(index, index), "a")
    run.say(0, layer_start(0, 1), "b")
    run.samples(range(5), 0, 1)
    for job in ("a", "b"):
        run.say(4, COMPLETE, job)
    a, b = energy(run.found["a", "proof"]), energy(run.found["b", "proof"])
    assert (a.joules, a.shared, a.devices) == (600.0, True, ("GPU-0", "GPU-1"))
    assert (b.joules, b.shared, b.devices) == (200.0, True, ("GPU-1",))


def test_proofs_of_several_sessions_share_too() -> None:
    run = Run()
    for session in ("s", "t"):
        run.say(0, START, session, session)
    run.samples(range(5), 0)
    for session in ("s", "t"):
        run.say(4, COMPLETE, session, session)
    assert [energy(run.found[name, "proof"]).joules for name in ("s", "t")] == [200.0, 200.0]


def test_all_proofs_together_account_for_what_was_drawn_and_no_more() -> None:
    rng = random.Random(11)
    for _ in range(30):
        run = Run()
        spans = [sorted(rng.sample(range(101), 2)) for _ in range(rng.randint(1, 8))]
        run.samples(range(1), 0)
        for second in range(101):
            if second:
                run.samples([second], 0)
            for job, (begin, end) in enumerate(spans):
                if second == end:
                    run.say(second, COMPLETE, str(job))
                if second == begin:
                    run.say(second, START, str(job))
        busy = len({second for begin, end in spans for second in range(begin, end)})
        total = sum(energy(run.found[str(job), "proof"]).joules or 0.0 for job in range(len(spans)))
        assert total == pytest.approx(100.0 * busy)
