"""One answer of the command: a circuit under a convention, the costs of its programs, and the engine's plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from proofstream_state_cost.settings import Settings
from proofstream_state_cost.states.costing import CircuitCosts, cost_circuit, unread_keys
from proofstream_state_cost.states.plan import KvCache, PlanInputs, SpeculativeVerify, StatePlan, make_plan
from proofstream_state_cost.states.state_circuit import CircuitState, Dtype, Section, StateCircuit, StateKind

VERIFY_RUNS = ("verify_checkpoint", "verify_rollback", "commit_accepted")
"""The programs of a speculative verify, which runs the first, and then one of the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedCircuit:
    """A circuit whose states are counted under a convention.

    Attributes:
        circuit: The states.
        convention: The convention's name.
        counts: What the convention counts, in one line.
        formats: The convention's own dtypes for format keys; the user's win.
    """

    circuit: StateCircuit
    convention: str
    counts: str
    formats: Mapping[str, Dtype]


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedCircuit:
    """A circuit with its costs.

    Attributes:
        costs: The bytes that programs write for one sequence.
        counts: What the convention counts, in one line.
        notes: Notes for the reader of the numbers, a sentence each.
        unread: Format keys that were given although no state reads them.
        plan: The memory that an engine holds, if it was asked for.
    """

    costs: CircuitCosts
    counts: str
    notes: tuple[str, ...]
    unread: tuple[str, ...]
    plan: StatePlan | None


def price_circuit(counted: CountedCircuit, settings: Settings) -> PricedCircuit:
    """Price a circuit, and plan its memory if the settings ask for it.

    Raises:
        StateError: A format is missing, or a number is above 2^64 - 1.
    """
    formats = {**counted.formats, **settings.formats}
    costs = cost_circuit(counted.circuit, formats, convention=counted.convention)
    plan = make_plan(counted.circuit, _inputs(settings, formats)) if settings.wants_plan else None
    return PricedCircuit(
        costs=costs,
        counts=_counts(counted, formats),
        notes=(*counted.circuit.assumptions, *_notes(counted, settings)),
        unread=tuple(unread_keys(counted.circuit, settings.formats)),
        plan=plan,
    )


def unread_note(key: str) -> str:
    """Return the note about a format key that no state reads."""
    return f"no state reads the format key {key}"


def per_second(number: int, rate: Decimal) -> int | float:
    """Multiply bytes by a rate. Returns the exact product if it is a whole number, else the nearest float."""
    exact = number * Fraction(rate)
    return exact.numerator if exact.denominator == 1 else float(exact)


def _counts(counted: CountedCircuit, formats: Mapping[str, Dtype]) -> str:
    """Return what is counted, with the dtypes of its format keys."""
    keys = dict.fromkeys(state.format.key for state in counted.circuit.recurrent_states if state.format.key)
    chosen = [f"{{{key}}} is {formats[key].value}" for key in keys]
    return "; ".join([counted.counts, *chosen])


def _inputs(settings: Settings, formats: Mapping[str, Dtype]) -> PlanInputs:
    slots = 1 if settings.slots is None else settings.slots
    steps = settings.verify_steps
    cache = None
    if settings.kv_blocks is not None and settings.kv_block_size is not None:
        cache = KvCache(blocks=settings.kv_blocks, block_size=settings.kv_block_size)
    verify = None if steps is None else SpeculativeVerify.of_width(steps, slots=slots)
    return PlanInputs(formats=formats, slots=slots, verify=verify, kv=cache, draft_kv=cache)


def _notes(counted: CountedCircuit, settings: Settings) -> Iterator[str]:
    if settings.kv_blocks is not None and not any(map(_is_kv, counted.circuit.states)):
        yield "kv_blocks counts nothing: none of these states is a side of a KV cache"
    if settings.kv_blocks is not None and any(map(_is_draft_kv, counted.circuit.states)):
        yield "the drafting head's KV cache is taken to have as many blocks as the model's, of the same size"


def _is_kv(state: CircuitState) -> bool:
    return state.kind is StateKind.PAGED_KV


def _is_draft_kv(state: CircuitState) -> bool:
    return _is_kv(state) and state.section is Section.DRAFT
