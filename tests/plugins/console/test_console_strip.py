"""The strip of a proof's layers: a mark for each layer or for several, readable without colour."""

from __future__ import annotations

from proofstream import Interval, IntervalKind
from proofstream_console.layer_strip import MAX_CELLS, LayerStrip
from proofstream_console.strip_view import draw_strip

MS = 1_000_000


def layer(number: int) -> Interval:
    return Interval(
        kind=IntervalKind.LAYER,
        session_id="s",
        job_id=None,
        ordinal=number,
        key=number,
        proof=None,
        opened=None,
        start_unix_nano=number,
        start_source="arrival",
    )


def end(strip: LayerStrip, interval: Interval, ns: int, *, aborted: str | None = None) -> None:
    interval.end_unix_nano = interval.start_unix_nano + ns
    interval.end_source, interval.aborted_reason = "arrival", aborted
    interval.superseded_unix_nano = interval.end_unix_nano
    strip.end_layer(interval)


def drawn(strip: LayerStrip, *active: Interval, width: int = 40, rows: int = 1, announced: int = 0) -> list[str]:
    folded = strip.folded(room=width * rows, announced=announced, active=active)
    return [row.plain for row in draw_strip(folded, width=width)]


def test_a_mark_is_as_tall_as_its_layer_took_long() -> None:
    strip = LayerStrip()
    layers = [layer(number) for number in range(6)]
    for interval, ns in zip(layers, [1000 * MS, 400 * MS, 100 * MS, 10 * MS, MS], strict=False):
        strip.begin_layer(interval)
        end(strip, interval, ns)
    strip.begin_layer(layers[5])
    assert drawn(strip, layers[5], announced=9) == ["  █▇▅▂▁◆···"]


def test_a_layer_that_died_and_one_that_was_left_have_marks_of_their_own() -> None:
    strip = LayerStrip()
    layers = [layer(number) for number in range(3)]
    for interval in layers:
        strip.begin_layer(interval)
    end(strip, layers[0], MS)
    end(strip, layers[2], MS, aborted="it died")
    assert drawn(strip) == ["  █━✗"]


def test_layers_that_began_without_being_seen_are_counted_when_they_end() -> None:
    strip = LayerStrip()
    end(strip, layer(0), MS)
    assert drawn(strip) == ["  █"]


def test_rows_are_of_one_length_and_hold_several_layers_in_a_mark_if_need_be() -> None:
    strip = LayerStrip()
    for number in range(100):
        interval = layer(number)
        strip.begin_layer(interval)
        end(strip, interval, 10 * MS if number % 10 == 0 else 9_999_999)
    assert [len(row) for row in drawn(strip, width=40, rows=3)] == [36, 36, 34]
    assert [len(row) for row in drawn(strip, width=40, rows=1)] == [36]
    assert drawn(strip, width=40, rows=1) == ["  " + "█" * 34]


def test_a_strip_of_no_layers_is_empty_and_one_of_impossibly_many_fits() -> None:
    assert drawn(LayerStrip()) == []
    assert drawn(LayerStrip(), width=40, rows=2, announced=2**64 - 1) == ["  " + "·" * 40] * 2


def test_a_strip_is_bounded_and_keeps_the_longest_of_each_mark() -> None:
    strip = LayerStrip()
    for number in range(5 * MAX_CELLS):
        interval = layer(number)
        strip.begin_layer(interval)
        end(strip, interval, 1000 * MS if number == 1234 else MS)
    rows = drawn(strip, width=MAX_CELLS, rows=2)
    assert len(rows[0]) - 2 <= MAX_CELLS
    assert rows[0].count("█") == 1
    assert rows[0].index("█") - 2 == 1234 // 8
