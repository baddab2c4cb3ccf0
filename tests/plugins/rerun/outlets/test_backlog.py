"""The backlog keeps as much as was agreed, in order, and tells a reader how much it missed."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream_rerun.outlets.backlog import Backlog


@dataclass(frozen=True)
class Mark:
    """A write that is known by its number."""

    number: int
    size_bytes: int = 100

    def send(self, stream: Any) -> None:
        raise AssertionError("the backlog never sends")


@pytest.fixture
def recording(kit: Any) -> Any:
    return kit.recording()


def begun(recording: Any, *, max_bytes: int) -> Backlog:
    backlog = Backlog(max_bytes)
    backlog.begin_recording(recording, blueprint=recording.blueprint(), opening=[Mark(-1)])
    return backlog


def numbers(backlog: Backlog, position: int, **more: Any) -> list[int]:
    page = backlog.read_page(position, **{"max_bytes": 10**9, **more})
    return [write.number for entry in page.entries for write in entry.writes if isinstance(write, Mark)]


def test_each_reader_reads_at_its_own_pace(recording: Any) -> None:
    backlog = begun(recording, max_bytes=10**6)
    for number in range(10):
        backlog.add_writes("first", [Mark(number)])

    first = backlog.read_page(0, max_bytes=1)
    assert (len(first.entries), first.after, first.skipped) == (1, 1, 0)
    assert first.entries[0].chapter.opening == (Mark(-1),)
    assert numbers(backlog, first.after) == list(range(10))
    assert numbers(backlog, 6) == [5, 6, 7, 8, 9]
    assert numbers(backlog, 11) == []


def test_a_new_layout_replaces_the_old_one(recording: Any) -> None:
    backlog = begun(recording, max_bytes=10**6)
    newer = recording.blueprint()
    backlog.set_blueprint("first", newer)

    for entry in backlog.read_page(0, max_bytes=10**6).entries:
        assert (entry.chapter.blueprint, entry.chapter.blueprint_version) == (newer, 2)


def test_the_end_is_the_last_entry_of_a_recording(recording: Any) -> None:
    backlog = begun(recording, max_bytes=10**6)
    backlog.add_writes("first", [Mark(0)])
    backlog.end_recording("first")

    assert [entry.is_end for entry in backlog.read_page(0, max_bytes=10**6).entries] == [False, False, True]
    with pytest.raises(KeyError):
        backlog.add_writes("first", [Mark(1)])


def test_a_large_opening_goes_with_its_entry_and_a_small_one_stays(recording: Any) -> None:
    for size, kept in ((2**20, 0), (2**19, 1)):
        backlog = Backlog(3 * 2**20)
        backlog.begin_recording(recording, blueprint=recording.blueprint(), opening=[Mark(-1, size)])
        assert backlog.bytes_from(0) > size
        backlog.add_writes("first", [Mark(0, 3 * 2**20)])
        (entry,) = backlog.read_page(backlog.start, max_bytes=1).entries
        assert len(entry.chapter.opening) == kept
        assert backlog.has_gaps("first")


def test_an_ended_recording_does_not_keep_its_scene(recording: Any) -> None:
    backlog = begun(recording, max_bytes=10**6)
    assert backlog.endings_from(0) == 0
    backlog.end_recording("first")

    assert backlog.endings_from(0) == 1
    assert backlog.endings_from(backlog.end_position) == 0
    chapter = backlog.read_page(0, max_bytes=1).entries[0].chapter
    assert list(recording.snapshot())
    assert list(chapter.recording.snapshot()) == []


@given(sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=50), max_bytes=st.integers(1, 20_000))
def test_the_limit_holds_and_the_newest_entry_always_stays(kit_free: Any, sizes: list[int], max_bytes: int) -> None:
    backlog = begun(kit_free, max_bytes=max_bytes)
    for number, size in enumerate(sizes):
        backlog.add_writes("first", [Mark(number, size)])
    kept = numbers(backlog, backlog.start)

    assert kept == list(range(len(sizes) - len(kept), len(sizes)))
    assert len(kept) >= 1
    assert len(kept) == 1 or backlog.bytes_from(0) <= max_bytes
    assert backlog.end_position == len(sizes) + 1
    assert backlog.has_gaps("first") == (backlog.start > 0)
    assert backlog.read_page(0, max_bytes=1).skipped == backlog.start


@pytest.fixture(scope="module")
def kit_free() -> Any:
    """A recording that no test changes."""
    import rerun.blueprint as rrb

    from proofstream_rerun.sdk.recordings import Recording

    return Recording(
        application_id="proofstream-test",
        recording_id="first",
        name="first",
        started_ns=0,
        blueprint=rrb.Blueprint,
        snapshot=list,
    )


def test_a_write_wakes_a_waiting_reader(recording: Any) -> None:
    backlog = begun(recording, max_bytes=10**6)
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(numbers(backlog, 1, wait_s=20.0)))
    reader.start()
    backlog.add_writes("first", [Mark(7)])
    reader.join(10)

    assert seen == [7]
