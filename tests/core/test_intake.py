"""The parts of the intake: the wakeup, the counts by kind, the room for facts and the gaps."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from proofstream import EventsLost, Log, LogLevel, ProofAborted
from proofstream.intake import HARD_FACTOR, Gap, Intake, KindCounts, Wakeup
from proofstream.report import Report
from proofstream.session import NoSession, Session


class NoOwner:
    """An owner that does nothing."""

    def capture(self) -> Mapping[str, object]:
        return {}

    def flush(self, timeout_s: float) -> bool:
        return True

    @property
    def problems(self) -> list[str]:
        return []

    def close_session(self, session: Session, timeout_s: float | None, *, outcome: str, reason: str | None) -> Report:
        return Report()


def test_wakeup_wakes_a_waiter_and_is_used_up() -> None:
    wakeup = Wakeup()
    assert not wakeup.wait(0.0)
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(0.0)
    assert not wakeup.wait(0.0)


def test_wakeup_reaches_another_thread() -> None:
    wakeup = Wakeup()
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(wakeup.wait(10.0)))
    thread.start()
    time.sleep(0.01)
    wakeup.set()
    thread.join(10.0)
    assert woken == [True]


def test_counts_since_the_last_call_are_returned() -> None:
    counts = KindCounts()
    assert counts.take_counts() == {}
    for kind in ("Log", "Log", "LayerEnd"):
        counts.count_event(kind)
    assert counts.take_counts() == {"Log": 2, "LayerEnd": 1}
    assert counts.take_counts() == {}
    counts.count_event("Log")
    assert counts.take_counts() == {"Log": 1}


def test_no_count_is_lost_between_threads() -> None:
    counts = KindCounts()
    total = 0

    def add() -> None:
        for _ in range(20_000):
            counts.count_event("Log")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        total += counts.take_counts().get("Log", 0)
    total += counts.take_counts().get("Log", 0)
    assert total == 80_000


def test_a_full_intake_has_room_for_facts_only() -> None:
    intake, sender = Intake(capacity=2, clock=lambda: 0), NoSession()
    fact = ProofAborted(reason="x")
    bulk, warning = (Log(level=level, message="x") for level in (LogLevel.Info, LogLevel.Warn))
    assert intake.has_room_for(bulk)
    for _ in range(2):
        intake.append_item(sender, bulk)
    assert [intake.has_room_for(event) for event in (bulk, fact, warning, "no event")] == [False, True, True, False]
    while len(intake.items) < 2 * HARD_FACTOR:
        intake.append_item(sender, fact)
    assert not intake.has_room_for(fact)


def test_the_lag_is_the_age_of_the_oldest_item() -> None:
    now = 0
    intake = Intake(capacity=2, clock=lambda: now)
    assert intake.lag_s == 0.0
    intake.append_item(NoSession(), ProofAborted(reason="x"))
    now = 1_500_000_000
    intake.append_item(NoSession(), ProofAborted(reason="x"))
    assert intake.lag_s == 1.5


def test_a_gap_grows_until_it_is_reported() -> None:
    gap = Gap()
    assert gap.widen({"Log": 1})
    assert gap.widen({"Log": 2, "GpuStatus": 1})
    assert gap.close() == {"Log": 3, "GpuStatus": 1}
    assert gap.event() == EventsLost(where="intake", counts={"Log": 3, "GpuStatus": 1})
    assert not gap.widen({"Log": 1})


def test_an_intake_of_large_events_holds_fewer_and_recovers() -> None:
    intake = Intake(capacity=1000, clock=time.monotonic_ns, max_bytes=1_000_000)
    assert intake.fit_to(100)
    assert (intake.capacity, intake.hard_capacity) == (1000, 10_000)
    assert intake.fit_to(10_000)
    assert (intake.capacity, intake.hard_capacity) == (75, 100)
    for _ in range(100):
        intake.fit_to(100)
    assert intake.capacity == 1000


def test_an_intake_always_has_room_for_a_few_events() -> None:
    intake = Intake(capacity=1000, clock=time.monotonic_ns, max_bytes=1_000_000)
    intake.fit_to(10**9)
    assert (intake.capacity, intake.hard_capacity) == (48, 64)


def test_a_session_adopts_the_intakes_capacity_unless_it_is_closed() -> None:
    intake = Intake(capacity=1000, clock=time.monotonic_ns, max_bytes=1_000_000)
    session = Session(intake=intake, owner=NoOwner(), source="s")
    closed = Session(intake=intake, owner=NoOwner(), source="s")
    closed.send_end("ended", None)
    before = len(intake.items)
    intake.fit_to(10**9)
    for each in (session, closed):
        each.fit_to_intake()
        for _ in range(100):
            each.emit(Log(level=LogLevel.Debug, message="bulk"))
    assert len(intake.items) == 48
    assert before == 1


def test_counted_kinds_are_bounded() -> None:
    counts = KindCounts()
    for number in range(1000):
        counts.count_event(f"Kind{number}")
    fresh = counts.take_counts()
    assert len(fresh) <= 65
    assert sum(fresh.values()) == 1000
