"""Decides which of a session's jobs have fallen silent, and so will not be followed any longer.

A job whose process died says nothing more, and its connection may live for weeks. A job that works in silence looks
the same. So a job counts as silent only by what the session's other jobs say meanwhile: a session of one job
waits for it for ever.

The jobs of a session that a program opened in itself say when they end, whatever ends them: the code that works on
them is the program's own, and alive. None is given up for its silence, and many more may be open.

The rule has no settings, and it looks at nothing but facts and their own times. Every plugin follows the jobs by
itself, lanes drop bulk, and a recording is read in a second: only in this way do all of them number the proofs alike.
"""

from __future__ import annotations

from collections import OrderedDict

MAX_OPEN_JOBS = 256
"""The most jobs of a session that have something open. One more ends the job that was silent for longest."""

MAX_OWN_OPEN_JOBS = 4096
"""The same, where the jobs are the program's own."""

SILENT_AFTER_S = 3600
"""A job that says nothing while the session's other jobs go on for so many seconds is not followed any longer."""

LONGEST_PAUSE_S = 300
"""A pause in which no job says anything counts as so many seconds at most: a machine may have slept, or its clock may
have been set forward."""

TOO_LONG = f"its end was not seen: silent while other jobs went on for {SILENT_AFTER_S // 60} minutes"
TOO_MANY = f"its end was not seen: silent for longest of more than {MAX_OPEN_JOBS} open jobs"
TOO_MANY_OWN = f"its end was not seen: silent for longest of more than {MAX_OWN_OPEN_JOBS} open jobs"

_NS = 1_000_000_000


class OpenJobs:
    """The jobs of one session that have something open, in the order in which they were last heard.

    Each event costs the same, however many jobs are open.

    Attributes:
        heard: When each was last heard, in nanoseconds of the session's time; the one silent for longest comes first.
    """

    def __init__(self) -> None:
        self.heard: OrderedDict[str, int] = OrderedDict()
        self._latest_unix_nano: int | None = None
        self._now = 0

    def pass_time(self, time_unix_nano: int) -> None:
        """Move the session's time on to that of a job's fact. Times that step back do not move it."""
        if self._latest_unix_nano is None:
            self._latest_unix_nano = time_unix_nano
        elif time_unix_nano > self._latest_unix_nano:
            self._now += min(time_unix_nano - self._latest_unix_nano, LONGEST_PAUSE_S * _NS)
            self._latest_unix_nano = time_unix_nano

    def hear_job(self, job_id: str) -> None:
        """Note that a job with something open said something."""
        self.heard[job_id] = self._now
        self.heard.move_to_end(job_id)

    def drop_job(self, job_id: str) -> None:
        """Drop a job that has nothing open any longer."""
        self.heard.pop(job_id, None)

    def take_silent(self, *, own: bool = False) -> list[tuple[str, str]]:
        """Drop the jobs that have fallen silent; return each with the reason. `own`: they are the program's own."""
        most, reason_of_most = (MAX_OWN_OPEN_JOBS, TOO_MANY_OWN) if own else (MAX_OPEN_JOBS, TOO_MANY)
        taken: list[tuple[str, str]] = []
        while self.heard:
            job_id, heard = next(iter(self.heard.items()))
            if not own and self._now - heard > SILENT_AFTER_S * _NS:
                reason = TOO_LONG
            elif len(self.heard) > most:
                reason = reason_of_most
            else:
                break
            del self.heard[job_id]
            taken.append((job_id, reason))
        return taken

    def drop_all(self) -> None:
        """Drop all jobs, because the session has ended."""
        self.heard.clear()
