"""Lines that are left out undecoded: exactly those that would be decoded as bulk, whatever pieces they arrive in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.errors import WireError
from proofstream.events import ProofEvent, UnknownEvent, is_sheddable
from proofstream.sources.lines import LineReader, NumberedLine
from proofstream.sources.shedding import BulkLines, LeftOut
from proofstream.wire import LineDecoder

WIRE = Path(__file__).parents[2] / "data" / "wire"
CATALOG = Catalog()
BULK = BulkLines(CATALOG)
DECODER = LineDecoder(CATALOG)
ROUND = (
    b'{"SumcheckRound":{"layer_idx":1,"round":0,"total_rounds":2,"poly_deg2":null,"poly_deg3":null,'
    b'"claim_value_approx":0.5}}'
)
LOGS = [b'{"Log":{"level":"%b","message":"x"}}' % level for level in (b"Info", b"Debug", b"Warn", b"Error")]


@pytest.mark.parametrize("name", sorted(path.name for path in WIRE.glob("*.jsonl")))
def test_recognised_is_what_decodes_as_bulk(name: str) -> None:
    for line in (WIRE / name).read_bytes().splitlines():
        recognised = BULK.recognise_line(line)
        try:
            decoded = DECODER.decode(line)
        except WireError:
            continue  # the beginning of a line does not show that its end is malformed
        # Only what the catalog knows as bulk: an unknown kind is dropped later, like bulk, if there is no room for it.
        may_go = is_sheddable(decoded.event) and not isinstance(decoded.event, UnknownEvent)
        assert recognised == (LeftOut(type(decoded.event).__name__, decoded.session_id) if may_go else None)


@pytest.mark.parametrize("log", LOGS)
def test_words_are_left_out_by_their_level(log: bytes) -> None:
    assert (BULK.recognise_line(log) is not None) == is_sheddable(DECODER.decode(log).event)


@pytest.mark.parametrize(
    ("line", "session_id"),
    [
        (b'{"job_id":"a","event":%b}', None),
        (b'{"job_id":7,"event":%b}', None),
        (b'{"v":1,"seq":1,"time_unix_nano":5,"session_id":"s","event":%b}', "s"),
        (b'{"v":1,"seq":1,"time_unix_nano":5,"session_id":"s","origin":"p","job_id":"j","event":%b}', "s"),
        (b'{"v":1,"event":%b}', None),
    ],
)
def test_wrapped_lines_are_recognised_with_their_session(line: bytes, session_id: str | None) -> None:
    assert BULK.recognise_line(line % ROUND) == LeftOut("SumcheckRound", session_id)
    assert DECODER.decode(line % ROUND).session_id == session_id


@pytest.mark.parametrize(
    "line",
    [
        b'{"SumcheckRoundX":{}}',
        b'{"SumcheckRound"',
        b'{ "SumcheckRound":{}}',
        b'{"v":1,"session_id":"a\\u0020","event":' + ROUND + b"}",
        b'{"v":2,"event":' + ROUND + b"}",
        b'{"note":"","event":' + ROUND + b"}",
        b'{"v":1,"session_id":"\xff","event":' + ROUND + b"}",
        b'"SumcheckRound":',
        b"",
    ],
)
def test_in_doubt_a_line_is_decoded(line: bytes) -> None:
    assert BULK.recognise_line(line) is None


def test_bulk_of_a_plugin_is_recognised() -> None:
    class Sampled(ProofEvent, frozen=True, kw_only=True, gc=False):
        bulk: ClassVar[bool] = True

    catalog = Catalog()
    catalog.add("plugin", [Sampled])
    assert BulkLines(catalog).recognise_line(b'{"Sampled":{}}') == LeftOut("Sampled", None)
    assert BULK.recognise_line(b'{"Sampled":{}}') is None


PARTS = st.sampled_from(
    [ROUND, b'{"LayerEnd":{}}', *LOGS, b"", b"garbage", b'{"GpuStatus":{}}\r', b'{"job_id":"a","event":' + ROUND + b"}"]
)


@given(st.lists(PARTS, max_size=30), st.lists(st.integers(1, 60), max_size=20), st.booleans())
def test_no_line_is_lost_or_moved_whatever_the_pieces(parts: list[bytes], sizes: list[int], ends: bool) -> None:
    data = b"\n".join(parts) + (b"\n" if ends else b"")
    shedding, plain = LineReader(DECODER, 1000), LineReader(DECODER, 1000)
    found: list[NumberedLine | LeftOut] = []
    at = 0
    for size in (*sizes, len(data) + 1):
        found += shedding.split_off_bulk(data[at : at + size], BULK, lambda _: True)
        at += size
    left_out: Counter[str] = Counter()
    number = 0
    wanted = plain.split_bytes(data)
    for item in found:
        if isinstance(item, LeftOut):
            for line in wanted[number : number + item.lines]:
                assert BULK.recognise_line(line.text) == LeftOut(item.kind, item.session_id)
            number += item.lines
            left_out[item.kind] += item.lines
        else:
            assert item == wanted[number]
            assert BULK.recognise_line(item.text) is None
            number += 1
    assert number == len(wanted)
    assert len(shedding.finish()) == len(plain.finish())
