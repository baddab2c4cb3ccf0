"""Standard input: read from the moment it is opened, each line stamped on arrival; earlier lines are reported."""

from __future__ import annotations

import gzip
import importlib.util
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proofstream.catalog import Catalog
from proofstream.contracts import Source, SourceRequest
from proofstream.errors import SourceError
from proofstream.sources import arrivals, packed_streams
from proofstream.sources.arrivals import Arrivals
from proofstream.sources.builtin import open_standard_input
from proofstream.wire import LineDecoder

WIRE = Path(__file__).parents[2] / "data" / "wire"
SMOLLM = WIRE / "smollm2-135m-cpu.jsonl"
NS_PER_MS = 1_000_000
needs_zstd = pytest.mark.skipif(importlib.util.find_spec("zstandard") is None, reason="the extra zst is not installed")
LAYER_START = (
    b'{"LayerStart":{"layer_idx":%d,"kind":"MatMul","input_shape":[1,1],"output_shape":[1,1],"trace_cost":1,'
    b'"claim_value_approx":0.5,"gpu_device":null}}\n'
)
LAYER_END = (
    b'{"LayerEnd":{"layer_idx":%d,"kind":"Sumcheck","final_claim_value_approx":0.5,'
    b'"duration_ms":400,"rounds_completed":0}}\n'
)
RECORDED = b'{"v":1,"time_unix_nano":7,"session_id":"far","event":{"Log":{"level":"Info","message":"x"}}}\n'


class Pipe:
    """A pipe with both ends open."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._open = {self.reading, self.writing}

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def fill(self) -> int:
        """Write until the pipe accepts no more for half a second. Returns how many bytes it accepted."""
        os.set_blocking(self.writing, False)
        line, taken, refused = LAYER_START % 1, 0, 0
        while refused < 50:
            try:
                taken += os.write(self.writing, line)
                refused = 0
            except BlockingIOError:
                refused += 1
                time.sleep(0.01)
        return taken

    def close_writer(self) -> None:
        """Close the writing end."""
        self._close(self.writing)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        """Close the ends that are still open."""
        self._close(self.reading)
        self._close(self.writing)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def stdin(pipe: Pipe) -> Source:
    return open_standard_input(SourceRequest(uri="-"), LineDecoder(Catalog()), descriptor=pipe.reading)


def host_logs(session: Any) -> list[str]:
    return [item.event.message for item in session.decoded if item.origin == "host"]


def test_lines_are_stamped_on_arrival_even_before_plugins_are_ready(pipe: Pipe, start: Any) -> None:
    source = stdin(pipe)
    pipe.write(LAYER_START % 0)
    time.sleep(0.3)
    pipe.write(LAYER_END % 0)
    time.sleep(0.3)
    ready = time.time_ns()
    pipe.close_writer()
    running = start(source)
    running.join()
    session = running.feed.only
    began, ended = session.times
    assert ended - began >= 290 * NS_PER_MS
    assert ended < ready
    assert (session.time_source, session.opened_at) == ("arrival", began)
    assert host_logs(session) == []


def test_earlier_lines_are_reconstructed_and_a_log_event_says_so_once(pipe: Pipe, start: Any, eventually: Any) -> None:
    before = [b"no json\n", LAYER_START % 0, LAYER_END % 0, LAYER_START % 1, b'{"LayerEnd":']
    pipe.write(b"".join(before))
    earliest = time.time_ns()
    source = stdin(pipe)
    latest = time.time_ns()
    running = start(source)
    eventually(lambda: running.feed.delivered == 4)
    time.sleep(0.2)
    pipe.write((LAYER_END % 1).removeprefix(b'{"LayerEnd":') + b'{"Log":{"level":"Info","message":"no line ending"}}')
    pipe.close_writer()
    running.join()
    session = running.feed.only
    assert session.kinds == ["LayerStart", "LayerEnd", "LayerStart", "Log", "LayerEnd", "Log"]
    said = "3 lines were written before reading began; their times are reconstructed from reported durations"
    assert host_logs(session) == [said]
    first, *times = session.times
    assert session.opened_at == first
    assert times[:3] == [first + 400 * NS_PER_MS] * 3
    assert earliest - NS_PER_MS <= times[0] <= latest + NS_PER_MS
    assert times[3] == times[4] - 1 >= latest + 190 * NS_PER_MS
    assert (session.time_source, session.opened_time_source) == ("arrival", "reconstructed")
    assert session.time_sources == ["reconstructed"] * 3 + [None] * 3
    assert [refused.line for refused in session.refusals] == [1]


def test_a_recording_in_a_pipe_keeps_its_times(pipe: Pipe, start: Any) -> None:
    pipe.write(RECORDED + b'{"Log":{"level":"Info","message":"bare"}}\n')
    source = stdin(pipe)
    pipe.close_writer()
    running = start(source)
    running.join()
    session = running.feed.only
    assert (session.session_id, session.recorded, session.times) == ("far", True, [7, 7])
    assert host_logs(session) == []


def test_times_of_envelopes_without_a_session_are_their_own(pipe: Pipe, start: Any) -> None:
    source = stdin(pipe)
    pipe.write(b'{"v":1,"time_unix_nano":7,"event":{"Log":{"level":"Info","message":"x"}}}\n')
    pipe.close_writer()
    running = start(source)
    running.join()
    session = running.feed.only
    assert (session.time_source, session.opened_at, session.times) == ("envelope", 7, [7])


def test_a_time_that_came_with_its_line_says_so_among_times_of_arrival(pipe: Pipe, start: Any) -> None:
    source = stdin(pipe)
    log = b'{"Log":{"level":"Info","message":"x"}}'
    pipe.write(log + b"\n" + b'{"v":1,"time_unix_nano":7,"event":' + log + b"}\n" + log + b"\n")
    pipe.close_writer()
    running = start(source)
    running.join()
    session = running.feed.only
    assert session.time_source == "arrival"
    assert session.time_sources == [None, "envelope", None]
    assert session.times[0] < session.times[2]
    assert session.times[1] == 7


def test_a_bare_line_in_a_recording_has_the_time_of_the_line_before_it_and_its_source(pipe: Pipe, start: Any) -> None:
    source = stdin(pipe)
    recorded = RECORDED.replace(b'"session_id"', b'"time_source":"reconstructed","session_id"')
    pipe.write(recorded + b'{"Log":{"level":"Info","message":"bare"}}\n')
    pipe.close_writer()
    running = start(source)
    running.join()
    session = running.feed.only
    assert (session.times, session.time_sources) == ([7, 7], ["reconstructed"] * 2)


def test_reading_ahead_is_bounded_and_the_writer_held_back(
    pipe: Pipe, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "BUFFER_BYTES", 100_000)
    source = stdin(pipe)
    taken = pipe.fill()
    assert 100_000 <= taken <= 100_000 + 65_536 + 2**20
    pipe.close_writer()
    running = start(source)
    running.join()
    line = len(LAYER_START % 1)
    assert len(running.feed.only.decoded) == taken // line
    assert len(running.feed.only.refusals) == (1 if taken % line else 0)


def test_a_reader_whose_buffer_is_full_stops_when_told(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "BUFFER_BYTES", 1000)
    reading = Arrivals(pipe.reading)
    pipe.fill()
    reading.stop()
    reading.join()
    assert not [thread for thread in threading.enumerate() if thread.name == "proofstream-stream"]


def test_stdin_delivers_at_once_and_ends_with_its_writer(pipe: Pipe, start: Any, eventually: Any) -> None:
    running = start(stdin(pipe))
    lines = SMOLLM.read_bytes().splitlines(keepends=True)
    pipe.write(lines[0])
    eventually(lambda: running.feed.delivered == 1)
    pipe.write(b"".join(lines[1:40]) + lines[40].strip())
    eventually(lambda: running.feed.delivered == 40)
    pipe.close_writer()
    running.join()
    assert running.feed.delivered == 41
    assert running.feed.only.closed == [("ended", None)]


def test_a_file_redirected_into_stdin_is_reconstructed_from_its_position(tmp_path: Path, start: Any) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(LAYER_START % 7 + LAYER_START % 0 + LAYER_END % 0 + LAYER_START % 1 + LAYER_END.strip() % 1)
    with path.open("rb", buffering=0) as file:
        file.seek(len(LAYER_START % 7))
        source = open_standard_input(SourceRequest(uri="-"), LineDecoder(Catalog()), descriptor=file.fileno())
        begun = time.time_ns()
        running = start(source)
        running.join()
    session = running.feed.only
    first, *others = session.times
    assert [time - first for time in others] == [400 * NS_PER_MS, 400 * NS_PER_MS, 800 * NS_PER_MS]
    assert begun <= session.times[-1] <= time.time_ns()
    assert (session.time_source, session.source) == ("reconstructed", "standard input")
    assert session.opened_at == first
    assert session.closed == [("ended", None)]


def zstd(content: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(content)


@pytest.fixture(params=[gzip.compress, pytest.param(zstd, marks=needs_zstd)], ids=["gzip", "zstd"])
def pack(request: pytest.FixtureRequest) -> Callable[[bytes], bytes]:
    packing: Callable[[bytes], bytes] = request.param
    return packing


def test_compressed_standard_input_is_read_like_a_file(
    pack: Callable[[bytes], bytes], pipe: Pipe, tmp_path: Path, start: Any
) -> None:
    stored = pack(SMOLLM.read_bytes())
    pipe.write(stored[:1])
    source = stdin(pipe)
    running = start(source)
    for begin in range(1, len(stored), 5000):
        pipe.write(stored[begin : begin + 5000])
    latest = time.time_ns()
    pipe.close_writer()
    running.join()
    session = running.feed.only
    assert [item.raw + b"\n" for item in session.decoded] == SMOLLM.read_bytes().splitlines(keepends=True)
    # Arrival says nothing about the prover: a packer writes in large blocks.
    assert (session.time_source, session.closed) == ("reconstructed", [("ended", None)])
    assert session.times == sorted(session.times)
    assert session.times[-1] - session.times[0] > 1000 * NS_PER_MS
    assert session.times[-1] >= latest
    assert running.feed.announced == ["standard input is compressed, so it is read once it has ended"]


def test_a_compressed_named_pipe_is_read_too(pack: Callable[[bytes], bytes], tmp_path: Path, start: Any) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    running = start(path)
    path.write_bytes(pack(SMOLLM.read_bytes()))
    running.join()
    assert running.feed.only.source == str(path)
    assert running.feed.delivered == 2076


def test_a_compressed_recording_in_a_pipe_keeps_its_times(
    pack: Callable[[bytes], bytes], pipe: Pipe, start: Any
) -> None:
    pipe.write(pack(RECORDED))
    pipe.close_writer()
    running = start(stdin(pipe))
    running.join()
    session = running.feed.only
    assert (session.session_id, session.recorded, session.times) == ("far", True, [7])


def test_damaged_standard_input_is_named(pipe: Pipe, start: Any) -> None:
    stored = gzip.compress(LAYER_START % 0 + LAYER_END % 0)
    pipe.write(stored + b"garbage")
    pipe.close_writer()
    running = start(stdin(pipe))
    with pytest.raises(SourceError, match=f"standard input is damaged at byte {len(stored)}: what follows member 1"):
        running.join()
    assert running.feed.only.kinds == ["LayerStart", "LayerEnd"]


def test_waiting_for_the_end_of_compressed_input_stops_when_told(pipe: Pipe, start: Any, eventually: Any) -> None:
    running = start(stdin(pipe))
    pipe.write(gzip.compress(LAYER_START % 0))
    eventually(lambda: running.feed.announced)
    running.stop()
    assert running.feed.only.closed == [("interrupted", None)]


def test_compressed_input_that_cannot_be_kept_is_one_clear_line(
    pipe: Pipe, start: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    pipe.write(gzip.compress(LAYER_START % 0))
    pipe.close_writer()
    running = start(stdin(pipe))
    with pytest.raises(SourceError, match="cannot keep standard input in a temporary file: No such file or directory"):
        running.join()


def test_compressed_input_is_kept_within_a_bound(pipe: Pipe, start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_streams, "MAX_KEPT_BYTES", 20)
    pipe.write(gzip.compress(LAYER_START % 0))
    pipe.close_writer()
    running = start(stdin(pipe))
    with pytest.raises(SourceError, match="standard input is compressed, and longer than 20 bytes") as caught:
        running.join()
    assert caught.value.hint == "give the file's PATH"


@pytest.mark.parametrize("begin", [b"(", b"P", b"\x1f", b"(\xb5", b""])
def test_a_beginning_that_only_seems_compressed_is_read_as_lines(begin: bytes, pipe: Pipe, start: Any) -> None:
    running = start(stdin(pipe))
    pipe.write(begin + b"\n" + LAYER_START % 0)
    pipe.close_writer()
    running.join()
    assert "LayerStart" in running.feed.only.kinds
    assert len(running.feed.only.refusals) == (1 if begin else 0)


def test_silent_stdin_stops_within_a_second(pipe: Pipe, start: Any) -> None:
    running = start(stdin(pipe))
    assert running.stop() < 1
    assert running.feed.only.closed == [("interrupted", None)]


def test_a_closed_standard_input_is_one_clear_line(pipe: Pipe, start: Any) -> None:
    pipe.close()
    running = start(stdin(pipe))
    with pytest.raises(SourceError, match="cannot read standard input: Bad file descriptor"):
        running.join()
    assert running.feed.only.closed == [("lost", "Bad file descriptor")]
