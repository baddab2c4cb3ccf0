"""Lines that are numbered at once get what each would get alone, and lanes take runs as they take single events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.envelopes import HOST, PRODUCER, Envelope, EnvelopeRun
from proofstream.events import (
    EventsLost,
    LayerEnd,
    LayerProofKind,
    Log,
    LogLevel,
    PhaseEnd,
    PhaseStart,
    ProofEvent,
    SessionClosed,
)
from proofstream.intake import KindCounts
from proofstream.lane_queue import LaneQueue, QueueBounds
from proofstream.numbering import Numbering, Round, special_lines
from proofstream.testing import RecordingPlugin
from proofstream.wire import Decoded, LineDecoder, encode_event

EVENTS: list[ProofEvent] = [
    Log(level=LogLevel.Info, message="bulk"),
    Log(level=LogLevel.Error, message="a fact"),
    LayerEnd(layer_idx=1, kind=LayerProofKind.Linear, duration_ms=3, rounds_completed=0),
    PhaseStart(name="commit"),
    PhaseEnd(name="commit"),
    SessionClosed(outcome="ended", reason=None, refused=0),
]


def line(event: ProofEvent, time_unix_nano: int | None, job_id: str | None, origin: str) -> Decoded:
    raw = encode_event(event)
    return Decoded(event=event, raw=raw, time_unix_nano=time_unix_nano, job_id=job_id, origin=origin)


lines = st.builds(
    line,
    st.sampled_from(EVENTS),
    st.none() | st.integers(0, 10**18),
    st.sampled_from([None, "a"]),
    st.sampled_from([PRODUCER, PRODUCER, PRODUCER, HOST, "elsewhere"]),
)


class Sender:
    """A session as the bus sees it."""

    def __init__(self) -> None:
        self.session_id: str = "s"
        self.dropped = KindCounts()
        self.last_time_unix_nano: int | None = None
        self.behind_ns: int = 0
        self.phases: int = 0
        self.model_name: str | None = None
        self.ended: bool = False

    def refuse_event(self, kind: str, reason: str) -> None:
        raise AssertionError(kind, reason)

    def seen(self, time_unix_nano: int) -> None:
        self.last_time_unix_nano = time_unix_nano

    def fit_to_intake(self) -> None:
        return None


@given(st.lists(lines, min_size=1, max_size=20))
def test_ordinary_lines_are_numbered_at_once_as_one_by_one(found: list[Decoded]) -> None:
    ordinary = [each for index, each in enumerate(found) if index not in special_lines(found)] or [
        line(EVENTS[0], None, None, PRODUCER)
    ]
    at_once, alone = Numbering(5), Numbering(5)
    one, other = Sender(), Sender()
    assert at_once.number_lines(7, one, ordinary) == [alone.number_line(7, other, each) for each in ordinary]
    assert (at_once.seq, one.last_time_unix_nano, one.behind_ns) == (
        alone.seq,
        other.last_time_unix_nano,
        other.behind_ns,
    )


def envelope(seq: int, event: ProofEvent, session_id: str, lineage: tuple[str, ...]) -> Envelope:
    return Envelope(
        seq=seq,
        time_unix_nano=seq,
        session_id=session_id,
        origin=PRODUCER,
        event=event,
        raw=encode_event(event),
        lineage=lineage,
    )


runs = st.lists(
    st.tuples(
        st.lists(st.sampled_from(EVENTS), min_size=1, max_size=9),
        st.sampled_from(["s", "t"]),
        st.sampled_from([(), (), ("gpu",)]),
    ),
    max_size=8,
)
bounds = st.builds(
    QueueBounds,
    capacity=st.integers(1, 30),
    max_bytes=st.sampled_from([2_000, 20_000, 2**30]),
    keeps_bulk=st.booleans(),
    publishers=st.sampled_from([(), ("gpu",)]),
)


def made(found: Sequence[tuple[list[ProofEvent], str, tuple[str, ...]]]) -> list[EnvelopeRun]:
    seq = 0
    taken: list[EnvelopeRun] = []
    for events, session_id, lineage in found:
        envelopes = [envelope(seq + index, event, session_id, lineage) for index, event in enumerate(events)]
        seq += len(events)
        taken.append(EnvelopeRun(envelopes, sum(len(each.raw) for each in envelopes)))
    return taken


def all_of(queue: LaneQueue) -> list[Envelope]:
    return [each for batch in iter(queue.take_batch, ()) for each in batch]


@given(runs, bounds, st.booleans())
def test_a_run_enters_a_lane_as_its_envelopes_would(found: Any, limits: QueueBounds, drains: bool) -> None:
    at_once, alone = LaneQueue("slow", limits), LaneQueue("slow", limits)
    got: list[list[Envelope]] = [[], []]
    for run in made(found):
        at_once.offer_run(run)
        for each in run.envelopes:
            alone.offer(each)
        assert (len(at_once), at_once.waiting_bytes) == (len(alone), alone.waiting_bytes)
        if drains:
            got[0] += at_once.take_batch()
            got[1] += alone.take_batch()
    assert [*got[0], *all_of(at_once)] == [*got[1], *all_of(alone)]
    for name in ("dropped", "lost_facts", "flooded_by", "hit_byte_bound"):
        assert getattr(at_once, name) == getattr(alone, name)
    assert (len(at_once), at_once.waiting_bytes) == (0, 0)


def test_a_round_keeps_the_order_and_joins_what_goes_together() -> None:
    taken = Round()
    one, two = made([([EVENTS[0]] * 3, "s", ()), ([EVENTS[2]], "s", ())])
    other = made([([EVENTS[0]], "t", ())])[0]
    for run in (one, two, other):
        taken.add(list(run.envelopes))
    assert [len(run.envelopes) for run in taken.runs] == [4, 1]
    assert (taken.events, taken.runs[0].raw_bytes) == (5, one.raw_bytes + two.raw_bytes)


def test_a_session_that_goes_on_after_its_recorded_end_is_no_longer_withheld(make_host: Callable[..., Any]) -> None:
    host = make_host(RecordingPlugin("late"), start=False)
    (lane,) = host.lanes
    lane.withheld.add("s")
    taken = Round()
    for run in made([(EVENTS[:3], "s", ()), ([EVENTS[-1]], "s", ()), (EVENTS[1:3], "s", ())]):
        taken.add(list(run.envelopes))
    lane.feed(taken.runs)
    assert [each.seq for each in all_of(lane.queue)] == [4, 5]


def test_a_plugin_gets_only_the_kinds_that_it_wants(make_host: Callable[..., Any]) -> None:
    class Picky(RecordingPlugin):
        wants = ("LayerEnd",)

    picky, all_kinds = Picky("picky"), RecordingPlugin("all")
    host = make_host(picky, all_kinds)
    session = host.new_session(source="test")
    host.announce(session, time_source="arrival")
    for event in (EVENTS[0], EVENTS[2], EVENTS[3]):
        session.emit(event)
    session.close()
    host.close(5.0)
    assert [kind for kind in picky.kinds if kind != "PluginHealth"] == ["SessionOpened", "LayerEnd", "SessionClosed"]
    assert {"Log", "PhaseStart"} <= set(all_kinds.kinds)


def test_undeclared_kinds_are_handed_only_to_plugins_that_want_all() -> None:
    decoded = LineDecoder(Catalog()).decode(b'{"Odd":{}}')
    unknown = msgspec.structs.replace(envelope(0, EVENTS[0], "s", ()), event=decoded.event, raw=decoded.raw)
    lost = envelope(1, EventsLost(where="intake", counts={"Log": 1}), "s", ())
    assert EnvelopeRun([unknown, lost], 1).only(frozenset({"EventsLost"})).envelopes == [lost]
