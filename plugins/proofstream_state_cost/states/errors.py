"""What can be wrong with a state circuit, its formats or its sizes."""

from __future__ import annotations

from proofstream import ProofstreamError


def one_line(text: str) -> str:
    """A text of somebody else's, such that a message that repeats it stays one line."""
    return text if text.isprintable() else ascii(text)


class StateError(ProofstreamError):
    """Base of every error of the state-cost plugin."""


class BadState(StateError):
    """A state contradicts itself, or the other states of its circuit."""


class BadInputs(StateError):
    """A plan cannot be made of its inputs: a number is out of range, or a state declares no rule for a verify."""


class BadShape(StateError):
    """A shape expression does not follow the rules, or names a dimension that is not there."""


class CircuitFileError(StateError):
    """A circuit file cannot be read, or does not describe a state circuit."""


class MissingFormat(StateError):
    """A state's format is a key that no dtype is given for.

    Attributes:
        state_id: The first such state, in the circuit's order.
        key: The key.
    """

    def __init__(self, state_id: str, key: str) -> None:
        super().__init__(
            f"state {state_id}: no dtype is given for its format {{{key}}}", hint=f"give one, as in {key}=bf16"
        )
        self.state_id = state_id
        self.key = key


class Overflow(StateError):
    """A product or a sum is more than an unsigned 64-bit integer holds.

    Attributes:
        subject: Of what: a state, a program's node, a dimension.
    """

    def __init__(self, subject: str, calculation: str) -> None:
        super().__init__(f"{subject} overflows: {calculation} is more than 2^64 - 1")
        self.subject = subject
