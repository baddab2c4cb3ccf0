"""State circuits that producers declare in `CircuitCompiled`, and what their programs cost."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proofstream import CircuitCompiled, StateDeclaration, safe_text
from proofstream_state_cost.states.costing import DECLARED, CircuitCosts, cost_circuit
from proofstream_state_cost.states.declared_words import check_lifetime, parse_kind, parse_section, parse_verify
from proofstream_state_cost.states.errors import BadState, StateError
from proofstream_state_cost.states.state_circuit import CircuitState, Dtype, StateCircuit, parse_format

_ID: Final = re.compile(r"(?:l(?P<layer>[0-9]{1,19})\.|draft\.)?(?:(?P<block>.+)\.)?(?P<local>[^.]+)")
"""How ids are built: `l4.mamba.conv` in a layer, `draft.attn.k` in the drafting head, `head.hidden` elsewhere."""

_REMEMBERED: Final = 16
"""Circuits whose costs are kept. A producer proves few models, and repeats the circuit for each proof."""


class DeclaredCosts:
    """Prices circuits whose states came with `CircuitCompiled`, and remembers the latest results.

    Args:
        formats: The dtype of each format key.
    """

    def __init__(self, formats: Mapping[str, Dtype]) -> None:
        self._formats = formats
        self._recent: deque[tuple[str, Sequence[StateDeclaration], CircuitCosts | StateError]] = deque(
            maxlen=_REMEMBERED
        )

    def price_declared(self, event: CircuitCompiled, name: str) -> CircuitCosts | StateError | None:
        """Return the costs of a circuit, or the error in its states; None if it declares no states.

        Args:
            event: The circuit.
            name: The model's name.
        """
        if event.states is msgspec.UNSET:
            return None
        for known_name, states, result in self._recent:
            # Comparing thousands of states takes time, so identity is tried first: an event is looked up repeatedly.
            if known_name == name and (states is event.states or states == event.states):
                return result
        result = self._price(event.states, name)
        self._recent.append((name, event.states, result))
        return result

    def _price(self, states: Sequence[StateDeclaration], name: str) -> CircuitCosts | StateError:
        try:
            return cost_circuit(circuit_from_declarations(name, states), self._formats, convention=DECLARED)
        except StateError as error:
            return error


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
