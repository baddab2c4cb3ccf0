"""What may block is waited for only so long, and its failure is not ours."""

from __future__ import annotations

import threading
import time

from proofstream.command.patience import finishes_within


def test_an_action_that_ends_is_waited_for() -> None:
    done: list[int] = []
    assert finishes_within(10.0, lambda: done.append(1))
    assert done == [1]


def test_an_action_that_fails_has_ended() -> None:
    def fail() -> None:
        raise OSError("no such terminal")

    assert finishes_within(10.0, fail)


def test_an_action_that_does_not_end_is_left_behind() -> None:
    release = threading.Event()
    began = time.monotonic()
    assert not finishes_within(0.1, lambda: release.wait(30.0))
    assert time.monotonic() - began < 10.0
    release.set()
