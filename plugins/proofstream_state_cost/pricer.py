"""Prices what happens on the bus: finds the state circuit of each proof and run, and derives costs and moved bytes."""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from proofstream import (
    Batch,
    Change,
    CircuitCompiled,
    Closed,
    Envelope,
    Log,
    LogLevel,
    Noted,
    Opened,
    Proof,
    ProofEvent,
    ProofStart,
    SessionClosed,
    StateDeclaration,
    StateProgramCost,
    StateProgramRun,
    SumcheckRound,
    Timelines,
    safe_text,
)
from proofstream_state_cost.priced_states import MAX_REMEMBERED_STATES, PricedStates

if TYPE_CHECKING:  # what prices is loaded once there is something to price
    from proofstream_state_cost.declarations import DeclaredCosts
    from proofstream_state_cost.moved_bytes import MovedBytes
    from proofstream_state_cost.states.costing import CircuitCosts
    from proofstream_state_cost.states.state_circuit import Dtype

MAX_JOBS = 1024
"""Jobs whose circuit is remembered. A server that multiplexes proofs uses one job for each."""

UNNAMED = "unnamed"
"""The name of a circuit whose producer has not named its model."""

_LONGEST_PROGRAM = 80
"""Characters of an unknown program's name that a warning shows."""

_LONGEST_NAME = 1000
"""Characters that are kept of a model's name, and of a reason in a warning."""

_Job = tuple[str, str | None]
"""A session and one of its jobs."""


@dataclass(slots=True)
class _JobCircuit:
    """The states of the circuit that a job compiled last, if it compiled any, and the name of its model.

    Runs are many, so the costs are kept here instead of being looked up for each.
    """

    priced: PricedStates | None = None
    name: str = UNNAMED


class StatePricer:
    """Follows all sessions.

    Args:
        given: The costs that price everything, if a file was named; otherwise each job's own circuit does.
        formats: The dtype of each format key.
        log: Gets a warning for each kind of problem, once.

    Attributes:
        published_costs: Program costs that were published.
        priced_runs: Runs that were counted.
        unpriced_runs: Runs that could not be counted: their circuit or program is unknown, or they are too large.
        unpriced_circuits: Circuits whose states could not be priced.
    """

    def __init__(self, given: CircuitCosts | None, formats: Mapping[str, Dtype], log: logging.Logger) -> None:
        self._given = given
        self._log = log
        self._formats = formats
        self._declared: DeclaredCosts | None = None
        self._timelines = Timelines()
        self._moved: MovedBytes | None = None
        self._jobs: OrderedDict[_Job, _JobCircuit] = OrderedDict()
        self._settled: set[_Job] = set()
        # By weak reference: open proofs may be many, and their circuits large.
        self._published: dict[tuple[str, int], weakref.ref[CircuitCosts]] = {}
        self._said: set[str] = set()
        self.published_costs = 0
        self.priced_runs = 0
        self.unpriced_runs = 0
        self.unpriced_circuits = 0

    def price_batch(self, batch: Batch) -> list[ProofEvent]:
        """Return the costs of the proofs that a batch opens, and the bytes that its runs moved."""
        derived: list[ProofEvent] = []
        for envelope in batch:
            event = envelope.event
            if isinstance(event, SumcheckRound):
                # By far the most frequent events. They open a proof only where none is open.
                if (envelope.session_id, envelope.job_id) not in self._settled:
                    derived += self._follow(envelope)
            elif isinstance(event, StateProgramRun):
                self._count_run(envelope, event)
            else:
                derived += self._follow(envelope)
        return derived if self._moved is None else [*derived, *self._moved.take_moved()]

    # Proofs

    def _follow(self, envelope: Envelope) -> list[ProofEvent]:
        event = envelope.event
        job = envelope.session_id, envelope.job_id
        if isinstance(event, CircuitCompiled):
            self._settled.discard(job)  # the timeline holds it back until a later event shows which proof it belongs to
            self._compile(self._job(job), event)
        elif isinstance(event, ProofStart):
            known = self._job(job)
            known.name = _name(event.model_name or envelope.model_name)
            if known.priced is not None and known.priced.costs is not None:
                self._remember(known, self._price_declared(known.priced.states, known.name))
        derived = [each for change in self._timelines.feed(envelope) for each in self._change(change)]
        if isinstance(event, SessionClosed):
            self._forget(envelope.session_id)
        return derived

    def _price_declared(self, states: Sequence[StateDeclaration] | msgspec.UnsetType, name: str) -> PricedStates:
        if isinstance(states, msgspec.UnsetType):
            return PricedStates(name)
        if self._declared is None:
            from proofstream_state_cost.declarations import DeclaredCosts

            self._declared = DeclaredCosts(self._formats)
        return self._declared.price_declared(states, name)

    def _compile(self, known: _JobCircuit, event: CircuitCompiled) -> None:
        priced = self._price_declared(event.states, known.name)
        self._remember(known, priced)
        if priced.error is not None:
            self.unpriced_circuits += 1
            why = safe_text(str(priced.error), _LONGEST_NAME)
            self._warn_once("broken states", f"the states of a circuit cannot be priced: {why}")

    def _change(self, change: Change) -> list[ProofEvent]:
        proof = change.interval
        if not isinstance(proof, Proof):
            return []
        key = proof.session_id, proof.proof_ordinal
        match change:
            case Opened():
                self._settled.add((proof.session_id, proof.job_id))
                return self._publish(proof)
            case Noted(envelope=envelope) if isinstance(envelope.event, CircuitCompiled):
                self._settled.add((proof.session_id, proof.job_id))
                return self._publish(proof)
            case Closed():
                self._settled.discard((proof.session_id, proof.job_id))
                self._published.pop(key, None)
            case _:
                pass
        return []

    def _publish(self, proof: Proof) -> list[ProofEvent]:
        """Return a proof's costs, unless they are published already. A circuit that comes later has its own."""
        states = msgspec.UNSET if proof.circuit is None else proof.circuit.states
        declared = self._price_declared(states, _name(proof.model_name)).costs
        costs = self._given or declared
        key = proof.session_id, proof.proof_ordinal
        said = self._compare(declared)
        before = self._published.get(key)
        if costs is None or (before is not None and before() is costs):
            return said
        self._published[key] = weakref.ref(costs)
        made = [_event(costs, program, proof.proof_ordinal) for program in costs.programs]
        published = [each for each in made if each.states]
        self.published_costs += len(published)
        return [*said, *published]

    def _compare(self, declared: CircuitCosts | None) -> list[ProofEvent]:
        """Say once that the file that was named differs from the producer's own states."""
        given = self._given
        if given is None or declared is None or given.totals == declared.totals or "differ" in self._said:
            return []
        self._said.add("differ")
        message = (
            f"the state circuit {safe_text(given.name)} ({given.convention}) has {given.live_bytes} bytes for each "
            f"sequence, the states that the producer declares {declared.live_bytes}; the former is used"
        )
        return [Log(level=LogLevel.Warn, message=message)]

    # Runs

    def _count_run(self, envelope: Envelope, run: StateProgramRun) -> None:
        costs = self._given or self._of_job(envelope)
        if costs is None:
            self._leave_out(
                "no circuit", "a state program ran without a state circuit to price it by: its bytes are not counted"
            )
        elif run.program not in costs.programs:
            name, known = safe_text(run.program, limit=_LONGEST_PROGRAM), ", ".join(costs.programs)
            self._leave_out("no program", f"an unknown state program ran: {name}; the known ones are {known}")
        elif not self._count_moved(costs, run):
            what = f"{run.sequences} sequences of {costs.programs[run.program].bytes} bytes"
            self._leave_out("too large", f"a run of {run.program} wrote more than 2^64 - 1 bytes: {what}")
        else:
            self.priced_runs += 1

    def _count_moved(self, costs: CircuitCosts, run: StateProgramRun) -> bool:
        if self._moved is None:
            from proofstream_state_cost.moved_bytes import MovedBytes

            self._moved = MovedBytes()
        return self._moved.count_run(costs, run)

    def _of_job(self, envelope: Envelope) -> CircuitCosts | None:
        """Return the costs of the run's own job, or of the session's circuit that names no job."""
        for job in ((envelope.session_id, envelope.job_id), (envelope.session_id, None)):
            known = self._jobs.get(job)
            if known is not None and known.priced is not None:
                return known.priced.costs
        return None

    def _leave_out(self, what: str, message: str) -> None:
        self.unpriced_runs += 1
        self._warn_once(what, message)

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._log.warning("%s", message)

    # Memory

    @property
    def remembered(self) -> int:
        """The number of jobs and open proofs in memory: at most `MAX_JOBS` and those that are open."""
        return len(self._jobs) + len(self._published) + len(self._settled)

    @property
    def remembered_states(self) -> int:
        """The number of states in memory, of all jobs: at most `MAX_REMEMBERED_STATES` and those of one circuit."""
        distinct = {known.priced for known in self._jobs.values() if known.priced is not None}
        return sum(len(priced.states) for priced in distinct)

    def _remember(self, known: _JobCircuit, priced: PricedStates) -> None:
        """Keep a job's circuit, and forget jobs that were silent for longest if there are too many states now."""
        shared = known.priced is priced
        known.priced = priced
        # Most jobs compile a circuit that another one has, and then nothing needs to be counted.
        while not shared and priced.states and self.remembered_states > MAX_REMEMBERED_STATES and len(self._jobs) > 1:
            self._jobs.popitem(last=False)

    def _job(self, job: _Job) -> _JobCircuit:
        known = self._jobs.setdefault(job, _JobCircuit())
        self._jobs.move_to_end(job)
        if len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)
        return known

    def _forget(self, session_id: str) -> None:
        for job in [job for job in self._jobs if job[0] == session_id]:
            del self._jobs[job]


def _name(model_name: str | None) -> str:
    return (model_name or UNNAMED)[:_LONGEST_NAME]


def _event(costs: CircuitCosts, program: str, proof: int) -> StateProgramCost:
    cost = costs.programs[program]
    return StateProgramCost(
        proof=proof,
        circuit=costs.name,
        convention=costs.convention,
        program=program,
        op=cost.priced.op.value,
        recurrent_layers=costs.circuit.recurrent_layers,
        bytes=cost.bytes,
        states=list(cost.groups),
    )
