"""The fast way to decode lines and the thorough one agree on any input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.fast_lines import is_plain, may_exceed_u64
from proofstream.sources.lines import LineReader, LineResult
from proofstream.sources.reconstruct import Reconstruction, scan
from proofstream.wire import Decoded, LineDecoder

DATA = Path(__file__).parents[1] / "data"
MAX_LINE_BYTES = 20_000
U64_MAX = 2**64 - 1


class Thorough(LineDecoder):
    """Decodes every line in all of the steps."""

    def decode_plain(self, lines: Sequence[bytes]) -> list[Decoded | None]:
        """Leave each line to `decode`."""
        return [None] * len(lines)


def in_envelope(line: bytes, seq: int) -> bytes:
    return b'{"v":1,"seq":%d,"time_unix_nano":%d,"session_id":"s","event":%b}' % (seq, 10**18 + seq, line)


GENUINE = [
    line for path in sorted(DATA.rglob("*.jsonl")) for line in path.read_bytes().splitlines() if len(line) < 3000
]
BARE = [line for line in GENUINE if line.startswith(b'{"') and line[2:3].isupper()]
HOSTILE = [
    b"",
    b" ",
    b"{}",
    b'{"LayerEnd":}',
    b'{"LayerEnd}',
    b'{"LayerEnd"',
    b'{"LayerEnd":{}}',
    b'{"LayerEnd":{},"LayerEnd":{}}',
    b'{"Unheard":{"of":1}}',
    b'{"Log":{"level":"Info","message":"a\\ud800"}}',
    b'{"Log":{"level":"Info","message":"\xc3\xa9"}}',
    b'{"Log":{"level":"Info","message":"\xff"}}',
    b'{"Log":{"level":"Info","message":"x"}}\r',
    b'{"Log":{"level":"Info","message":"x"}} ',
    b'{"Log":\r{"level":"Info","message":"x"}}',
    b'{"v":2,"event":{"Log":{"level":"Info","message":"x"}}}',
    b'{"job_id":7,"event":{"Log":{"level":"Info","message":"x"}}}',
    b'{"job_id":"%b","event":{"Log":{"level":"Info","message":"x"}}}' % (b"j" * 2000),
    b'{"v":1,"time_unix_nano":-1,"event":{"Log":{"level":"Info","message":"x"}}}',
    b'{"EventsLost":{"where":"intake","counts":{"Log":%d}}}' % U64_MAX,
    b'{"EventsLost":{"where":"intake","counts":{"Log":%d}}}' % (U64_MAX + 1),
    b'{"EventsLost":{"where":"intake","counts":{"Log":1}},"a":{}}',
    b'{"EventsLost":{"where":"intake","counts":{"Log":1}}',
    b'{"EventsLost":{"where":"intake","counts":{"Log":1}}}}',
]


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Draw a genuine line, one with a few bytes changed, or a hostile one."""
    line = draw(st.sampled_from(BARE) | st.sampled_from(HOSTILE))
    if draw(st.integers(0, 3)) == 0:
        line = in_envelope(line, draw(st.integers(0, 9)))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        place = draw(st.integers(0, len(line)))
        piece = draw(st.binary(max_size=3) | st.sampled_from([b"}", b"{", b'"', b",", b"\r", b"9" * 25, b'":', b"\\"]))
        line = line[:place] + piece.replace(b"\n", b"") + line[place + draw(st.integers(0, 3)) :]
    return line


contents = st.lists(lines(), max_size=12).map(b"\n".join) | st.lists(lines(), max_size=12).map(
    lambda found: b"".join(line + b"\n" for line in found)
)


def read(content: bytes, decoder: LineDecoder, piece: int) -> list[LineResult]:
    reader = LineReader(decoder, MAX_LINE_BYTES)
    pieces = [content[begin : begin + piece] for begin in range(0, len(content), piece)]
    return [item for data in pieces for item in reader.read_bytes(data)] + reader.finish()


@given(contents, st.sampled_from([40, 700, 10**6]))
def test_both_ways_read_the_same_events_and_refuse_the_same_lines(content: bytes, piece: int) -> None:
    assert read(content, LineDecoder(Catalog()), piece) == read(content, Thorough(Catalog()), piece)


@given(contents)
def test_both_ways_give_the_lines_of_a_file_the_same_times(content: bytes) -> None:
    def times(decoder: LineDecoder) -> object:
        found = scan([content], decoder, max_line_bytes=MAX_LINE_BYTES, mtime_ns=10**18)
        return found and (found, Reconstruction(found).times_of(read(content, decoder, 10**6)))

    assert times(LineDecoder(Catalog())) == times(Thorough(Catalog()))


def test_genuine_lines_go_the_fast_way() -> None:
    plain = [line for line in BARE if is_plain(line)]
    decoded = LineDecoder(Catalog()).decode_plain(plain)
    left = [line for line, found in zip(plain, decoded, strict=True) if found is None]
    assert len(plain) > 100
    assert len(left) < len(plain) // 10, left[:3]


@pytest.mark.parametrize("kind", ["SumcheckRound", "LayerActivation", "LayerStart"])
def test_no_integer_of_a_frequent_kind_may_be_larger(kind: str) -> None:
    line = next(line for line in BARE if line.startswith(b'{"%b"' % kind.encode()))
    for found in re.finditer(rb"(?<=[:,\[])[0-9]+(?=[,\]}])", line):
        for value in (U64_MAX, U64_MAX + 1, 10**30):
            changed = line[: found.start()] + b"%d" % value + line[found.end() :]
            assert read(changed, LineDecoder(Catalog()), 10**6) == read(changed, Thorough(Catalog()), 10**6)


@given(st.lists(st.sampled_from([b"1", b"9" * 19, b"9" * 20, b"0." + b"3" * 30, b",", b"[", b'"', b".", b"e"])))
def test_every_long_integer_is_found_and_no_fraction(parts: list[bytes]) -> None:
    text = b"".join(parts)
    assert may_exceed_u64(text) == (re.search(rb"(?<![0-9.])[0-9]{20}", text) is not None)


@pytest.mark.parametrize("value", [U64_MAX, U64_MAX + 1])
def test_the_largest_integer_is_read_and_one_more_is_refused(value: int) -> None:
    line = b'{"EventsLost":{"where":"intake","counts":{"Log":%d}}}\n' % value
    (item,) = read(BARE[0] + b"\n" + line, LineDecoder(Catalog()), 10**6)[1:]
    assert isinstance(item, Decoded) == (value == U64_MAX)
