"""Reads the words of a state's declaration, as circuit files and events spell them."""

from __future__ import annotations

import enum
from typing import TypeVar

from proofstream_state_cost.states.errors import BadState
from proofstream_state_cost.states.state_circuit import Lifetime, Section, StateKind, VerifyRule

Word = TypeVar("Word", bound=enum.Enum)


def parse_kind(word: str) -> StateKind:
    """Read a state's kind.

    Raises:
        BadState: The kind is unknown.
    """
    return _parse(StateKind, "kind", word)


def parse_section(word: str) -> Section:
    """Read a state's section.

    Raises:
        BadState: The section is unknown.
    """
    return _parse(Section, "section", word)


def parse_verify(word: str | None) -> VerifyRule | None:
    """Read the rule for a state's verify intermediates; None stays None.

    Raises:
        BadState: The rule is unknown.
    """
    return None if word is None else _parse(VerifyRule, "verify", word)


def check_lifetime(kind: StateKind, word: str | None) -> None:
    """Check a declared lifetime. It may be absent, since the kind alone decides it.

    Raises:
        BadState: The lifetime is unknown, or states of this kind have another.
    """
    if word is None:
        return
    lifetime = _parse(Lifetime, "lifetime", word)
    if lifetime is not kind.lifetime:
        raise BadState(f"a {kind.value} state has the lifetime {kind.lifetime.value!r}, not {word!r}")


def _parse(words: type[Word], what: str, word: str) -> Word:
    try:
        return words(word)
    except ValueError:
        known = ", ".join(str(member.value) for member in words)
        raise BadState(f"{what} {word!r} is unknown; known are {known}") from None
