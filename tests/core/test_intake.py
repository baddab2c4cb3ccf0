"""The parts of the intake: the wakeup and the counts by kind."""

from __future__ import annotations

import threading
import time

from proofstream.intake import KindCounts, Wakeup


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
