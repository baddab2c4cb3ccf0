"""Long pauses of a replay: said, and shortened if the user wants that. No event's own time changes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from proofstream.sources.pacing import Pacer, long_pause

WEEK_S = 7 * 86_400
NS = 10**9


def recording(path: Path, *seconds: float) -> list[int]:
    """Write a recording of one event at each of these seconds; return their times."""
    times = [10**18 + int(second * NS) for second in seconds]
    event = {"Log": {"level": "Info", "message": "x"}}
    lines = [json.dumps({"v": 1, "time_unix_nano": t, "session_id": "s", "event": event}) for t in times]
    path.write_text("\n".join(lines) + "\n")
    return times


def test_a_pause_of_a_week_is_shortened_and_times_are_kept(tmp_path: Path, start: Any) -> None:
    times = recording(tmp_path / "r.jsonl", 0, WEEK_S, WEEK_S + 0.2)
    begun = time.monotonic()
    running = start(tmp_path / "r.jsonl", speed=1.0, max_pause_s=0.3)
    running.join()
    assert time.monotonic() - begun >= 0.5
    assert running.feed.only.times == times
    assert running.feed.announced == []


def test_a_long_pause_is_said_once(tmp_path: Path, start: Any, eventually: Any) -> None:
    recording(tmp_path / "r.jsonl", 0, WEEK_S)
    running = start(tmp_path / "r.jsonl", speed=2.0)
    eventually(lambda: running.feed.announced)
    assert running.feed.delivered == 1
    assert running.stop() < 1
    (line,) = running.feed.announced
    assert line.startswith("the next event comes in 3 days, 12:00:00, at 2")
    assert line.endswith("; --max-pause SECONDS shortens such pauses")


def test_what_follows_a_shortened_pause_keeps_its_pace() -> None:
    pacer = Pacer(10, max_pause_s=0.5)
    assert pacer.due_in_s(0) <= 0
    assert 0.4 < pacer.due_in_s(WEEK_S * NS) <= 0.5
    time.sleep(0.5)
    assert pacer.due_in_s(WEEK_S * NS) <= 0
    assert 0.2 < pacer.due_in_s((WEEK_S + 3) * NS) <= 0.3


@pytest.mark.parametrize(("seconds", "begins"), [(29.0, None), (1e300, "the next event is more than ten years away")])
def test_only_long_pauses_are_worth_a_line(seconds: float, begins: str | None) -> None:
    line = long_pause(seconds)
    assert line == begins if begins is None else (line or "").startswith(begins)
