"""The errors of state circuits, their formats and their sizes."""

from __future__ import annotations

from proofstream import ProofstreamError


class StateError(ProofstreamError):
    """Base of every error of the state-cost plugin."""


class BadState(StateError):
    """A state contradicts itself, or the other states of its circuit."""


class BadInputs(StateError):
    """A plan cannot be made: an input is out of range, or a state declares no rule for a verify."""


class BadShape(StateError):
    """A shape expression breaks the rules, or names an undeclared dimension."""


class CircuitFileError(StateError):
    """A circuit file cannot be read, or does not describe a state circuit."""


class MissingFormat(StateError):
    """A state's format is a key for which no dtype is given.

    Attributes:
        state_id: The id of the first such state, in the circuit's order.
        key: The format key.
    """

    def __init__(self, state_id: str, key: str) -> None:
        super().__init__(
            f"state {state_id}: no dtype is given for its format {{{key}}}", hint=f"give one, as in {key}=bf16"
        )
        self.state_id = state_id
        self.key = key


class Overflow(StateError):
    """A product or a sum exceeds an unsigned 64-bit integer.

    Attributes:
        subject: The state, program node or dimension that is too large.
    """

    def __init__(self, subject: str, calculation: str) -> None:
        super().__init__(f"{subject} overflows: {calculation} is more than 2^64 - 1")
        self.subject = subject
