"""Forks and work that they must not come into wait for each other, within bounds."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from proofstream import forks
from proofstream.forks import after_fork_in_child, after_fork_in_parent, apart_from_forks, before_fork
from proofstream.waiting import wait_until


@pytest.fixture(autouse=True)
def forking(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """The threads that fork, without those of other tests."""
    threads: dict[int, float] = {}
    monkeypatch.setattr(forks, "_forking", threads)
    monkeypatch.setattr(forks, "_told", [])
    return threads


class Worker:
    """Does work on a thread of its own until it is told to end."""

    def __init__(self, patience_s: float) -> None:
        self.began = threading.Event()
        self.end = threading.Event()
        self.ended = threading.Event()
        self._patience_s = patience_s
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with apart_from_forks("a worker", self._patience_s):
            self.began.set()
            self.end.wait()
        self.ended.set()

    def stop(self) -> None:
        self.end.set()
        self._thread.join()


@pytest.fixture
def busy() -> Iterator[Worker]:
    worker = Worker(60.0)
    worker.began.wait()
    yield worker
    worker.stop()


def test_a_fork_waits_for_work_to_end(busy: Worker) -> None:
    threading.Timer(0.2, busy.end.set).start()

    before_fork()
    after_fork_in_parent()

    assert busy.ended.wait(5.0)


def test_a_fork_waits_only_so_long_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(0.2)
    worker.began.wait()
    for _ in range(3):
        before_fork()
        after_fork_in_parent()
    worker.stop()

    (line,) = caplog.messages
    assert line.startswith("a process was forked while a worker was busy, ")


def test_a_worker_that_was_waited_for_in_vain_does_not_hide_another(busy: Worker) -> None:
    stuck = Worker(0.0)
    stuck.began.wait()
    threading.Timer(0.2, busy.end.set).start()

    before_fork()
    after_fork_in_parent()
    stuck.stop()

    assert busy.ended.wait(5.0)


def test_a_thread_may_fork_in_the_middle_of_its_own_work() -> None:
    with apart_from_forks("this thread", 60.0), apart_from_forks("the same", 60.0):
        before_fork()
        after_fork_in_parent()
        with apart_from_forks("again", 60.0):
            pass


def test_work_does_not_begin_before_a_fork_has_ended() -> None:
    before_fork()
    worker = Worker(60.0)
    began_early = worker.began.wait(0.3)
    after_fork_in_parent()

    assert worker.began.wait(5.0)
    worker.stop()
    assert not began_early


def test_a_fork_whose_end_is_never_told_does_not_keep_work_out_for_ever(
    monkeypatch: pytest.MonkeyPatch, forking: dict[int, float]
) -> None:
    monkeypatch.setattr(forks, "IMPORTS_S", 0.1)
    before_fork()
    worker = Worker(60.0)

    assert worker.began.wait(10.0)
    worker.stop()
    assert not forking


def test_threads_may_fork_at_the_same_time() -> None:
    forked: list[int] = []

    def fork() -> None:
        for _ in range(50):
            before_fork()
            after_fork_in_parent()
        forked.append(1)

    threads = [threading.Thread(target=fork) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert len(forked) == 4


@pytest.fixture
def own_interrupts() -> Iterator[None]:
    """Has a Ctrl-C raise KeyboardInterrupt here, and do nothing else.

    A shell that starts the tests in the background has them ignore it, and a command that ran in this process before
    ends the process at the second one.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    wakeup = signal.set_wakeup_fd(-1)
    yield
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGINT, handler)


@pytest.mark.usefixtures("own_interrupts")
def test_a_ctrl_c_during_the_wait_is_raised_after_the_fork(busy: Worker) -> None:
    threading.Timer(0.2, _thread.interrupt_main).start()
    started = time.monotonic()
    before_fork()  # Python would print what it raises
    after_fork_in_parent()
    assert time.monotonic() - started < 30.0

    with pytest.raises(KeyboardInterrupt):
        wait_until(lambda: False, deadline=time.monotonic() + 10.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes can fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_waits_for_no_thread_of_its_parent(busy: Worker, forking: dict[int, float]) -> None:
    # As a fork by other means than Python's, such as uwsgi's: nothing was called before it.
    forking[1] = time.monotonic() + 60.0
    child = os.fork()
    if not child:
        status = 1
        try:
            after_fork_in_child()
            before_fork()
            with apart_from_forks("the child", 60.0):
                status = 0
        finally:
            os._exit(status)
    forking.clear()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    busy.end.set()
