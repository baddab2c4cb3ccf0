"""A session as its events show it: its jobs' timelines, and what they have in common."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from proofstream.envelopes import Envelope
from proofstream.events import CircuitCompiled, ProofStart, SessionOpened
from proofstream.intervals import Change, Noted, NotedRounds, PhaseSum, Proof, add_sum
from proofstream.silence import OpenJobs
from proofstream.timeline import Timeline

MAX_PENDING_BYTES = 256 * 2**20
"""The most memory that waiting events of all sessions take. Of a session, the job that waits for longest makes room."""

MAX_WAITING_JOBS = 256
"""The most jobs of a session of which nothing but waiting activations has been seen."""

MAX_COMPLETED_JOBS = 64
"""Of so many jobs with nothing open, the proof that completed last is known: phases that follow belong to it."""

MAX_LOST_EVENTS = 2**63 - 1
"""Losses are counted up to here, which is what exporters can carry: a producer may claim any number."""

MAX_PHASE_NAMES = 256
"""The most names of phases that a session tells apart. Phases of further names are called `other`."""

MAX_PHASE_NAME_CHARS = 1024
"""Longer names of phases are cut: the session keeps them all."""

OTHER_PHASE = "other"


class Pending:
    """The memory that the waiting events of all sessions take, in bytes."""

    def __init__(self) -> None:
        self.memory_bytes: int = 0


class ObservedSession:
    """A session as its events show it.

    Attributes:
        session_id: The session's id.
        opened: The envelope of SessionOpened, or None if it was not seen.
        time_source: The origin of its event times, as its SessionOpened says; `envelope` if there was no SessionOpened.
        lost_events: Events known to be missing, from the producer's own "lagged" lines and from EventsLost.
        proofs: The number of proofs that began.
        aborted: The number of proofs that ended without success.
        overlaps: How many times a proof began while another of the same job was open: its proofs run at once, and its
            producer names no jobs. Where their events lie too close, they cannot be told apart.
        circuit: The latest circuit that came without a job's name.
        summed: Phases outside of any proof that are not shown one by one, by name.
        silent_jobs: How many times a job was given up because it had fallen silent: its end was not seen. What it says
            later belongs to a new proof.
        times_ended: How many times the session has ended; it may begin again.
        timelines: The timelines of its jobs; of named jobs, only those with something open.
    """

    __slots__ = (
        "_completed",
        "_intervals",
        "_open_jobs",
        "_phase_names",
        "_waiting",
        "aborted",
        "circuit",
        "lost_events",
        "open_intervals",
        "opened",
        "overlaps",
        "pending",
        "proofs",
        "session_id",
        "silent_jobs",
        "summed",
        "time_source",
        "timelines",
        "times_ended",
    )

    def __init__(self, session_id: str, pending: Pending | None = None) -> None:
        self.session_id: str = session_id
        self.opened: Envelope | None = None
        self.time_source: str = "envelope"
        self.lost_events: int = 0
        self.proofs: int = 0
        self.aborted: int = 0
        self.overlaps: int = 0
        self.circuit: CircuitCompiled | None = None
        self.summed: Mapping[str, PhaseSum] = {}
        self.silent_jobs: int = 0
        self.times_ended: int = 0
        self.timelines: dict[str | None, Timeline] = {}
        self.open_intervals: int = 0
        self.pending: Pending = pending or Pending()
        self._intervals = 0
        self._phase_names: set[str] = set()
        self._open_jobs = OpenJobs()
        self._waiting: OrderedDict[str, Timeline] = OrderedDict()
        self._completed: OrderedDict[str, Proof] = OrderedDict()

    @property
    def _opening(self) -> SessionOpened | None:
        event = None if self.opened is None else self.opened.event
        return event if isinstance(event, SessionOpened) else None

    def open(self, envelope: Envelope, event: SessionOpened) -> None:
        """Take the session's SessionOpened."""
        self.opened = envelope
        self.time_source = event.time_source

    @property
    def _is_in_process(self) -> bool:
        opening = self._opening
        return opening is not None and opening.in_process is True

    def time_source_of(self, envelope: Envelope) -> str:
        """Return where the time of one of its events comes from."""
        return envelope.time_source or self.time_source

    def phase_name(self, name: str) -> str:
        """Return the name by which phases of that name are known: its beginning, or `other` if there are too many."""
        name = name[:MAX_PHASE_NAME_CHARS]
        if name not in self._phase_names:
            if len(self._phase_names) >= MAX_PHASE_NAMES:
                return OTHER_PHASE
            self._phase_names.add(name)
        return name

    def sum_up(self, name: str, found: PhaseSum) -> None:
        """Count phases outside of any proof that are not shown one by one."""
        self.summed = add_sum(self.summed, name, found)

    def _begin(self, job_id: str | None) -> Timeline:
        completed = None if job_id is None else self._completed.pop(job_id, None)
        timeline = self.timelines[job_id] = Timeline(self, job_id, completed)
        return timeline

    def next_ordinal(self) -> int:
        """Count one more interval and return its ordinal."""
        ordinal = self._intervals
        self._intervals += 1
        return ordinal

    @property
    def open_proofs(self) -> list[Proof]:
        """Its open proofs."""
        return [proof for t in self.timelines.values() for proof in t.proofs]

    def proof_of(self, job_id: str | None) -> Proof | None:
        """Return the open proof of a job, or None."""
        found = self.timelines.get(job_id)
        return None if found is None else found.proof

    def feed(self, envelope: Envelope) -> list[Change]:
        """Return the effect of the next envelope of one of its jobs.

        Without a job's name, an event belongs to the session's only open proof. So what is emitted beside
        `session.proof`, which names its job, belongs to that proof.
        """
        job_id = envelope.job_id
        if job_id is None and len(self.timelines) != (None in self.timelines):  # there are named jobs as well
            open_proofs = self.open_proofs
            if len(open_proofs) == 1 and type(envelope.event) is not ProofStart:
                job_id = open_proofs[0].job_id
            elif len(open_proofs) > 1 and self._is_of_any(envelope):
                return [Noted(None, envelope)]
        timeline = self.timelines.get(job_id) or self._begin(job_id)
        changes = timeline.feed(envelope)
        if job_id is not None:
            is_fact = type(envelope.event) in Timeline.facts and not envelope.crowded
            if is_fact or job_id not in self._open_jobs.heard:  # only facts end something, and most events are bulk
                self._follow_job(job_id, timeline, envelope, changes, is_fact=is_fact)
        return changes

    def feed_rounds(self, batch: Sequence[Envelope], at: int) -> NotedRounds | None:
        """Take the rounds at a place of a batch at once if their job has an open proof: no other job can have them."""
        timeline = self.timelines.get(batch[at].job_id)
        return None if timeline is None else timeline.feed_rounds(batch, at)

    def _is_of_any(self, envelope: Envelope) -> bool:
        """Return whether an event without a job's name may be of any of the open proofs, all of which have one.

        To open a proof for it would claim one more than there are.
        """
        unnamed = self.timelines.get(None)
        return type(envelope.event) in Timeline.parts_of_proofs and (unnamed is None or not unnamed.proofs)

    def take_unnamed(self, timeline: Timeline, proof: Proof, changes: list[Change]) -> None:
        """Give a proof of a named job the events that came without a job's name and wait for their proof."""
        unnamed = self.timelines.get(None)
        if unnamed is not None and unnamed is not timeline:
            unnamed.release_pending(proof, changes)

    def _follow_job(
        self, job_id: str, timeline: Timeline, envelope: Envelope, changes: list[Change], *, is_fact: bool
    ) -> None:
        """Keep track of which jobs are open, and end those that have fallen silent."""
        if is_fact:
            self._open_jobs.pass_time(envelope.time_unix_nano)
        if not timeline.has_open:
            self._keep_waiting(job_id, timeline, changes)
        else:
            self._waiting.pop(job_id, None)
            self._open_jobs.hear_job(job_id)
            for silent, reason in self._open_jobs.take_silent(own=self._is_in_process):
                self.silent_jobs += 1
                changes += self.timelines.pop(silent).give_up(envelope, reason)

    def _keep_waiting(self, job_id: str, timeline: Timeline, changes: list[Change]) -> None:
        """Keep a job with nothing open only while events of it wait for a proof."""
        self._open_jobs.drop_job(job_id)
        if timeline.is_empty:
            self._waiting.pop(job_id, None)
            self.timelines.pop(job_id, None)
            self._remember_completed(job_id, timeline.completed)
            return
        self._waiting[job_id] = timeline
        self._waiting.move_to_end(job_id)
        if len(self._waiting) > MAX_WAITING_JOBS:
            self._release_oldest(changes)

    def _remember_completed(self, job_id: str, proof: Proof | None) -> None:
        if proof is not None:
            self._completed[job_id] = proof
            if len(self._completed) > MAX_COMPLETED_JOBS:
                self._completed.popitem(last=False)

    def _release_oldest(self, changes: list[Change]) -> None:
        job_id, timeline = self._waiting.popitem(last=False)
        del self.timelines[job_id]
        timeline.release_pending(None, changes)

    def make_room(self, size: int, changes: list[Change], *, of_job: str | None) -> bool:
        """Return whether events of `size` more bytes may wait, after the jobs that wait for longest have made room."""
        while self.pending.memory_bytes + size > MAX_PENDING_BYTES:
            if not self._waiting or next(iter(self._waiting)) == of_job:
                return False
            self._release_oldest(changes)
        return True

    def lose(self, count: int, proofs: list[Proof]) -> None:
        """Count lost events, for the session and for each proof that may have lost them."""
        self.lost_events = min(MAX_LOST_EVENTS, self.lost_events + count)
        for proof in proofs:
            proof.lost_events = min(MAX_LOST_EVENTS, proof.lost_events + count)

    def close(self, envelope: Envelope, reason: str) -> list[Change]:
        """End every open interval."""
        changes = [change for t in self.timelines.values() for change in t.close(envelope, reason)]
        self.timelines.clear()
        self._open_jobs.drop_all()
        self._waiting.clear()
        self._completed.clear()
        changes.append(Noted(None, envelope))
        return changes
