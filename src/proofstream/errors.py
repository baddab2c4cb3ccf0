"""The errors that proofstream raises on purpose.

Each carries one line that the user can act on: what is wrong and where, and often a hint on what to do.
"""

from __future__ import annotations

from collections.abc import Iterable

from proofstream.text import LONGEST_LINE, safe_text

_LONGEST_WORD = 100


class ProofstreamError(Exception):
    """Base of every error that proofstream raises on purpose.

    Attributes:
        hint: What the user can do about it, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")


def describe(error: BaseException) -> str:
    """Return an exception as one safe line: its type and its message, if it has one and can produce it."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a third-party exception may fail to describe itself, and raise anything
        text = ""
    return safe_text(f"{type(error).__name__}: {text}" if text else type(error).__name__, LONGEST_LINE)


def describe_with_place(error: BaseException) -> str:
    """Return an exception as `describe` does, and where in whose code it was raised."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return describe(error)
    place = f"{traceback.tb_frame.f_code.co_filename}:{traceback.tb_lineno}"
    return f"{describe(error)} (at {safe_text(place, LONGEST_LINE)})"


def in_parentheses(hint: str | None) -> str:
    """Return a hint as the end of a line."""
    return f" ({hint})" if hint else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about a word that is not known: a known one that is like it, or nothing."""
    import difflib  # for mistakes alone, and slow to load

    near = difflib.get_close_matches(word[:_LONGEST_WORD], known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class UsageError(ProofstreamError):
    """The caller asked for something that does not exist or does not fit together."""


class ConfigError(UsageError):
    """A configuration value is missing, misspelt or of the wrong type."""


class PluginError(ProofstreamError):
    """A plugin cannot be used: missing packages, a broken hook, or a failed configure."""


class WireError(ProofstreamError):
    """One line of a stream cannot be read; the message is the reason, without the line's number."""


class SourceError(ProofstreamError):
    """A source cannot be opened or read: no such file, no permission, an address in use."""
