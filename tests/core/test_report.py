"""The report of a run's end: what counts as missing, and that its lines stay short and harmless."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proofstream import HOST, Batch, Envelope, EventsLost, PluginHealth, SumcheckRound, hookimpl
from proofstream.envelopes import EnvelopeRun
from proofstream.host import Host
from proofstream.intake import HARD_FACTOR
from proofstream.lanes import Lane
from proofstream.session import Session
from proofstream.testing import envelopes, read_stream
from proofstream.wire import encode_event

MakeHost = Callable[..., Host]
CAPACITY = 8
MOST = CAPACITY * HARD_FACTOR


class Blocked:
    """Consumes nothing until it is released.

    Attributes:
        entered: Set once a batch has reached it.
        released: Set by the test.
    """

    def __init__(self, *, complete: bool, wants_events: bool = True, released: bool = False) -> None:
        self.complete = complete
        self.wants_events = wants_events
        self.entered = threading.Event()
        self.released = threading.Event()
        if released:
            self.released.set()
        self.kinds: list[str] = []

    @hookimpl
    def proofstream_configure(self) -> bool:
        return self.wants_events

    @hookimpl
    def proofstream_consume(self, batch: Batch) -> None:
        self.entered.set()
        self.released.wait(30.0)
        self.kinds.extend(envelope.kind for envelope in batch)


@pytest.fixture
def rounds(wire_data: Any) -> list[SumcheckRound]:
    """Sumcheck rounds as a prover sends them, which are bulk."""
    lived = (envelope.event for envelope in envelopes(read_stream(wire_data / "smollm2-135m-cpu.jsonl")))
    return [event for event in lived if isinstance(event, SumcheckRound)]


def blocked_lane(host: Host, plugin: Blocked, session: Session, first: SumcheckRound) -> Lane:
    """Return the plugin's lane, with an empty queue and the plugin busy with one event."""
    session.emit(first)
    assert plugin.entered.wait(10.0)
    (lane,) = host.lanes
    return lane


def overfill(host: Host, session: Session, lane: Lane, rounds: list[SumcheckRound]) -> None:
    """Emit twice as many rounds as the lane can ever hold, and wait until the bus has passed them on."""
    for index in range(2 * MOST):
        session.emit(rounds[index % len(rounds)])
    assert wait(lambda: not host.intake.items and lane.depth + sum(lane.queue.dropped.values()) >= 2 * MOST)


def wait(condition: Callable[[], bool]) -> bool:
    return any(condition() or threading.Event().wait(0.01) for _ in range(1000))


@pytest.mark.parametrize(("complete", "room"), [(False, CAPACITY), (True, MOST)])
def test_an_output_that_must_be_complete_has_more_room_and_its_gaps_are_a_problem(
    complete: bool, room: int, make_host: MakeHost, rounds: list[SumcheckRound]
) -> None:
    plugin = Blocked(complete=complete)
    host = make_host(plugin, lane_capacity=CAPACITY)
    session = host.new_session(source="test")
    lane = blocked_lane(host, plugin, session, rounds[0])
    overfill(host, session, lane, rounds)
    plugin.released.set()
    assert session.flush(10.0)
    lost = lane.queue.dropped["SumcheckRound"]
    assert plugin.kinds.count("SumcheckRound") + lost == 2 * MOST + 1
    assert room <= plugin.kinds.count("SumcheckRound") <= room + 2
    expected = [f"plugin Blocked was not given {lost} SumcheckRound"] if complete else []
    assert host.close().problems == expected


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("wants_events", [False, True])
def test_bulk_that_the_intake_lost_is_a_problem_for_an_output_that_must_be_complete(
    complete: bool, wants_events: bool, make_host: MakeHost, rounds: list[SumcheckRound]
) -> None:
    plugin = Blocked(complete=complete, wants_events=wants_events, released=True)
    host = make_host(plugin, start=False, intake_capacity=10)
    session = host.new_session(source="test")
    for event in rounds[:30]:
        session.emit(event)
    host.start()
    assert session.flush(10.0)
    problems = [problem for problem in host.close().problems if "nothing to do" not in problem]
    assert host.bus.lost_at_intake == {"SumcheckRound": 20}
    assert problems == (["lost before the bus: 20 SumcheckRound"] if complete and wants_events else [])


def own_events() -> Iterator[Envelope]:
    """Yield an envelope for each kind of event that describes the run."""
    health = PluginHealth(
        plugin="x", status="ready", reason=None, depth=0, delivered=0, dropped={}, counters={}, lag_s=0.0
    )
    for event in (health, EventsLost(where="intake", counts={"LayerEnd": 1})):
        raw = encode_event(event)
        yield Envelope(seq=0, time_unix_nano=0, session_id="host", origin=HOST, event=event, raw=raw)


@pytest.mark.parametrize("complete", [False, True])
def test_events_of_the_host_itself_are_never_missed(complete: bool, make_host: MakeHost) -> None:
    host = make_host(Blocked(complete=complete, released=True), start=False, lane_capacity=CAPACITY)
    (lane,) = host.lanes
    for _ in range(2 * MOST):
        lane.feed([EnvelopeRun([envelope], len(envelope.raw)) for envelope in own_events()])
    assert lane.depth == MOST
    assert (lane.queue.dropped, lane.queue.lost_facts) == ({}, 0)
    lane.stopped.set()
    lane.count_rest()
    lane.stopped.clear()
    assert (lane.depth, lane.queue.dropped, lane.queue.lost_facts) == (0, {}, 0)
    host.start()
    assert host.close().problems == []


def test_at_most_sixteen_kinds_are_named(make_host: MakeHost) -> None:
    host = make_host(Blocked(complete=True, released=True))
    host.bus.lost_at_intake.update({f"Kind{number:02}": 100 - number for number in range(40)})
    named = ", ".join(f"{100 - number} Kind{number:02}" for number in range(16))
    others = sum(100 - number for number in range(16, 40))
    assert host.close().problems == [f"lost before the bus: {named}, {others} of other kinds"]


def test_kinds_cannot_make_a_line_long_or_harmful(make_host: MakeHost) -> None:
    host = make_host(Blocked(complete=True, released=True))
    (lane,) = host.lanes
    hostile = {f"\x1b]52;c;{number}\x07\n\u202e{'x' * 5000}": 2**63 for number in range(40)}
    host.bus.lost_at_intake.update(hostile)
    lane.queue.dropped.update(hostile)
    lane.queue.lost_facts = 1
    problems = host.close().problems
    assert [problem.partition(" ")[0] for problem in problems] == ["plugin", "lost"]
    for problem in problems:
        assert problem.isprintable()
        assert len(problem) <= 1000
        assert "\N{SYMBOL FOR ESCAPE}]52;c;0" in problem


def test_a_plugins_reason_is_bounded(make_host: MakeHost) -> None:
    class Failing:
        @hookimpl
        def proofstream_consume(self, batch: Batch) -> None:
            raise ValueError("y" * 10_000 + "\n\x1b[2J")

    host = make_host(Failing())
    host.new_session(source="test").emit(EventsLost(where="intake", counts={}))
    assert wait(lambda: host.failed is not None)
    (problem,) = host.close().problems
    assert problem.isprintable()
    assert len(problem) <= 1000
