"""Real streams: a pseudo-terminal, a pipe without a reader, a broken and a closed stream; and the pace of drawing."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

import pytest
from emulator import Emulator

from proofstream import (
    ConfigError,
    LayerEnd,
    LayerKind,
    LayerProofKind,
    LayerStart,
    Log,
    LogLevel,
    OptionKind,
    ProofComplete,
    ProofEvent,
    ProofStart,
)
from proofstream.testing import InlineHost, envelopes
from proofstream_console import ConsolePlugin

PROOF_START = ProofStart(model_name="mlp", backend="cpu", num_layers=2, input_shape=(1, 4), output_shape=(1, 2))
LAYER_START = LayerStart(
    layer_idx=1,
    kind=LayerKind.MatMul,
    input_shape=(1, 4),
    output_shape=(1, 2),
    trace_cost=8,
    claim_value_approx=0.5,
    gpu_device=None,
)
LAYER_END = LayerEnd(
    layer_idx=1, kind=LayerProofKind.Sumcheck, final_claim_value_approx=0.5, duration_ms=0, rounds_completed=0
)
PROOF_COMPLETE = ProofComplete(
    duration_ms=0, num_layer_proofs=2, num_weight_openings=0, weight_binding_mode="sequential"
)
PROOF: tuple[ProofEvent, ...] = (PROOF_START, LAYER_START, PROOF_COMPLETE)

CHILD = """
import sys, time
from pathlib import Path
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_console import ConsolePlugin

host = InlineHost(ConsolePlugin(), {"refresh_s": 0.02, "mode": sys.argv[2]}, live=False)
for number, envelope in enumerate(envelopes(read_stream(Path(sys.argv[1])))):
    host.feed([envelope])
    if number % 10 == 0:
        time.sleep(0.005)
    if number == 100:
        print("said by other code", file=sys.stderr)
host.close()
print("after the report", file=sys.stderr)
"""
NEIGHBOUR = """
import sys, time
for number in range(60):
    sys.stderr.write(f"neighbour {number}, begun, ")
    sys.stderr.flush()
    time.sleep(0.01)
    sys.stderr.write(f"{'and long, ' * (number % 20)}and ended\\n")
    time.sleep(0.01)
"""
CHILD_WITH_NEIGHBOUR = f"""
import itertools, subprocess, sys, time
from pathlib import Path
from proofstream.testing import InlineHost, envelopes, read_stream
from proofstream_console import ConsolePlugin

host = InlineHost(ConsolePlugin(), {{"refresh_s": 0.02, "mode": sys.argv[2]}}, live=False)
events = envelopes(read_stream(Path(sys.argv[1])))
neighbour = subprocess.Popen([sys.executable, "-c", {NEIGHBOUR!r}])
for envelope in events:
    host.feed([envelope])
    if neighbour.poll() is None:
        time.sleep(0.005)
while neighbour.poll() is None:
    host.tick()
    time.sleep(0.005)
host.close()
"""
STREAM = Path(__file__).parents[2] / "data" / "wire" / "aborted-then-next.jsonl"


class Clock:
    """A monotonic clock in seconds that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def run_in_terminal(
    mode: str = "auto",
    *,
    size: tuple[int, int] = (24, 80),
    variables: Mapping[str, str] = MappingProxyType({}),
    program: str = CHILD,
) -> str:
    """What a child wrote to a real pseudo-terminal of that many rows and columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    environ = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "COLUMNS", "LINES", "FORCE_COLOR"}}
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(STREAM), mode],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**environ, "TERM": "xterm-256color", **variables},
    )
    os.close(theirs)
    try:
        written = read_all(ours, deadline=time.monotonic() + 60)
        assert child.wait(timeout=60) == 0, written
    finally:
        child.kill()
        child.wait()
        os.close(ours)
    return written


def read_all(descriptor: int, *, deadline: float) -> str:
    read = b""
    while time.monotonic() < deadline:
        if not select.select([descriptor], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # on Linux: no process has the other side open
            break
        if not chunk:
            break
        read += chunk
    return read.decode()


def what_is_left(written: str, *, size: tuple[int, int] = (24, 80)) -> list[str]:
    """The lines that a terminal shows after all of that, and those that have scrolled out of it."""
    terminal = Emulator(columns=size[1], lines=size[0])
    terminal.write(written)
    assert terminal.shows_cursor
    assert terminal.scrolls == (0, size[0]), "all of it scrolls"
    return terminal.said


def test_live_view_comes_and_leaves_the_terminal_clean() -> None:
    written = run_in_terminal()
    assert "\x1b[?25l" in written
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "the cursor is shown again"
    assert re.search(r"━.* 2[0-9] %|━.* [3-9][0-9] %", re.sub(r"\x1b\[[0-9;]*m", "", written)), "progress was drawn"
    assert re.search(r"layer +\d+  .*MatMul", written)
    left = what_is_left(written)
    assert not any("━" in line for line in left), "nothing of the view is left"
    assert "said by other code" in left
    assert "✗ 2 proofs: 1 complete, 1 aborted" in left
    assert left[-1] == "after the report"
    assert left.index("said by other code") < left.index("✗ 2 proofs: 1 complete, 1 aborted")


def test_live_view_in_a_tiny_terminal() -> None:
    left = what_is_left(run_in_terminal(size=(6, 34)), size=(6, 34))
    assert not any("━" in line for line in left)
    assert "✗ 2 proofs: 1 complete, 1 aborted" in left


def test_a_terminal_that_does_not_say_how_large_it_is_gets_plain_lines() -> None:
    written = run_in_terminal(size=(0, 0))
    assert "\x1b" not in written
    assert "proof 2 complete in" in written


@pytest.mark.parametrize("size", [(24, 80), (40, 120), (60, 200)])
def test_what_a_neighbour_writes_to_the_terminal_stays_whole(size: tuple[int, int]) -> None:
    written = run_in_terminal(size=size, program=CHILD_WITH_NEIGHBOUR)
    assert written.count("\x1b[?25l") > 10, "the view was drawn all along"
    left = what_is_left(written, size=size)
    assert [line for line in left if line.startswith("neighbour")] == [
        f"neighbour {number}, begun, {'and long, ' * (number % 20)}and ended" for number in range(60)
    ]
    assert not any("━" in line for line in left)


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminals_without_a_view_get_plain_lines(variables: dict[str, str]) -> None:
    written = run_in_terminal(variables=variables)
    assert "\x1b" not in written
    assert "proof 2 complete in" in written


def test_a_monochrome_live_view_can_be_asked_for() -> None:
    written = run_in_terminal("live", variables={"NO_COLOR": "1"})
    assert "\x1b[?25l" in written
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", written), "no colour"


def test_plain_lines_can_be_asked_for() -> None:
    assert "\x1b" not in run_in_terminal("plain")


def test_a_stream_that_is_not_a_terminal_gets_plain_lines_in_any_mode() -> None:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream), {"mode": "live"})
    host.feed(envelopes(PROOF))
    host.close()
    assert "\x1b" not in stream.getvalue()


# How often


def frames(stream: io.StringIO) -> int:
    return stream.getvalue().count("mlp on cpu")


def test_the_view_is_drawn_no_more_often_than_asked() -> None:
    clock = Clock()
    stream = Terminal()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": "live", "refresh_s": 0.5})
    for envelope in envelopes([PROOF_START, *[LAYER_START] * 998], close=False):
        host.feed([envelope])
        clock.now += 0.01
    assert 18 <= frames(stream) <= 20
    host.close()


def test_an_idle_lane_still_moves_the_clock_of_the_view() -> None:
    clock = Clock()
    stream = Terminal()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": "live"})
    host.feed(envelopes([PROOF_START, LAYER_START], close=False))
    for _ in range(3):
        clock.now += 1
        host.tick()
    assert frames(stream) == 3
    assert "3.00 s" in stream.getvalue()
    host.close()


def test_a_silence_is_drawn_twice_a_second_and_what_ends_it_at_once() -> None:
    clock = Clock()
    stream = Terminal()
    host = InlineHost(ConsolePlugin(stream, clock=clock), {"mode": "live"})
    sent = envelopes([PROOF_START, LAYER_START, LAYER_END], close=False)
    host.feed(sent[:-1])
    clock.now += 0.25
    host.tick()  # draws what was fed
    before = frames(stream)
    for _ in range(80):
        clock.now += 0.125
        host.tick()
    assert frames(stream) - before == 20
    clock.now += 0.25
    before = len(stream.getvalue())
    host.feed(sent[-1:])
    assert len(stream.getvalue()) > before
    host.close()


def test_a_short_stream_draws_no_view_at_all() -> None:
    stream = Terminal()
    host = InlineHost(ConsolePlugin(stream, clock=Clock()), {"mode": "live"})
    host.feed(envelopes(PROOF))
    host.close()
    assert "\x1b[?25l" not in stream.getvalue()
    assert "complete in 2.00 ms" in stream.getvalue()


# Streams that fail


def flood(host: InlineHost, clock: Clock) -> None:
    for _ in range(100):
        host.feed(envelopes([PROOF_START, *[Log(level=LogLevel.Error, message="x" * 490)] * 10], close=False))
        clock.now += 1


def test_a_pipe_that_is_not_read_does_not_block() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream, os.fdopen(read_end, "rb") as reader:
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        clock = Clock()
        host = InlineHost(ConsolePlugin(stream, clock=clock))
        flood(host, clock)
        started = time.monotonic()
        host.close(timeout_s=0.5)
        assert time.monotonic() - started < 5
        assert host.health()["unshown_bytes"] > 0
        assert os.read(reader.fileno(), 4096).startswith(b"proof 1 started: mlp on cpu, 2 layers\n")


def test_a_slow_reader_gets_the_whole_report() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "w") as stream:
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        reader = subprocess.Popen(
            [sys.executable, "-c", "import sys, time; time.sleep(0.3); sys.stdout.write(sys.stdin.read())"],
            stdin=read_end,
            stdout=subprocess.PIPE,
        )
        os.close(read_end)
        clock = Clock()
        host = InlineHost(ConsolePlugin(stream, clock=clock), {"log_lines_per_s": 10})
        flood(host, clock)
        host.close(timeout_s=30)
        assert host.health()["unshown_bytes"] == 0
    said, _ = reader.communicate(timeout=30)
    assert b"100 proofs" in said


def broken_pipe() -> IO[str]:
    read_end, write_end = os.pipe()
    os.close(read_end)
    return os.fdopen(write_end, "w")


def closed_file() -> IO[str]:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("make", [broken_pipe, closed_file])
def test_a_stream_that_is_gone_is_let_be(make: type[IO[str]]) -> None:
    stream = make()
    clock = Clock()
    host = InlineHost(ConsolePlugin(stream, clock=clock))
    flood(host, clock)
    host.close()
    assert host.health()["unshown_bytes"] > 0
    stream.close()


def test_a_process_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    host = InlineHost(ConsolePlugin())
    host.feed(envelopes(PROOF))
    host.close()
    assert host.health() == {}


def test_a_stream_that_knows_only_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    clock = Clock()
    host = InlineHost(ConsolePlugin(stream, clock=clock))
    warning = Log(level=LogLevel.Warn, message="é\x1b🦀")
    host.feed(envelopes([PROOF_START, warning, LAYER_START, LAYER_END, PROOF_COMPLETE]))
    host.close()
    said = raw.getvalue().decode("ascii")
    assert "warn: ???" in said
    assert "+ mlp on cpu: complete" in said
    assert "1x4 > 1x2" in said
    assert host.health()["unshown_bytes"] == 0


# Configuration


def test_nothing_is_written_when_it_is_off() -> None:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream), {"enabled": False})
    host.feed(envelopes(PROOF))
    host.close()
    assert stream.getvalue() == ""


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    host = InlineHost(ConsolePlugin())
    host.feed(envelopes(PROOF))
    host.close()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "proof 1 complete in" in captured.err


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"colour": "red"},
            (
                "console.colour: there is no such key; known are enabled, log_lines_per_s, max_layers, max_proofs, "
                "mode, progress_s, refresh_s, slowest"
            ),
        ),
        ({"mode": "fast"}, "console.mode: input should be 'auto', 'live' or 'plain'"),
        ({"max_layers": 0}, "console.max_layers: input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_setting_is_named(table: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        InlineHost(ConsolePlugin(io.StringIO()), table)


def test_settings_from_the_environment_are_words() -> None:
    stream = io.StringIO()
    host = InlineHost(ConsolePlugin(stream), {"enabled": "false", "refresh_s": "0.5", "slowest": "3"})
    host.feed(envelopes(PROOF))
    host.close()
    assert stream.getvalue() == ""


def test_the_flag() -> None:
    (option,) = ConsolePlugin().proofstream_options()
    assert (option.flag, option.key, option.kind) == ("--console", "enabled", OptionKind.SWITCH)


def test_looking_at_the_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, proofstream_console; p = proofstream_console.ConsolePlugin(); p.proofstream_options();"
        "print(sorted({'rich', 'pydantic', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
