"""The guarantees of the bus, the lanes and the host to plugins and to provers."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from proofstream import (
    Batch,
    EventsLost,
    LayerEnd,
    LayerProofKind,
    Log,
    LogLevel,
    PluginContext,
    PluginError,
    PluginHealth,
    ProofComplete,
    ProofEvent,
    ProofStart,
    ReportLine,
    SumcheckRound,
    Timelines,
    TraceStarted,
    UnknownEvent,
    hookimpl,
)
from proofstream.config import Config
from proofstream.feeds import HostFeed
from proofstream.health import PluginStatus
from proofstream.host import Host
from proofstream.intake import HARD_FACTOR
from proofstream.loader import Selection, load
from proofstream.testing import RecordingPlugin
from proofstream.waiting import wait_until
from proofstream.wire import Decoded, encode_event

MakeHost = Callable[..., Host]


def note(text: object, level: LogLevel = LogLevel.Info) -> Log:
    return Log(level=level, message=str(text))


def a_round(number: int) -> SumcheckRound:
    return SumcheckRound(
        layer_idx=0, round=number, total_rounds=9, poly_deg2=None, poly_deg3=None, claim_value_approx=None
    )


def layer_end(index: int) -> LayerEnd:
    return LayerEnd(
        layer_idx=index,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=None,
        duration_ms=1,
        rounds_completed=1,
    )


def decoded(event: ProofEvent) -> Decoded:
    return Decoded(event=event, raw=encode_event(event))


def wait_for(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, deadline=time.monotonic() + 10.0), "waited in vain"


class Slow(RecordingPlugin):
    """Spends time on each batch, or waits until its gate opens."""

    def __init__(self, name: str = "slow", *, batch_s: float = 0.0) -> None:
        super().__init__(name)
        self.batch_s = batch_s
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        self.entered.set()
        self.gate.wait(30.0)
        time.sleep(self.batch_s)
        super().proofstream_consume(batch)


class Raising(RecordingPlugin):
    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        raise ValueError("no such layer")


def own_kinds(plugin: RecordingPlugin) -> list[str]:
    """The kinds that came from the session itself, without the health of plugins."""
    return [kind for kind in plugin.kinds if kind != "PluginHealth"]


# Order, threads, checks


def test_events_arrive_in_order_from_every_thread(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = host.new_session(source="test")

    def emit(worker: int) -> None:
        for number in range(500):
            session.emit(note(f"{worker} {number}"))

    threads = [threading.Thread(target=emit, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.flush(10.0)
    seqs = [e.seq for e in plugin.envelopes]
    assert seqs == sorted(set(seqs))
    said = [e.message.split() for e in plugin.events if isinstance(e, Log)]
    for worker in range(4):
        assert [int(number) for who, number in said if who == str(worker)] == list(range(500))


def test_hooks_of_one_plugin_run_on_one_thread_and_never_overlap(make_host: MakeHost) -> None:
    calls: list[tuple[str, int]] = []

    class Tracing:
        name = "tracing"

        @hookimpl
        def proofstream_configure(self, context: PluginContext) -> None:
            calls.append(("configure", threading.get_ident()))

        @hookimpl
        def proofstream_consume(self, batch: Batch) -> None:
            calls.append(("consume", threading.get_ident()))

        @hookimpl
        def proofstream_report_health(self) -> dict[str, int]:
            calls.append(("health", threading.get_ident()))
            return {"seen": 3}

        @hookimpl
        def proofstream_unconfigure(self, timeout_s: float) -> None:
            calls.append(("unconfigure", threading.get_ident()))

    host = make_host(Tracing())
    session = host.new_session(source="test")
    for number in range(2000):
        session.emit(note(number))
    assert session.flush(10.0)
    host.close()
    names = [name for name, _ in calls]
    assert names[0] == "configure"
    assert names.count("configure") == names.count("unconfigure") == 1
    assert "consume" not in names[names.index("unconfigure") :]
    assert len({ident for _, ident in calls}) == 1
    assert calls[0][1] != threading.get_ident()
    assert host.lanes[0].counters == {"seen": 3}


class Scalar:
    """A number as numpy has it, which the core must accept without numpy; tests/e2e has the real ones."""

    ndim = 0

    def item(self) -> int:
        return 7


def test_an_invalid_event_is_refused_counted_and_named(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = host.new_session(source="prover.py")
    number: Any = Scalar()
    word: Any = "seven"
    session.emit(ProofComplete(duration_ms=number, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="-"))
    session.emit(ProofComplete(duration_ms=word, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="-"))
    not_an_event: Any = object()
    session.emit(not_an_event)
    session.emit(note("kept"))
    assert session.flush(10.0)
    assert own_kinds(plugin) == ["ProofComplete", "Log"]
    first = plugin.events[0]
    assert isinstance(first, ProofComplete)
    assert type(first.duration_ms) is int
    assert session.refused == 2
    report = host.close()
    assert report.refused == 2
    assert not report.ok
    lines = [record.getMessage() for record in caplog.records]
    assert any("ProofComplete event refused" in line and "$.duration_ms" in line for line in lines)


def test_raw_is_the_events_own_json(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    session = make_host(plugin).new_session(source="test")
    session.emit(note("hello"))
    assert session.flush(10.0)
    assert plugin.envelopes[0].raw == b'{"Log":{"level":"Info","message":"hello"}}'


def test_time_comes_from_one_anchor_and_does_not_follow_a_clock_that_is_set() -> None:
    wall = [1_000_000_000_000]
    monotonic = [50]
    plugin = RecordingPlugin()
    registry = load(Selection(), found=[], instances=[plugin])
    host = Host(
        registry=registry,
        config=Config(),
        asked=["recording"],
        clock=lambda: monotonic[0],
        wall_clock=lambda: wall[0],
    )
    host.start()
    session = host.new_session(source="test")
    session.emit(note("one"))
    assert session.flush(10.0)
    wall[0] = 5
    monotonic[0] = 150
    session.emit(note("two"))
    assert session.flush(10.0)
    host.close()
    times = [e.time_unix_nano for e in plugin.envelopes if e.kind == "Log"]
    assert times == [1_000_000_000_000, 1_000_000_000_100]


def test_the_bus_survives_what_should_not_happen(make_host: MakeHost) -> None:
    class Spiteful(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("no logging today")

    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = host.new_session(source="test")
    logger, spite = logging.getLogger("proofstream.session"), Spiteful()
    logger.addFilter(spite)
    try:
        wrong: Any = "not an event"
        session.emit(wrong)
        assert session.flush(10.0)
    finally:
        logger.removeFilter(spite)
    session.emit(note("after"))
    assert session.flush(10.0)
    assert "Log" in plugin.kinds
    report = host.close()
    assert "faults while passing events on: 1, the first: RuntimeError: no logging today" in report.problems


def test_the_bus_goes_on_when_looking_after_a_lane_fails(make_host: MakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)

    def fail(now: float) -> None:
        raise RuntimeError("no clock today")

    monkeypatch.setattr(host.lanes[0], "check_stalled", fail)
    wait_for(lambda: host.bus.faults > 0)
    session = host.new_session(source="test")
    session.emit(note("after"))
    assert session.flush(10.0)
    assert "Log" in plugin.kinds
    assert any("RuntimeError: no clock today" in problem for problem in host.close().problems)


# Derived events


class Deriving(RecordingPlugin):
    """Returns one event for each event it is given."""

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> list[ProofEvent]:
        kept = [e for e in batch if e.kind != "PluginHealth"]
        self.envelopes.extend(kept)
        return [note(f"{self.name} of {e.seq}") for e in kept]


def test_derived_events_reach_the_others_and_end(make_host: MakeHost) -> None:
    plugins = [Deriving("a"), Deriving("b"), Deriving("c")]
    watcher = RecordingPlugin("watcher")
    host = make_host(*plugins, watcher)
    session = host.new_session(source="test")
    for number in range(100):
        session.emit(note(number))
    assert session.flush(30.0)
    # Each plugin sees an event, then what b and c made of it, and what they made of each other's: 1 + 2 + 2.
    assert [len(plugin.envelopes) for plugin in plugins] == [500, 500, 500]
    # The watcher sees every chain of distinct plugins: 1 + 3 + 6 + 6.
    assert len(own_kinds(watcher)) == 1600
    for envelope in watcher.envelopes:
        assert len(set(envelope.lineage)) == len(envelope.lineage)
        if envelope.lineage:
            assert envelope.origin == envelope.lineage[-1]


def test_derived_events_carry_the_time_of_their_cause(make_host: MakeHost) -> None:
    deriving, watcher = Deriving("deriving"), RecordingPlugin("watcher")
    session = make_host(deriving, watcher).new_session(source="test")
    session.emit(note("cause"))
    assert session.flush(10.0)
    cause, effect = (e for e in watcher.envelopes if e.kind == "Log")
    assert effect.time_unix_nano == cause.time_unix_nano
    assert effect.seq > cause.seq
    assert effect.session_id == cause.session_id


def test_derived_events_belong_to_the_session_of_their_cause(make_host: MakeHost) -> None:
    deriving, watcher = Deriving("deriving"), RecordingPlugin("watcher")
    host = make_host(deriving, watcher)
    sessions = [host.new_session(source=f"socket {number}") for number in range(3)]
    for number in range(300):
        sessions[number % 3].emit(note(sessions[number % 3].session_id))
    assert host.flush(10.0)
    causes = {e.seq: e.session_id for e in watcher.envelopes}
    derived = [e for e in watcher.envelopes if e.lineage]
    assert len(derived) == 300
    for envelope in derived:
        assert isinstance(envelope.event, Log)
        assert causes[int(envelope.event.message.rsplit(" ", 1)[1])] == envelope.session_id


@pytest.mark.parametrize("result", [["text"], 5, [None]])
def test_a_result_that_is_not_events_is_the_plugins_failure(make_host: MakeHost, result: Any) -> None:
    class Wrong(RecordingPlugin):
        @hookimpl
        def proofstream_consume(self, batch: Batch) -> Any:
            return result

    other = RecordingPlugin("other")
    host = make_host(Wrong("wrong"), other)
    session = host.new_session(source="test")
    session.emit(note("x"))
    assert session.flush(10.0)
    assert "Log" in other.kinds
    assert host.failed is not None
    assert host.failed.name == "wrong"


def test_a_plugin_publishes_from_any_thread(make_host: MakeHost) -> None:
    publisher, watcher = RecordingPlugin("publisher"), RecordingPlugin("watcher")
    host = make_host(publisher, watcher)
    session = host.new_session(source="test")
    assert publisher.context is not None
    publisher.context.publish(TraceStarted(proof=0, trace_id="0" * 32, span_id="0" * 16, sampled=True))
    assert session.flush(10.0)
    assert "TraceStarted" in watcher.kinds
    assert "TraceStarted" not in publisher.kinds
    found = next(e for e in watcher.envelopes if e.kind == "TraceStarted")
    assert (found.origin, found.session_id) == ("publisher", session.session_id)


def test_a_plugins_line_to_the_user_is_made_safe_and_goes_where_the_host_says(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "proofstream")
    plugin = RecordingPlugin()
    host = make_host(plugin)
    assert plugin.context is not None
    plugin.context.tell("watch\nhere \x1b[31m")
    assert [(r.name, r.levelno, r.getMessage()) for r in caplog.records] == [
        ("proofstream", logging.INFO, "watch\u240ahere \u241b[31m")
    ]
    told: list[str] = []
    Host(registry=host.registry, config=Config(), asked=[], tell=told.append).tell("at http://127.0.0.1:9090")
    assert told == ["at http://127.0.0.1:9090"]


def test_a_plugins_line_never_raises(make_host: MakeHost) -> None:
    def refuse(line: str) -> None:
        raise RuntimeError(line)

    host = make_host(RecordingPlugin())
    Host(registry=host.registry, config=Config(), asked=[], tell=refuse).tell("a line")


def test_the_others_are_told_what_a_plugin_derives(make_host: MakeHost) -> None:
    class Pricing(Deriving):
        derives = ("Log",)

    watcher = RecordingPlugin("watcher")
    host = make_host(Pricing("pricing"), watcher)
    host.close()
    healths = [event for event in watcher.events if isinstance(event, PluginHealth)]
    assert {health.plugin: health.derives for health in healths} == {"pricing": ("Log",), "watcher": ()}


def test_a_line_of_the_report_is_an_event_of_its_plugin_that_replays(make_host: MakeHost) -> None:
    publisher, watcher = RecordingPlugin("publisher"), RecordingPlugin("watcher")
    line = ReportLine(text="3 proofs greeted")
    host = make_host(publisher, watcher, live=False)
    assert publisher.context is not None
    publisher.context.publish(line)
    session = HostFeed(host, waits=True, tell=print).open_session(source="file", time_source="envelope")
    session.deliver([Decoded(event=line, raw=encode_event(line), origin="elsewhere")])
    assert host.flush(10.0)
    lines = [envelope for envelope in watcher.envelopes if envelope.kind == "ReportLine"]
    assert [(envelope.origin, envelope.event) for envelope in lines] == [("publisher", line), ("elsewhere", line)]
    timelines = Timelines()
    for envelope in lines:
        timelines.feed(envelope)
    assert timelines.sessions == []


# Plugins that fail, hang or fall behind


def test_a_raising_plugin_is_disabled_and_the_others_go_on(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Raising("bad"), RecordingPlugin("good")
    host = make_host(bad, good)
    session = host.new_session(source="test")
    for number in range(2000):
        session.emit(note(number))
    assert session.flush(10.0)
    report = host.close()
    assert own_kinds(good).count("Log") == 2000
    assert bad.unconfigured
    assert report.problems == ["plugin bad failed: ValueError: no such layer"]
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    where = "the logger proofstream shows where at level DEBUG"
    assert errors == [f"plugin bad failed and is disabled: ValueError: no such layer ({where})"]
    healths = [e for e in good.events if isinstance(e, PluginHealth) and e.plugin == "bad"]
    assert healths[-1].status == "failed"


class Broken(RecordingPlugin):
    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> None:
        raise OSError("disk is full")


def test_a_plugin_that_cannot_be_configured_is_named(make_host: MakeHost) -> None:
    with pytest.raises(PluginError, match="plugin broken is broken: OSError: disk is full") as caught:
        make_host(Broken("broken"))
    assert caught.value.hint == "the logger proofstream shows where at level DEBUG"


def test_a_plugin_that_may_fail_does_so_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    for optional in (["broken"], []):
        registry = load(Selection(), found=[], instances=[Broken("broken")])
        config = Config.of({"broken": {"path": "x"}})
        host = Host(
            registry=registry, config=config, asked=[], wanted=["broken"], optional=optional, traceback_hint="look -vv"
        )
        host.start()
        if not optional:  # the user wrote its settings
            with pytest.raises(PluginError, match="plugin broken is broken"):
                host.wait_configured()
            break
        host.wait_configured()
        assert host.close().ok
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == ["plugin broken is broken: OSError: disk is full (look -vv)"]


def test_a_plugin_that_cannot_be_closed_is_named_and_the_traceback_can_be_seen(
    make_host: MakeHost, caplog: pytest.LogCaptureFixture
) -> None:
    class Jammed(RecordingPlugin):
        @hookimpl
        def proofstream_unconfigure(self) -> None:
            raise OSError("the lid is jammed")

    make_host(Jammed("jammed")).close()
    caplog.set_level(logging.DEBUG, "proofstream")
    make_host(Jammed("jammed")).close()
    said = [(r.getMessage(), r.exc_info is not None) for r in caplog.records if "closed" in r.getMessage()]
    line = "plugin jammed could not be closed: OSError: the lid is jammed"
    assert said == [
        (f"{line} (the logger proofstream shows where at level DEBUG)", False),
        (line, False),
        ("plugin jammed could not be closed", True),
    ]


def test_a_plugin_that_only_answers_is_introduced_if_it_was_chosen() -> None:
    class Pricing(RecordingPlugin):
        derives = ("Log",)

    def introduced(*, asked: bool, settings: dict[str, object]) -> list[str]:
        registry = load(Selection(), found=[], instances=[Pricing("pricing"), RecordingPlugin("other")])
        config = Config.of({"pricing": settings})
        names = ["pricing"] if asked else []
        return Host(registry=registry, config=config, asked=names, wanted=["other", "pricing"]).introduced

    assert introduced(asked=False, settings={}) == ["other"]
    assert sorted(introduced(asked=True, settings={})) == ["other", "pricing"]
    assert introduced(asked=False, settings={"file": "x"}) == ["other", "pricing"]


def test_a_plugin_that_takes_too_long_to_configure_is_named(make_host: MakeHost) -> None:
    class Asleep(RecordingPlugin):
        @hookimpl
        def proofstream_configure(self, context: PluginContext) -> None:
            time.sleep(1.0)

    with pytest.raises(PluginError, match=r"not ready after 0\.2 s"):
        make_host(Asleep("asleep"), configure_timeout_s=0.2)


class Idle(RecordingPlugin):
    @hookimpl
    def proofstream_configure(self, context: PluginContext) -> bool:
        return False


def test_an_unasked_plugin_may_sit_a_run_out() -> None:
    idle = Idle("idle")
    registry = load(Selection(), found=[], instances=[idle])
    host = Host(registry=registry, config=Config(), asked=[], wanted=["idle"])
    host.start()
    host.wait_configured()
    session = host.new_session(source="test")
    session.emit(note("x"))
    assert session.flush(10.0)
    assert idle.envelopes == []
    assert host.active == []
    assert host.close().ok


def test_a_plugin_that_was_asked_for_must_have_something_to_do(make_host: MakeHost) -> None:
    with pytest.raises(PluginError, match="plugin idle was asked for and has nothing to do"):
        make_host(Idle("idle"))


def test_a_stuck_plugin_is_abandoned_in_time_and_named(make_host: MakeHost) -> None:
    stuck, good = Slow("stuck"), RecordingPlugin("good")
    stuck.gate.clear()
    host = make_host(stuck, good)
    session = host.new_session(source="test")
    session.emit(note("x"))
    assert stuck.entered.wait(10.0)
    began = time.monotonic()
    report = host.close(1.0)
    took = time.monotonic() - began
    stuck.gate.set()
    assert took < 3.0
    assert report.problems == ["plugin stuck did not finish in time and was abandoned"]
    assert good.unconfigured


def test_a_full_lane_drops_bulk_events_counts_them_and_says_where(make_host: MakeHost) -> None:
    slow, good = Slow("slow"), RecordingPlugin("good")
    slow.gate.clear()
    host = make_host(slow, good, lane_capacity=100)
    session = host.new_session(source="test")
    session.emit(note("first"))
    assert slow.entered.wait(10.0)
    for start in range(0, 400, 40):
        for number in range(start, start + 40):
            session.emit(a_round(number))
            if number % 4 == 0:
                session.emit(layer_end(number))
        wait_for(lambda: good.kinds.count("SumcheckRound") >= start + 40)  # noqa: B023 - called at once
    session.emit(note("a warning", LogLevel.Warn))
    wait_for(lambda: good.kinds.count("Log") == 2)
    slow.gate.set()
    assert session.flush(10.0)
    kept_rounds = slow.kinds.count("SumcheckRound")
    assert 50 <= kept_rounds <= 100
    assert slow.kinds.count("LayerEnd") == 100
    assert slow.kinds.count("Log") == 2
    lost = [e for e in slow.events if isinstance(e, EventsLost)]
    assert sum(e.counts["SumcheckRound"] for e in lost) == 400 - kept_rounds
    assert {e.where for e in lost} == {"lane:slow"}
    assert host.lanes[1].queue.dropped == {"SumcheckRound": 400 - kept_rounds}
    assert own_kinds(good).count("SumcheckRound") == 400
    assert "EventsLost" not in good.kinds
    seqs = [e.seq for e in slow.envelopes]
    assert seqs == sorted(seqs)
    # Losing bulk events to a slow plugin is a decision, not a failure.
    assert host.close().ok


class Sampled(ProofEvent, frozen=True, kw_only=True):
    """A third party's kind, declared as bulk data."""

    bulk: ClassVar[bool] = True
    volts: float


class Metered(ProofEvent, frozen=True, kw_only=True):
    """A third party's kind that is a fact, whatever its field of that name says."""

    bulk: bool = True  # type: ignore[misc]  # a field where the base has a class variable


class Metering(RecordingPlugin):
    @hookimpl
    def proofstream_event_types(self) -> list[type[ProofEvent]]:
        return [Sampled, Metered]


def test_a_full_lane_drops_third_party_kinds_that_are_declared_as_bulk(make_host: MakeHost) -> None:
    slow = Slow("slow")
    slow.gate.clear()
    host = make_host(slow, Metering("metering"), lane_capacity=10)
    session = host.new_session(source="test")
    session.emit(note("first"))
    assert slow.entered.wait(10.0)
    lane = next(lane for lane in host.lanes if lane.name == "slow")
    for number in range(40):
        session.emit(Sampled(volts=number))
        session.emit(Metered())
    wait_for(lambda: slow.kinds.count("Metered") + lane.depth >= 40 and sum(lane.queue.dropped.values()) > 0)
    slow.gate.set()
    assert session.flush(10.0)
    assert slow.kinds.count("Metered") == 40
    assert lane.queue.dropped == {"Sampled": 40 - slow.kinds.count("Sampled")}
    assert lane.queue.lost_facts == 0
    assert host.close().ok


def test_beyond_the_hard_cap_anything_is_dropped_and_that_is_a_problem(make_host: MakeHost) -> None:
    slow = Slow("slow")
    slow.gate.clear()
    host = make_host(slow, lane_capacity=10)
    session = host.new_session(source="test")
    session.emit(note("first"))
    assert slow.entered.wait(10.0)
    for number in range(300):
        session.emit(layer_end(number))
    wait_for(lambda: host.lanes[0].queue.lost_facts > 0)
    slow.gate.set()
    assert session.flush(10.0)
    report = host.close()
    assert any("was not given" in problem and "LayerEnd" in problem for problem in report.problems)


def test_a_source_that_waits_loses_nothing_to_a_slow_plugin(make_host: MakeHost) -> None:
    slow, fast = Slow("slow", batch_s=0.002), RecordingPlugin("fast")
    host = make_host(slow, fast, lane_capacity=64)
    feed = HostFeed(host, waits=True, tell=print)
    sessions = [feed.open_session(source=f"file {i}", time_source="arrival") for i in range(2)]

    def send(index: int) -> None:
        for start in range(0, 2000, 20):
            sessions[index].deliver([decoded(a_round(n)) for n in range(start, start + 20)])

    threads = [threading.Thread(target=send, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    host.drain()
    assert slow.kinds.count("SumcheckRound") == fast.kinds.count("SumcheckRound") == 4000
    assert host.lanes[0].queue.dropped == {}
    assert host.lanes[1].queue.dropped == {}


def test_a_source_that_cannot_wait_is_never_held(make_host: MakeHost) -> None:
    slow = Slow("slow")
    slow.gate.clear()
    host = make_host(slow, lane_capacity=64)
    feed = HostFeed(host, waits=False, tell=print)
    session = feed.open_session(source="socket", time_source="arrival")
    began = time.monotonic()
    for start in range(0, 5000, 50):
        session.deliver([decoded(a_round(n)) for n in range(start, start + 50)])
    took = time.monotonic() - began
    slow.gate.set()
    assert took < 5.0
    assert host.flush(10.0)
    assert slow.kinds.count("SumcheckRound") < 5000
    assert sum(host.lanes[0].queue.dropped.values()) + slow.kinds.count("SumcheckRound") == 5000


def test_a_stalled_lane_does_not_hold_the_source(make_host: MakeHost, caplog: pytest.LogCaptureFixture) -> None:
    stuck, good = Slow("stuck"), RecordingPlugin("good")
    stuck.gate.clear()
    host = make_host(stuck, good, lane_capacity=64, stalled_after_s=0.3)
    feed = HostFeed(host, waits=True, tell=print)
    session = feed.open_session(source="file", time_source="arrival")
    for start in range(0, 3000, 20):
        session.deliver([decoded(a_round(n)) for n in range(start, start + 20)])
    wait_for(lambda: good.kinds.count("SumcheckRound") == 3000)
    named = [r.getMessage() for r in caplog.records if "stalled" in r.getMessage()]
    assert named == [
        "plugin stuck is stalled (busy with one batch for more than 0.3 s); the run goes on without waiting for it"
    ]
    stuck.gate.set()
    assert host.flush(10.0)
    healths = [e for e in good.events if isinstance(e, PluginHealth) and e.plugin == "stuck"]
    assert "stalled" in [e.status for e in healths]


def test_a_plugin_that_takes_long_to_get_ready_is_stalled_until_it_is(make_host: MakeHost) -> None:
    class Late(RecordingPlugin):
        may_go_on = threading.Event()

        @hookimpl
        def proofstream_configure(self, context: PluginContext) -> bool | None:
            assert self.may_go_on.wait(30.0)
            return super().proofstream_configure(context)

    late = Late("late")
    host = make_host(late, ready=False, stalled_after_s=0.2)
    record = host.lanes[0].record
    wait_for(lambda: record.reason == "getting ready for more than 0.2 s")
    assert record.status is PluginStatus.STALLED
    late.may_go_on.set()
    wait_for(lambda: (record.status, record.reason) == (PluginStatus.READY, None))


@pytest.mark.parametrize("timeout_s", [0.02, 0.3])
def test_events_not_delivered_in_the_time_to_close_are_counted(make_host: MakeHost, timeout_s: float) -> None:
    plugin = RecordingPlugin("late")
    host = make_host(plugin)
    session = host.new_session(source="test")
    for index in range(100_000):
        session.emit(layer_end(index))
    report = host.close(timeout_s)
    lane = host.lanes[0]
    if lane.stopped.is_set():
        dropped, lost = lane.queue.dropped.get("LayerEnd", 0), host.bus.lost_at_intake.get("LayerEnd", 0)
        assert plugin.kinds.count("LayerEnd") + dropped + lost == 100_000
        assert bool(dropped + lost) is bool(report.problems)
    else:
        assert any("abandoned" in problem for problem in report.problems)


def test_a_lane_says_how_far_behind_it_is(make_host: MakeHost) -> None:
    stuck = Slow("stuck")
    host = make_host(stuck)
    assert host.flush(10.0)
    lane = host.lanes[0]
    assert lane.lag_s == 0.0
    stuck.gate.clear()
    session = host.new_session(source="test")
    began = time.monotonic()
    session.emit(note("first"))
    wait_for(lambda: lane.lag_s > 0.2)
    assert lane.lag_s <= time.monotonic() - began
    session.emit(note("second"))
    wait_for(lambda: lane.depth > 0)
    assert lane.lag_s > 0.2  # the first one is not done with
    stuck.gate.set()
    assert host.flush(10.0)
    assert lane.health().lag_s == 0.0


def test_the_end_of_a_file_waits_for_a_slow_plugin_that_makes_progress(make_host: MakeHost) -> None:
    slow = Slow("slow", batch_s=0.3)
    host = make_host(slow, progress_timeout_s=2.0, close_timeout_s=0.5)
    session = host.new_session(source="file")
    for number in range(3000):
        session.emit(a_round(number))
    host.drain()
    assert slow.kinds.count("SumcheckRound") == 3000
    assert host.close().ok


def test_the_end_of_a_file_does_not_wait_for_a_plugin_that_hangs(make_host: MakeHost) -> None:
    stuck = Slow("stuck")
    stuck.gate.clear()
    host = make_host(stuck, progress_timeout_s=0.3)
    host.new_session(source="file").emit(note("x"))
    began = time.monotonic()
    host.drain()
    took = time.monotonic() - began
    stuck.gate.set()
    assert took < 3.0


def test_progress_reported_within_a_batch_keeps_the_host_waiting(make_host: MakeHost) -> None:
    class Exporting(RecordingPlugin):
        @hookimpl
        def proofstream_consume(self, batch: Batch) -> None:
            for _ in range(10):
                time.sleep(0.1)
                assert self.context is not None
                self.context.progress()
            super().proofstream_consume(batch)

    plugin = Exporting("exporting")
    host = make_host(plugin, progress_timeout_s=0.4)
    host.new_session(source="file").emit(note("x"))
    host.drain()
    assert "Log" in plugin.kinds


def test_an_idle_lane_gets_a_tick(make_host: MakeHost) -> None:
    class Ticking(RecordingPlugin):
        tick_s = 0.02

    plugin = Ticking("ticking")
    make_host(plugin)
    wait_for(lambda: plugin.batches.count(0) >= 3)


# The intake


def test_a_full_intake_drops_counts_and_says_so(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin, start=False, intake_capacity=3)
    session = host.new_session(source="test")
    for number in range(80):
        session.emit(layer_end(number))
    host.start()
    assert session.flush(10.0)
    lost = [e for e in plugin.events if isinstance(e, EventsLost)]
    kept = plugin.kinds.count("LayerEnd")
    assert kept == 3 * HARD_FACTOR
    assert [e.counts for e in lost] == [{"LayerEnd": 80 - kept}]
    assert {e.where for e in lost} == {"intake"}
    assert host.close().problems == ["lost before the bus: 32 LayerEnd"]


def test_above_its_bound_the_intake_takes_facts_and_drops_bulk(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin, start=False, intake_capacity=5)
    session = host.new_session(source="test")
    for number in range(20):
        session.emit(a_round(number))
    session.emit(note("a warning", LogLevel.Warn))
    for number in range(20):
        session.emit(layer_end(number))
    host.start()
    assert session.flush(10.0)
    assert {kind: plugin.kinds.count(kind) for kind in ("SumcheckRound", "Log", "LayerEnd")} == {
        "SumcheckRound": 5,
        "Log": 1,
        "LayerEnd": 20,
    }
    assert host.bus.lost_at_intake == {"SumcheckRound": 15}
    assert host.close().problems == []


def test_a_gap_in_what_a_source_delivers_stands_in_its_place(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin, start=False, intake_capacity=2)
    session = HostFeed(host, waits=False, tell=print).open_session(source="socket", time_source="arrival")
    rounds = [a_round(number) for number in range(4)]
    session.deliver([decoded(event) for event in (layer_end(0), *rounds, layer_end(1), *rounds)])
    session.drop_bulk({"SumcheckRound": 10})
    session.deliver([decoded(layer_end(2))])
    host.start()
    assert host.flush(10.0)
    got = [e.counts if isinstance(e, EventsLost) else type(e).__name__ for e in plugin.events]
    assert [item for item in got if item != "PluginHealth"] == [
        "SessionOpened",
        "LayerEnd",
        {"SumcheckRound": 4},
        "LayerEnd",
        {"SumcheckRound": 14},
        "LayerEnd",
    ]
    assert host.bus.lost_at_intake == {"SumcheckRound": 18}
    times = [e.time_unix_nano for e in plugin.envelopes if e.session_id == session.session_id]
    assert times == sorted(times)


def test_a_feed_says_when_bulk_and_when_facts_have_little_chance(make_host: MakeHost) -> None:
    host = make_host(RecordingPlugin(), start=False, intake_capacity=10)
    feed = HostFeed(host, waits=False, tell=print)
    session = feed.open_session(source="socket", time_source="arrival")
    assert (feed.overloaded, feed.congested) == (False, False)
    session.deliver([decoded(layer_end(number)) for number in range(5)])
    assert (feed.overloaded, feed.congested) == (True, False)
    session.deliver([decoded(layer_end(number)) for number in range(5)])
    assert (feed.overloaded, feed.congested) == (True, True)
    host.start()
    assert host.flush(10.0)
    assert (feed.overloaded, feed.congested) == (False, False)


def test_a_feed_counts_bytes_too(make_host: MakeHost) -> None:
    host = make_host(RecordingPlugin(), start=False, memory_bytes=2**20, intake_capacity=100)
    feed = HostFeed(host, waits=False, tell=print)
    assert feed.backlog_bytes == 2**18
    session = feed.open_session(source="socket", time_source="arrival")
    session.deliver([decoded(note("x" * 70_000))])
    assert (feed.overloaded, feed.congested) == (True, False)
    session.deliver([decoded(note("x" * 70_000))])
    assert (feed.overloaded, feed.congested) == (True, True)
    host.start()
    assert host.flush(10.0)
    assert (feed.overloaded, feed.congested) == (False, False)
    assert host.bus.backlog_bytes == 0


def test_a_loss_stands_in_front_of_the_sessions_end(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin, start=False, intake_capacity=5)
    session = host.new_session(source="test")
    for number in range(8):
        session.emit(a_round(number))
    session.close()
    host.intake.overflowed = False  # as where the flag was seen by an earlier round of the bus
    host.start()
    host.flush(10.0)
    assert plugin.kinds[-2:] == ["EventsLost", "SessionClosed"]
    numbers = [envelope.seq for envelope in plugin.envelopes]
    assert numbers == sorted(set(numbers))


def test_only_facts_that_the_intake_could_not_hold_are_a_problem(make_host: MakeHost) -> None:
    host = make_host(Metering("metering"), start=False, intake_capacity=1)
    session = host.new_session(source="test")
    for number in range(20):
        session.emit(Sampled(volts=number))
    for _ in range(20):
        session.emit(Metered())
    host.start()
    assert session.flush(10.0)
    assert host.bus.lost_at_intake == {"Sampled": 19, "Metered": 5}
    assert host.close().problems == ["lost before the bus: 5 Metered"]


def test_of_logs_and_unknown_kinds_only_warnings_are_facts(make_host: MakeHost) -> None:
    host = make_host(RecordingPlugin(), start=False, intake_capacity=1)
    feed = HostFeed(host, waits=False, tell=print)
    session = feed.open_session(source="test", time_source="arrival")
    levels = [LogLevel.Info] * 20 + [LogLevel.Warn] * 20
    unknown = [Decoded(event=UnknownEvent(kind="Newer"), raw=b'{"Newer":{}}')] * 20
    session.deliver([*unknown, *(decoded(note("m", level)) for level in levels)])
    session.drop_bulk({"Newest": 5, "Log": 5, "SumcheckRound": 5})
    session.close()
    host.start()
    assert host.flush(10.0)
    (problem,) = host.close().problems
    assert host.bus.lost_at_intake["Newer"] >= 19
    warnings = int(problem.removeprefix("lost before the bus: ").removesuffix(" Log"))
    assert 0 < warnings < 20


def test_emit_after_close_is_harmless(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = host.new_session(source="test")
    session.close()
    session.emit(note("late"))
    session.close()
    host.close()
    assert own_kinds(plugin)[-1] == "SessionClosed"
    assert "Log" not in plugin.kinds


def test_a_session_that_is_lost_on_replay_closes_at_its_last_event(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin, live=False)
    feed = HostFeed(host, waits=True, tell=print)
    session = feed.open_session(source="file", time_source="envelope", opened_at=1000)
    event = note("x")
    session.deliver([Decoded(event=event, raw=encode_event(event), time_unix_nano=5000)])
    session.close("lost", "the recording ends here")
    assert host.flush(10.0)
    assert [e.time_unix_nano for e in plugin.envelopes if e.kind != "PluginHealth"] == [1000, 5000, 5000]


def test_a_replay_leaves_out_what_an_active_plugin_derives_again(make_host: MakeHost) -> None:
    deriving, watcher = Deriving("deriving"), RecordingPlugin("watcher")
    host = make_host(deriving, watcher, live=False)
    session = HostFeed(host, waits=True, tell=print).open_session(source="file", time_source="envelope")
    said = note("said")
    session.deliver(
        [
            Decoded(event=said, raw=encode_event(said)),
            Decoded(event=said, raw=encode_event(said), origin="deriving"),
            Decoded(event=said, raw=encode_event(said), origin="elsewhere"),
        ]
    )
    assert host.flush(10.0)
    origins = [e.origin for e in watcher.envelopes if e.kind == "Log"]
    assert sorted(origins) == ["deriving", "deriving", "deriving", "elsewhere", "producer"]
    # Those of the active plugin are derived again: from the opening, and from both others.
    assert all(e.lineage for e in watcher.envelopes if e.origin == "deriving")


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("asked", [False, True])
def test_a_plugin_may_leave_recorded_sessions_alone_unless_asked_for(asked: bool, live: bool) -> None:
    class Sparing(Deriving):
        rederives = "asked"

    watcher = RecordingPlugin("watcher")
    registry = load(Selection(), found=[], instances=[Sparing("sparing"), watcher])
    names = ["sparing", "watcher"]
    host = Host(registry=registry, config=Config(), asked=names if asked else names[1:], wanted=names[:1], live=live)
    host.start()
    host.wait_configured()
    feed = HostFeed(host, waits=True, tell=print)
    said = note("said")
    for recorded in (True, False):
        session = feed.open_session(source="file", time_source="envelope", session_id=str(recorded), recorded=recorded)
        session.deliver(
            [
                Decoded(event=said, raw=encode_event(said)),
                Decoded(event=said, raw=encode_event(said), origin="sparing"),
            ]
        )
    assert host.flush(10.0)
    host.close(5.0)
    heard = {
        recorded: [
            e.event.message
            for e in watcher.envelopes
            if e.session_id == str(recorded) and e.origin == "sparing" and isinstance(e.event, Log)
        ]
        for recorded in (True, False)
    }
    assert (heard[True] == ["said"]) is not asked
    assert any(text.startswith("sparing of ") for text in heard[False])
    assert [e.session_id for e in watcher.envelopes if e.origin == "producer"] == ["True", "False"]


def test_capture_runs_on_the_producers_thread_and_comes_back(make_host: MakeHost) -> None:
    class Capturing(RecordingPlugin):
        @hookimpl
        def proofstream_capture(self) -> object:
            return threading.get_ident()

    class BadCapture(RecordingPlugin):
        @hookimpl
        def proofstream_capture(self) -> object:
            raise RuntimeError("no context")

    plugin = Capturing("capturing")
    host = make_host(plugin, BadCapture("bad"))
    session = host.new_session(source="test")
    host.announce(session, time_source="envelope")
    with session.proof(num_layers=1):
        session.emit(note("inside"))
    assert session.flush(10.0)
    captured = {e.kind: e.captured for e in plugin.envelopes if e.captured}
    here = threading.get_ident()
    assert captured == {"SessionOpened": {"capturing": here}, "ProofStart": {"capturing": here}}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes can fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_emits_into_the_void_and_leaves_the_parent_alone(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = host.new_session(source="test")
    session.emit(note("before"))
    assert session.flush(10.0)
    child = os.fork()
    if child == 0:
        try:
            for number in range(1000):
                session.emit(note(number))
            session.close()
            host.close()
            os._exit(0 if not host.intake.items else 3)
        except BaseException:  # noqa: BLE001 - the child must not run the test session's own exit
            os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    session.emit(note("after"))
    assert session.flush(10.0)
    assert own_kinds(plugin) == ["Log", "Log"]


def test_proof_start_reaches_plugins_as_an_event(make_host: MakeHost) -> None:
    plugin = RecordingPlugin()
    session = make_host(plugin).new_session(source="test")
    with session.proof(num_layers=3, model_name="mlp", backend="cpu"):
        pass
    assert session.flush(10.0)
    start = plugin.events[0]
    assert isinstance(start, ProofStart)
    assert (start.model_name, start.num_layers) == ("mlp", 3)
