"""Which jobs count as silent: by the facts of the session's other jobs, and by how many are open."""

from __future__ import annotations

import pytest

from proofstream.silence import LONGEST_PAUSE_S, MAX_OPEN_JOBS, SILENT_AFTER_S, TOO_LONG, TOO_MANY, OpenJobs

NS = 1_000_000_000
BEGIN = 1_700_000_000 * NS


def hear(jobs: OpenJobs, job_id: str, at_s: float) -> list[tuple[str, str]]:
    jobs.pass_time(BEGIN + round(at_s * NS))
    jobs.hear_job(job_id)
    return jobs.take_silent()


def go_on(jobs: OpenJobs, job_id: str, *, from_s: int, for_s: int, every_s: int = 60) -> list[tuple[str, str]]:
    return [each for at in range(from_s, from_s + for_s + 1, every_s) for each in hear(jobs, job_id, at)]


def test_a_job_is_given_up_once_others_went_on_for_an_hour() -> None:
    jobs = OpenJobs()
    assert hear(jobs, "dead", 0) == []
    assert go_on(jobs, "busy", from_s=0, for_s=SILENT_AFTER_S) == []
    assert hear(jobs, "busy", SILENT_AFTER_S + 1) == [("dead", TOO_LONG)]
    assert list(jobs.heard) == ["busy"]


def test_a_job_alone_is_waited_for_for_ever() -> None:
    jobs = OpenJobs()
    assert hear(jobs, "stuck", 0) == []
    assert hear(jobs, "stuck", 30 * 24 * 3600) == []


def test_a_night_in_which_nothing_is_said_is_not_silence() -> None:
    jobs = OpenJobs()
    hear(jobs, "slow", 0)
    hear(jobs, "busy", 1)
    for night in range(1, SILENT_AFTER_S // LONGEST_PAUSE_S):
        assert hear(jobs, "busy", night * 86_400) == []


def test_a_job_that_speaks_within_the_hour_stays() -> None:
    jobs = OpenJobs()
    hear(jobs, "slow", 0)
    for hour in range(5):
        assert go_on(jobs, "busy", from_s=hour * 3600 + 60, for_s=3000) == []
        assert hear(jobs, "slow", hour * 3600 + 3100) == []


@pytest.mark.parametrize("wrong", [BEGIN - 10**18, 0, 2**63 - 1])
def test_one_impossible_time_ends_no_other_job(wrong: int) -> None:
    jobs = OpenJobs()
    for name in ("a", "b", "c"):
        hear(jobs, name, 0)
    jobs.pass_time(wrong)
    jobs.hear_job("a")

    assert jobs.take_silent() == []


def test_one_job_too_many_ends_the_one_that_was_silent_for_longest() -> None:
    jobs = OpenJobs()
    for number in range(MAX_OPEN_JOBS):
        assert hear(jobs, str(number), 0) == []
    assert hear(jobs, "0", 0) == []
    assert hear(jobs, "new", 0) == [("1", TOO_MANY)]
    assert len(jobs.heard) == MAX_OPEN_JOBS


def test_a_job_that_has_ended_is_not_silent() -> None:
    jobs = OpenJobs()
    hear(jobs, "done", 0)
    jobs.drop_job("done")
    jobs.drop_job("never seen")

    assert go_on(jobs, "busy", from_s=0, for_s=2 * SILENT_AFTER_S) == []


def test_both_reasons_say_that_the_end_was_not_seen() -> None:
    assert all(reason.startswith("its end was not seen: ") for reason in (TOO_LONG, TOO_MANY))
