"""Phases: what runs now, as a path with progress and time; their sums; and the one in which a proof died."""

from __future__ import annotations

import gc
import io
import tracemalloc
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from proofstream import (
    AggregatedBindingStart,
    Envelope,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    PhaseEnd,
    PhaseProgress,
    PhaseStart,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    WeightOpeningStart,
)
from proofstream.testing import InlineHost, envelopes
from proofstream_console import ConsolePlugin
from proofstream_console.closing_report import closing_report
from proofstream_console.live_view import LiveView
from proofstream_console.phase_summary import MAX_PHASES
from proofstream_console.run_summary import RunSummary

START = ProofStart(model_name="mlp", backend="cpu", num_layers=1, input_shape=(1, 1), output_shape=(1, 1))
LAYER_START = LayerStart(
    layer_idx=0,
    kind=LayerKind.MatMul,
    input_shape=(1, 1),
    output_shape=(1, 1),
    trace_cost=1,
    claim_value_approx=None,
    gpu_device=None,
)
LAYER_END = LayerEnd(
    layer_idx=0, kind=LayerProofKind.Sumcheck, final_claim_value_approx=None, duration_ms=1, rounds_completed=0
)
COMPLETE = ProofComplete(duration_ms=0, num_layer_proofs=1, num_weight_openings=0, weight_binding_mode="none")
WALKED = (START, LAYER_START, LAYER_END)


class Clock:
    """A monotonic clock in seconds that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def begin(name: str, number: int, parent: int | None = None) -> PhaseStart:
    return PhaseStart(name=name, phase=number, parent=parent)


def end(name: str, number: int, failed: str | None = None) -> PhaseEnd:
    return PhaseEnd(name=name, phase=number, failed=failed)


def done(number: int, of: int | None, share: int) -> PhaseProgress:
    return PhaseProgress(phase=number, done=share, total=of)


COMMITTING = (*WALKED, begin("weight commitments", 1), done(1, 96, 30))


def fed(*events: ProofEvent, clock: Clock | None = None, close: bool = False) -> RunSummary:
    summary = RunSummary(clock=clock or Clock())
    summary.add_batch(tuple(envelopes(events, session_id="s", close=close)))
    return summary


def view_of(summary: RunSummary, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in LiveView(summary, max_layers=8, max_proofs=20).lines(width=width, height=height)]


def report_of(summary: RunSummary, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(closing_report(summary, width=width))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def plain(events: Iterable[Envelope], clock: Clock, seconds: float = 1.25, **settings: Any) -> list[str]:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": "plain", **settings})
    host.feed(events)
    for _ in range(round(seconds / 0.25)):
        clock.now += 0.25
        host.tick()
    return stream.getvalue().splitlines()


# What runs now


def test_a_plain_line_names_the_running_phase_with_progress_and_time() -> None:
    lines = plain(envelopes(COMMITTING, close=False), Clock())
    assert lines[1] == "proof 1: 1 layer done; weight commitments 30/96, 1.25 s; 1.25 s so far"


def test_a_plain_line_names_what_is_around_the_running_phase() -> None:
    events = [*WALKED, begin("open", 1), begin("FRI commit", 2, parent=1), done(2, 12, 3)]
    lines = plain(envelopes(events, close=False), Clock())
    assert "; open, 1.25 s → FRI commit 3/12, 1.25 s; " in lines[1]


def test_a_long_path_is_told_by_its_ends() -> None:
    deep = [begin(f"p{number}", number) for number in range(50)]
    lines = plain(envelopes([*WALKED, *deep], close=False), Clock())
    assert "; p0, 1.30 s → … → p47, 1.25 s → p48, 1.25 s → p49, 1.25 s; " in lines[1]


def test_phases_that_run_beside_the_last_one_are_counted() -> None:
    around = [begin("shard", number, parent=1) for number in (2, 3, 4)]
    lines = plain(envelopes([*WALKED, begin("prove", 1), *around], close=False), Clock())
    assert ", and 2 more beside it; " in lines[1]


def test_before_and_among_the_layers_phases_are_named_too() -> None:
    before = plain(envelopes([START, begin("forward pass", 1), done(1, 12, 3)], close=False), Clock())
    assert before[1] == "proof 1: before the first of 1 layer; forward pass 3/12, 1.25 s; 1.25 s so far"
    within = PhaseStart(name="witness", phase=1, layer_idx=0)
    among = plain(envelopes([START, LAYER_START, within, done(1, 3, 1)], close=False), Clock())
    assert among[1] == (
        "proof 1: 0 of 1 layer (0 %), 0 rounds, in layer 0 MatMul for 1.25 s; witness 1/3, 1.25 s; 1.25 s so far"
    )


def test_openings_and_bindings_are_named_where_the_producer_names_no_phase() -> None:
    opening = WeightOpeningStart(weight_node_id=5, eval_point_len=3)
    assert "; weight opening 5, 1.25 s; " in plain(envelopes([*WALKED, opening], close=False), Clock())[1]
    binding = AggregatedBindingStart(num_claims=1, num_matrices=1)
    assert "    weight binding" in view_of(fed(*WALKED, binding))[3]


def test_once_something_was_heard_of_what_follows_it_is_not_said_to_have_no_events() -> None:
    events = [*WALKED, begin("weight commitments", 1), end("weight commitments", 1)]
    lines = plain(envelopes(events, close=False), Clock(), 2)
    assert "proof 1: 1 layer done; silent for " in lines[1]


def test_the_live_view_indents_phases_by_what_is_around_them() -> None:
    clock = Clock()
    summary = fed(*COMMITTING, begin("merkle", 2, parent=1), clock=clock)
    clock.now += 9.1
    lines = view_of(summary)
    assert lines[3].startswith("    weight commitments 30/96 ")
    assert lines[3].endswith(" 9.10 s")
    assert lines[4].startswith("      merkle ")


def test_the_live_view_counts_the_phases_that_it_has_no_room_for() -> None:
    summary = fed(*WALKED, *[begin(f"p{number}", number) for number in range(200)])
    lines = view_of(summary)
    assert "    + 193 more phases" in lines
    assert any("p199" in line for line in lines)


def test_a_phase_after_the_proof_is_shown_with_it_while_it_runs() -> None:
    clock = Clock()
    events = [*WALKED, begin("attention proof", 1), COMPLETE, done(1, 8, 4)]
    summary = fed(*events, clock=clock)
    clock.now += 2
    lines = view_of(summary)
    assert lines[0] == "✓ mlp on cpu: complete in 4.00 ms; still running:"
    assert lines[1].startswith("    attention proof 4/8 ")
    assert summary.recent[0].took is not None
    summary.add_batch(tuple(envelopes([end("attention proof", 1)], session_id="s", close=False)[1:]))
    assert view_of(summary)[0].startswith("○ waiting for the next proof")
    said = plain(envelopes(events, close=False), Clock())
    assert "proof 1, after its end: attention proof 4/8, 1.25 s" in said


def test_a_phase_outside_of_proofs_is_shown_while_it_runs() -> None:
    lines = view_of(fed(begin("load model", 1)))
    assert lines[0] == "outside of proofs"
    assert lines[1].startswith("    load model ")
    assert "outside of proofs: load model, 1.25 s" in plain(envelopes([begin("load model", 1)], close=False), Clock())


def test_a_storm_of_progress_is_one_line_a_second_at_most() -> None:
    clock, stream = Clock(), io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": "plain"})
    host.feed(envelopes([*WALKED, begin("commit", 1)], close=False))
    for number in range(10_000):
        named = begin(f"part {number % 7}", number + 2), done(1, 10_000, number), end(f"part {number % 7}", number + 2)
        host.feed(envelopes(named, close=False)[1:])
        clock.now += 0.001
    lines = stream.getvalue().splitlines()
    assert 8 <= len(lines) <= 12


# Where it died


def died(*events: ProofEvent, reason: str = "no memory") -> str:
    return report_of(fed(*events, ProofAborted(reason=reason)), 200).splitlines()[0]


def test_a_proof_that_dies_in_a_phase_names_it_with_its_progress() -> None:
    assert "aborted after the last layer (1 of 1), in weight commitments 30/96, " in died(*COMMITTING)


def test_a_phase_that_raised_what_ended_the_proof_is_where_it_died() -> None:
    inner = begin("open", 1), begin("FRI", 2, parent=1), end("FRI", 2, "no memory"), end("open", 1, "no memory")
    assert "aborted after the last layer (1 of 1), in FRI, " in died(*WALKED, *inner)


def test_a_phase_that_failed_for_another_reason_is_not_where_it_died() -> None:
    tried = begin("GPU", 1), end("GPU", 1, "no device")
    assert "aborted after the last layer (1 of 1), 5.00 ms in all: no memory" in died(*WALKED, *tried)


# Sums


def timed(*items: tuple[ProofEvent, int], source: str = "envelope") -> RunSummary:
    """A run of events, each with its time in milliseconds."""
    opened, *made = envelopes([event for event, _ in items], session_id="s", close=False)
    first = msgspec.structs.replace(opened, event=msgspec.structs.replace(opened.event, time_source=source))
    summary = RunSummary(clock=Clock(), live=False)
    start = opened.time_unix_nano
    summary.add_batch(
        (
            first,
            *(
                msgspec.structs.replace(envelope, time_unix_nano=start + ms * 1_000_000)
                for envelope, (_, ms) in zip(made, items, strict=True)
            ),
        )
    )
    return summary


def test_phases_are_summed_by_name_with_self_time_and_share() -> None:
    summary = timed(
        (START, 0), (LAYER_START, 100), (LAYER_END, 200),
        (begin("commit", 1), 200), (begin("merkle", 2), 300), (end("merkle", 2), 500),
        (begin("merkle", 3), 600), (end("merkle", 3), 900), (end("commit", 1), 1000),
        (COMPLETE, 1000), (begin("attention", 4), 1000), (end("attention", 4), 1500),
        (begin("upload", 5), 2000), (end("upload", 5), 2250),
    )  # fmt: skip
    said = report_of(summary).split("Phases (measured)\n")[1].split("\n\n")[0]
    assert said == (
        """\
  phase                         count   total  longest    self   share
  commit                            1  800 ms   800 ms  300 ms  80.0 %
  merkle                            2  500 ms   300 ms  500 ms  50.0 %
  attention (beyond the proof)      1  500 ms   500 ms  500 ms
  upload (beyond the proof)         1  250 ms   250 ms  250 ms"""
    )
    assert "stages   before layers 100 ms (10.0 %), layers 100 ms (10.0 %), after layers" in report_of(summary)


def test_phases_too_short_to_be_shown_one_by_one_are_in_the_sums() -> None:
    short = [item for ms in range(100) for item in ((begin("hash", ms + 1), ms), (end("hash", ms + 1), ms))]
    summary = timed((START, 0), *short, (COMPLETE, 200))
    assert next(tally.count for _, name, tally in summary.phases if name == "hash") == 100


def test_phases_of_unknown_duration_are_counted_and_not_summed() -> None:
    summary = timed((START, 0), (begin("commit", 1), 0), (end("commit", 1), 0), (COMPLETE, 0), source="reconstructed")
    said = report_of(summary)
    assert "  commit      1      ?        ?     ?\n  without 1 phase whose time is not known" in said


def test_phases_of_a_file_are_reported() -> None:
    ended = PhaseEnd(name="commit", phase=None, duration_ns=5_000_000)
    summary = timed((START, 0), (ended, 5), (COMPLETE, 5), source="reconstructed")
    assert "Phases (reported)" in report_of(summary)


def test_the_table_of_phases_is_bounded_and_says_so() -> None:
    many = [item for n in range(200) for item in ((begin(f"p{n}", n), 10 * n), (end(f"p{n}", n), 10 * n + 5))]
    summary = timed((START, 0), *many, (COMPLETE, 5000))
    assert len(summary.phases) == MAX_PHASES + 1
    assert sum(tally.count for _, _, tally in summary.phases) == 200
    table = report_of(summary).split("Phases")[1].split("\n\n")[0]
    assert len(table.splitlines()) == 15
    assert f"  {MAX_PHASES + 1 - 12} more phases not shown" in table


@pytest.mark.parametrize("width", [20, 40, 60, 80, 132, 300])
def test_phases_fit_whatever_the_terminal(width: int) -> None:
    name = "x" * 300
    deep = [event for number in range(30) for event in (begin(name, number), done(number, 10**9, 10**8))]
    running = fed(*WALKED, *deep)
    assert max(cell_len(line) for line in view_of(running, width)) <= width
    ended = fed(*WALKED, *deep, *[end(name, number) for number in reversed(range(30))], COMPLETE)
    assert max(cell_len(line) for line in report_of(ended, width).splitlines()) <= width


def test_many_phases_take_no_more_memory_than_a_few() -> None:
    summary = RunSummary(clock=Clock())

    def run(proofs: int) -> None:
        for _ in range(proofs):
            phases = [event for n in range(40) for event in (begin(f"p{n}", n), done(n, 9, 3), end(f"p{n}", n))]
            summary.add_batch(tuple(envelopes([*WALKED, *phases, COMPLETE], session_id="s", close=False)))
        summary.news.take_news()
        gc.collect()

    run(50)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run(50)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert summary.totals.proofs == 100
    assert grown < 256 * 1024, "the console keeps sums"
