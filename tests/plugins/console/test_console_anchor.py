"""Rows at the bottom of a terminal that others write to: their lines stay whole, and nothing of ours is left behind."""

from __future__ import annotations

import os
import re

import pytest
from emulator import Emulator
from hypothesis import given
from hypothesis import strategies as st

from proofstream_console.anchor import LEAST_ROWS, RELEASE, Anchor

OURS = "▒"


def size(columns: int, lines: int) -> os.terminal_size:
    return os.terminal_size((columns, lines))


class Shared:
    """A terminal with our rows and another program."""

    def __init__(self, columns: int = 40, lines: int = 12) -> None:
        self.terminal = Emulator(columns, lines)
        self.anchor = Anchor()
        self.drawn = 0

    @property
    def size(self) -> os.terminal_size:
        return size(self.terminal.columns, self.terminal.lines)

    def draw(self, height: int, *above: str, lost: bool = False, again: bool = False) -> None:
        self.drawn += 1
        rows = [f"{OURS}{self.drawn}.{number}" for number in range(height)]
        self.terminal.write(self.anchor.draw(self.size, rows, above, lost=lost, again=again))
        assert self.terminal.screen[self.terminal.lines - height :] == rows
        self.check(height)

    def check(self, height: int) -> None:
        assert sum(OURS in line for line in self.terminal.said) == height, "no stale copy is left"
        assert self.terminal.shows_cursor

    def leave(self, *above: str) -> None:
        self.terminal.write(self.anchor.leave(self.size, above))
        self.check(0)
        assert self.terminal.scrolls == (0, self.terminal.lines)


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number} of another program" for number in range(first, last)]


def test_other_lines_scroll_above_and_stay_whole() -> None:
    shared = Shared()
    for number in range(30):
        shared.draw(4)
        shared.terminal.write(f"line {number} of another program\n")
    shared.leave()
    assert shared.terminal.said == numbered(0, 30)


def test_a_line_that_is_not_finished_is_finished_later_in_its_colour() -> None:
    shared = Shared()
    shared.terminal.write("\x1b[31mhalf a")
    shared.draw(4, "news, which go above it")
    shared.draw(6, again=True)
    assert shared.terminal.style == "\x1b[31m"
    shared.terminal.write(" line\n")
    shared.leave()
    assert shared.terminal.said == ["news, which go above it", "half a line"]


def test_a_line_that_is_written_over_stays_one_line() -> None:
    shared = Shared()
    for number in range(20):
        shared.terminal.write(f"\rprogress {number}")
        shared.draw(4, again=number % 3 == 0)
    shared.leave()
    assert shared.terminal.said == ["progress 19"]


def test_long_lines_wrap_above() -> None:
    shared = Shared()
    shared.draw(5)
    for number in range(5):
        shared.terminal.write(f"{number}" * 100 + "\n")
        shared.draw(5)
    shared.leave()
    assert shared.terminal.said == [f"{number}" * 100 for number in range(5)]


def test_a_terminal_that_was_full_loses_nothing() -> None:
    shared = Shared()
    shared.terminal.write("".join(f"{line}\n" for line in numbered(0, 40)))
    for height in (2, 6, 3, 9, 0, 5):
        shared.draw(height, f"news at {height}")
    shared.leave("the last news")
    said = shared.terminal.said
    assert said == [*numbered(0, 40), *(f"news at {height}" for height in (2, 6, 3, 9, 0, 5)), "the last news"]


def test_more_news_than_rows_are_all_inserted() -> None:
    shared = Shared(lines=8)
    shared.draw(4, *numbered(0, 25))
    shared.leave()
    assert shared.terminal.said == numbered(0, 25)


@pytest.mark.parametrize("lines", [6, 9, 13, 20, 40])
@pytest.mark.parametrize("columns", [20, 40, 80])
@pytest.mark.parametrize("before", [0, 3, 30])
def test_another_size_leaves_no_copy(lines: int, columns: int, before: int) -> None:
    shared = Shared()
    shared.terminal.write("".join(f"n {number}\n" for number in range(before)))
    shared.draw(4)
    shared.terminal.resize(columns, lines)
    assert shared.anchor.is_displaced(shared.size)
    shared.draw(4)
    assert not shared.anchor.is_displaced(shared.size)
    shared.terminal.write(f"n {before}\n")
    shared.draw(3)
    shared.terminal.resize(40, 12)
    shared.leave()
    assert shared.terminal.said == [f"n {number}" for number in range(before + 1)]


def test_what_was_used_while_we_were_suspended_is_cleared_of_ours() -> None:
    shared = Shared()
    shared.draw(4)
    shared.terminal.write(RELEASE)
    shared.check(0)
    shared.terminal.write("".join(f"{line}\n" for line in numbered(0, 30)))
    shared.draw(4, lost=True)
    shared.leave()
    assert shared.terminal.said == numbered(0, 30)


def test_a_part_that_no_longer_scrolls_is_mended() -> None:
    shared = Shared()
    shared.draw(4)
    shared.terminal.write("\x1b[r\x1b[9H")
    shared.terminal.write("".join(f"{line}\n\x1b[J" for line in numbered(0, 8)))
    shared.draw(4, again=True)
    shared.terminal.write("more\n")
    shared.draw(4)
    assert shared.terminal.scrolls == (0, 8)
    shared.leave()
    assert [line for line in shared.terminal.said if line] == [*numbered(0, 8), "more"]


def test_rows_that_have_not_changed_are_not_written() -> None:
    anchor = Anchor()
    assert anchor.draw(size(40, 12), ["one", "two"], [], lost=False, again=False)
    assert not anchor.draw(size(40, 12), ["one", "two"], [], lost=False, again=False)
    changed = anchor.draw(size(40, 12), ["one", "three"], [], lost=False, again=False)
    assert "three" in changed
    assert "one" not in changed


def test_a_frame_is_one_line_so_that_nothing_comes_in_between() -> None:
    assert "\n" not in Anchor().draw(size(40, 12), ["one", "two"], ["news"] * 30, lost=False, again=False)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 70), st.booleans()),
            st.tuples(st.just("draw"), st.integers(0, 8), st.booleans()),
            st.tuples(st.just("news"), st.integers(1, 12), st.booleans()),
        ),
        max_size=40,
    ),
    st.integers(LEAST_ROWS, 14),
)
def test_whatever_others_write_stays_whole_and_in_order(steps: list[tuple[str, int, bool]], lines: int) -> None:
    shared = Shared(30, lines)
    height, wanted, line, news = 0, "", 0, 0
    finished = True
    for step, number, flag in steps:
        if step == "write":
            line += finished
            text = f"<{line}:" + "x" * number if finished else "y" * number
            wanted += text + ">" * flag
            finished = flag
            shared.terminal.write(text + (">\n" if flag else ""))
        elif step == "draw":
            height = min(number, lines - 2)
            shared.draw(height, again=flag)
        else:
            shared.draw(height, *(f"[{news + each}]" for each in range(number)))
            news += number
    shared.leave()
    said = "".join(shared.terminal.said)
    assert re.sub(r"\[\d+\]", "", said) == wanted
    assert re.findall(r"\[(\d+)\]", said) == [str(number) for number in range(news)]
