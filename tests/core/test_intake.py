"""The intake's small parts."""

from __future__ import annotations

import threading
import time

from proofstream.intake import Tally, Wakeup


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


def test_tally_says_what_is_new() -> None:
    tally = Tally()
    assert tally.take() == {}
    for kind in ("Log", "Log", "LayerEnd"):
        tally.add(kind)
    assert tally.take() == {"Log": 2, "LayerEnd": 1}
    assert tally.take() == {}
    tally.add("Log")
    assert tally.take() == {"Log": 1}


def test_tally_loses_no_count_between_threads() -> None:
    tally = Tally()
    total = 0

    def add() -> None:
        for _ in range(20_000):
            tally.add("Log")

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        total += tally.take().get("Log", 0)
    total += tally.take().get("Log", 0)
    assert total == 80_000
