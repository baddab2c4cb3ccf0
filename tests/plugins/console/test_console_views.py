"""What the views draw: the live view, the closing report and the plain lines, at any width, and with hostile text."""

# ruff: noqa: RUF001 - shapes are written with a multiplication sign

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from proofstream import (
    ActivationStats,
    Envelope,
    EventsLost,
    LayerActivation,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Log,
    LogLevel,
    PluginHealth,
    ProofAborted,
    ProofComplete,
    ProofEvent,
    ProofStart,
    ReportLine,
    TraceStarted,
    UnknownEvent,
)
from proofstream.testing import InlineHost, envelopes
from proofstream_console import ConsolePlugin, words
from proofstream_console.closing_report import closing_report
from proofstream_console.formats import MAX_NAMED
from proofstream_console.live_view import LiveView
from proofstream_console.run_summary import MAX_REPORT_LINES, RunSummary

Streams = Callable[..., tuple[Envelope, ...]]

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold]\u202e\ud800\x9b31m:smile:"
FORBIDDEN = ("\x1b", "\x07", "\u202e", "\ud800", "\x9b")


class Clock:
    """A monotonic clock in seconds that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def proof_start(model_name: str | None = "mlp", backend: str = "cpu", num_layers: int = 2) -> ProofStart:
    return ProofStart(
        model_name=model_name, backend=backend, num_layers=num_layers, input_shape=(1, 4), output_shape=(1, 2)
    )


def layer_start(index: int, gpu: int | None = None, kind: LayerKind = LayerKind.MatMul) -> LayerStart:
    return LayerStart(
        layer_idx=index,
        kind=kind,
        input_shape=(1, 4),
        output_shape=(1, 2),
        trace_cost=8,
        claim_value_approx=0.5,
        gpu_device=gpu,
    )


def layer_end(index: int, duration_ms: int = 1) -> LayerEnd:
    return LayerEnd(
        layer_idx=index,
        kind=LayerProofKind.Sumcheck,
        final_claim_value_approx=0.5,
        duration_ms=duration_ms,
        rounds_completed=0,
    )


def an_activation(index: int) -> LayerActivation:
    stats = ActivationStats(mean=0.0, std_dev=1.0, min=0.0, max=1.0, sparsity=0.0)
    return LayerActivation(
        layer_idx=index, node_id=index, kind=LayerKind.MatMul, output_shape=(1, 2), output_sample=(1,), stats=stats
    )


PROOF_COMPLETE = ProofComplete(
    duration_ms=0, num_layer_proofs=2, num_weight_openings=0, weight_binding_mode="sequential"
)


def fed(*events: ProofEvent, **settings: Any) -> RunSummary:
    summary = RunSummary(clock=settings.pop("clock", Clock()), **settings)
    summary.add_batch(tuple(envelopes(events, session_id="s", close=False)))
    return summary


def view_of(summary: RunSummary, *, width: int = 80, height: int = 24, max_layers: int = 8) -> list[str]:
    return [
        line.plain for line in LiveView(summary, max_layers=max_layers, max_proofs=20).lines(width=width, height=height)
    ]


def report_of(summary: RunSummary, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(closing_report(summary, width=width))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


# The live view


def running_proof() -> RunSummary:
    clock = Clock()
    summary = fed(proof_start(num_layers=4), layer_start(3), layer_end(3), layer_start(2, gpu=1), clock=clock)
    clock.now += 1.5
    return summary


def test_live_view_of_a_running_proof() -> None:
    assert view_of(running_proof(), width=72, height=15) == [
        "mlp on cpu   test                                                 1.50 s",
        f"  {'━' * 51}  25 %  layers 1/4",
        "  layer    2  MatMul      1×4 → 1×2  GPU 1                        1.50 s",
        "0 rounds · nothing lost · slowest layer 3 MatMul 1.00 ms",
        "time in layers: MatMul 100.0 %",
    ]


def test_live_view_of_a_running_proof_in_a_larger_terminal() -> None:
    assert view_of(running_proof(), width=80, height=24) == [
        "mlp on cpu   test                                                         1.50 s",
        f"  {'━' * 59}  25 %  layers 1/4",
        "  █◆··",
        "  layer    2  MatMul      1×4 → 1×2  GPU 1                                1.50 s",
        "  time in layers, by kind                  slowest layers",
        "  MatMul     100.0 %  ████████████████        3  MatMul       1.00 ms",
        "0 rounds · nothing lost",
    ]


def test_live_view_of_a_running_proof_in_a_large_terminal() -> None:
    summary = running_proof()
    lines = view_of(summary, width=200, height=60)
    titles = next(line for line in lines if "time in layers, by kind" in line)
    assert titles.split("   ")[0].strip() == "time in layers, by kind"
    assert titles.index("slowest layers") < titles.index("last layers")
    first = lines[lines.index(titles) + 1]
    layer = ["3", "MatMul", "1.00", "ms", "1×4", "→", "1×2"]
    assert first.split() == ["MatMul", "100.0", "%", "1.00", "ms", "1", "█" * 12, *layer, *layer]
    assert "1.00 ms in 1 layer" in titles
    assert lines[2:4] == ["  █◆··", "  each mark is one layer; the tallest took 1.00 ms, three steps lower is a tenth"]
    assert {len(line) for line in lines[:2]} == {160}, "the sides of all lines are above each other"
    assert "" in lines, "there is room to breathe"


def test_live_view_grows_with_the_terminal_and_leaves_a_third_to_others() -> None:
    summary = fed(proof_start(num_layers=400), *[layer_start(index, gpu=index) for index in range(40)], layer_end(3))
    heights = [len(view_of(summary, width=100, height=height)) for height in (3, 6, 12, 24, 40, 60)]
    assert heights == sorted(heights)
    assert all(drawn <= lines - lines // 3 for drawn, lines in zip(heights, (3, 6, 12, 24, 40, 60), strict=True))


def test_live_view_of_a_prover_that_waits_says_what_is_heard() -> None:
    clock = Clock()
    summary = RunSummary(clock=clock)
    opened = envelopes([an_activation(0), an_activation(1), Log(level=LogLevel.Debug, message="loads")], close=False)
    source = "tcp://127.0.0.1:9100 (from 127.0.0.1:50000)"
    first = msgspec.structs.replace(opened[0], event=msgspec.structs.replace(opened[0].event, source=source))
    summary.add_batch((first, *opened[1:]))
    clock.now += 38
    assert view_of(summary) == [
        f"○ waiting for a proof  {source}        38.0 s",
        "    connected, 2 activations, 3 events",
    ]


def test_live_view_of_a_replay_reads_and_waits_for_nobody() -> None:
    first, second = view_of(fed(an_activation(0), live=False))
    assert first.startswith("○ reading  test ")
    assert second == "    1 activation"


def test_live_view_of_several_proofs_has_a_strip_for_each_where_there_is_room() -> None:
    summary = RunSummary(clock=Clock())
    for number in range(3):
        events = [proof_start(f"model-{number}", num_layers=9), layer_start(1)]
        summary.add_batch(tuple(envelopes(events, session_id=f"s{number}", close=False)))
    strip = f"  ◆{'·' * 8}"
    assert view_of(summary, width=120, height=40).count(strip) == 3
    assert view_of(summary, width=80, height=15).count(strip) == 0


def test_live_view_names_the_slowest_layer_only_if_all_of_it_fits() -> None:
    one = [proof_start("a-long-name-of-a-model"), layer_start(1), layer_end(1), PROOF_COMPLETE]
    counts = view_of(fed(*one, *one), width=60, height=12)[-2]
    assert counts == "0 rounds · nothing lost · ✓ 2 proofs complete"


def test_live_view_shows_who_waits_beside_the_open_proofs() -> None:
    clock = Clock()
    summary = fed(proof_start(), layer_start(1), clock=clock)
    summary.add_batch(tuple(envelopes([an_activation(0)], session_id="t", close=False)))
    clock.now += 2
    assert any(line.startswith("○ waiting for a proof  test") for line in view_of(summary))


def test_live_view_without_a_session_does_not_say_that_no_prover_is_there() -> None:
    clock = Clock()
    summary = RunSummary(clock=clock)
    assert view_of(summary) == ["○ waiting for a first event"]
    clock.now += 12
    (line,) = view_of(summary)
    assert line.startswith("○ waiting for a first event ")
    assert line.endswith(" 12.0 s")


def test_live_view_of_layers_that_are_reported_to_take_no_time_bounds_and_counts_them() -> None:
    layers = [event for number in (2, 1) for event in (layer_start(number), layer_end(number, 0))]
    opened, *events = envelopes([proof_start(num_layers=3), *layers], close=False)
    laid_out = msgspec.structs.replace(opened.event, time_source="reconstructed")
    summary = RunSummary(clock=Clock(), live=False)
    summary.add_batch((msgspec.structs.replace(opened, event=laid_out),))
    summary.add_batch(tuple(msgspec.structs.replace(each, time_unix_nano=opened.time_unix_nano) for each in events))
    lines = view_of(summary, width=200, height=60)
    at = next(number for number, line in enumerate(lines) if "time in layers, by kind   ? in 2 layers" in line)
    assert lines[at + 1].split()[:5] == ["MatMul", "?", "<2.00", "ms", "2"]


def test_live_view_of_very_many_sessions_that_wait() -> None:
    summary = RunSummary(clock=Clock())
    for number in range(100):
        summary.add_batch(tuple(envelopes([an_activation(0)], session_id=f"s{number}", close=False)))
    lines = view_of(summary)
    assert len(lines) <= 16
    shown = sum(line.startswith("○ waiting") for line in lines)
    assert lines[-1] == f"+ {100 - shown} more sessions waiting"


def test_the_slowest_layer_names_its_proof_if_there_are_several() -> None:
    one = [proof_start("alpha"), layer_start(1), layer_end(1), PROOF_COMPLETE]
    two = [proof_start("beta"), layer_start(0), layer_end(0, 9), PROOF_COMPLETE]
    summary = fed(*one)
    assert "slowest layer 1 MatMul 1.00 ms" in view_of(summary, height=15)[-2]
    summary = fed(*one, *two)
    assert "slowest layer 1 MatMul of proof 1 alpha" in view_of(summary, width=120, height=12)[-2]
    report = report_of(summary, width=100)
    rows = report[report.index("Slowest layers") :].splitlines()[1:]
    assert [row.split()[:3] for row in rows] == [
        ["proof", "layer", "kind"],
        ["1", "alpha", "1"],
        ["2", "beta", "0"],
    ]
    assert "proof 2 beta" in "\n".join(view_of(summary, width=160, height=50))


def test_live_view_before_the_first_proof_names_the_source() -> None:
    assert view_of(fed())[0] == "○ waiting for a proof  test"


def test_live_view_says_when_nothing_is_heard() -> None:
    clock = Clock()
    summary = fed(proof_start(), layer_start(1), layer_end(1), clock=clock)
    clock.now += 12
    lines = view_of(summary, height=15)
    assert lines[2].startswith("  layer    1  MatMul      1×4 → 1×2 ")
    assert lines[2].endswith("✓ 1.00 ms"), "the layer that ended last is still shown"
    assert lines[3] == "    silent for 12.0 s"


@pytest.mark.parametrize("width", [1, 10, 20, 40, 60, 80, 100, 250])
@pytest.mark.parametrize("height", [2, 5, 10, 24, 60])
def test_live_view_fits_whatever_the_terminal(width: int, height: int) -> None:
    layers = [layer_start(index, gpu=index) for index in range(40)]
    trouble = PluginHealth(
        plugin="otel", status="failed", reason="x" * 300, depth=0, delivered=0, dropped={}, counters={}, lag_s=0.0
    )
    summary = fed(proof_start("m" * 200, num_layers=40), *layers, trouble)
    lines = view_of(summary, width=width, height=height)
    assert 1 <= len(lines) <= height - 1
    assert max(cell_len(line) for line in lines) <= width


def test_live_view_names_what_it_has_no_room_for() -> None:
    summary = fed(proof_start(num_layers=40), *[layer_start(index, gpu=index) for index in range(40)])
    lines = view_of(summary, max_layers=8)
    assert sum(line.startswith("  layer ") for line in lines) == 7
    assert "  + 33 more layers" in lines


def test_live_view_of_many_proofs_at_once() -> None:
    summary = RunSummary(clock=Clock())
    for number in range(30):
        events = [proof_start(f"model-{number}"), layer_start(1)]
        summary.add_batch(tuple(envelopes(events, session_id=f"s{number}", close=False)))
    lines = view_of(summary)
    assert len(lines) <= 23
    assert any(line.endswith("more proofs") for line in lines)


def test_live_view_does_not_shrink_between_layers() -> None:
    summary = RunSummary(clock=Clock())
    view = LiveView(summary, max_layers=8, max_proofs=20)
    summary.add_batch(tuple(envelopes([proof_start(), layer_start(1, gpu=0), layer_start(0, gpu=1)], close=False)))
    tall = len(view.lines(width=80, height=24))
    summary.add_batch(tuple(envelopes([layer_end(1), layer_end(0), PROOF_COMPLETE], close=False))[1:])
    assert len(view.lines(width=80, height=24)) >= tall


# The closing report


def test_report_of_a_complete_proof(streams: Streams) -> None:
    summary = RunSummary(clock=Clock())
    stream = streams("smollm2-135m-cpu")
    trace = TraceStarted(proof=0, trace_id="4bf92f3577b34da6a3ce929d0e0e4736", span_id="0" * 16, sampled=True)
    summary.add_batch(stream)
    summary.add_batch(tuple(envelopes([trace], close=False)[1:]))
    assert report_of(summary) == (
        """\
✓ proof on cpu-gkr: complete, layers 31.8 s; the whole is not known
  layers   211 of 211
  rounds   1,230
  stages   layers 31.8 s (derived)
  trace    4bf92f3577b34da6a3ce929d0e0e4736
  lost     no events
  refused  no lines
  times    laid out from the producer's own durations
  source   smollm2-135m-cpu.jsonl

Time in layers, by kind (reported)
  kind        count    total     mean  longest   share
  MatMul        120   31.7 s   264 ms   399 ms  99.7 %  ██████████████████
  RMSNorm        61  58.0 ms   951 µs  2.00 ms   0.2 %
  Activation     30  33.0 ms  1.10 ms  2.00 ms   0.1 %

Slowest layers (reported)
  layer  kind      time  rounds  shapes
     88  MatMul  399 ms      10  1×576 → 1×1536
    135  MatMul  397 ms      10  1×576 → 1×576
    155  MatMul  394 ms      10  1×576 → 1×576
     32  MatMul  394 ms      10  1×576 → 1×1536
    197  MatMul  392 ms      10  1×576 → 1×576"""
    )


def test_report_names_the_aborted_proof_and_where_it_died(streams: Streams) -> None:
    summary = RunSummary(clock=Clock())
    summary.add_batch(streams("aborted-then-next"))
    said = report_of(summary, width=100)
    assert said.startswith("✗ 2 proofs: 1 complete, 1 aborted\n")
    assert "1  proof on gpu-gkr      12      46       ?  aborted in layer 9 MatMul: another proof started" in said
    assert "2  proof on gpu-gkr      22      90  33.2 s  complete" in said
    assert "NVIDIA H100 80GB HBM3 (reported)" in said, "its free memory never changes, so it is the total"
    assert "busy" not in said, "the utilization of this stream is the walk's progress in disguise"


def test_report_counts_losses_and_refusals(streams: Streams) -> None:
    summary = RunSummary(clock=Clock())
    summary.add_batch(streams("ws-job-frames-lagged"))
    assert "lost     17 events" in report_of(summary)
    assert "job 6f1c2f0e-2a4e-4b61-9a57-0d3a7d1f7c11" in report_of(summary, width=120)
    summary = RunSummary(clock=Clock())
    summary.add_batch(streams("malformed"))
    assert "refused  5 lines" in report_of(summary)


def test_report_says_where_ends_were_not_seen(streams: Streams) -> None:
    summary = RunSummary(clock=Clock())
    summary.add_batch(streams("endless-and-holes"))
    said = report_of(summary)
    assert "15 of 17, 2 of them without an end event" in said


def test_report_of_a_stark_proof_alone(streams: Streams) -> None:
    summary = RunSummary(clock=Clock())
    summary.add_batch(streams("stark-without-proof"))
    said = report_of(summary)
    assert said.startswith("No proof was seen, but 1 STARK proof outside of one.")
    assert "STARK proof" in said


def test_report_when_the_end_was_not_awaited() -> None:
    clock = Clock()
    summary = fed(proof_start(), layer_start(1), clock=clock)
    clock.now += 3
    assert report_of(summary).startswith("○ mlp on cpu: not finished after 3.00 s, in layer 1 MatMul for 3.00 s\n")


def test_report_when_nothing_came() -> None:
    assert report_of(RunSummary(clock=Clock())) == "Nothing was received."
    assert report_of(fed()) == "Nothing was received."


def test_report_tells_how_times_came_to_be(streams: Streams) -> None:
    summary = RunSummary(clock=Clock())
    summary.add_batch(streams("aborted-then-next", time_source="arrival"))
    assert "times    stamped on arrival" in report_of(summary)


def test_report_doubts_measured_times_that_the_producer_does_not_share() -> None:
    summary = fed(proof_start(), layer_start(1), layer_end(1, duration_ms=30_000), PROOF_COMPLETE)
    assert "the producer reports 30.0 s for its layers, not 1.00 ms" in report_of(summary)


def test_report_of_very_many_proofs_stays_short_and_keeps_the_aborted_ones() -> None:
    summary = RunSummary(clock=Clock(), max_recent=10)
    events: list[ProofEvent] = [proof_start("dies"), layer_start(1)]
    for number in range(500):
        events += [proof_start(f"m{number}"), layer_start(1), layer_end(1), PROOF_COMPLETE]
    summary.add_batch(tuple(envelopes(events)))
    said = report_of(summary)
    assert "501 proofs: 500 complete, 1 aborted" in said
    assert "dies on cpu" in said
    assert "m499 on cpu" in said
    assert "Proofs (the last 10 of 501, and 1 aborted one before)" in said
    assert len(said.splitlines()) < 50


@pytest.mark.parametrize("width", [20, 40, 60, 80, 132, 300])
def test_report_fits_whatever_the_terminal(width: int, streams: Streams) -> None:
    for name in ("smollm2-135m-cpu", "aborted-then-next", "serde-all-variants"):
        summary = RunSummary(clock=Clock())
        summary.add_batch(streams(name))
        assert max(cell_len(line) for line in report_of(summary, width=width).splitlines()) <= width


# Hostile text


def hostile_events() -> list[ProofEvent]:
    return [
        proof_start(HOSTILE, backend=HOSTILE),
        Log(level=LogLevel.Error, message=HOSTILE),
        Log(level=LogLevel.Info, message=HOSTILE),
        PluginHealth(
            plugin=HOSTILE,
            status="failed",
            reason=HOSTILE,
            depth=0,
            delivered=0,
            dropped={HOSTILE: 1},
            counters={f"lost_{HOSTILE}": 1},
            lag_s=0.0,
        ),
        EventsLost(where=HOSTILE, counts={HOSTILE: 1}),
        layer_start(1),
        TraceStarted(proof=0, trace_id=HOSTILE, span_id=HOSTILE, sampled=True),
    ]


def test_hostile_text_is_shown_as_text() -> None:
    summary = fed(*hostile_events())
    for said in ("\n".join(view_of(summary, width=300)), report_of(summary, width=300)):
        assert not any(code in said for code in FORBIDDEN)
        assert "␛[2J␛]0;owned␇[bold]" in said


@pytest.mark.parametrize("mode", ["live", "plain"])
def test_hostile_text_never_reaches_the_stream(mode: str) -> None:
    clock = Clock()
    stream = Terminal() if mode == "live" else io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": mode})
    clock.now += 1
    host.feed(envelopes(hostile_events(), session_id="s"))
    host.close()
    written = stream.getvalue()
    assert "␛[2J␛]0;owned␇[bold]" in written
    assert "\x1b[2J" not in written
    assert not any(code in written for code in FORBIDDEN[1:])


# Plain lines


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def test_plain_lines_of_a_small_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), live=False)
    events = [
        proof_start(num_layers=4),
        layer_start(3),
        layer_end(3),
        Log(level=LogLevel.Debug, message="not worth a line"),
        Log(level=LogLevel.Info, message="it is a cat"),
        Log(level=LogLevel.Warn, message="lagged 17 events"),
        layer_start(2),
        layer_end(2),
        layer_start(1),
        proof_start(num_layers=1),
        layer_start(0),
        layer_end(0),
        PROOF_COMPLETE,
    ]
    for envelope in envelopes(events):
        host.feed([envelope])
        clock.now += 0.6
        host.tick()
    host.close()
    said = stream.getvalue()
    where = "in layer 1 MatMul"
    assert said.split("\n\n")[0].splitlines() == [
        "proof 1 started: mlp on cpu, 4 layers",
        "proof 1: 1 of 4 layers (25 %), 0 rounds; 2.00 ms so far",
        "info: it is a cat",
        "warn: lagged 17 events",
        "proof 1: 2 of 4 layers (50 %), 0 rounds; 7.00 ms so far",
        (
            f"proof 1 aborted {where}, at most 9.00 ms in all: another proof started "
            "(2 of 4 layers, 0 rounds, 17 events lost)"
        ),
        "proof 2 started: mlp on cpu, 1 layer",
        f"warn: test: {words.PROOFS_AT_ONCE}",
        "proof 2: 1 layer done; 2.00 ms so far",
        "proof 2 complete in 3.00 ms (1 of 1 layer, 0 rounds)",
    ]
    assert "\x1b" not in said


def test_plain_lines_mention_a_proof_that_hangs() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"progress_s": 10})
    host.feed(envelopes([proof_start(), layer_start(1)], close=False))
    for _ in range(100):
        clock.now += 0.25
        host.tick()
    lines = [line for line in stream.getvalue().splitlines() if "in layer 1 MatMul" in line]
    assert lines == [
        "proof 1: 0 of 2 layers (0 %), 0 rounds, in layer 1 MatMul for 10.3 s; 10.3 s so far",
        "proof 1: 0 of 2 layers (0 %), 0 rounds, in layer 1 MatMul for 20.3 s; 20.3 s so far",
    ]


def test_plain_lines_tell_of_a_prover_that_waits_ever_more_seldom() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"progress_s": 10})
    heard = iter(envelopes([an_activation(number % 4) for number in range(30)], close=False))
    for second in range(60):
        host.feed([next(heard)] if second <= 25 else [])
        clock.now += 1
        host.tick()
    host.feed(list(heard))
    host.feed(envelopes([proof_start()], close=False)[1:])
    clock.now += 1
    host.tick()
    assert stream.getvalue().splitlines() == [
        "events arrive from test; waiting for a proof",
        "waiting for a proof: test, for 1.01 s; 11 activations",
        "waiting for a proof: test, for 7.03 s; 25 activations",
        "proof 1 started: mlp on cpu, 2 layers",
    ]
    host.close()


def test_plain_lines_tell_of_a_prover_that_waits_for_its_first_proof_in_silence() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"progress_s": 10})
    opened, activation = envelopes([an_activation(0)], close=False)
    unix = msgspec.structs.replace(opened.event, source="unix:prover.sock (connection 1)")
    host.feed([msgspec.structs.replace(opened, event=unix), activation])
    for _ in range(200):
        clock.now += 1
        host.tick()
    said = "waiting for a proof: unix:prover.sock (connection 1), for"
    assert stream.getvalue().splitlines() == [
        "prover connected: unix:prover.sock (connection 1); waiting for a proof",
        f"{said} 11.0 s; connected, 1 activation",
        f"{said} 31.0 s; connected, 1 activation",
        f"{said} 1 min 11 s; connected, 1 activation",
        f"{said} 2 min 31 s; connected, 1 activation",
    ]
    host.close()


def test_plain_lines_leave_a_prover_alone_that_is_idle_between_proofs() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"progress_s": 10})
    host.feed(envelopes([proof_start(), PROOF_COMPLETE, an_activation(0)], close=False))
    for _ in range(200):
        clock.now += 1
        host.tick()
    assert "waiting" not in stream.getvalue()
    host.close()


def test_plain_lines_tell_that_a_prover_has_connected() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock))
    for job, first in enumerate([proof_start(), an_activation(0)]):
        opened, *events = envelopes([first], session_id=f"s{job}", close=False)
        source = msgspec.structs.replace(opened.event, source=f"tcp://127.0.0.1:9100 (from 127.0.0.1:5000{job})")
        clock.now += 1
        host.feed([msgspec.structs.replace(opened, event=source), *events])
    assert stream.getvalue().splitlines() == [
        "prover connected: tcp://127.0.0.1:9100 (from 127.0.0.1:50000)",
        "proof 1 started: mlp on cpu, 2 layers",
        "prover connected: tcp://127.0.0.1:9100 (from 127.0.0.1:50001); waiting for a proof",
    ]
    host.close()


def test_plain_lines_do_not_tell_of_a_session_that_begins_with_its_proof() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock))
    for envelope in envelopes([proof_start(), PROOF_COMPLETE], close=False):
        host.feed([envelope])
        clock.now += 5
        host.tick()
    assert "waiting" not in stream.getvalue()
    host.close()


def test_a_flood_of_lines_is_counted_not_written() -> None:
    clock = Clock()
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"log_lines_per_s": 2})
    for _ in range(50):
        host.feed(envelopes([Log(level=LogLevel.Warn, message="again")] * 10, close=False))
        clock.now += 0.2
        host.tick()
    host.close()
    lines = stream.getvalue().splitlines()
    shown = lines.count("warn: again")
    hidden = sum(int(line[1:].split()[0].replace(",", "")) for line in lines if line.endswith("not shown)"))
    assert shown + hidden == 500
    assert 6 <= shown <= 30


def test_styled_lines_are_text_objects() -> None:
    lines = LiveView(fed(proof_start()), max_layers=1, max_proofs=1).lines(width=80, height=24)
    assert all(isinstance(line, Text) for line in lines)


def test_report_says_that_a_trace_is_not_exported() -> None:
    trace = TraceStarted(proof=0, trace_id="a" * 32, span_id="0" * 16, sampled=False)
    assert f"trace    {'a' * 32} (not sampled, not exported)" in report_of(fed(proof_start(), trace, PROOF_COMPLETE))


def test_report_counts_warnings_and_errors() -> None:
    events = [Log(level=LogLevel.Warn, message="w")] * 2 + [Log(level=LogLevel.Error, message="e")]
    assert "log      1 error, 2 warnings" in report_of(fed(proof_start(), *events))


@pytest.mark.parametrize(
    ("complete", "aborted", "said"),
    [
        (0, 1, "✗ 1 proof aborted"),
        (1, 0, "✓ 1 proof complete"),
        (2, 1, "✓ 2 proofs complete, 1 aborted"),
    ],
)
def test_live_view_counts_the_proofs_that_ended(complete: int, aborted: int, said: str) -> None:
    summary = fed(*[proof_start(), PROOF_COMPLETE] * complete, *[proof_start(), ProofAborted(reason="x")] * aborted)
    assert any(said in line for line in view_of(summary))


def test_a_run_that_ended_before_anything_was_opened_has_no_report() -> None:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream))
    host.tick()
    host.close()
    assert stream.getvalue() == ""


def test_report_names_undeclared_kinds() -> None:
    events: list[ProofEvent] = [UnknownEvent(kind=f"Kind{number}") for number in range(20)]
    summary = RunSummary(clock=Clock())
    summary.add_batch(
        tuple(
            Envelope(seq=seq, time_unix_nano=seq, session_id="s", origin="producer", event=event, raw=b"{}")
            for seq, event in enumerate(events)
        )
    )
    assert "unknown  20 events of undeclared kinds: Kind0, Kind1" in report_of(summary, 200)
    assert report_of(summary, 200).count("Kind") == MAX_NAMED


def add_report_lines(summary: RunSummary, *texts: str, plugin: str = "slowest") -> None:
    summary.add_batch(
        tuple(
            Envelope(
                seq=90 + number,
                time_unix_nano=1,
                session_id="s",
                origin=plugin,
                event=ReportLine(text=text),
                raw=b"{}",
                lineage=(plugin,),
            )
            for number, text in enumerate(texts)
        )
    )


def test_report_ends_with_the_lines_of_plugins() -> None:
    summary = fed(proof_start(), PROOF_COMPLETE)
    add_report_lines(summary, "layer 3 took\n80 %\x1b[31m", "layer 2 the rest")
    assert report_of(summary).endswith("  slowest  layer 3 took␊80 %␛[31m\n  slowest  layer 2 the rest")
    assert summary.totals.sessions == 1


def test_report_bounds_the_lines_of_plugins() -> None:
    summary = fed(proof_start(), PROOF_COMPLETE)
    add_report_lines(summary, *(f"line {number}" for number in range(MAX_REPORT_LINES + 8)))
    shown = report_of(summary)
    assert shown.count("slowest") == MAX_REPORT_LINES
    assert shown.endswith("(8 more lines not shown)")


def test_derived_events_after_the_end_open_no_session() -> None:
    summary = fed(proof_start(), PROOF_COMPLETE)
    late = Log(level=LogLevel.Info, message="summed up")
    summary.add_batch(
        (Envelope(seq=99, time_unix_nano=1, session_id="s", origin="sum", event=late, raw=b"{}", lineage=("sum",)),)
    )
    assert summary.totals.sessions == 1
