"""The plugin: when it samples, when it sits out a run, and how it handles a driver that does not respond."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proofstream import (
    ConfigError,
    Envelope,
    GpuTelemetry,
    OptionKind,
    PluginError,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SumcheckRound,
)
from proofstream.testing import InlineHost, envelopes
from proofstream_gpu import GpuPlugin
from proofstream_gpu.nvml import Nvml

DEADLINE_S = 20.0
START = ProofStart(model_name=None, backend="cpu", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
COMPLETE = ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="x")
ROUND = SumcheckRound(layer_idx=0, round=0, total_rounds=1, poly_deg2=None, poly_deg3=None, claim_value_approx=None)
SLOW: dict[str, Any] = {"interval_s": 30.0, "idle_interval_s": 30.0}


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


class Running:
    """The plugin on this thread, its sampler on its own."""

    def __init__(self, config: dict[str, Any], *, asked: bool = True) -> None:
        self.plugin = GpuPlugin()
        self.host = InlineHost(self.plugin, config, asked=asked)

    @property
    def samples(self) -> list[GpuTelemetry]:
        return [event for event in self.host.derived if isinstance(event, GpuTelemetry)]

    def feed(self, *events: ProofEvent, close: bool = False, session_id: str = "s") -> None:
        self.host.feed(envelopes(events, close=close, session_id=session_id))


@pytest.fixture
def start(machine: Any) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def begin(*, asked: bool = True, **config: Any) -> Running:
        running.append(Running(config, asked=asked))
        return running[-1]

    yield begin
    for one in running:
        one.host.close()


def test_its_flag() -> None:
    (option,) = GpuPlugin().proofstream_options()

    assert option.flags == ("--gpu", "--no-gpu")
    assert (option.key, option.kind) == ("enabled", OptionKind.SWITCH)
    assert GpuPlugin.requires == ("pynvml",)


def test_a_sample_at_the_beginning_and_at_each_change(start: Callable[..., Running]) -> None:
    run = start(**SLOW)
    eventually(lambda: len(run.samples) == 1)

    run.feed(START)
    eventually(lambda: len(run.samples) == 2)
    run.feed(ROUND, ROUND)
    run.feed(COMPLETE)
    eventually(lambda: len(run.samples) == 3)
    assert [sample.devices[0].id for sample in run.samples] == ["GPU-00000000"] * 3


@pytest.mark.parametrize("ending", [COMPLETE, ProofAborted(reason="x"), None])
def test_samples_are_frequent_while_a_proof_runs_and_rare_otherwise(
    start: Callable[..., Running], ending: ProofEvent | None
) -> None:
    run = start(interval_s=0.1, idle_interval_s=30.0)
    eventually(lambda: len(run.samples) == 1)
    time.sleep(0.3)
    assert len(run.samples) == 1

    run.feed(START)
    eventually(lambda: len(run.samples) >= 5)
    run.feed(*([ending] if ending else []), close=ending is None)
    time.sleep(0.3)
    before = len(run.samples)
    time.sleep(0.5)
    assert len(run.samples) == before


def test_proofs_that_follow_one_another_fast_are_not_sampled_one_by_one(start: Callable[..., Running]) -> None:
    run = start(**SLOW)
    began = time.monotonic()
    for _ in range(200):
        run.feed(START)
        run.feed(COMPLETE)
    eventually(lambda: len(run.samples) >= 2)

    assert len(run.samples) <= 2 + (time.monotonic() - began) / 0.1


def test_one_of_two_proofs_still_runs(start: Callable[..., Running]) -> None:
    run = start(interval_s=0.1, idle_interval_s=30.0)
    run.feed(START, session_id="a")
    run.feed(START, session_id="b")
    run.feed(COMPLETE, session_id="a", close=True)
    before = len(run.samples)

    eventually(lambda: len(run.samples) >= before + 4)


def test_new_instances_are_seen_when_a_proof_begins(start: Callable[..., Running], machine: Any) -> None:
    machine.set(_0__mig=1)
    run = start(**SLOW)
    eventually(lambda: len(run.samples) == 1)
    machine.set(_0__mig3__there=1)
    run.feed(START)
    eventually(lambda: len(run.samples) == 2)

    assert [device.id for device in run.samples[-1].devices] == ["GPU-00000000", "MIG-00000000-3"]


def test_pcie_is_not_queried_if_switched_off(start: Callable[..., Running], machine: Any) -> None:
    run = start(pcie=False, **SLOW)
    eventually(lambda: len(run.samples) == 1)

    assert run.samples[0].devices[0].pcie_tx_bytes_per_s is None
    assert run.samples[0].devices[0].unsupported == ()
    assert machine.count("pcie") == 0


def test_settings_given_in_python_win(machine: Any) -> None:
    host = InlineHost(GpuPlugin(devices=["GPU-00000000"], **SLOW), {"devices": "nothing"})
    host.close()

    assert host.health()["devices"] == 1


def test_health(start: Callable[..., Running], machine: Any) -> None:
    machine.set(_0__power=4_294_967_295)
    run = start(**SLOW)
    eventually(lambda: len(run.samples) == 1)
    eventually(lambda: run.host.health()["samples"] == 1)

    assert run.host.health() == {
        "devices": 1,
        "samples": 1,
        "dropped_values": 1,
        "failed_samples": 0,
        "driver_busy_s": 0,
    }


def test_shut_down_once_when_the_run_ends(start: Callable[..., Running], machine: Any) -> None:
    run = start(interval_s=0.1)
    run.feed(START)
    eventually(lambda: len(run.samples) >= 3)
    run.host.close()
    run.host.close()

    assert (machine.count("init"), machine.count("shutdown")) == (1, 1)


# No driver


def test_without_a_driver_it_sits_the_run_out_in_one_quiet_line(machine: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    machine.set(init="!9")
    plugin = GpuPlugin()
    host = InlineHost(plugin, {}, asked=False)
    context = host.context

    assert plugin.proofstream_configure(context) is False
    assert {record.levelname for record in caplog.records} == {"INFO"}
    assert {record.getMessage() for record in caplog.records} == {
        "GPUs are not measured: the NVIDIA driver is not loaded"
    }
    assert (host.health(), host.derived) == ({}, [])
    host.feed(envelopes([START, COMPLETE]))
    host.close()


def test_without_a_driver_it_fails_if_it_was_asked_for(machine: Any) -> None:
    machine.set(init="!999")
    with pytest.raises(PluginError) as raised:
        Running({})

    assert str(raised.value) == "the NVIDIA driver could not be initialised: Unknown Error"


@pytest.mark.parametrize("asked", [True, False])
def test_a_driver_that_hangs_blocks_nothing(machine: Any, asked: bool, start: Callable[..., Running]) -> None:
    machine.set(init_s=1.0)
    began = time.monotonic()
    if asked:
        with pytest.raises(PluginError, match=r"has not answered within 0\.2 s"):
            start(probe_timeout_s=0.2, **SLOW)
    else:
        run = start(probe_timeout_s=0.2, asked=False, **SLOW)
        assert run.samples == []
        eventually(lambda: run.samples)
    assert time.monotonic() - began < DEADLINE_S
    eventually(lambda: machine.count("init") == 1)
    if asked:
        eventually(lambda: machine.count("shutdown") == 1)
        assert machine.count("power") == 0


def test_a_driver_that_does_not_return_makes_the_devices_lost(
    start: Callable[..., Running], machine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = start(hung_after_s=0.2, **SLOW)
    eventually(lambda: len(run.samples) == 1)
    machine.set(_0__hang_s=0.1)  # at each of a dozen questions
    run.feed(START)

    def tick_until_lost() -> bool:
        run.feed()
        return run.samples[-1].devices[0].state == "lost"

    eventually(tick_until_lost)
    for _ in range(3):
        run.feed()
    assert [sample.devices[0].state for sample in run.samples] == ["ok", "lost"]
    assert [r.getMessage() for r in caplog.records] == [
        "the NVIDIA driver does not respond; the GPUs count as lost until it does"
    ]
    machine.set(_0__hang_s=None)
    eventually(lambda: run.samples[-1].devices[0].state == "ok")


def test_lost_devices_are_reported_repeatedly(
    start: Callable[..., Running], machine: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = start(hung_after_s=0.2, interval_s=0.1)
    eventually(lambda: run.samples)
    machine.set(_0__hang_s=0.5)
    run.feed(START)

    def lost() -> list[GpuTelemetry]:
        run.feed()
        return [sample for sample in run.samples if sample.devices[0].state == "lost"]

    eventually(lambda: len(lost()) >= 3)
    machine.set(_0__hang_s=None)
    assert [r.getMessage() for r in caplog.records] == [
        "the NVIDIA driver does not respond; the GPUs count as lost until it does"
    ]


def test_a_sample_that_fails_completely_is_counted_and_the_next_is_taken(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(nvml: Nvml) -> None:
        raise ZeroDivisionError("division by zero")

    run = start(interval_s=0.1, idle_interval_s=0.1)
    eventually(lambda: len(run.samples) >= 1)
    with monkeypatch.context() as broken:
        broken.setattr(Nvml, "take_xids", fail)
        eventually(lambda: run.host.health()["failed_samples"] >= 2)
    before = len(run.samples)
    eventually(lambda: len(run.samples) > before)

    assert [r.getMessage() for r in caplog.records] == [
        "the GPUs could not be sampled: ZeroDivisionError: division by zero"
    ]


# When there is nothing to measure


def test_it_measures_nothing_while_a_recording_is_replayed(machine: Any) -> None:
    plugin = GpuPlugin()
    host = InlineHost(plugin, {}, asked=False, live=False)

    assert plugin.proofstream_configure(host.context) is False
    assert machine.calls == []
    with pytest.raises(ConfigError, match="this is a recording"):
        InlineHost(GpuPlugin(), {}, live=False)


def test_it_can_be_switched_off(machine: Any) -> None:
    plugin = GpuPlugin()
    host = InlineHost(plugin, {"enabled": False})

    assert plugin.proofstream_configure(host.context) is False
    assert machine.calls == []
    host.close()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"every": 1},
            (
                "gpu.every: there is no such key; known are devices, enabled, hung_after_s, idle_interval_s, "
                "interval_s, pcie, probe_timeout_s, retry_s"
            ),
        ),
        ({"interval_s": 0}, "gpu.interval_s: input should be greater than or equal to 0.1"),
        ({"interval_s": float("nan")}, "gpu.interval_s: input should be less than or equal to 30"),
        ({"enabled": "perhaps"}, "gpu.enabled: input should be a valid boolean, unable to interpret input"),
    ],
)
def test_settings_that_are_not_acceptable(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        InlineHost(GpuPlugin(), config)

    assert str(raised.value) == message


@pytest.mark.parametrize("devices", ["0, GPU-00000000", ["0"], 0])
def test_devices_may_be_written_in_several_ways(start: Callable[..., Running], devices: object) -> None:
    run = start(devices=devices, **SLOW)
    eventually(lambda: run.samples)

    assert run.host.health()["devices"] == 1


def test_its_own_samples_do_not_count_as_a_proof(start: Callable[..., Running]) -> None:
    run = start(**SLOW)
    eventually(lambda: len(run.samples) == 1)
    mine: list[Envelope] = envelopes([run.samples[0]], close=False)
    run.host.feed(mine)
    time.sleep(0.2)

    assert len(run.samples) == 1
