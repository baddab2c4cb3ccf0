"""Counts by kind stay bounded, whatever strangers call their kinds."""

from __future__ import annotations

from proofstream.counts import MOST_KINDS, OTHER_KINDS, count_kind, counts_in_words


def test_a_million_kinds_share_one_entry() -> None:
    counts: dict[str, int] = {}
    for number in range(10_000):
        count_kind(counts, f"Kind{number}", 2)
    assert len(counts) == MOST_KINDS + 1
    assert sum(counts.values()) == 20_000
    assert counts[OTHER_KINDS] == 2 * (10_000 - MOST_KINDS)


def test_a_known_kind_keeps_its_entry() -> None:
    counts = {"Log": 1}
    for number in range(100):
        count_kind(counts, f"Kind{number}")
    count_kind(counts, "Log")
    assert counts["Log"] == 2


def test_the_name_of_a_kind_is_short_and_harmless() -> None:
    counts: dict[str, int] = {}
    count_kind(counts, "A\x1b[2J" + "a" * 5_000_000)
    ((kind, _),) = counts.items()
    assert len(kind) == 80
    assert "\x1b" not in kind


def test_the_largest_16_are_named() -> None:
    counts = {f"Kind{number:02}": number for number in range(1, 31)}
    words = counts_in_words(counts)
    assert words.startswith("15 Kind15, 16 Kind16,")
    assert words.endswith("30 Kind30, 105 of other kinds")


def test_few_kinds_are_all_named() -> None:
    assert counts_in_words({"SumcheckRound": 2, "Log": 3}) == "3 Log, 2 SumcheckRound"
