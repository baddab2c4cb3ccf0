"""The bus among plugins that publish without end, values that break, and events of any size and any name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proofstream import (
    AttentionHeatmap,
    Batch,
    Envelope,
    EventsLost,
    LayerKind,
    Log,
    LogLevel,
    PluginContext,
    PluginError,
    ProofComplete,
    ProofEvent,
    hookimpl,
    open_session,
)
from proofstream.config import Config, HostSettings
from proofstream.contracts import SourceRequest
from proofstream.feeds import HostFeed
from proofstream.host import Host
from proofstream.loader import Selection, load
from proofstream.sources.files import FileSource
from proofstream.testing import RecordingPlugin
from proofstream.wire import LineDecoder

_NOTE = Log(level=LogLevel.Info, message="storm")


@pytest.fixture
def make_host() -> Iterator[Callable[..., Host]]:
    """Makes hosts with given plugins, and closes them."""
    hosts: list[Host] = []

    def make(*plugins: Any, live: bool = True, **settings: Any) -> Host:
        registry = load(Selection(allowed=frozenset()), found=[], instances=list(plugins))
        config = Config(host=HostSettings(close_timeout_s=10.0, **settings))
        hosts.append(Host(registry=registry, config=config, asked=[plugin.name for plugin in plugins], live=live))
        hosts[-1].start()
        hosts[-1].wait_configured()
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


class Storm:
    """Publishes without end from a thread of its own, or in answer to each batch."""

    name = "storm"

    def __init__(self, answers: int = 0) -> None:
        self.published = 0
        self._answers = answers
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> None:
        if not self._answers:
            self._thread = threading.Thread(target=self._publish, args=(context,), daemon=True)
            self._thread.start()

    def _publish(self, context: PluginContext) -> None:
        while not self._stop.is_set():
            for _ in range(100):
                context.publish(_NOTE)
            self.published += 100

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> list[Log]:
        answers = self._answers if any(envelope.origin == "producer" for envelope in batch) else 0
        self.published += answers
        return [_NOTE] * answers

    def end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


class Slow(RecordingPlugin):
    """Takes its time for each batch."""

    def __init__(self, name: str, pause_s: float) -> None:
        super().__init__(name)
        self._pause_s = pause_s

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        time.sleep(self._pause_s)
        super().proofstream_consume(batch=batch)


def test_a_publish_storm_costs_the_publisher_and_not_the_prover(make_host: Callable[..., Host]) -> None:
    storm, slow = Storm(), Slow("slow", 0.002)
    host = make_host(storm, slow, lane_capacity=512, intake_capacity=4096)
    session = host.new_session(source="prover")
    host.announce(session, time_source="envelope")
    for index in range(300):
        session.emit(Log(level=LogLevel.Info, message=f"bulk {index}"))
        time.sleep(0.002)
    storm.end()
    assert host.flush(60)
    report = host.close()
    received = [e for e in slow.envelopes if isinstance(e.event, Log) and e.event.message.startswith("bulk")]
    assert len(received) == 300
    assert host.bus.lost_at_intake == {}
    assert host.lanes[1].queue.lost_facts == 0
    assert report.problems
    assert all(problem.startswith("plugin storm published ") for problem in report.problems)


def test_what_a_storm_lost_is_said_and_counted_exactly(make_host: Callable[..., Host]) -> None:
    storm, watcher = Storm(), RecordingPlugin("watcher")
    host = make_host(storm, watcher, lane_capacity=512)
    session = host.new_session(source="prover")
    host.announce(session, time_source="envelope")
    time.sleep(0.5)
    storm.end()
    host.flush(5.0)
    host.close()
    seen = sum(e.origin == "storm" for e in watcher.envelopes)
    lane_lost = host.lanes[1].queue.flooded_by.get("storm", {}).get("Log", 0)
    too_fast = host.publishers["storm"].flooded.get("Log", 0)
    assert seen + lane_lost + too_fast == storm.published
    assert too_fast + lane_lost > 0
    where = {e.event.where for e in watcher.envelopes if isinstance(e.event, EventsLost)}
    assert where == {"plugin:storm"}


def test_a_plugin_that_answers_with_thousands_of_events_waits_for_room(make_host: Callable[..., Host]) -> None:
    storm, watcher = Storm(answers=5000), RecordingPlugin("watcher")
    host = make_host(storm, watcher, lane_capacity=65_536)
    session = host.new_session(source="prover")
    session.emit(Log(level=LogLevel.Info, message="a fact"))
    assert host.flush(10.0)
    assert sum(e.origin == "storm" for e in watcher.envelopes) == 5000
    assert host.close().problems == []


def test_a_storm_does_not_starve_a_replay(make_host: Callable[..., Host], tmp_path: Path) -> None:
    recording = tmp_path / "proof.jsonl"
    recording.write_bytes(b'{"Log":{"level":"Info","message":"fact"}}\n' * 20_000)
    storm, watcher = Storm(), RecordingPlugin("watcher")
    host = make_host(storm, watcher, live=False, lane_capacity=1024)
    source = FileSource(recording, SourceRequest(uri=str(recording)), LineDecoder(host.registry.catalog))
    feed = HostFeed(host, waits=True, tell=lambda _: None)
    reader = threading.Thread(target=source.run, args=(feed,), daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    storm.end()
    host.close()
    assert sum(isinstance(e.event, Log) and e.event.message == "fact" for e in watcher.envelopes) == 20_000


class _AnswersUndeclared(RecordingPlugin):
    @hookimpl
    def proofstream_consume(self, batch: Batch) -> list[ProofEvent]:
        return [_Undeclared()]


class _Undeclared(ProofEvent, frozen=True):
    pass


class _RaisingFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        raise RuntimeError("a filter broke")


def test_logging_that_raises_while_a_plugin_publishes_ends_in_the_report(make_host: Callable[..., Host]) -> None:
    host = make_host(_AnswersUndeclared("odd"))
    logger, broken = logging.getLogger("proofstream.session"), _RaisingFilter()
    logger.addFilter(broken)
    try:
        host.new_session(source="test").emit(_NOTE)
        assert host.flush(5)
        report = host.close()
    finally:
        logger.removeFilter(broken)
    assert "plugin odd failed: RuntimeError: a filter broke" in report.problems


class _CannotDeclare(RecordingPlugin):
    @hookimpl
    def proofstream_event_types(self) -> list[type[ProofEvent]]:
        raise ValueError("no types today")


def test_a_given_plugin_that_cannot_declare_its_events_is_not_left_out_in_silence() -> None:
    with pytest.raises(PluginError, match="no types today"):
        open_session(plugins=[_CannotDeclare("mute")])


class _Panic(BaseException):
    """What a Rust extension raises when it panics: not an Exception."""


class _Scalar:
    """A numpy-like value that cannot be read."""

    ndim = 0

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def item(self) -> float:
        raise self._error


@pytest.mark.parametrize("error", [_Panic("a panic"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_value_that_panics_costs_one_event_and_not_the_bus(error: BaseException) -> None:
    plugin = RecordingPlugin("watcher")
    session = open_session(plugins=[plugin])
    value: Any = _Scalar(error)
    for broken in (Log(level=LogLevel.Info, message=value), _NOTE):
        session.emit(broken)
    with session.proof(num_layers=1):
        pass
    session.close()
    assert session.refused == 1
    assert [type(e.event) for e in plugin.envelopes if isinstance(e.event, Log | ProofComplete)] == [Log, ProofComplete]


def test_heat_maps_are_bounded_in_bytes_and_lifecycle_events_stay(make_host: Callable[..., Host]) -> None:
    slow = Slow("slow", 0.2)
    host = make_host(slow, memory_bytes=16 * 2**20)
    session = host.new_session(source="prover")
    scores = [0.123456] * 4096
    with session.proof(num_layers=1) as proof, proof.layer(0, kind=LayerKind.MatMul):
        for index in range(200):
            session.emit(AttentionHeatmap(layer_idx=0, head_idx=index, num_heads=200, seq_len=64, scores=scores))
            if index % 20 == 19:
                # Or a bus that is held up would leave it to the intake to drop them; here the lane is to.
                _wait_until_empty(host)
    highest = 0
    deadline = time.monotonic() + 20
    while not host.bus.is_at_rest and time.monotonic() < deadline:
        highest = max(highest, host.lanes[0].queue.waiting_bytes)
        time.sleep(0.01)
    host.close()
    assert 0 < highest <= 16 * 2**20 // 2
    dropped = host.lanes[0].queue.dropped.get("AttentionHeatmap", 0)
    assert dropped > 0
    assert _kinds(slow.envelopes).count("AttentionHeatmap") + dropped == 200
    assert {"ProofStart", "LayerStart", "LayerEnd", "ProofComplete"} <= set(_kinds(slow.envelopes))


def _wait_until_empty(host: Host) -> None:
    deadline = time.monotonic() + 20
    while host.intake.items and time.monotonic() < deadline:
        time.sleep(0.01)


def _kinds(envelopes: list[Envelope]) -> list[str]:
    return [envelope.kind for envelope in envelopes]


def test_a_replay_of_large_heat_maps_loses_nothing_and_stays_within_its_bytes(
    make_host: Callable[..., Host], tmp_path: Path
) -> None:
    recording = tmp_path / "maps.jsonl"
    scores = ",".join(["0.123456"] * 4096)
    heat_map = f'{{"AttentionHeatmap":{{"layer_idx":0,"head_idx":0,"num_heads":1,"seq_len":64,"scores":[{scores}]}}}}\n'
    recording.write_text(heat_map * 400)
    slow = Slow("slow", 0.001)
    host = make_host(slow, live=False, memory_bytes=32 * 2**20)
    source = FileSource(recording, SourceRequest(uri=str(recording)), LineDecoder(host.registry.catalog))
    feed = HostFeed(host, waits=True, tell=lambda _: None)
    reader = threading.Thread(target=source.run, args=(feed,), daemon=True)
    reader.start()
    highest = 0
    while reader.is_alive():
        highest = max(highest, host.bus.backlog_bytes)
        time.sleep(0.001)
    host.drain()
    host.close()
    assert _kinds(slow.envelopes).count("AttentionHeatmap") == 400
    assert 0 < highest <= 32 * 2**20 // 16 + 2**21
    assert host.bus.backlog_bytes == 0


def test_a_python_prover_of_large_events_does_not_fill_the_memory(make_host: Callable[..., Host]) -> None:
    watcher = RecordingPlugin("watcher")
    host = make_host(watcher, memory_bytes=16 * 2**20)
    session = host.new_session(source="prover")
    most = emitted = 0
    deadline = time.monotonic() + 3
    with session.proof(num_layers=1):
        while time.monotonic() < deadline:
            scores = [float(emitted)] * 4096  # each event has its own list, as a prover's has
            session.emit(AttentionHeatmap(layer_idx=0, head_idx=0, num_heads=1, seq_len=64, scores=scores))
            emitted += 1
            if emitted > 200:  # by then the bus has seen how large they are
                most = max(most, len(host.intake.items))
    host.flush(60)
    host.close()
    at_intake, in_lane = host.bus.lost_at_intake, host.lanes[0].queue.dropped
    lost = at_intake.get("AttentionHeatmap", 0) + in_lane.get("AttentionHeatmap", 0)
    kinds = _kinds(watcher.envelopes)
    assert most <= 16 * 2**20 // 2 // (4 * 4096) + 1024
    assert kinds.count("AttentionHeatmap") + lost == emitted
    assert kinds.count("ProofStart") == kinds.count("ProofComplete") == 1
