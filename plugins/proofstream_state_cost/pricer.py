"""The plugin's life on the bus: which circuit a proof or a run has, what it costs, and what was moved."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass

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
    is_sheddable,
)
from proofstream_state_cost.declarations import circuit_from_declarations
from proofstream_state_cost.moved_bytes import MovedBytes
from proofstream_state_cost.states.costing import DECLARED, CircuitCosts, cost_circuit
from proofstream_state_cost.states.errors import StateError
from proofstream_state_cost.states.state_circuit import Dtype

MAX_JOBS = 1024
"""Jobs whose circuit is remembered: what a server multiplexes is one job for each proof."""

UNNAMED = "unnamed"
"""The circuit of a producer that has not said what its model is called."""

_Job = tuple[str, str | None]
"""A session and one of its jobs."""


class DeclaredCosts:
    """Costs of circuits whose states came with `CircuitCompiled`; the latest are remembered."""

    def __init__(self, formats: Mapping[str, Dtype]) -> None:
        self._formats = formats
        self._recent: deque[tuple[str, list[StateDeclaration], CircuitCosts | StateError]] = deque(maxlen=16)

    def price(self, event: CircuitCompiled, name: str) -> CircuitCosts | StateError | None:
        """What the circuit's programs cost, or what is wrong with its states; None if it declares none."""
        if event.states is msgspec.UNSET:
            return None
        for known_name, states, result in self._recent:
            if known_name == name and (states is event.states or states == event.states):
                return result
        result = self._work_out(event.states, name)
        self._recent.append((name, event.states, result))
        return result

    def _work_out(self, states: list[StateDeclaration], name: str) -> CircuitCosts | StateError:
        try:
            circuit = circuit_from_declarations(name, states)
            return cost_circuit(circuit, self._formats, convention=DECLARED)
        except StateError as error:
            return error


@dataclass(slots=True)
class _JobCircuit:
    """What is known of a job: the circuit compiled last, what its programs cost, and what its model is called.

    Runs are many, so the costs are kept here and not looked up for each.
    """

    circuit: CircuitCompiled | None = None
    costs: CircuitCosts | None = None
    name: str = UNNAMED


class StatePricer:
    """Follows all sessions.

    Args:
        given: What everything is priced by, if a file was named; else each job's own circuit is.
        formats: The dtype of each format key.
        log: Where to say what is wrong, each thing once.

    Attributes:
        costs: Programs' costs that were published.
        runs: Runs that were counted.
        unpriced_runs: Runs of which nothing can be said: of no known circuit or program, or too large.
        broken_circuits: Circuits whose states could not be priced.
    """

    def __init__(self, given: CircuitCosts | None, formats: Mapping[str, Dtype], log: logging.Logger) -> None:
        self._given = given
        self._log = log
        self._declarations = DeclaredCosts(formats)
        self._timelines = Timelines()
        self._tally = MovedBytes()
        self._jobs: OrderedDict[_Job, _JobCircuit] = OrderedDict()
        self._settled: set[_Job] = set()
        self._published: dict[tuple[str, int], CircuitCosts] = {}
        self._said: set[str] = set()
        self.costs = 0
        self.runs = 0
        self.unpriced_runs = 0
        self.broken_circuits = 0

    def feed(self, batch: Batch) -> list[ProofEvent]:
        """Take the next batch; returns what it costs, and what was moved in it."""
        derived: list[ProofEvent] = []
        for envelope in batch:
            event = envelope.event
            if isinstance(event, StateProgramRun):
                self._count(envelope, event)
            elif self._matters(envelope):
                derived += self._follow(envelope)
        return [*derived, *self._tally.take()]

    # Proofs

    def _matters(self, envelope: Envelope) -> bool:
        """Whether the envelope may begin or end a proof. A round does, but only where no proof is open."""
        event = envelope.event
        if isinstance(event, SumcheckRound):
            return (envelope.session_id, envelope.job_id) not in self._settled
        return not is_sheddable(event)

    def _follow(self, envelope: Envelope) -> list[ProofEvent]:
        event = envelope.event
        job = envelope.session_id, envelope.job_id
        if isinstance(event, CircuitCompiled):
            self._settled.discard(job)  # it waits in the timeline until something shows whose it is
            self._compiled(self._known(job), event)
        elif isinstance(event, ProofStart):
            known = self._known(job)
            known.name = event.model_name or UNNAMED
            known.costs = self._priced(known.circuit, known.name)
        derived = [each for change in self._timelines.feed(envelope) for each in self._change(change)]
        if isinstance(event, SessionClosed):
            self._forget(envelope.session_id)
        return derived

    def _compiled(self, known: _JobCircuit, event: CircuitCompiled) -> None:
        result = self._declarations.price(event, known.name)
        known.circuit, known.costs = event, result if isinstance(result, CircuitCosts) else None
        if isinstance(result, StateError):
            self.broken_circuits += 1
            self._warn_once("broken states", f"the states of a circuit cannot be priced: {result}")

    def _priced(self, event: CircuitCompiled | None, name: str) -> CircuitCosts | None:
        result = None if event is None else self._declarations.price(event, name)
        return result if isinstance(result, CircuitCosts) else None

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
        """The costs of a proof, unless they are out already; another circuit that comes later has its own."""
        event = proof.opened.event if proof.opened is not None else None
        name = event.model_name if isinstance(event, ProofStart) else None
        declared = self._priced(proof.circuit, name or UNNAMED)
        costs = self._given or declared
        key = proof.session_id, proof.proof_ordinal
        said = self._compare(declared)
        if costs is None or self._published.get(key) is costs:
            return said
        self._published[key] = costs
        made = [_event(costs, program, proof.proof_ordinal) for program in costs.programs]
        published = [each for each in made if each.states]
        self.costs += len(published)
        return [*said, *published]

    def _compare(self, declared: CircuitCosts | None) -> list[ProofEvent]:
        """Say so once if the file that was named and the producer's own states differ."""
        given = self._given
        if given is None or declared is None or given.totals == declared.totals or "differ" in self._said:
            return []
        self._said.add("differ")
        message = (
            f"the state circuit {given.name} ({given.convention}) has {given.live_bytes} bytes for each sequence, "
            f"the states that the producer declares {declared.live_bytes}; the former is used"
        )
        return [Log(level=LogLevel.Warn, message=message)]

    # Runs

    def _count(self, envelope: Envelope, run: StateProgramRun) -> None:
        costs = self._given or self._of_job(envelope)
        if costs is None:
            self._lose(
                "no circuit", "a state program ran, and nothing is there to price it by: its bytes are not counted"
            )
        elif run.program not in costs.programs:
            known = ", ".join(costs.programs)
            self._lose("no program", f"a state program {run.program[:80]!r} ran, which is none of {known}")
        elif not self._tally.add(costs, run):
            what = f"{run.sequences} sequences of {costs.programs[run.program].bytes} bytes"
            self._lose("too large", f"a run of {run.program} wrote more than 2^64 - 1 bytes: {what}")
        else:
            self.runs += 1

    def _of_job(self, envelope: Envelope) -> CircuitCosts | None:
        for job in ((envelope.session_id, envelope.job_id), (envelope.session_id, None)):
            known = self._jobs.get(job)
            if known is not None and known.circuit is not None:
                return known.costs
        return None

    def _lose(self, what: str, message: str) -> None:
        self.unpriced_runs += 1
        self._warn_once(what, message)

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._log.warning("%s", message)

    # Memory

    @property
    def remembered(self) -> int:
        """How many jobs and open proofs it has in mind; no more than `MAX_JOBS` and what is open."""
        return len(self._jobs) + len(self._published) + len(self._settled)

    def _known(self, job: _Job) -> _JobCircuit:
        known = self._jobs.setdefault(job, _JobCircuit())
        self._jobs.move_to_end(job)
        if len(self._jobs) > MAX_JOBS:
            self._jobs.popitem(last=False)
        return known

    def _forget(self, session_id: str) -> None:
        for job in [job for job in self._jobs if job[0] == session_id]:
            del self._jobs[job]


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
