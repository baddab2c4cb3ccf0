"""The helpers for tests of plugins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import proofstream as ps
from proofstream.testing import (
    START_UNIX_NANO,
    FixedClock,
    InlineHost,
    PluginHost,
    RecordingPlugin,
    envelopes,
    read_stream,
)
from proofstream_pytest import proofstream_host  # where proofstream is installed, pytest has it without this

MakePluginHost = Callable[..., PluginHost]


class Doubling:
    """Answers each Log with two, leaves out some of the hooks' arguments, and remembers its calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.context: ps.PluginContext | None = None

    @ps.hookimpl
    def proofstream_configure(self, context: ps.PluginContext) -> None:
        self.context = context
        context.publish(log("ready"))
        context.tell("ready")
        context.progress()

    @ps.hookimpl
    def proofstream_consume(self, batch: ps.Batch) -> Iterable[ps.ProofEvent] | None:
        self.asked.append(f"consume {len(batch)}")
        return (log(e.event.message) for e in batch if isinstance(e.event, ps.Log) for _ in range(2)) if batch else None

    @ps.hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        return {"asked": len(self.asked)}

    @ps.hookimpl
    def proofstream_unconfigure(self, timeout_s: float) -> None:
        self.asked.append(f"unconfigure {timeout_s}")


def log(message: str) -> ps.Log:
    return ps.Log(level=ps.LogLevel.Info, message=message)


def test_a_clock_moves_only_when_told_to() -> None:
    clock = FixedClock()
    assert clock() == clock() == START_UNIX_NANO

    clock.advance(1.5)

    assert clock() == START_UNIX_NANO + 1_500_000_000
    assert FixedClock(7)() == 7


def test_envelopes_stand_in_a_session_of_their_own() -> None:
    made = envelopes([log("a"), log("b")], session_id="mine", start_unix_nano=100, step_ns=10)

    assert [e.kind for e in made] == ["SessionOpened", "Log", "Log", "SessionClosed"]
    assert [(e.seq, e.time_unix_nano) for e in made] == [(0, 100), (1, 110), (2, 120), (3, 130)]
    assert {e.session_id for e in made} == {"mine"}
    assert [e.origin for e in made] == [ps.HOST, ps.PRODUCER, ps.PRODUCER, ps.HOST]
    assert made[1].raw == b'{"Log":{"level":"Info","message":"a"}}'
    assert [e.kind for e in envelopes([], close=False)] == ["SessionOpened"]


def test_a_stream_becomes_envelopes_with_its_own_bytes(wire_data: Path) -> None:
    path = wire_data / "ws-job-frames-lagged.jsonl"
    made = envelopes(read_stream(path))

    assert len(made) == len(path.read_bytes().splitlines()) + 2
    assert made[1].job_id is not None
    assert made[1].raw in path.read_bytes()


def test_a_stream_that_cannot_be_read_says_so(wire_data: Path) -> None:
    with pytest.raises(ps.WireError):
        list(read_stream(wire_data / "malformed.jsonl"))


def test_a_recording_plugin_keeps_what_it_is_given() -> None:
    plugin = RecordingPlugin("mine")
    host = InlineHost(plugin)
    host.feed(envelopes([log("a")]))
    host.tick()
    host.close()

    assert plugin.name == "mine"
    assert plugin.context is host.context
    assert plugin.kinds == ["SessionOpened", "Log", "SessionClosed"]
    assert plugin.events[1] == log("a")
    assert plugin.batches == [3, 0]
    assert plugin.unconfigured


def test_an_inline_host_calls_every_hook() -> None:
    plugin = Doubling()
    host = InlineHost(plugin, {"key": "value"}, live=False, identity={"service.instance.id": "x"})

    assert plugin.context is not None
    assert plugin.context.config == {"key": "value"}
    assert plugin.context.identity == {"service.instance.id": "x"}
    assert not plugin.context.live
    assert (host.derived, host.told, host.progressed) == ([log("ready")], ["ready"], 1)

    derived = host.feed(envelopes([log("a"), log("b")]), batch_size=3)
    assert derived == [log("a"), log("a"), log("b"), log("b")]
    assert host.derived == [log("ready"), *derived]
    host.tick()
    assert host.health() == {"asked": 3}
    host.close(timeout_s=2.0)
    assert plugin.asked == ["consume 3", "consume 1", "consume 0", "unconfigure 2.0"]


def test_a_plugin_without_hooks_is_fine() -> None:
    host = InlineHost(object())
    host.tick()
    host.close()

    assert host.feed(envelopes([log("a")])) == []
    assert host.health() == {}


def test_an_exception_is_the_callers() -> None:
    class Failing:
        @ps.hookimpl
        def proofstream_consume(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        InlineHost(Failing()).feed(envelopes([]))


def test_a_hook_that_no_host_would_call_is_refused() -> None:
    class Unmarked:
        def proofstream_consume(self) -> None:
            return None

    class Misspelt:
        @ps.hookimpl
        def proofstream_consumes(self) -> None:
            return None

    with pytest.raises(ps.PluginError, match="not marked"):
        InlineHost(Unmarked())
    with pytest.raises(ps.PluginError, match="did you mean proofstream_consume"):
        InlineHost(Misspelt())


class Answering(RecordingPlugin):
    """Answers each Log, tells the user, and publishes one more event on a tick, once it may."""

    tick_s = 0.01
    may_publish = False

    @ps.hookimpl
    def proofstream_consume(self, batch: ps.Batch) -> list[ps.ProofEvent]:
        super().proofstream_consume(batch)
        assert self.context is not None
        if not batch and self.may_publish:
            self.may_publish = False
            self.context.publish(ps.ReportLine(text="later"))
        if any(isinstance(envelope.event, ps.ProofAborted) for envelope in batch):
            raise ValueError("aborted")
        found = [envelope.event for envelope in batch if isinstance(envelope.event, ps.Log)]
        for event in found:
            self.context.tell(f"heard {event.message}")
        return [log(f"{event.message} {self.context.config.get('mark')}") for event in found]

    @ps.hookimpl
    def proofstream_report_health(self) -> Mapping[str, int]:
        return {"heard": self.kinds.count("Log")}


def test_a_plugin_host_runs_plugins_and_keeps_what_they_make(proofstream_host: MakePluginHost) -> None:
    plugin = Answering("answering")
    host = proofstream_host(plugin, config={"answering": {"mark": "!"}}, host_settings={"lane_capacity": 64})

    assert host.feed([log("a"), log("b")]) == [log("a !"), log("b !")]
    plugin.may_publish = True
    host.wait_until(lambda: ps.ReportLine(text="later") in host.derived)
    assert host.feed([log("c")], session_id="mine") == [log("c !")]

    assert host.told == ["heard a", "heard b", "heard c"]
    assert [e.session_id for e in host.envelopes if e.event == log("c !")] == ["mine"]
    first = next(envelope for envelope in plugin.envelopes if envelope.event == log("a"))
    assert first.time_unix_nano == START_UNIX_NANO + 1_000_000
    assert [e.kind for e in plugin.envelopes if e.session_id == "mine"] == ["SessionOpened", "Log", "SessionClosed"]
    report = host.close()
    assert report.ok
    assert host.close() is report
    assert plugin.unconfigured
    assert host.health["answering"].counters == {"heard": 3}


def test_a_plugin_host_reads_a_file_as_a_run_does(proofstream_host: MakePluginHost, wire_data: Path) -> None:
    plugin = RecordingPlugin()
    host = proofstream_host(plugin, live=False)

    assert host.feed(wire_data / "smollm2-135m-cpu.jsonl") == []

    assert plugin.kinds.count("LayerStart") == 211
    assert plugin.kinds[-1] == "SessionClosed"
    with pytest.raises(ps.SourceError, match=r"cannot read nowhere\.jsonl"):
        host.feed(Path("nowhere.jsonl"))


def test_a_plugin_host_uses_installed_plugins_by_name(proofstream_host: MakePluginHost, tmp_path: Path) -> None:
    path = tmp_path / "proof.jsonl"
    host = proofstream_host(Answering("answering"), "record", config={"record": {"path": str(path)}})
    host.feed([log("a")], close=False)
    assert host.close().ok
    assert '"origin":"answering"' in path.read_text()


def test_a_plugin_host_says_what_is_wrong_with_what_it_is_given(proofstream_host: MakePluginHost) -> None:
    with pytest.raises(ps.UsageError, match="config has a table 'recrding'") as caught:
        proofstream_host(RecordingPlugin(), config={"recrding": {}})
    assert caught.value.hint == "plugins: recording"
    with pytest.raises(ps.PluginError, match="no plugin is named 'recrd'"):
        proofstream_host("recrd")
    with pytest.raises(ps.UsageError, match="is not a plugin"):
        proofstream_host(object())


def test_a_plugin_that_hangs_is_named(proofstream_host: MakePluginHost) -> None:
    let_go = threading.Event()

    class Hanging(RecordingPlugin):
        @ps.hookimpl
        def proofstream_consume(self, batch: ps.Batch) -> None:
            let_go.wait(30.0)

    host = proofstream_host(Hanging("hanging"), host_settings={"progress_timeout_s": 0.2})
    with pytest.raises(TimeoutError, match=r"^hanging: no progress for 0\.2 s$"):
        host.feed([log("a")])
    let_go.set()
    with pytest.raises(TimeoutError, match=r"waited 0\.01 s in vain"):
        host.wait_until(lambda: False, 0.01)


def test_a_host_that_the_test_did_not_close_must_end_well() -> None:
    fixture: Any = proofstream_host
    hosts = fixture.__wrapped__()
    make = next(hosts)
    make(Answering("answering")).feed([ps.ProofAborted(reason="x")])
    closed = make(Answering("closed"))
    closed.feed([ps.ProofAborted(reason="x")])
    assert closed.close().problems == ["plugin closed failed: ValueError: aborted"]

    with pytest.raises(pytest.fail.Exception, match=r"^plugin answering failed: ValueError: aborted$"):
        next(hosts)


class Choosy:
    """Has something to do only if it is given a number."""

    name = "choosy"

    @ps.hookimpl
    def proofstream_configure(self, context: ps.PluginContext) -> bool:
        if not isinstance(context.config.get("number", 0), int):
            raise ps.ConfigError("choosy.number: must be a number")
        return "number" in context.config

    @ps.hookimpl
    def proofstream_consume(self, batch: ps.Batch) -> list[ps.ReportLine]:
        return [ps.ReportLine(text="fed")]


def test_a_plugin_with_nothing_to_do_is_idle_on_both_hosts(proofstream_host: Callable[..., PluginHost]) -> None:
    inline, host = InlineHost(Choosy()), proofstream_host(Choosy())
    assert inline.is_idle
    assert inline.feed(envelopes([])) == host.feed([]) == []
    assert host.health["choosy"].status == "idle"
    assert host.close().ok
    assert not InlineHost(Choosy(), config={"number": 1}).is_idle


def test_a_config_error_reaches_the_test_as_it_is() -> None:
    for make in (
        lambda: InlineHost(Choosy(), config={"number": "x"}),
        lambda: PluginHost(Choosy(), config={"choosy": {"number": "x"}}),
    ):
        with pytest.raises(ps.ConfigError, match=r"^choosy\.number: must be a number$"):
            make()


def test_a_single_event_instead_of_a_list_is_named_inline() -> None:
    class Single:
        @ps.hookimpl
        def proofstream_consume(self, batch: ps.Batch) -> ps.ReportLine:
            return ps.ReportLine(text="x")

    with pytest.raises(TypeError, match="proofstream_consume returned one ReportLine; return a list of events"):
        InlineHost(Single()).feed(envelopes([]))
