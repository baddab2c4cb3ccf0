"""Counts by kind that stay small, although strangers choose the kinds."""

from __future__ import annotations

from collections.abc import Mapping

from proofstream.text import safe_text

MOST_KINDS = 64
"""The most kinds that are counted by name."""
OTHER_KINDS = "other kinds"
"""The name under which all further kinds are counted together."""

_MOST_SHOWN = 16
_LONGEST_KIND = 80


def count_kind(counts: dict[str, int], kind: str, count: int = 1) -> None:
    """Add `count` events of a kind. Beyond 64 kinds, all new ones share one entry."""
    if kind not in counts:
        kind = safe_text(kind, _LONGEST_KIND)
        if kind not in counts and len(counts) >= MOST_KINDS:
            kind = OTHER_KINDS
    counts[kind] = counts.get(kind, 0) + count


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return counts as text, `3 Log, 2 SumcheckRound`. Only the 16 largest have a name if there are more."""
    named = sorted(counts, key=lambda kind: (-counts[kind], kind))[:_MOST_SHOWN]
    rest = sum(counts.values()) - sum(counts[kind] for kind in named)
    words = [f"{counts[kind]} {safe_text(kind, _LONGEST_KIND)}" for kind in sorted(named)]
    return ", ".join([*words, *([f"{rest} of other kinds"] if rest else [])])
