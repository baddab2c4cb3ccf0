"""Every sentence about time and place is true of genuine recordings: read from a file, as they arrive, cut anywhere."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from genuine import bare_lines, envelope_lines
from rich.console import Console

from proofstream import Decoded, Envelope, LayerEnd, LayerStart, ProofComplete, ProofStart
from proofstream.testing import InlineHost, envelopes
from proofstream_console import ConsolePlugin, words
from proofstream_console.closing_report import closing_report
from proofstream_console.durations import DurationTally, Took
from proofstream_console.live_view import LiveView
from proofstream_console.run_summary import RunSummary

Streams = Callable[..., tuple[Envelope, ...]]
GENUINE = Path(__file__).parents[2] / "data" / "genuine" / "stwo-ml"


class Clock:
    """A monotonic clock in seconds that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def summed(*batches: tuple[Envelope, ...], **settings: Any) -> RunSummary:
    summary = RunSummary(clock=settings.pop("clock", Clock()), **settings)
    for batch in batches:
        summary.add_batch(batch)
    return summary


def report_of(summary: RunSummary, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(closing_report(summary, width=width))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def in_one_line(text: str) -> str:
    """A text without its line breaks, which depend on the width."""
    return " ".join(text.split())


def headline(summary: RunSummary) -> str:
    return report_of(summary, 200).splitlines()[0]


def view_of(summary: RunSummary) -> list[str]:
    return [line.plain for line in LiveView(summary, max_layers=8, max_proofs=20).lines(width=80, height=24)]


# How long it took


def test_a_file_that_reports_no_duration_does_not_say_how_long_its_proof_took(streams: Streams) -> None:
    summary = summed(streams("mlp"), live=False)
    assert headline(summary) == "✓ proof on cpu-gkr: complete, layers 21.0 ms; the whole is not known"
    said = report_of(summary)
    assert "  stages   layers 21.0 ms (derived)\n" in said
    assert "Time in layers, by kind (reported)" in said
    assert (summary.totals.proof_time.count, summary.totals.proof_time.timed) == (1, 0)


def test_the_command_says_no_more_of_a_file_than_it_knows() -> None:
    command = [sys.executable, "-m", "proofstream", "run", str(GENUINE / "mlp.jsonl"), "--console"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "proof 1 complete, layers 21.0 ms; the whole is not known (7 of 7 layers, 26 rounds)" in done.stderr
    assert "complete in" not in done.stderr


def test_a_file_that_reports_a_duration_is_believed_and_says_so(streams: Streams) -> None:
    summary = summed(streams("mlp", proof_ms=1717), live=False)
    assert headline(summary) == "✓ proof on cpu-gkr: complete in 1.72 s, as reported"
    assert "  stages   layers 21.0 ms (1.2 %), after layers 1.70 s (98.8 %) (derived)\n" in report_of(summary)


def test_proofs_of_unknown_duration_are_in_no_average(streams: Streams, genuine: Streams) -> None:
    of_file = summed(streams("decode-prefill-and-2-steps"), live=False)
    said = report_of(of_file)
    assert "  proof time  not known of 3 proofs\n" in said
    assert "  stages      layers 285 ms (derived)\n" in said
    assert "  3  proof on cpu-gkr       6       9     ?  complete, layers 121 ms; the whole is not known" in said
    mixed = summed(genuine("mlp"), streams("decode-prefill-and-2-steps"))
    said = report_of(mixed)
    assert "  proof time  1.72 s on average, 1.72 s at most (measured), not known of 3\n" in said
    assert "after layers 1.69 s (98.6 %) (measured)" in in_one_line(said), (
        "shares are of proofs whose duration is known"
    )


def test_layers_of_unknown_duration_are_in_no_sum(streams: Streams) -> None:
    summary = summed(streams("error-in-walk"), live=False)
    assert headline(summary) == (
        "✗ proof on cpu-gkr: aborted in layer 8 MatMul (layers at least 53.0 ms; the whole is not known): "
        "the session ended before it did"
    )
    assert "\n  without 1 layer whose time is not known\n" in report_of(summary)
    assert 8 not in [layer.index for layer in summary.slowest]


def test_measured_stages_of_a_genuine_proof(genuine: Streams) -> None:
    summary = summed(genuine("mlp"))
    assert headline(summary) == "✓ proof on cpu-gkr: complete in 1.72 s"
    stages = "stages before layers 7.51 µs (0.0 %), layers 24.4 ms (1.4 %), after layers 1.69 s (98.6 %) (measured)"
    assert stages in in_one_line(report_of(summary))
    assert "Slowest layers (measured)" in report_of(summary)


def test_what_began_before_reading_did_took_at_least_so_long(genuine: Streams) -> None:
    summary = summed(genuine("mlp", arrivals_from=30))
    assert headline(summary).startswith("✓ proof on cpu-gkr: complete in at least 1.7")
    times = "  times    stamped on arrival; laid out from the producer's own durations\n"
    assert times in report_of(summary)
    assert summary.totals.proof_time.timed == 0


def test_times_of_arrival_say_how_exact_they_are() -> None:
    assert words.times({"arrival"}, 500_000) == "stamped on arrival, to 500 µs"
    assert words.times({"arrival"}, 0) == "stamped on arrival"
    assert words.times({"envelope"}, 500_000) == "measured: each event came with its time"


def test_a_proof_whose_start_was_laid_out_is_shown_with_at_least_its_time(genuine: Streams) -> None:
    clock = Clock()
    summary = summed(genuine("mlp", arrivals_from=30, seconds=0.5, close=False), clock=clock)
    clock.now += 2
    assert view_of(summary)[0].endswith("≥ 2.02 s")


# Proofs that run at once without job ids


def overlapping(genuine: Streams) -> tuple[Envelope, ...]:
    """Two genuine proofs in one stream: the second begins once all layers of the first have ended."""
    lines = [envelope for envelope in genuine("mlp")[1:-1] if not isinstance(envelope.event, ProofComplete)]
    ends = [envelope for envelope in genuine("mlp") if isinstance(envelope.event, ProofComplete)]
    decoded = [Decoded(event=envelope.event, raw=envelope.raw) for envelope in (*lines, *lines, *ends, *ends)]
    return tuple(envelopes(decoded, session_id="two"))


def test_an_end_that_may_be_another_proof_s_tells_no_time(genuine: Streams) -> None:
    summary = summed(overlapping(genuine))
    assert [words.outcome(proof) for proof in summary.recent] == [
        "complete, its time is not known, because its end may be another proof's",
    ] * 2
    assert summary.totals.proof_time.timed == 0


def test_a_proof_whose_end_was_not_seen_is_given_up_and_not_said_to_have_aborted(genuine: Streams) -> None:
    batch = overlapping(genuine)
    one_end = (*batch[:-2], batch[-1])
    said = report_of(summed(one_end), 200)
    assert "given up after the last layer (7 of 7): its end was not seen" in said
    assert "aborted after the last layer" not in said


def test_a_clock_that_was_set_is_no_silence(genuine: Streams) -> None:
    batch = genuine("mlp")
    late = msgspec.structs.replace(batch[-2], time_unix_nano=batch[-2].time_unix_nano + 400 * 24 * 3600 * 10**9)
    summary = summed((*batch[:-2], late))
    assert summary.silences.longest_ns("after_layers") < 10**9


def test_a_session_without_job_ids_is_told_once_that_its_proofs_ran_at_once(genuine: Streams) -> None:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream), {"mode": "plain"})
    batch = overlapping(genuine)
    host.feed([*batch[:-1], *(msgspec.structs.replace(e, seq=e.seq + 1000) for e in batch[1:])])
    host.close()
    lines = stream.getvalue().splitlines()
    assert sum(line.startswith("warn: test: proofs ran at once without job ids") for line in lines) == 1
    assert "send job frames, or use session.proof" in stream.getvalue()
    assert any(line.startswith("  at once") and "in 1 session proofs ran at once" in line for line in lines)


def test_proofs_one_after_the_other_are_not_said_to_run_at_once(genuine: Streams) -> None:
    assert "at once" not in report_of(summed(genuine("decode-prefill-and-2-steps")))


# Where it died


def test_a_prover_killed_after_its_layers_did_not_die_in_one(genuine: Streams) -> None:
    summary = summed(genuine("mlp", seconds=1.3))
    assert headline(summary) == (
        "✗ proof on cpu-gkr: aborted after the last layer (7 of 7), after 1.28 s of silence, 1.30 s in all: "
        "the session was lost"
    )


def test_a_silence_of_less_than_a_second_is_not_told(genuine: Streams) -> None:
    assert "aborted after the last layer (7 of 7), 500 ms in all: " in headline(summed(genuine("mlp", seconds=0.5)))


def test_a_recording_that_ends_after_the_layers_says_so_too(streams: Streams) -> None:
    whole = streams("mlp")
    cut = tuple(envelope for envelope in whole if not isinstance(envelope.event, ProofComplete))
    assert len(cut) == len(whole) - 1
    assert headline(summed(cut, live=False)) == (
        "✗ proof on cpu-gkr: aborted after the last layer (7 of 7) (layers 21.0 ms; the whole is not known): "
        "the session ended before it did"
    )


def before(batch: tuple[Envelope, ...], kind: type[LayerStart | LayerEnd], number: int) -> tuple[Envelope, ...]:
    """The batch up to an event of that kind, without it, and its last envelope, which closes the session."""
    places = [place for place, envelope in enumerate(batch) if isinstance(envelope.event, kind)]
    return (*batch[: places[number]], batch[-1])


def test_a_prover_killed_before_and_between_and_in_its_layers(genuine: Streams) -> None:
    batch = genuine("mlp", seconds=0.5)
    assert "aborted before the first layer, after" not in headline(summed(before(batch, LayerStart, 0)))
    assert "aborted before the first layer, 500 ms in all: " in headline(summed(before(batch, LayerStart, 0)))
    assert "aborted between layers, after 4 of 7, 500 ms in all: " in headline(summed(before(batch, LayerStart, 4)))
    assert "aborted in layer 2 MatMul, 500 ms in all: " in headline(summed(before(batch, LayerEnd, 4)))


def test_an_error_in_a_layer_is_in_that_layer(genuine: Streams) -> None:
    assert headline(summed(genuine("error-in-walk"))).startswith("✗ proof on cpu-gkr: aborted in layer 8 MatMul, ")


# What it does now


def plain_lines(batch: tuple[Envelope, ...], seconds: float, **settings: object) -> list[str]:
    """What the plain console writes about an open session in so many seconds."""
    clock, stream = Clock(), io.StringIO()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": "plain", **settings})
    host.feed(batch)
    for _ in range(round(seconds / 0.25)):
        clock.now += 0.25
        host.tick()
    return stream.getvalue().splitlines()


def test_plain_lines_do_not_repeat_that_all_is_done_while_the_proof_goes_on(genuine: Streams) -> None:
    lines = plain_lines(genuine("mlp", seconds=0.1, close=False), 22)
    assert lines == [
        "proof 1 started on cpu-gkr, 7 layers",
        "proof 1: all 7 layers done; what follows has no events, silent for 1.25 s; 1.27 s so far",
        "proof 1: all 7 layers done; what follows has no events, silent for 11.3 s; 11.3 s so far",
        "proof 1: all 7 layers done; what follows has no events, silent for 21.3 s; 21.3 s so far",
    ]


def test_the_live_view_draws_no_full_bar_while_the_proof_goes_on(genuine: Streams) -> None:
    clock = Clock()
    summary = summed(genuine("mlp", seconds=0.1, close=False), clock=clock)
    clock.now += 11
    lines = view_of(summary)
    assert "━" not in "".join(lines)
    assert "100 %" not in "".join(lines[:4])
    assert lines[1].startswith("  layers 7/7 ")
    assert lines[1].endswith("✓ 24.4 ms")
    assert lines[2].startswith("  after layers ")
    assert lines[2].endswith(" 11.0 s")
    assert lines[3] == "    what follows has no events, silent for 11.0 s"


def test_the_bar_says_that_it_counts_layers(genuine: Streams) -> None:
    summary = summed(before(genuine("mlp"), LayerEnd, 3)[:-1])
    assert view_of(summary)[1].endswith(" 42 %  layers 3/7")


# Silence


def quiet_proof(genuine: Streams, clock: Clock) -> RunSummary:
    return summed(genuine("mlp", seconds=0.1, close=False), clock=clock)


def test_a_minute_of_silence_is_told_once_if_there_never_was_such_a_silence(genuine: Streams) -> None:
    lines = plain_lines(genuine("mlp", seconds=0.1, close=False), 200, progress_s=1000)
    warnings = [line for line in lines if line.startswith("warn: ")]
    assert warnings == ["warn: proof 1 silent for 1 min 00 s after its layers, longer than ever"]


def test_silence_is_compared_with_the_same_stage_of_earlier_proofs(genuine: Streams) -> None:
    clock = Clock()
    first = [msgspec.structs.replace(e, session_id="first") for e in genuine("mlp")]
    slow = tuple(
        msgspec.structs.replace(e, time_unix_nano=e.time_unix_nano + 40 * 10**9)
        if isinstance(e.event, ProofComplete)
        else e
        for e in first[:-1]
    )
    summary = summed(slow, genuine("mlp", seconds=0.1, close=False), clock=clock)
    clock.now += 124
    summary.add_batch(())
    assert not any("longer than ever" in line for line in view_of(summary))
    clock.now += 2
    assert "  silent for 2 min 06 s after its layers, longer than ever (longest 41.7 s)" in view_of(summary)


def test_in_a_replay_there_is_no_silence(genuine: Streams) -> None:
    clock = Clock()
    summary = summed(genuine("mlp", seconds=0.1, close=False), clock=clock, live=False)
    clock.now += 1000
    summary.add_batch(())
    assert not any("silent" in line for line in view_of(summary))


# Names of proofs


def a_proof(model: str | None, job: str | None, parent: str | None = None) -> Decoded:
    event = ProofStart(model_name=model, backend="cpu", num_layers=3, input_shape=(1, 1), output_shape=(1, 1))
    (opened, envelope) = envelopes([event], close=False)
    del opened
    return Decoded(event=event, raw=envelope.raw, job_id=job, parent_job_id=parent)


def complete(job: str | None) -> Decoded:
    event = ProofComplete(duration_ms=0, num_layer_proofs=0, num_weight_openings=0, weight_binding_mode="none")
    return Decoded(event=event, raw=envelopes([event], close=False)[1].raw, job_id=job)


def lines_of(*events: Decoded) -> list[str]:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream), {"mode": "plain"})
    host.feed(envelopes(events))
    host.close()
    return stream.getvalue().split("\n\n")[0].splitlines()


def test_a_job_that_was_made_up_is_named_only_beside_others() -> None:
    alone = lines_of(a_proof("mlp", "proof-1"), complete("proof-1"), a_proof("mlp", "proof-2"), complete("proof-2"))
    assert not any("job" in line for line in alone)
    at_once = lines_of(a_proof("mlp", "proof-1"), a_proof(None, "proof-2"), complete("proof-2"), complete("proof-1"))
    assert at_once[2:] == [
        "proof 2 (job proof-2) complete in 1.00 ms (0 of 3 layers, 0 rounds)",
        "proof 1 (mlp, job proof-1) complete in 3.00 ms (0 of 3 layers, 0 rounds)",
    ]
    assert "job 9f2c" in lines_of(a_proof("mlp", "9f2c"))[0], "a producer's own name is told"


def test_a_proof_inside_another_says_so_and_the_outer_one_waits_for_it() -> None:
    events = a_proof("outer", "proof-1"), a_proof("inner", "proof-2", parent="proof-1")
    assert lines_of(*events)[1] == "proof 2 started: inner on cpu, inside proof 1, job proof-2, 3 layers"
    clock = Clock()
    summary = summed(tuple(envelopes(events, close=False)), clock=clock)
    clock.now += 100
    outer, inner = summary.open_proofs
    assert summary.unusual_silence(outer) is None
    assert summary.unusual_silence(inner) is not None
    assert "    proof 2 inside it" in view_of(summary)


# What breaks off, and layers without an end


def said_of(lines: Iterable[bytes], source: Path | None) -> str:
    """What the command says of a stream, in a file or, without one, on standard input; in one line."""
    content = b"".join(line + b"\n" for line in lines)
    if source is not None:
        source.write_bytes(content)
    command = [sys.executable, "-m", "proofstream", "run", "-" if source is None else str(source), "--console"]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        command, input=b"" if source else content, capture_output=True, timeout=60, check=True, env=environment
    )
    return in_one_line(done.stderr.decode())


@pytest.mark.parametrize("from_file", [True, False], ids=["file", "standard input"])
def test_a_timed_recording_that_breaks_off_lasted_at_least_until_then(tmp_path: Path, *, from_file: bool) -> None:
    """Not until its last event, and not until it is read, which is months later."""
    lines = list(envelope_lines("mlp"))[:-1]
    said = said_of(lines, tmp_path / "cut.jsonl" if from_file else None)
    assert "✗ proof on cpu-gkr: aborted after the last layer (7 of 7), at least 24." in said
    assert "of silence" not in said
    assert "stages before layers 7.51 µs, layers 24.4 ms (measured)" in said
    assert "times measured: each event came with its time source" in said


def test_a_layer_that_reports_0_ms_took_less_than_1_ms(streams: Streams) -> None:
    said = report_of(summed(streams("decode-prefill-and-2-steps"), live=False))
    assert "  MatMul          6  <6.00 ms  <1.00 ms  <1.00 ms   0.0 %" in said
    assert "<1 µs" not in said
    said = report_of(summed(streams("error-in-walk"), live=False))
    assert "     10  Add        <1 ms       0  1" in said


def test_a_sum_of_which_0_ms_may_be_the_greater_part_has_a_bound() -> None:
    tally = DurationTally()
    tally.add_duration(Took(196_000, "measured"))
    assert tally.bound_ns(tally.total_ns, tally.below_unit) is None
    for _ in range(5):
        tally.add_duration(Took(1, "reported"))
    assert tally.bound_ns(tally.total_ns, tally.below_unit) == 5_196_005
    tally.add_duration(Took(84_000_000, "reported"))
    assert tally.bound_ns(tally.total_ns, tally.below_unit) is None


def test_a_stark_proof_without_a_proof_around_it_is_no_proof_but_told(streams: Streams) -> None:
    summary = summed(streams("stark-only"), live=False)
    assert headline(summary) == "No proof was seen, but 1 STARK proof outside of one."


def without_ends(lines: Iterable[bytes]) -> list[bytes]:
    return [line for line in lines if b'"LayerEnd"' not in line]


def test_layers_that_tell_no_time_are_in_no_time_of_all_layers(tmp_path: Path) -> None:
    lines = bare_lines("mlp")
    said = said_of(without_ends(lines), tmp_path / "none.jsonl")
    assert "✓ proof on cpu-gkr: complete, its time is not known" in said
    some = [line for line in lines if not line.startswith(b'{"LayerEnd":{"layer_idx":5')]
    assert "✓ proof on cpu-gkr: complete, layers at least 18.0 ms; the whole is not known" in said_of(
        some, tmp_path / "some.jsonl"
    )


def test_a_last_layer_without_an_end_did_not_last_until_the_proof_was_complete(tmp_path: Path) -> None:
    said = said_of(without_ends(envelope_lines("mlp")), tmp_path / "timed.jsonl")
    assert "complete in 1.72 s" in said
    assert "stages before layers 7.51 µs (0.0 %) (measured)" in said, "where the walk ended is not known"
    assert "without 1 layer whose time is not known" in said
    assert "1.69 s" not in said


def test_more_layers_than_were_announced_are_not_a_part_of_them(genuine: Streams) -> None:
    (proof,) = summed(genuine("mlp")).recent
    proof.layers_left_behind = 12
    assert (words.layers_of(proof), words.layers_done(proof)) == ("12, 7 announced", "12 layers, 7 announced")
