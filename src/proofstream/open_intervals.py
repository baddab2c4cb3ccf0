"""The open intervals of one job: opens and closes them, and keeps what lies in what.

Which event opens or closes what is the timeline's to decide. Whatever it decides, every interval closes exactly once,
ends no earlier than it began, and lies inside its proof, unless it is a phase that outlives it.
"""

from __future__ import annotations

from typing import Protocol

from proofstream.envelopes import RECONSTRUCTED, Envelope
from proofstream.events import LayerStart, PhaseStart
from proofstream.intervals import (
    REPORTED,
    UNSEEN,
    Change,
    Closed,
    Interval,
    IntervalKind,
    Opened,
    OpenParts,
    PartKey,
    Phase,
    PhaseSum,
    Proof,
)

MAX_OPEN_INTERVALS = 65_536
"""The most intervals that are open in a session, besides proofs. The older half of a job's makes room."""

MAX_SET_ASIDE = 4
"""The most proofs of a job that may wait for their end while a later one is open."""

SHORTEST_SHOWN_NS = 1_000_000
"""Phases shorter than a millisecond are summed up in the interval around them, unless they failed."""

MOST_SHOWN_PHASES = 2000
"""So many phases of a proof are shown one by one, and those around them; the others are summed up."""

NOT_SEEN = "its end was not seen"


class OfSession(Protocol):
    """The session that the job is part of; `ObservedSession` is one."""

    session_id: str
    proofs: int
    aborted: int
    open_intervals: int

    def proof_of(self, job_id: str | None) -> Proof | None:
        """Return the open proof of a job."""
        ...

    def next_ordinal(self) -> int:
        """Count one more interval and return its ordinal."""
        ...

    def time_source_of(self, envelope: Envelope) -> str:
        """Return where an event's time comes from."""
        ...

    def phase_name(self, name: str) -> str:
        """Return the name by which phases of that name are known."""
        ...

    def sum_up(self, name: str, found: PhaseSum) -> None:
        """Count phases outside of any proof that are not shown."""
        ...


class OpenIntervals:
    """The open intervals of one job of one session.

    Attributes:
        proof: The open proof that the job's events belong to, or None.
        completed: The proof of the job that completed last, or None. Phases that follow belong to it.
    """

    def __init__(self, session: OfSession, job_id: str | None, completed: Proof | None) -> None:
        self.proof: Proof | None = None
        self.completed: Proof | None = completed
        self._session = session
        self._job_id = job_id
        self._alone = OpenParts()
        self._aside: list[Proof] = []

    def __bool__(self) -> bool:
        return self.proof is not None or bool(self._alone) or bool(self._aside)

    @property
    def proofs(self) -> list[Proof]:
        """Its open proofs, in the order in which they began."""
        return self._aside if self.proof is None else [*self._aside, self.proof]

    @property
    def some_wait(self) -> bool:
        """Whether proofs wait for their end while a later one goes on."""
        return bool(self._aside)

    @property
    def _heard_unix_nano(self) -> int:
        """The time of the latest event in any of them; 0 if nothing is open."""
        heard = [proof.heard_unix_nano for proof in self.proofs] + [part.latest_unix_nano for part in self._alone]
        return max(heard, default=0)

    def give_up(self, envelope: Envelope, reason: str, changes: list[Change]) -> None:
        """End everything where the job was last heard."""
        self._mark_given_up(*self._alone, *self.proofs)
        self.close_all(envelope, reason, changes, self._heard_unix_nano)

    def _mark_given_up(self, *intervals: Interval) -> None:
        for interval in intervals:
            interval.given_up = True
            if isinstance(interval, Proof):
                self._mark_given_up(*interval.active_layers, *interval.open_children)

    def close_all(self, envelope: Envelope, reason: str, changes: list[Change], end_unix_nano: int) -> None:
        """End everything without success."""
        for proof in self._aside[:]:
            self._give_up_proof(proof, envelope, changes)
        if self.proof is not None:
            self.abort(self.proof, envelope, reason, changes, end_unix_nano=end_unix_nano)
        for interval in self._alone:
            interval.aborted_reason = reason
            self.close(interval, envelope, changes, end_unix_nano)

    # Proofs

    def open_proof(self, envelope: Envelope, changes: list[Change], start: tuple[int, str], *, seen: bool) -> Proof:
        """Open a proof that begins at a time, with the source of that time."""
        session = self._session
        proof = Proof(
            session_id=session.session_id,
            job_id=self._job_id,
            ordinal=session.next_ordinal(),
            proof_ordinal=session.proofs,
            opened=envelope if seen else None,
            start_unix_nano=max(0, start[0]),
            start_source=start[1],
            parent=None if envelope.parent_job_id is None else session.proof_of(envelope.parent_job_id),
        )
        session.proofs += 1
        self.proof = proof
        changes.append(Opened(proof, envelope))
        return proof

    def set_aside(self, proof: Proof, envelope: Envelope, changes: list[Change]) -> Proof | None:
        """Let a proof wait for its end while the next one goes on: most of its time lies after its layers.

        Return the one that waited for longest and has ended, if there were too many.
        """
        self._aside.append(proof)
        self.proof = None
        if len(self._aside) <= MAX_SET_ASIDE:
            return None
        oldest = self._aside[0]
        self._give_up_proof(oldest, envelope, changes)
        return oldest

    def _give_up_proof(self, proof: Proof, envelope: Envelope, changes: list[Change]) -> None:
        """End a proof that waited in vain where it was last heard."""
        self._mark_given_up(proof)
        self.abort(proof, envelope, NOT_SEEN, changes, end_unix_nano=proof.heard_unix_nano)

    def abort(
        self,
        proof: Proof,
        envelope: Envelope,
        reason: str,
        changes: list[Change],
        *,
        end_unix_nano: int | None = None,
        end_seen: bool = True,
    ) -> None:
        """End a proof and everything open inside it, without success, at the envelope's time unless one is given.

        If `end_seen` is false, the envelope shows only that it had ended by then.
        """
        end = envelope.time_unix_nano if end_unix_nano is None else end_unix_nano
        proof.aborted_reason = reason
        self._session.aborted += 1
        in_progress = proof.active_layers
        proof.aborted_layer = max(in_progress, key=lambda layer: layer.ordinal) if in_progress else None
        if self._session.time_source_of(envelope) != RECONSTRUCTED and proof.start_source != RECONSTRUCTED:
            proof.silent_ns = max(0, end - proof.heard_unix_nano)
        proof.reach(end)
        for interval in (*proof.open_layers.values(), *proof.open_children):
            if interval.superseded_unix_nano is None:
                interval.aborted_reason = reason
        self.close_proof(proof, envelope, changes, end, end_source=None if end_seen else UNSEEN)

    def close_proof(
        self,
        proof: Proof,
        envelope: Envelope,
        changes: list[Change],
        end_unix_nano: int,
        *,
        end_source: str | None = None,
    ) -> None:
        """End a proof, and what is open inside it. The source of its end is the envelope's unless one is given."""
        for interval in (*proof.open_layers.values(), *proof.open_children):
            superseded = interval.superseded_unix_nano
            end = end_unix_nano if superseded is None else superseded
            if isinstance(interval, Phase) and proof.end_seen:
                self._outlive(proof, interval)
            else:
                self.close(interval, envelope, changes, end, end_source=end_source)
        proof.end_unix_nano = max(proof.latest_unix_nano, end_unix_nano)
        proof.end_source = self._end_source(envelope, end_source)
        if proof is self.proof:
            self.proof = None
        else:
            self._aside.remove(proof)
        if proof.end_seen:
            self.completed = proof
        changes.append(Closed(proof, envelope))

    def _outlive(self, proof: Proof, phase: Phase) -> None:
        """Let a phase go on that is open when its proof completes: only its own end can tell how long it took."""
        proof.open_children.remove(phase)
        if phase.parent is proof:
            proof.leave(phase)
        phase.after_complete = True
        self._alone.add(phase)

    # Layers and parts

    def last_part(self, key: PartKey) -> Interval | None:
        """Return the latest open part or phase of a key, of the open proof or outside of it."""
        inside = self.proof.open_children.last(key) if self.proof is not None else None
        return inside or self._alone.last(key)

    def open_interval(
        self,
        kind: IntervalKind,
        key: int | None,
        proof: Proof | None,
        envelope: Envelope,
        changes: list[Change],
        *,
        start: tuple[int, str],
    ) -> Interval:
        """Open a layer or a part in a proof, or outside of any, that begins at a time, with the source of that time."""
        parent = _around(proof)
        start_unix_nano, source = _within(parent, start)
        seen = source not in (REPORTED, UNSEEN)
        interval = Interval(
            kind=kind,
            session_id=self._session.session_id,
            job_id=self._job_id,
            ordinal=self._session.next_ordinal(),
            key=key,
            proof=proof,
            parent=parent,
            opened=envelope if seen else None,
            start_unix_nano=max(0 if parent is None else parent.start_unix_nano, start_unix_nano),
            start_source=source,
        )
        if seen and start_unix_nano < interval.start_unix_nano:
            interval.reach(start_unix_nano)  # a start before the proof's shows that time went back
        self._add_open(interval, envelope, changes)
        return interval

    def _add_open(self, interval: Interval, envelope: Envelope, changes: list[Change]) -> None:
        if self._session.open_intervals >= MAX_OPEN_INTERVALS:
            self._end_older_half(envelope, changes)
        self._session.open_intervals += 1
        parent = interval.parent
        if parent is not None and parent.end_unix_nano is None:
            parent.enter(interval)
        if isinstance(parent, Phase) and not isinstance(interval, Phase):
            parent.holds_shown = True
        proof = interval.proof
        if proof is None or proof.end_unix_nano is not None:
            self._alone.add(interval)
        elif interval.kind is IntervalKind.LAYER and interval.key is not None:
            proof.open_layers[interval.key] = interval
            proof.layers_opened += 1
            proof.walk(interval)
            if interval.opened is not None or proof.last_layer is None or not proof.last_layer.is_open:
                proof.last_layer = interval
        else:
            proof.open_children.add(interval)
        changes.append(Opened(interval, envelope))

    def _end_older_half(self, envelope: Envelope, changes: list[Change]) -> None:
        """End the older half of what is open here, besides the proof. Half, so that it rarely has to be sorted."""
        inside = [] if self.proof is None else [*self.proof.open_layers.values(), *self.proof.open_children]
        by_age = sorted((*self._alone, *inside), key=lambda interval: interval.ordinal)
        for interval in by_age[: len(by_age) // 2]:
            superseded = interval.superseded_unix_nano
            end = envelope.time_unix_nano if superseded is None else superseded
            self.close(interval, envelope, changes, end)

    def close(
        self,
        interval: Interval,
        envelope: Envelope,
        changes: list[Change],
        end_unix_nano: int,
        *,
        end_source: str | None = None,
    ) -> None:
        """End an interval that is no proof. The source of its end is the envelope's unless one is given."""
        interval.end_unix_nano = max(interval.latest_unix_nano, end_unix_nano)
        interval.end_source = self._end_source(envelope, end_source)
        self._session.open_intervals -= 1
        parent, proof = interval.parent, interval.proof
        if parent is not None and parent.end_unix_nano is None:
            parent.leave(interval)
            parent.latest_unix_nano = max(parent.latest_unix_nano, interval.end_unix_nano)
        if proof is None or proof.end_unix_nano is not None:
            self._alone.remove(interval)
        else:
            proof.latest_unix_nano = max(proof.latest_unix_nano, interval.end_unix_nano)
            proof.time_went_back |= interval.time_went_back
            if interval.kind is IntervalKind.LAYER and interval.key is not None:
                self._close_layer(proof, interval, interval.key)
            else:
                proof.open_children.remove(interval)
        if isinstance(interval, Phase):
            self._settle_phase(interval)
        changes.append(Closed(interval, envelope))

    def _close_layer(self, proof: Proof, layer: Interval, layer_idx: int) -> None:
        del proof.open_layers[layer_idx]
        event = None if layer.opened is None else layer.opened.event
        device = event.gpu_device if isinstance(event, LayerStart) else None
        if proof.walking.get(device) is layer:
            del proof.walking[device]
        proof.layers_closed += layer.aborted_reason is None
        proof.layers_superseded -= layer.superseded_unix_nano is not None
        proof.walk(layer)

    def _end_source(self, envelope: Envelope, given: str | None) -> str:
        source = self._session.time_source_of(envelope)
        return source if given is None or source == RECONSTRUCTED else given

    # Phases

    def phase_of(self, number: int | None, name: str | None) -> Phase | None:
        """Return the open phase of that number or, without one, the latest of that name.

        If no open phase has the number, it is the latest of that name that has none.
        """
        if number is None:
            return None if name is None else self._last_named(name)
        found = self.last_part((IntervalKind.PHASE, number))
        found = found or (None if name is None else self.last_part((IntervalKind.PHASE, name)))
        return found if isinstance(found, Phase) else None

    def _last_named(self, name: str) -> Phase | None:
        inside = self.proof.open_children.last_named(name) if self.proof is not None else None
        return inside or self._alone.last_named(name)

    @property
    def innermost_phase(self) -> Phase | None:
        """The open phase of the job that began last: of its open proof, if there is one."""
        return (self._alone if self.proof is None else self.proof.open_children).innermost_phase

    def around_phase(self, parent: int | None, layer_idx: int | None) -> Interval | None:
        """Return the interval around a phase: the one that its start names, or the innermost phase of its job.

        A start that names a phase which is not open, as blocks of Python do that are in none, is in no phase.
        """
        found = self.innermost_phase if parent is None else self.phase_of(parent, None)
        layer = self.proof.open_layers.get(layer_idx) if self.proof is not None and layer_idx is not None else None
        if layer is not None and (found is None or found.layer is not layer):
            return layer
        return found or self.proof or self.completed

    def open_phase(
        self,
        own_name: str,
        number: int | None,
        parent: Interval | None,
        envelope: Envelope,
        changes: list[Change],
        *,
        start: tuple[int, str],
    ) -> Phase:
        """Open a phase inside an interval, or outside of any."""
        around = parent if isinstance(parent, Proof) or parent is None else parent.proof
        start = _within(parent, start)
        phase = Phase(
            name=self._session.phase_name(own_name),
            own_name=own_name,
            session_id=self._session.session_id,
            job_id=self._job_id,
            ordinal=self._session.next_ordinal(),
            key=number,
            proof=around,
            parent=parent,
            opened=envelope if isinstance(envelope.event, PhaseStart) else None,
            start_unix_nano=max(0 if parent is None else parent.start_unix_nano, start[0]),
            start_source=start[1],
        )
        self._add_open(phase, envelope, changes)
        return phase

    def _settle_phase(self, phase: Phase) -> None:
        """Decide whether a phase that has ended is shown by itself, and if not, sum it up where it belongs."""
        duration = phase.duration_ns or 0
        is_worth_it = duration >= SHORTEST_SHOWN_NS or phase.aborted_reason is not None
        parent = _open_around(phase)
        if phase.holds_shown or (is_worth_it and phase.root.phases_shown < MOST_SHOWN_PHASES):
            phase.root.phases_shown += 1
            if isinstance(parent, Phase):
                parent.holds_shown = True
            return
        phase.is_summed = True
        target = self._session if parent is None else parent
        target.sum_up(phase.name, PhaseSum(1, duration, duration))
        for name, found in phase.summed.items():
            target.sum_up(name, found)


def _open_around(phase: Phase) -> Interval | None:
    """Return the innermost interval around a phase that is open; None if its proof is not. Blocks end in any order."""
    around = phase.parent
    while around is not None and not around.is_open:
        around = None if isinstance(around, Proof) else around.parent
    return around


def _within(parent: Interval | None, start: tuple[int, str]) -> tuple[int, str]:
    """Return when an interval inside another begins, and where that comes from.

    What is reported to have begun before the interval around it is cut off there, so that its length is not reported.
    """
    cut_off = parent is not None and start[1] == REPORTED and start[0] < parent.start_unix_nano
    return (start[0], UNSEEN) if cut_off else start


def _around(proof: Proof | None) -> Interval | None:
    """Return the interval directly around what begins in a proof: its innermost phase that is not part of a layer."""
    if proof is None:
        return None
    around: Interval | None = proof.open_children.innermost_phase
    if around is None:
        return proof
    while isinstance(around, Phase) and around.layer is not None:
        around = around.layer.parent
    return around or proof
