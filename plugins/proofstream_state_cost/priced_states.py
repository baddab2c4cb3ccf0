"""A circuit's states and their costs: what is kept of each, also where no circuit declares states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proofstream import StateDeclaration

if TYPE_CHECKING:
    from proofstream_state_cost.states.costing import CircuitCosts
    from proofstream_state_cost.states.errors import StateError

MAX_REMEMBERED_STATES: Final = 2**16
"""States of all remembered circuits together. One takes up to two kilobytes with its costs."""


@dataclass(frozen=True, eq=False, slots=True)
class PricedStates:
    """A circuit's states and their costs; jobs with equal circuits share one.

    Attributes:
        name: The model's name.
        states: The states as they were declared; empty if they are too many or too long to be kept.
        costs: Their costs; None if there are none, because no states were declared or for an error.
        error: Why the states cannot be priced.
    """

    name: str
    states: Sequence[StateDeclaration] = ()
    costs: CircuitCosts | None = None
    error: StateError | None = None
