"""The source ``demo:NAME`` and the plugin that declares it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from proofstream import (
    GpuStatus,
    LayerEnd,
    LayerStart,
    Log,
    LogLevel,
    PhaseEnd,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    SourceRequest,
    UsageError,
    WeightOpeningEnd,
    WeightOpeningStart,
)
from proofstream.testing import FixedClock
from proofstream_demo import DemoPlugin, demonstration, walk
from proofstream_demo.proof import ProofRejected
from proofstream_demo.request import DemoRequest, parse_request
from proofstream_demo.source import open_demo


class FakeSession:
    """Keeps what a source delivers."""

    session_id = "fake"

    def __init__(self) -> None:
        self.events: list[ProofEvent] = []
        self.closings: list[tuple[str, str | None]] = []

    def deliver(self, chunk: Any) -> None:
        raise AssertionError("the demo makes events, it decodes none")

    def refuse(self, refusal: Any) -> None:
        raise AssertionError("the demo refuses nothing")

    def emit(self, event: ProofEvent) -> None:
        self.events.append(event)

    def drop_bulk(self, counts: Mapping[str, int]) -> None:
        raise AssertionError("the demo leaves nothing out")

    def close(self, outcome: str = "ended", reason: str | None = None) -> None:
        self.closings.append((outcome, reason))

    @property
    def kinds(self) -> list[type[ProofEvent]]:
        return [type(event) for event in self.events]

    @property
    def messages(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Log)]


class FakeFeed:
    """A host with one session, which may be stopping."""

    def __init__(self) -> None:
        self.session = FakeSession()
        self.opened: list[tuple[str, str]] = []
        self.stop_after_layers = sys.maxsize
        self.stop_after_openings = sys.maxsize
        self.overloaded = False
        self.congested = False
        self.backlog_bytes = 64 * 2**20

    def open_session(self, *, source: str, time_source: str, **optional: Any) -> FakeSession:
        self.opened.append((source, time_source))
        return self.session

    def announce(self, text: str) -> None:
        raise AssertionError("there is no address to announce")

    @property
    def stopping(self) -> bool:
        kinds = self.session.kinds
        done = kinds.count(LayerEnd), kinds.count(WeightOpeningEnd)
        return done[0] >= self.stop_after_layers or done[1] >= self.stop_after_openings


def request(uri: str) -> SourceRequest:
    return SourceRequest(uri=uri)


def run(uri: str, feed: FakeFeed | None = None) -> FakeFeed:
    feed = feed or FakeFeed()
    open_demo(request(uri)).run(feed)
    return feed


@pytest.mark.parametrize("name", ["digits", "transformer"])
def test_a_demo_is_one_session_with_one_verified_proof(name: str) -> None:
    feed = run(f"demo:{name}?pace=0")
    session = feed.session
    assert feed.opened == [(f"demo:{name}", "arrival")]
    assert session.closings == [("ended", None)]
    assert session.kinds.count(ProofStart) == session.kinds.count(ProofComplete) == 1
    assert session.kinds[-1] is ProofComplete
    phases = [event.name for event in session.events if isinstance(event, PhaseStart)]
    assert (phases[0], phases[1], phases[-1]) == ("forward pass", "weight commitments", "verify")
    assert any(message.startswith("Proof verified") for message in session.messages)
    assert not any("pauses" in message for message in session.messages)
    assert all(event.level is LogLevel.Info for event in session.events if isinstance(event, Log))


@pytest.mark.parametrize("sample", [3, 8])
def test_the_log_says_which_digit_was_seen_and_what_the_label_says(sample: int) -> None:
    messages = run(f"demo:digits?sample={sample}&pace=0").session.messages
    seen = {3: 3, 8: 7}[sample]  # the network misreads the 8 as a 7, and the demo says so
    assert f"Proved: the network sees the digit {seen}; the label says {sample}." in messages
    assert f"Its input is held-out digit number {sample}, labelled {sample}." in messages


def test_the_log_says_that_the_attention_is_linear_and_the_weights_random() -> None:
    messages = run("demo:transformer?pace=0").session.messages
    assert "linear attention (no softmax) and seeded random weights" in messages[0]


def test_pauses_are_between_layers_and_add_up_to_the_pace() -> None:
    events: list[ProofEvent] = []
    pauses: list[tuple[float, int]] = []
    demonstration.demonstrate(
        DemoRequest(model="digits", pace_s=6.0),
        events.append,
        pause=lambda seconds: pauses.append((seconds, len(events))),
    )
    assert sum(seconds for seconds, _ in pauses) == pytest.approx(6.0)
    for place in [place for seconds, place in pauses if seconds]:
        assert isinstance(events[place - 1], GpuStatus)
        assert isinstance(events[place], LayerStart)


def test_durations_do_not_count_the_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FixedClock(0)
    monkeypatch.setattr(walk, "time", SimpleNamespace(perf_counter=lambda: clock() / 1e9))
    events: list[ProofEvent] = []
    demonstration.demonstrate(DemoRequest(model="digits", pace_s=6.0), events.append, pause=clock.advance)
    assert [event.duration_ms for event in events if isinstance(event, LayerEnd | ProofComplete)] == [0, 0, 0, 0, 0]
    (said,) = [e.message for e in events if isinstance(e, Log) and e.message.startswith("Proof verified")]
    assert said.startswith("Proof verified: proved in 0 ms and 6.0 s of pauses for watching, verified in ")


def test_a_host_that_is_stopping_ends_the_walk_with_the_proof_open() -> None:
    feed = FakeFeed()
    feed.stop_after_layers = 2
    session = run("demo:transformer?pace=0", feed).session
    assert session.closings == [("interrupted", "the demo was stopped")]
    assert session.kinds.count(LayerStart) == session.kinds.count(LayerEnd) == 2
    assert ProofComplete not in session.kinds
    assert ProofAborted not in session.kinds


def test_a_host_that_is_stopping_ends_the_commitments_before_the_next_weight() -> None:
    feed = FakeFeed()
    feed.stop_after_openings = 4
    session = run("demo:transformer?pace=0", feed).session
    assert session.closings == [("interrupted", "the demo was stopped")]
    assert session.kinds.count(WeightOpeningStart) == session.kinds.count(WeightOpeningEnd) == 4
    assert ProofComplete not in session.kinds
    assert ProofAborted not in session.kinds


def test_stop_ends_a_long_pause_soon() -> None:
    feed = FakeFeed()
    source = open_demo(request("demo:digits?pace=3600"))
    thread = threading.Thread(target=source.run, args=(feed,), daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    source.stop()
    thread.join(5.0)
    assert not thread.is_alive()
    assert feed.session.closings == [("interrupted", "the demo was stopped")]


def test_a_proof_that_does_not_verify_is_aborted_and_never_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*arguments: Any) -> None:
        raise ProofRejected("layer 1: no")

    monkeypatch.setattr(demonstration, "verify", reject)
    session = run("demo:digits?pace=0").session
    assert ProofComplete not in session.kinds
    assert session.events[-1] == ProofAborted(reason="The proof was rejected: layer 1: no.")
    assert session.events[-2] == Log(level=LogLevel.Error, message="The proof was rejected: layer 1: no.")
    assert not any(message.startswith("Prove") for message in session.messages[2:])
    (end,) = [event for event in session.events if isinstance(event, PhaseEnd) and event.name == "verify"]
    assert end.failed == "layer 1: no"


@pytest.mark.parametrize(
    ("uri", "reason", "layers", "openings"),
    [
        ("demo:digits?fail=walk", "layer 1 (pixels W1): p(0) + p(1) is not the claim", 2, 0),
        ("demo:digits?fail=commit", "W2: the root of its tree is not the published commitment", 4, 1),
        ("demo:transformer?fail=walk", "layer 8 (k 1): p(0) + p(1) is not the claim", 11, 0),
        ("demo:transformer?fail=commit", "Wk 1: the root of its tree is not the published commitment", 20, 5),
    ],
)
def test_a_proof_fails_on_request_by_a_check_of_the_provers_own(
    uri: str, reason: str, layers: int, openings: int
) -> None:
    session = run(f"{uri}&pace=0").session
    assert session.closings == [("ended", None)]
    assert session.events[-1] == ProofAborted(reason=reason)
    assert session.events[-2] == Log(level=LogLevel.Error, message=reason)
    assert ProofComplete not in session.kinds
    assert (session.kinds.count(LayerEnd), session.kinds.count(WeightOpeningEnd)) == (layers, openings)
    # It dies inside of the layer, or of the weight's opening.
    assert session.kinds.count(LayerStart) == layers + uri.endswith("walk")
    assert session.kinds.count(WeightOpeningStart) == openings + uri.endswith("commit")
    (warning,) = [e.message for e in session.events if isinstance(e, Log) and e.level is LogLevel.Warn]
    fail = uri.rpartition("=")[2]
    failed = [(e.name, e.failed) for e in session.events if isinstance(e, PhaseEnd) and e.failed]
    assert failed == ([("weight commitments", reason)] if fail == "commit" else [])
    assert warning == f"One weight changes in memory, because of fail={fail}. This proof must fail."


@pytest.mark.parametrize("sample", range(10))
@pytest.mark.parametrize("fail", ["walk", "commit"])
def test_every_sample_fails_at_the_same_place(fail: str, sample: int) -> None:
    session = run(f"demo:digits?fail={fail}&sample={sample}&pace=0").session
    assert isinstance(session.events[-1], ProofAborted)
    assert session.kinds.count(LayerEnd) == {"walk": 2, "commit": 4}[fail]


def test_a_request_has_its_defaults() -> None:
    assert parse_request(request("demo:digits")) == DemoRequest(model="digits", pace_s=2.5, sample=0)
    assert parse_request(request("demo:transformer?pace=1.5")) == DemoRequest(model="transformer", pace_s=1.5)
    assert parse_request(request("demo:digits?fail=commit")) == DemoRequest(model="digits", fail="commit")


@pytest.mark.parametrize(
    ("uri", "message", "hint"),
    [
        ("demo:", "there is no demo model ''", "one of: digits, transformer"),
        ("demo:digit", "there is no demo model 'digit'", "one of: digits, transformer"),
        ("demo:digits?pace", "the query 'pace' is not of the form KEY=VALUE&KEY=VALUE", None),
        ("demo:digits?pace=", "pace is a number of seconds from 0 to 3600, not ''", None),
        ("demo:digits?pace=fast", "pace is a number of seconds from 0 to 3600, not 'fast'", None),
        ("demo:digits?pace=-1", "pace is a number of seconds from 0 to 3600, not '-1'", None),
        ("demo:digits?pace=nan", "pace is a number of seconds from 0 to 3600, not 'nan'", None),
        ("demo:digits?sample=10", "sample is a number from 0 to 9, not '10'", None),
        ("demo:digits?fail=yes", "fail is walk or commit, not 'yes'", None),
        ("demo:digits?fail=", "fail is walk or commit, not ''", None),
        ("demo:digits?speed=2", "demo:digits does not know speed", "it knows: pace, sample, fail"),
        ("demo:transformer?sample=1", "demo:transformer does not know sample", "it knows: pace, fail"),
    ],
)
def test_a_request_that_is_not_understood_is_a_usage_error(uri: str, message: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        open_demo(request(uri))
    assert (str(caught.value), caught.value.hint) == (message, hint)


@pytest.mark.parametrize("flag", ["follow", "once"])
def test_flags_of_other_sources_are_refused(flag: str) -> None:
    with pytest.raises(UsageError, match=f"^--{flag} does not apply to demo:digits"):
        open_demo(SourceRequest(uri="demo:digits", follow=flag == "follow", once=flag == "once"))


def test_the_plugin_declares_its_source_and_its_command() -> None:
    plugin = DemoPlugin()
    (source,) = plugin.proofstream_sources()
    (command,) = plugin.proofstream_commands()
    assert plugin.requires == ("numpy",)
    assert (source.scheme, source.form, source.live, source.waits) == ("demo", "demo:NAME", True, False)
    assert (command.name, command.artefacts_dir) == ("demo", "proofstream-demo")
    assert dict(command.sources) == {"digits": "demo:digits", "transformer": "demo:transformer"}
    assert all(source.open(request(uri)) for uri in command.sources.values())


def test_declaring_loads_no_numpy() -> None:
    code = (
        "import sys; from proofstream import SourceRequest; from proofstream_demo import DemoPlugin;"
        "plugin = DemoPlugin(); plugin.proofstream_commands();"
        "[s.open(SourceRequest(uri='demo:digits')) for s in plugin.proofstream_sources()];"
        "sys.exit('numpy' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    finished = subprocess.run([sys.executable, "-c", code], env=environment, timeout=60, check=False)
    assert finished.returncode == 0
