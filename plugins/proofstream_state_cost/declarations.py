"""State circuits on the bus: what `CircuitCompiled` says of a model's states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from proofstream import StateDeclaration
from proofstream_state_cost.states.declared_words import check_lifetime, parse_kind, parse_section, parse_verify
from proofstream_state_cost.states.errors import BadState, one_line
from proofstream_state_cost.states.state_circuit import CircuitState, StateCircuit, parse_format

_ID: Final = re.compile(r"(?:l(?P<layer>[0-9]{1,19})\.|draft\.)?(?:(?P<block>.+)\.)?(?P<local>[^.]+)")
"""How ids are built: `l4.mamba.conv` in a layer, `draft.attn.k` in the drafting head, `head.hidden` elsewhere."""


def circuit_from_declarations(name: str, declarations: Sequence[StateDeclaration]) -> StateCircuit:
    """Read what an event declares.

    Where a declaration leaves out its local name, block or layer, they are taken from its id.

    Args:
        name: The model's.
        declarations: In the order in which programs and plans refer to them.

    Raises:
        BadState: A declaration contradicts itself or another one; it names the state.
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
        raise BadState(f"state {one_line(declaration.id)}: {error}") from None
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
