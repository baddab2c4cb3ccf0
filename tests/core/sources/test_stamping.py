"""Lines that were read at once: spaced by their order, and laid out where the producer's durations say more."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.sources.lines import LineReader, LineResult
from proofstream.sources.stamping import Stamper
from proofstream.wire import LineDecoder

MS = 1_000_000
BEGAN = 10**18
LAYER_START = (
    '{"LayerStart":{"layer_idx":%d,"kind":"MatMul","input_shape":[1,1],"output_shape":[1,1],"trace_cost":1,'
    '"claim_value_approx":0.5,"gpu_device":null}}'
)
LAYER_END = (
    '{"LayerEnd":{"layer_idx":%d,"kind":"Sumcheck","final_claim_value_approx":0.5,'
    '"duration_ms":%d,"rounds_completed":0}}'
)
LOG = '{"Log":{"level":"Info","message":"x"}}'
TIMED = f'{{"v":1,"time_unix_nano":7,"event":{LOG}}}'


def start(layer: int) -> str:
    return LAYER_START % layer


def end(layer: int, ms: int) -> str:
    return LAYER_END % (layer, ms)


def in_job(job: str, line: str) -> str:
    return f'{{"job_id":"{job}","event":{line}}}'


def items(*lines: str) -> list[LineResult]:
    reader = LineReader(LineDecoder(Catalog()), 10_000)
    return reader.read_bytes("".join(line + "\n" for line in lines).encode())


def stamp(stamper: Stamper, at_ms: float, *lines: str, absent_ms: float | None = None) -> list[tuple[int, bool]]:
    """Return each line's time in nanoseconds since reading began, and whether that time is reconstructed."""
    absent = None if absent_ms is None else BEGAN + int(absent_ms * MS)
    stamped = stamper.stamp(items(*lines), BEGAN + int(at_ms * MS), absent_at=absent)
    return [(line.at - BEGAN, line.source == "reconstructed") for line in stamped]


def test_lines_that_were_read_at_once_are_1_ns_apart_and_end_at_their_arrival() -> None:
    times = stamp(Stamper(BEGAN), 5, end(1, 0), LOG, "no json", start(0), end(0, 0))
    assert times == [(5 * MS - 4 + index, index >= 3) for index in range(5)]


def test_the_next_lines_follow_even_if_the_clock_has_not_moved_on() -> None:
    stamper = Stamper(BEGAN)
    first = stamp(stamper, 0, LOG, LOG, LOG)
    second = stamp(stamper, 0, LOG)
    assert [time for time, _ in first + second] == [1, 2, 3, 4]


def test_a_line_with_a_time_of_its_own_moves_no_other() -> None:
    stamper = Stamper(BEGAN)
    (bare, _), _, (last, _) = stamp(stamper, 5, LOG, TIMED, LOG)
    assert (bare, last) == (5 * MS - 1, 5 * MS)


def test_layers_that_begin_and_end_within_what_was_read_at_once_take_their_reported_durations() -> None:
    times = stamp(Stamper(BEGAN), 50, end(7, 9), start(0), end(0, 3), start(1), end(1, 20), start(2))
    assert [round(time / MS) for time, _ in times] == [27, 27, 30, 30, 50, 50]
    assert [laid_out for _, laid_out in times] == [True] * 5 + [False]
    assert times[-1][0] == 50 * MS
    assert sorted(times) == times


def test_a_line_that_is_moved_by_less_than_is_promised_keeps_its_arrival() -> None:
    proof = '{"ProofStart":{"model_name":null,"backend":"x","num_layers":2,"input_shape":[1,1],"output_shape":[1,1]}}'
    times = stamp(Stamper(BEGAN), 50, "no json", proof, start(0), LOG, end(0, 3), start(1))
    assert [round(time / MS) for time, _ in times] == [47, 47, 47, 47, 50, 50]
    assert [laid_out for _, laid_out in times] == [False, False, True, True, True, False]


def test_phases_take_the_nanoseconds_that_they_report() -> None:
    begin = '{"PhaseStart":{"name":"%s","phase":%d,"parent":null,"layer_idx":null,"attributes":{}}}'
    finish = '{"PhaseEnd":{"name":"%s","phase":%d,"duration_ns":%s,"failed":null}}'
    inner = [begin % ("commit", 2), finish % ("commit", 2, "1500000")]
    times = stamp(Stamper(BEGAN), 50, begin % ("prove", 1), *inner, finish % ("prove", 1, "4000000"))
    assert [round(time / MS, 1) for time, _ in times] == [46, 46, 47.5, 50]
    assert all(laid_out for _, laid_out in times)
    times = stamp(Stamper(BEGAN), 50, begin % ("prove", 1), *inner, finish % ("prove", 1, "null"))
    assert [round(time / MS, 1) for time, _ in times] == [48.5, 48.5, 50, 50]
    assert all(laid_out for _, laid_out in times), "what begins and ends within one reading was not measured"


def test_layers_of_two_jobs_that_overlap_keep_their_lengths() -> None:
    lines = [in_job("a", start(0)), in_job("b", start(0)), in_job("a", end(0, 10)), in_job("b", end(0, 5)), LOG]
    times = stamp(Stamper(BEGAN), 50, *lines)
    assert [round(time / MS) for time, _ in times] == [40, 40, 50, 45, 50]
    assert [laid_out for _, laid_out in times] == [True] * 4 + [False]


def test_durations_below_a_millisecond_leave_the_time_as_it_is_but_are_not_measured() -> None:
    times = stamp(Stamper(BEGAN), 50, start(0), end(0, 0), start(1), end(1, 0), start(2))
    assert times == [(50 * MS - 4 + index, index < 4) for index in range(5)]


def test_durations_that_were_rounded_up_are_fitted_into_the_time_that_there_was() -> None:
    stamper = Stamper(BEGAN)
    stamp(stamper, 10, LOG)
    times = stamp(stamper, 13, start(0), end(0, 1), start(1), end(1, 3))
    assert [round(time / MS, 1) for time, _ in times] == [10, 10.8, 10.8, 13]
    assert times[-1][0] == 13 * MS


def test_durations_that_are_impossible_are_not_believed() -> None:
    stamper = Stamper(BEGAN)
    stamp(stamper, 10, LOG)
    times = stamp(stamper, 11, start(0), end(0, 400))
    assert times == [(11 * MS - 1, False), (11 * MS, False)]


def test_a_layer_that_ends_in_what_was_read_late_takes_its_reported_duration() -> None:
    stamper = Stamper(BEGAN)
    stamp(stamper, 10, start(0), absent_ms=9)
    late = stamp(stamper, 18, LOG, end(0, 2), start(1), absent_ms=11)
    assert late == [(12 * MS - 1, True), (12 * MS, True), (18 * MS, False)]


def test_a_layer_cannot_have_ended_when_its_end_was_known_not_to_be_there() -> None:
    stamper = Stamper(BEGAN)
    stamp(stamper, 10, start(0), absent_ms=9)
    assert stamp(stamper, 18, end(0, 2), absent_ms=14) == [(14 * MS, True)]


def test_a_layer_that_ends_in_what_was_read_in_time_is_measured() -> None:
    stamper = Stamper(BEGAN)
    stamp(stamper, 10, start(0), absent_ms=9)
    assert stamp(stamper, 13, end(0, 1), absent_ms=12) == [(13 * MS, False)]
    stamp(stamper, 20, start(0), absent_ms=19)
    assert stamp(stamper, 1020, end(0, 990), absent_ms=1010) == [(1020 * MS, False)], "late by 1 %"
    stamp(stamper, 2000, start(0))
    assert stamp(stamper, 2400, end(0, 100)) == [(2400 * MS, False)], "it is not known to be late"


def test_a_layer_of_another_job_ends_where_its_end_arrives() -> None:
    stamper = Stamper(BEGAN)
    stamp(stamper, 10, in_job("a", start(0)))
    assert stamp(stamper, 18, in_job("b", end(0, 2)), absent_ms=11) == [(18 * MS, False)]


blocks = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.lists(
            st.one_of(
                st.builds(start, st.integers(0, 2)),
                st.builds(end, st.integers(0, 2), st.integers(0, 9)),
                st.sampled_from([LOG, TIMED, "no json"]),
            ),
            min_size=1,
            max_size=8,
        ),
    ),
    max_size=6,
)


@given(blocks)
def test_times_never_precede_those_of_earlier_blocks_and_a_layer_ends_after_it_began(read: Any) -> None:
    stamper, now, latest = Stamper(BEGAN), BEGAN, BEGAN
    begun: dict[int, int] = {}
    for wait_ms, lines in read:
        now += wait_ms * MS
        stamped = [
            line for line in stamper.stamp(items(*lines), now) if getattr(line.item, "time_unix_nano", None) is None
        ]
        assert all(latest < line.at <= max(now, latest + len(lines)) for line in stamped)
        latest = max([latest, *(line.at for line in stamped)])
        for line in stamped:
            event: Any = getattr(line.item, "event", None)
            name = type(event).__name__
            if name == "LayerStart":
                begun[event.layer_idx] = line.at
            elif name == "LayerEnd" and event.layer_idx in begun:
                assert line.at > begun.pop(event.layer_idx)
