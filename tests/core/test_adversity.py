"""The core in bad company: plugins that raise, exit, lie or never end, and producers that break every rule."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import proofstream
from proofstream.config import HostSettings
from proofstream.config_table import read_table
from proofstream.contracts import Command, Option, OptionKind, Tool
from proofstream.envelope_log import EnvelopeLogWriter, LogError
from proofstream.errors import ConfigError, PluginError, UsageError
from proofstream.events import Log, LogLevel, ProofEvent, SessionClosed
from proofstream.feeds import HostFeed
from proofstream.health import PluginStatus
from proofstream.hookspecs import PluginContext, hookimpl
from proofstream.host import Host
from proofstream.loader import Selection, load
from proofstream.session import Session
from proofstream.testing import RecordingPlugin, envelopes
from proofstream.wire import Decoded, encode_event

NOTE = Log(level=LogLevel.Warn, message="something")


class Speechless(Exception):
    """An exception that fails to describe itself."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Fatal(BaseException):
    """A panic of a Rust extension, which is no Exception, and which fails to describe itself."""

    def __str__(self) -> str:
        raise SystemExit(3)


class Raising:
    """Raises in one hook."""

    name = "raising"

    def __init__(self, hook: str, error: BaseException) -> None:
        self.hook = hook
        self.error = error

    def _maybe(self, hook: str) -> None:
        if hook == self.hook:
            raise self.error

    @hookimpl
    def proofstream_configure(self) -> None:
        self._maybe("configure")

    @hookimpl
    def proofstream_capture(self) -> None:
        self._maybe("capture")

    @hookimpl
    def proofstream_consume(self) -> Iterator[Log] | None:
        self._maybe("consume")
        return self._generate() if self.hook == "generator" else None

    def _generate(self) -> Iterator[Log]:
        yield NOTE
        raise self.error

    @hookimpl
    def proofstream_report_health(self) -> dict[str, int]:
        self._maybe("report_health")
        return {}

    @hookimpl
    def proofstream_unconfigure(self) -> None:
        self._maybe("unconfigure")


def observe(host: Host, *events: Any) -> None:
    session = host.new_session(source="test")
    host.announce(session, time_source="envelope")
    for event in events:
        session.emit(event)
    assert host.flush(5.0)


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), Speechless(), Fatal()], ids=type
)
@pytest.mark.parametrize("hook", ["consume", "generator", "report_health", "unconfigure"])
def test_whatever_a_plugin_raises_is_reported_and_harms_no_other(
    make_host: Callable[..., Host], hook: str, error: BaseException
) -> None:
    other = RecordingPlugin()
    host = make_host(Raising(hook, error), other)
    observe(host, NOTE, NOTE)
    report = host.close(2.0)
    assert other.kinds.count("Log") == 2
    assert [p.partition(":")[0] for p in report.problems] == ["plugin raising failed"]
    assert type(error).__name__ in report.problems[0]


@pytest.mark.parametrize("error", [SystemExit(3), Speechless(), Fatal()], ids=type)
def test_a_plugin_that_ends_its_thread_while_configuring_does_not_hang_the_host(
    make_host: Callable[..., Host], error: BaseException
) -> None:
    host = make_host(Raising("configure", error), ready=False)
    (lane,) = host.lanes
    assert lane.configured.wait(2.0)
    assert lane.record.status is PluginStatus.BROKEN
    assert not lane.holds


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Fatal()], ids=type)
def test_a_capture_that_exits_does_not_reach_the_prover(make_host: Callable[..., Host], error: BaseException) -> None:
    host = make_host(Raising("capture", error))
    with host.new_session(source="test").proof(num_layers=1):
        pass
    assert host.flush(2.0)


def test_a_ctrl_c_during_a_capture_reaches_the_prover(make_host: Callable[..., Host]) -> None:
    session = make_host(Raising("capture", KeyboardInterrupt())).new_session(source="test")
    with pytest.raises(KeyboardInterrupt), session.proof(num_layers=1):
        raise AssertionError("the proof has not begun")


@pytest.mark.parametrize("rubbish", [None, "text", Log, 7, object()], ids=str)
def test_publishing_something_that_is_not_an_event_is_refused(make_host: Callable[..., Host], rubbish: Any) -> None:
    class Publisher:
        @hookimpl
        def proofstream_configure(self, context: PluginContext) -> None:
            context.publish(rubbish)

    other = RecordingPlugin()
    host = make_host(Publisher(), other)
    observe(host, NOTE)
    assert other.kinds.count("Log") == 1
    assert host.close(2.0).refused == 1


def test_what_8_threads_emit_is_delivered_or_counted(make_host: Callable[..., Host]) -> None:
    count = 20_000
    plugin = RecordingPlugin()
    host = make_host(plugin, intake_capacity=1000)
    session = host.new_session(source="test")

    def emit() -> None:
        for _ in range(count):
            session.emit(NOTE)

    threads = [threading.Thread(target=emit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    host.close(30.0)
    lost = host.bus.lost_at_intake.get("Log", 0)
    assert lost > 0
    assert plugin.kinds.count("Log") + lost + sum(host.lanes[0].queue.dropped.values()) == 8 * count


def test_rest_is_not_claimed_while_a_plugin_answers(make_host: Callable[..., Host]) -> None:
    class Answering:
        name = "answering"

        @hookimpl
        def proofstream_consume(self, batch: Any) -> list[Log]:
            return [Log(level=LogLevel.Warn, message="answer") for e in batch if e.kind == "Log"]

    plugin = RecordingPlugin()
    host = make_host(Answering(), plugin)
    session = host.new_session(source="test")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for sent in range(1, 200):
            session.emit(NOTE)
            assert host.flush(5.0)
            assert plugin.kinds.count("Log") == 2 * sent
    finally:
        sys.setswitchinterval(interval)


def test_waiting_for_plugins_ends_when_told_to(make_host: Callable[..., Host]) -> None:
    released = threading.Event()

    class Slow:
        @hookimpl
        def proofstream_configure(self) -> None:
            released.wait(20.0)

    host = make_host(Slow(), ready=False)
    asked = itertools.count()
    began = time.monotonic()
    host.wait_configured(stopping=lambda: next(asked) > 3)
    assert time.monotonic() - began < host.settings.configure_timeout_s
    released.set()


@pytest.mark.parametrize("answers", [lambda: iter(int, 1), lambda: itertools.repeat(NOTE)], ids=["numbers", "events"])
def test_a_plugin_that_answers_without_end_fails(
    make_host: Callable[..., Host], answers: Callable[[], Iterator[Any]]
) -> None:
    class Endless:
        name = "endless"

        @hookimpl
        def proofstream_consume(self) -> Iterator[Any]:
            return answers()

    other = RecordingPlugin()
    host = make_host(Endless(), other, intake_capacity=1000)
    observe(host, NOTE)
    assert other.kinds.count("Log") == 1
    assert host.failed is not None


class Declaring:
    """Declares what it is given."""

    name = "declaring"

    def __init__(
        self,
        options: Callable[[], list[Option]] = list,
        commands: Callable[[], list[Command | Tool]] = list,
        tick_s: float | None = None,
        requires: Any = (),
    ) -> None:
        self.options = options
        self.commands = commands
        self.tick_s = tick_s
        self.requires = requires

    @hookimpl
    def proofstream_options(self) -> list[Option]:
        return self.options()

    @hookimpl
    def proofstream_commands(self) -> list[Command | Tool]:
        return self.commands()


def option(flag: str, kind: OptionKind = OptionKind.VALUE) -> Option:
    return Option(flag=flag, key="key", kind=kind, summary="something")


def command(name: str, sources: dict[str, str]) -> Command:
    return Command(name=name, summary="something", sources=sources, artefacts_dir="out")


def tool(name: str, *flags: str) -> Tool:
    return Tool(name=name, summary="s", argument="FILE", options=tuple(map(option, flags)), run=lambda _call: 0)


@pytest.mark.parametrize(
    ("plugin", "reason"),
    [
        (
            Declaring(options=lambda: [option("--speed")]),
            "flag '--speed' is declared by both proofstream and declaring",
        ),
        (Declaring(options=lambda: [option("--x")] * 2), "flag '--x' is declared by both declaring and declaring"),
        (
            Declaring(options=lambda: [option("--x", OptionKind.SWITCH), option("--no-x")]),
            "flag '--no-x' is declared by both declaring and declaring",
        ),
        (Declaring(options=lambda: [option("x y")]), "ValueError: flag 'x y' is not of the form --some-name"),
        (
            Declaring(commands=lambda: [command("run", {"a": "demo:a"})]),
            "command 'run' is declared by both proofstream and declaring",
        ),
        (Declaring(commands=lambda: [command("x", {})]), "ValueError: command 'x' has no sources"),
        (
            Declaring(commands=lambda: [tool("x", "--json")]),
            "ValueError: command 'x' cannot declare the flag '--json': it exists already",
        ),
        (
            Declaring(commands=lambda: [tool("x", "--a", "--a")]),
            "ValueError: command 'x' cannot declare the flag '--a': it exists already",
        ),
        (
            Declaring(commands=lambda: [tool("x"), command("x", {"a": "demo:a"})]),
            "command 'x' is declared by both declaring and declaring",
        ),
    ],
)
def test_a_declaration_that_would_break_the_command_line_breaks_the_plugin(plugin: object, reason: str) -> None:
    record = load(Selection(), found=[], instances=[plugin]).records["declaring"]
    assert (record.status, record.reason) == (PluginStatus.BROKEN, reason)


def test_a_tick_must_take_time() -> None:
    with pytest.raises(PluginError, match="tick_s is 0; it must be above 0"):
        load(Selection(), found=[], instances=[Declaring(tick_s=0)])


def test_a_single_requirement_may_be_a_word() -> None:
    record = load(Selection(), found=[], instances=[Declaring(requires="no_such_module")]).records["declaring"]
    assert record.reason == "needs no_such_module, which is not installed"


# Sessions


def recorded_session(**arguments: Any) -> Session:
    return proofstream.open_session(plugins=[RecordingPlugin()], **arguments)


@pytest.mark.parametrize("scope", ["process", "context"])
def test_closing_a_session_in_another_thread_makes_the_outer_one_current(scope: Literal["process", "context"]) -> None:
    outer, inner = recorded_session(scope=scope), recorded_session(scope=scope)
    thread = threading.Thread(target=inner.close)
    thread.start()
    thread.join()
    assert proofstream.current_session() is outer
    outer.close()
    assert proofstream.current_session().session_id == "none"


def test_sessions_closed_in_the_order_of_their_opening() -> None:
    first, second = recorded_session(), recorded_session()
    first.close()
    assert proofstream.current_session() is second
    second.close()
    assert proofstream.current_session().session_id == "none"


def test_no_deadline_is_too_long(make_host: Callable[..., Host]) -> None:
    session = recorded_session()
    assert session.flush(float("inf"))
    session.close(float("inf"))
    with pytest.raises(ConfigError, match="close_timeout_s: input should be less than"):
        read_table(HostSettings, {"close_timeout_s": float("inf")})


def test_a_forked_child_is_not_heard_and_may_observe_itself() -> None:
    plugin = RecordingPlugin()
    with proofstream.open_session(plugins=[plugin]) as session:
        child = os.fork()
        if not child:
            status = 1
            with contextlib.suppress(BaseException):
                session.emit(NOTE)
                own = RecordingPlugin()
                with proofstream.open_session(plugins=[own]):
                    proofstream.current_session().emit(NOTE)
                status = 0 if own.kinds.count("Log") == 1 else 2
            os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        session.emit(NOTE)
    assert plugin.kinds.count("Log") == 1


# Feeds


def decoded(*events: ProofEvent) -> list[Decoded]:
    return [Decoded(event=event, raw=encode_event(event), time_unix_nano=1) for event in events]


CLOSED = SessionClosed(outcome="ended", reason=None, refused=0)


def test_nothing_follows_the_end_of_a_session_that_is_closed_while_others_emit() -> None:
    for _ in range(5):
        plugin = RecordingPlugin()
        session = proofstream.open_session(plugins=[plugin])
        closed = threading.Event()

        def emit(session: Session = session, closed: threading.Event = closed) -> None:
            while not closed.is_set():
                session.emit(NOTE)

        threads = [threading.Thread(target=emit) for _ in range(2)]
        for thread in threads:
            thread.start()
        session.close(60.0)
        closed.set()
        for thread in threads:
            thread.join()
        kinds = [e.kind for e in plugin.envelopes if e.session_id == session.session_id]
        assert kinds.count("SessionClosed") == 1
        assert kinds[-1] == "SessionClosed"


@pytest.mark.parametrize(
    ("brought", "kinds"),
    [
        ([NOTE, CLOSED], ["SessionOpened", "Log", "SessionClosed"]),
        ([CLOSED, NOTE], ["SessionOpened", "SessionClosed", "Log", "SessionClosed"]),
    ],
)
def test_a_session_that_goes_on_after_its_recorded_end_is_closed_all_the_same(
    make_host: Callable[..., Host], brought: list[ProofEvent], kinds: list[str]
) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin)
    session = HostFeed(host, waits=True, tell=print).open_session(source="test", time_source="arrival")
    session.deliver(decoded(*brought))
    session.close()
    host.close(2.0)
    assert [kind for kind in plugin.kinds if kind != "PluginHealth"] == kinds


def test_two_flows_that_bring_one_session_are_both_closed_and_both_counted(make_host: Callable[..., Host]) -> None:
    plugin = RecordingPlugin()
    host = make_host(plugin, intake_capacity=1)
    feed = HostFeed(host, waits=False, tell=print)
    first, second = [feed.open_session(source="test", time_source="arrival", session_id="one") for _ in range(2)]
    first.close()
    assert host.flush(2.0)
    second.deliver(decoded(*[NOTE] * 1000))
    host.close(2.0)
    lost = host.bus.lost_at_intake["Log"]
    assert plugin.kinds.count("Log") + lost == 1000
    assert plugin.kinds.count("SessionClosed") == 2


def test_a_log_whose_file_was_removed_is_lost(tmp_path: Path) -> None:
    writer = EnvelopeLogWriter(tmp_path / "log.jsonl")
    writer.append(envelopes([NOTE]))
    (tmp_path / "log.jsonl").unlink()
    with pytest.raises(LogError, match="was removed while it was written"):
        writer.close()
    assert writer.lost == 3


def test_a_log_whose_file_was_moved_is_not_lost(tmp_path: Path) -> None:
    writer = EnvelopeLogWriter(tmp_path / "log.jsonl")
    writer.append(envelopes([NOTE]))
    (tmp_path / "log.jsonl").rename(tmp_path / "moved.jsonl")
    writer.close()
    assert writer.lost == 0
    assert len((tmp_path / "moved.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([RecordingPlugin], "RecordingPlugin is a class; a plugin is given as an instance of one or by its name"),
        ([object()], "object is not a plugin: it implements no hook"),
        ([None], "NoneType is not a plugin: it implements no hook"),
        ("otel", "plugins is 'otel'; it must be a list"),
    ],
)
def test_an_object_that_is_not_a_plugin_is_refused_at_once(given: Any, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        proofstream.open_session(plugins=given)
    assert str(caught.value) == why
