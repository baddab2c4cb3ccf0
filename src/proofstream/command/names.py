"""Names that the command knows, and what to say of one that it does not."""

from __future__ import annotations

from collections.abc import Iterable

from proofstream.errors import UsageError

COMPLETE = "_PROOFSTREAM_COMPLETE"
"""The variable by which a shell asks for what may follow."""

SHELLS = ("bash", "zsh", "fish")
"""The shells for which there are scripts."""


def unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    """Return the error that there is nothing of this name, with the name that was probably meant."""
    names = sorted(known)
    by_lower_case = {each.lower(): each for each in names}
    import difflib  # for mistakes alone, and slow to load

    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.5)
    hint = f"did you mean {by_lower_case[near[0]]}?" if near else f"there are: {', '.join(names)}"
    return UsageError(f"no {what} is named {name!r}", hint=hint)
