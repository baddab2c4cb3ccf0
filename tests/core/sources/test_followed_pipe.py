"""A named pipe that is followed: one writer after the other, all in one session."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from proofstream.errors import SourceError

LINE = b'{"Log":{"level":"Info","message":"%d"}}\n'
NS_PER_MS = 1_000_000


@pytest.fixture(name="pipe")
def fixture_pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture(name="follow")
def fixture_follow(start: Any, eventually: Any) -> Any:
    """Follows a pipe, and returns once it is read."""

    def follow(pipe: Path) -> Any:
        running = start(pipe, follow=True)
        eventually(lambda: running.feed.announced)
        return running

    return follow


def write(pipe: Path, data: bytes) -> None:
    with pipe.open("wb", buffering=0) as writer:
        writer.write(data)


def messages(running: Any) -> list[str]:
    return [item.event.message for item in running.feed.only.decoded if item.origin == "producer"]


def test_each_writer_is_read_and_all_are_one_session(pipe: Path, follow: Any, eventually: Any) -> None:
    running = follow(pipe)
    begun = time.time_ns()
    for number in range(5):
        write(pipe, LINE % number)
        eventually(lambda number=number: running.feed.delivered == number + 1)
    assert running.stop() < 1
    session = running.feed.only
    assert messages(running) == ["0", "1", "2", "3", "4"]
    # None is taken for one that was written before reading began.
    assert (session.time_source, session.time_sources) == ("arrival", [None] * 5)
    assert begun - NS_PER_MS <= min(session.times) <= max(session.times) <= time.time_ns() + NS_PER_MS
    assert session.closed == [("interrupted", None)]
    assert running.feed.announced == [f"{pipe} is a pipe: reading one writer after the other, until stopped"]


def test_what_was_written_before_reading_began_is_known_as_such(pipe: Path, follow: Any, eventually: Any) -> None:
    holder = os.open(pipe, os.O_RDWR)
    os.write(holder, LINE % 0)
    running = follow(pipe)
    eventually(lambda: running.feed.delivered == 2)
    os.close(holder)
    write(pipe, LINE % 1)
    eventually(lambda: running.feed.delivered == 3)
    running.stop()
    assert running.feed.only.time_sources == ["reconstructed", None, None]


def test_half_a_line_is_its_writer_s_own(pipe: Path, follow: Any, eventually: Any) -> None:
    running = follow(pipe)
    write(pipe, LINE % 0 + LINE[:20])
    eventually(lambda: running.feed.sessions and running.feed.only.refusals)
    write(pipe, LINE % 1)
    eventually(lambda: running.feed.delivered == 2)
    running.stop()
    assert messages(running) == ["0", "1"]
    assert [refusal.line for refusal in running.feed.only.refusals] == [2]


def test_it_stops_while_nobody_writes(pipe: Path, follow: Any) -> None:
    running = follow(pipe)
    time.sleep(0.1)
    assert running.stop() < 1


def test_without_follow_it_ends_with_the_first_writer_and_stops_before_it(pipe: Path, start: Any) -> None:
    running = start(pipe)
    time.sleep(0.1)
    assert running.stop() < 1
    running = start(pipe)
    write(pipe, LINE % 0)
    running.join()
    assert running.feed.only.closed == [("ended", None)]


def test_nobody_who_waits_for_a_writer_takes_a_processor(pipe: Path, follow: Any, eventually: Any) -> None:
    running = follow(pipe)
    write(pipe, LINE % 0)
    eventually(lambda: running.feed.delivered == 1)
    before = time.process_time()
    time.sleep(1)
    assert time.process_time() - before < 0.3
    running.stop()


def test_a_pipe_that_appears_later_and_one_that_takes_its_place(tmp_path: Path, follow: Any, eventually: Any) -> None:
    pipe = tmp_path / "late"
    running = follow(pipe)
    eventually(lambda: running.feed.announced == [f"waiting for {pipe}"])
    os.mkfifo(pipe)
    eventually(lambda: len(running.feed.announced) == 2)
    write(pipe, LINE % 0)
    eventually(lambda: running.feed.delivered == 1)
    pipe.unlink()
    os.mkfifo(pipe)
    write(pipe, LINE % 1)
    eventually(lambda: running.feed.delivered == 2)
    running.stop()
    assert messages(running) == ["0", "1"]


def test_a_writer_that_says_nothing_keeps_a_pipe_whose_name_was_taken(pipe: Path, follow: Any, eventually: Any) -> None:
    running = follow(pipe)
    writer = os.open(pipe, os.O_WRONLY)
    pipe.unlink()
    os.mkfifo(pipe)
    time.sleep(0.5)
    os.write(writer, LINE % 0)
    eventually(lambda: running.feed.delivered == 1)
    os.close(writer)
    write(pipe, LINE % 1)
    eventually(lambda: running.feed.delivered == 2)
    running.stop()


def test_a_file_that_takes_its_name_is_an_error(pipe: Path, follow: Any, eventually: Any) -> None:
    running = follow(pipe)
    write(pipe, LINE % 0)
    eventually(lambda: running.feed.delivered == 1)
    pipe.unlink()
    pipe.write_bytes(LINE % 1)
    with pytest.raises(SourceError, match="it is no pipe now"):
        running.join()
    assert running.feed.only.closed[0][0] == "lost"
