"""Splitting bytes into lines: any chunking gives what bytes.split gives; a line too long costs only itself."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.sources.lines import LineReader, LineSplitter, NumberedLine
from proofstream.wire import Decoded, LineDecoder, Refusal

WIRE = Path(__file__).parents[2] / "data" / "wire"
LOG = b'{"Log":{"level":"Info","message":"x"}}'


def split(pieces: list[bytes], max_line_bytes: int = 1000) -> list[NumberedLine]:
    splitter = LineSplitter(max_line_bytes)
    lines = list(itertools.chain.from_iterable(splitter.split_bytes(piece) for piece in pieces))
    last = splitter.finish()
    return lines if last is None else [*lines, last]


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    alphabet = st.sampled_from([b"a", b"b", b"\n", b"\r", b"\r\n", b" ", b"\xef\xbb\xbf", b"\xff"])
    content = b"".join(draw(st.lists(alphabet, max_size=60)))
    cuts = sorted(draw(st.lists(st.integers(0, len(content)), max_size=10)))
    edges = [0, *cuts, len(content)]
    return content, [content[a:b] for a, b in itertools.pairwise(edges)]


def plain_split(content: bytes) -> list[bytes]:
    texts = content.split(b"\n")
    if not texts[-1]:
        del texts[-1]
    if texts:
        texts[0] = texts[0].removeprefix(b"\xef\xbb\xbf")
    return [text.removesuffix(b"\r") for text in texts]


@given(chunked())
def test_any_chunking_gives_what_split_gives(case: tuple[bytes, list[bytes]]) -> None:
    content, pieces = case
    assert [(line.number, line.text) for line in split(pieces)] == list(enumerate(plain_split(content), start=1))


@given(chunked(), st.integers(1, 8))
def test_any_chunking_gives_the_same_lines_below_and_above_the_limit(
    case: tuple[bytes, list[bytes]], limit: int
) -> None:
    content, pieces = case
    lines = split(pieces, limit)
    wanted = plain_split(content)
    assert [line.too_long for line in lines] == [len(text) > limit for text in wanted]
    assert [line.text for line in lines if not line.too_long] == [text for text in wanted if len(text) <= limit]


def test_a_line_of_exactly_the_limit_is_read_with_either_ending() -> None:
    content = b"\xef\xbb\xbf12345\r\n12345\n12345\r\n123456\r\n12345"
    assert [line.too_long for line in split([content], 5)] == [False, False, False, True, False]
    assert [line.too_long for line in split([bytes([b]) for b in content], 5)] == [False, False, False, True, False]


def read(content: bytes, max_line_bytes: int = 1000) -> list[Decoded | Refusal]:
    reader = LineReader(LineDecoder(Catalog()), max_line_bytes)
    return [*reader.read_bytes(content), *reader.finish()]


def test_blank_lines_count_but_yield_nothing() -> None:
    items = read(b"\n \t\r\n" + LOG + b"\n\nbad\n")
    assert [type(item) for item in items] == [Decoded, Refusal]
    assert isinstance(items[1], Refusal)
    assert items[1].line == 5


def test_a_long_line_is_refused_with_its_number_the_limit_and_its_beginning() -> None:
    content = LOG + b"\n" + b'{"LayerStart":' + b"7" * 5000 + b"\n" + LOG + b"\n"
    reader = LineReader(LineDecoder(Catalog()), 100)
    items = [item for begin in range(0, len(content), 64) for item in reader.read_bytes(content[begin : begin + 64])]
    assert [type(item) for item in items] == [Decoded, Refusal, Decoded]
    refused = items[1]
    assert isinstance(refused, Refusal)
    assert (refused.line, refused.reason) == (2, "longer than 100 bytes")
    assert refused.excerpt.startswith('{"LayerStart":7777')
    assert len(refused.excerpt) == 80


def test_a_line_of_20_mib_is_not_held(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(LOG + b"\n")
        for _ in range(20):
            file.write(b"9" * 2**20)
        file.write(b"\n" + LOG + b"\n")
    tracemalloc.start()
    try:
        feed = replay(path, max_line_bytes=2**20)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [refused.line for refused in feed.only.refusals] == [2]
    assert len(feed.only.decoded) == 2
    assert peak < 6 * 2**20


def test_the_default_limit_refuses_a_line_of_20_mib(tmp_path: Path, replay: Any) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"9" * (20 * 2**20) + b"\n" + LOG)
    feed = replay(path)
    assert [str(refused)[:55] for refused in feed.only.refusals] == [
        "line 1 refused: longer than 16777216 bytes: 99999999999"
    ]
    assert feed.only.kinds == ["Log"]


def test_malformed_lines_are_refused_by_number_and_the_rest_is_read(replay: Any) -> None:
    expected = json.loads((WIRE / "malformed.expect.json").read_bytes())
    session = replay(WIRE / "malformed.jsonl").only
    assert [refused.line for refused in session.refusals] == expected["rejected_lines"]
    assert len(session.decoded) == expected["accepted"]
    assert session.kinds.count("UnknownEvent") == expected["of_them_unknown_variant"]
    assert session.closed == [("ended", None)]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_the_last_line_counts_with_any_ending(ending: bytes) -> None:
    assert [type(item) for item in read(LOG + ending)] == [Decoded]
