"""The helpers for tests of plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

import proofstream as ps
from proofstream.testing import (
    START_UNIX_NANO,
    FixedClock,
    InlineHost,
    RecordingPlugin,
    envelopes,
    read_stream,
)


class Doubling:
    """Answers each Log with two, takes what it wants of the hooks' arguments, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.context: ps.PluginContext | None = None

    @ps.hookimpl
    def proofstream_configure(self, context: ps.PluginContext) -> None:
        self.context = context
        context.publish(log("ready"))
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
    assert (host.derived, host.progressed) == ([log("ready")], 1)

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
