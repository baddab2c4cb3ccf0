"""The command's JSON, which `state-cost.schema.json` describes. Its numbers are exact."""

from __future__ import annotations

from typing import Any

from proofstream_state_cost.settings import Settings
from proofstream_state_cost.states.costing import ProgramCost, unread_keys
from proofstream_state_cost.states.plan import PlanTerm, StatePlan
from proofstream_state_cost.states.programs import ProgramNode
from proofstream_state_cost.states.state_circuit import CircuitState, is_moved
from proofstream_state_cost.tool.priced_circuit import VERIFY_RUNS, PricedCircuit, per_second, unread_note


def cost_document(priced: PricedCircuit, settings: Settings) -> dict[str, Any]:
    """Return a priced circuit as a JSON object."""
    costs, unread = priced.costs, unread_keys(priced.costs.circuit, priced.costs.formats)
    document: dict[str, Any] = {
        "circuit": costs.name,
        "convention": costs.convention,
        "counts": priced.counts,
        "assumptions": [*priced.notes, *map(unread_note, priced.unread)],
        "recurrent_layers": costs.circuit.recurrent_layers,
        "bytes_per_sequence": costs.live_bytes,
        "formats": {key: dtype.value for key, dtype in costs.formats.items() if key not in unread},
        "states": [_state(state, priced) for state in costs.circuit.states],
        "programs": {name: _program(cost) for name, cost in costs.programs.items()},
    }
    if settings.rate is not None:
        document["rate"] = per_second(1, settings.rate)
        document["bytes_per_second"] = {
            name: per_second(costs.programs[name].bytes, settings.rate) for name in VERIFY_RUNS
        }
    if priced.plan is not None:
        document["plan"] = _plan(priced.plan)
    return document


def _state(state: CircuitState, priced: PricedCircuit) -> dict[str, Any]:
    formats = priced.costs.formats
    known = state.format.dtype is not None or state.format.key in formats
    return {
        "id": state.id,
        "elements": state.elements,
        "dtype": state.dtype(formats).value if known else None,
        "bytes": state.unit_bytes(formats) if known else None,
        "group": state.group,
        "layer": state.layer,
        "kind": state.kind.value,
        "section": state.section.value,
        "format": str(state.format),
        "moved": is_moved(state),
    }


def _program(cost: ProgramCost) -> dict[str, Any]:
    return {"bytes": cost.bytes, "nodes": [_node(node) for node in cost.priced.nodes]}


def _node(node: ProgramNode) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": node.id, "state": node.state, "op": node.op.value}
    if node.from_ is not None:
        shown |= {"from": node.from_.value, "to": node.to.value}
    return shown | {"bytes": node.bytes}


def _plan(plan: StatePlan) -> dict[str, Any]:
    return {"terms": [_term(term) for term in plan.terms], "bytes": plan.bytes}


def _term(term: PlanTerm) -> dict[str, Any]:
    return {
        "id": term.state_id,
        "state": term.state,
        "holding": term.holding.value,
        "units": term.units,
        "bytes": term.bytes,
        "lifetime": term.lifetime.value,
    }
