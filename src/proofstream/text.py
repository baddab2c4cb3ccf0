"""Text from elsewhere made safe to show: one rule for messages, terminals, documents and pictures."""

from __future__ import annotations

import unicodedata

LONGEST_LINE = 1000
"""Characters of a line that we log or show: enough to quote a value, and too few to flood a screen."""

_CONTROL_PICTURES = 0x2400
_DELETE = 0x7F
_SPACE = 0x20
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def safe_text(text: str, limit: int = 200) -> str:
    """Return text that a stranger wrote as one line of characters that only show themselves.

    A terminal obeys escape sequences, a viewer reorders text at bidirectional controls, and a log is read line by line,
    so none of these may pass. Control characters become their pictures (ESC becomes one glyph, a newline another),
    spaces of other kinds become spaces, and everything else that is not printable (C1 controls, bidirectional controls,
    line separators, lone surrogates, unassigned and private code points) becomes the replacement character.

    Args:
        text: Any string.
        limit: The length of the result in characters, at most. A longer text ends in an ellipsis.
    """
    shown = text if len(text) <= limit else text[: limit - 1] + _ELLIPSIS
    return shown if shown.isprintable() else "".join(map(_safe_character, shown))


def _safe_character(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if code < _SPACE:
        return chr(_CONTROL_PICTURES + code)
    if code == _DELETE:
        return "\N{SYMBOL FOR DELETE}"
    return " " if unicodedata.category(character) == "Zs" else "\N{REPLACEMENT CHARACTER}"
