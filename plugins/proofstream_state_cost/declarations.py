"""State circuits that producers declare in `CircuitCompiled`, and what their programs cost."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proofstream import StateDeclaration, safe_text
from proofstream_state_cost.priced_states import MAX_REMEMBERED_STATES, PricedStates
from proofstream_state_cost.states.costing import DECLARED, cost_circuit
from proofstream_state_cost.states.declared_words import check_lifetime, parse_kind, parse_section, parse_verify
from proofstream_state_cost.states.errors import BadState, StateError
from proofstream_state_cost.states.state_circuit import CircuitState, Dtype, StateCircuit, parse_format

_ID: Final = re.compile(r"(?:l(?P<layer>[0-9]{1,19})\.|draft\.)?(?:(?P<block>.+)\.)?(?P<local>[^.]+)")
"""How ids are built: `l4.mamba.conv` in a layer, `draft.attn.k` in the drafting head, `head.hidden` elsewhere."""

_REMEMBERED: Final = 16
"""Circuits whose costs are kept. A producer proves few models, and repeats the circuit for each proof."""

MAX_STATES: Final = 2**14
"""States of one circuit. More are not priced: a model has a few for each layer, and a stranger may send any number."""

_LONGEST_STATE: Final = 1000
"""Characters of a state's words together."""


class DeclaredCosts:
    """Prices circuits whose states came with `CircuitCompiled`, and remembers the latest results.

    Args:
        formats: The dtype of each format key.
    """

    def __init__(self, formats: Mapping[str, Dtype]) -> None:
        self._formats = formats
        self._recent: deque[PricedStates] = deque(maxlen=_REMEMBERED)

    def price_declared(self, states: Sequence[StateDeclaration], name: str) -> PricedStates:
        """Return a circuit's costs, or the error in its states.

        Args:
            states: The states of `CircuitCompiled`.
            name: The model's name.
        """
        for known in self._recent:
            # Comparing thousands of states takes time, so identity is tried first: an event is looked up repeatedly.
            if known.name == name and (known.states is states or known.states == states):
                return known
        too_large = _too_large(states)
        if too_large is not None:
            return PricedStates(name, error=BadState(too_large))
        priced = self._price(states, name)
        self._recent.append(priced)
        while sum(len(known.states) for known in self._recent) > MAX_REMEMBERED_STATES:
            self._recent.popleft()
        return priced

    def _price(self, states: Sequence[StateDeclaration], name: str) -> PricedStates:
        try:
            costs = cost_circuit(circuit_from_declarations(name, states), self._formats, convention=DECLARED)
        except StateError as error:
            return PricedStates(name, states, error=error)
        return PricedStates(name, states, costs)


def _too_large(states: Sequence[StateDeclaration]) -> str | None:
    if len(states) > MAX_STATES:
        return f"the circuit declares {len(states)} states, and at most {MAX_STATES} are priced"
    for state in states:
        if sum(len(word) for word in msgspec.structs.astuple(state) if isinstance(word, str)) > _LONGEST_STATE:
            return f"state {safe_text(state.id)} has more than {_LONGEST_STATE} characters"
    return None


def circuit_from_declarations(name: str, declarations: Sequence[StateDeclaration]) -> StateCircuit:
    """Read the states that an event declares.

    Where a declaration leaves out its local name, block or layer, they are taken from its id.

    Args:
        name: The model's name.
        declarations: In the order in which programs and plans refer to them.

    Raises:
        BadState: A declaration contradicts itself or another one; the message names the state.
    """
    return StateCircuit(name=name, states=tuple(_state(declaration) for declaration in declarations))


def _state(declaration: StateDeclaration) -> CircuitState:
    parts = _ID.fullmatch(declaration.id)
    local, block, layer = (parts["local"], parts["block"], parts["layer"]) if parts else (declaration.id, None, None)
    try:
        kind = parse_kind(declaration.kind)
        check_lifetime(kind, _given(declaration.lifetime))
        section = parse_section(declaration.section)
        stored_as = parse_format(declaration.format)
        verify = parse_verify(_given(declaration.verify))
    except BadState as error:
        raise BadState(f"state {safe_text(declaration.id)}: {error}") from None
    return CircuitState(
        id=declaration.id,
        local=_given(declaration.local) or local,
        block=_given(declaration.block) or block or "",
        layer=_layer(declaration, layer),
        section=section,
        kind=kind,
        format=stored_as,
        elements=declaration.elements,
        verify=verify,
        of=_given(declaration.of),
    )


def _layer(declaration: StateDeclaration, in_id: str | None) -> int | None:
    if not isinstance(declaration.layer, msgspec.UnsetType):
        return declaration.layer
    return None if in_id is None else int(in_id)


def _given(word: str | msgspec.UnsetType) -> str | None:
    return None if isinstance(word, msgspec.UnsetType) else word
