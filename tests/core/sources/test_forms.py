"""Inputs of another form are named once, with what to do; lines that are events are read all the same."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofstream.catalog import Catalog
from proofstream.sources.lines import LineReader
from proofstream.wire import Decoded, LineDecoder, Refusal

DATA = Path(__file__).parents[2] / "data"
PLONKY3 = DATA / "genuine" / "plonky3"
MLP = (DATA / "genuine" / "stwo-ml" / "mlp.jsonl").read_bytes()
LINES = MLP.splitlines(keepends=True)
EVENTS = [json.loads(line) for line in LINES]


def read(content: bytes, piece: int | None = None, max_line_bytes: int = 2**24) -> tuple[list[Decoded], list[Refusal]]:
    """Read content in pieces of this size. Returns the events and the refusals."""
    reader = LineReader(LineDecoder(Catalog()), max_line_bytes)
    step = piece or max(1, len(content))
    items = [item for at in range(0, len(content), step) for item in reader.read_bytes(content[at : at + step])]
    items += reader.finish()
    return [i for i in items if isinstance(i, Decoded)], [i for i in items if isinstance(i, Refusal)]


def docker_line(line: bytes) -> bytes:
    frame = {"log": line.decode(), "stream": "stderr", "time": "2026-11-30T19:45:00.916472113Z"}
    return json.dumps(frame, separators=(",", ":")).encode() + b"\n"


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mlp.jsonl", content)
    return file.getvalue()


def tarred(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo("mlp.jsonl")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def bzip2(content: bytes) -> bytes:
    import bz2

    return bz2.compress(content)


def xz(content: bytes) -> bytes:
    import lzma

    return lzma.compress(content)


TRACING_JSON = (PLONKY3 / "json-new.stdout.txt").read_bytes()
TRACING_FULL = (PLONKY3 / "full.stdout.txt").read_bytes()
ARRAY = json.dumps(EVENTS).encode()
PRETTY_ARRAY = json.dumps(EVENTS, indent=2).encode()
PRETTY = b"\n".join(json.dumps(event, indent=4).encode() for event in EVENTS)
DOCKER = b"".join(map(docker_line, LINES))
CRI = b"".join(b"2026-11-30T19:45:00.916472113+00:00 stdout F " + line for line in LINES)
UTF16 = MLP.decode().encode("utf-16")
# As Aztec's bb writes it; the names are of its documentation.
PERFETTO = (
    b'{"displayTimeUnit":"us","min_ts_ns":1764531900916472113,"traceEvents":[{"name":"construct_proof","cat":"bb",'
    b'"ph":"X","pid":0,"tid":1,"ts":0,"dur":512.5,"args":{"parent":"","depth":0}}]}'
)
FOREST = (
    "INFO     prove [ 1.28s | 0.01% / 100.00% ]\n"
    "INFO     ┝━ commit to trace data [ 486ms | 35.15% ]\n"
    "INFO     │  ┕━ coset_lde_batch [ 101ms | 7.90% ]\n"
).encode()
COMPACT = (
    b"2026-11-30T19:45:00.916472Z  INFO prove:commit: p3_uni_stark: close time.busy=644ms time.idle=6.40\xc2\xb5s\n"
)
WITHOUT_TIME = b"DEBUG prove_rounds: sumcheck::prover_v2: thread 1: sumcheck round 3/7\n"


@pytest.mark.parametrize(
    ("content", "name", "advice"),
    [
        pytest.param(
            (PLONKY3 / "json-new.stdout.txt").read_bytes(), "JSON of a tracing", "LayerEnd", id="tracing json"
        ),
        pytest.param(TRACING_FULL, "text of a tracing", "LayerEnd", id="tracing full"),
        pytest.param(COMPACT * 3, "text of a tracing", "LayerEnd", id="tracing compact"),
        pytest.param(WITHOUT_TIME * 3, "text of a tracing", "LayerEnd", id="tracing without time"),
        pytest.param(FOREST, "text of a tracing", "LayerEnd", id="tracing forest"),
        pytest.param((PLONKY3 / "chrome.json").read_bytes(), "Chrome's format", "ui.perfetto.dev", id="tracing chrome"),
        pytest.param(PERFETTO, "Chrome's format", "ui.perfetto.dev", id="traceEvents"),
        pytest.param(ARRAY, "one JSON array", "jq -c '.[]' FILE", id="array"),
        pytest.param(PRETTY_ARRAY, "one JSON array", "jq -c '.[]' FILE", id="pretty array"),
        pytest.param(PRETTY, "JSON over several lines", "jq -c . FILE", id="pretty"),
        pytest.param(UTF16, "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE", id="utf-16"),
        pytest.param(MLP.decode().encode("utf-16-be"), "UTF-16", "iconv", id="utf-16 without a mark"),
        pytest.param(MLP.decode().encode("utf-32"), "UTF-32", "iconv -f UTF-32", id="utf-32"),
        pytest.param(DOCKER, "Docker's json-file log", "jq -j .log FILE", id="docker"),
        pytest.param(CRI, "Kubernetes (CRI) log", "cut -d' ' -f4- FILE", id="cri"),
        pytest.param(xz(MLP), "xz", "xz -dc FILE", id="xz"),
        pytest.param(bzip2(MLP), "bzip2", "bzip2 -dc FILE", id="bzip2"),
        pytest.param(zipped(MLP), "zip archive", "unzip -p FILE", id="zip"),
        pytest.param(tarred(MLP), "tar archive", "tar -xOf FILE", id="tar"),
        pytest.param(b"\x7fELF\2\1\1" + bytes(range(256)) * 200, "binary data", "LayerEnd", id="binary"),
    ],
)
@pytest.mark.parametrize("piece", [None, 7000])
def test_another_form_is_named_and_nothing_else_is_said(
    content: bytes, name: str, advice: str, piece: int | None
) -> None:
    _, refusals = read(content, piece)
    assert refusals
    assert len({refused.form for refused in refusals}) == 1
    assert name in refusals[0].reason
    assert advice in refusals[0].reason
    assert "line 1 refused: " in str(refusals[0])
    assert len(str(refusals[0])) < 160


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (ARRAY, ["jq", "-c", ".[]"]),
        (PRETTY_ARRAY, ["jq", "-c", ".[]"]),
        (PRETTY, ["jq", "-c", "."]),
        (DOCKER, ["jq", "-j", ".log"]),
        (CRI, ["cut", "-d ", "-f4-"]),
        (UTF16, ["iconv", "-f", "UTF-16", "-t", "UTF-8"]),
    ],
    ids=["array", "pretty array", "pretty", "docker", "cri", "utf-16"],
)
def test_the_advice_gives_the_events(content: bytes, command: list[str]) -> None:
    _, refusals = read(content)
    assert shlex.split(refusals[0].reason.partition(": ")[2])[: len(command)] == command
    if shutil.which(command[0]) is None:
        return  # the advice itself was compared; the program is not part of this project
    filtered = subprocess.run(command, input=content, capture_output=True, check=True, timeout=30).stdout
    events, refusals = read(filtered)
    assert refusals == []
    assert [event.event for event in events] == [event.event for event in read(MLP)[0]]


def test_events_among_lines_of_a_log_are_read_and_the_rest_keeps_its_own_reason() -> None:
    log = TRACING_FULL.splitlines(keepends=True)
    mixed = b"".join([*log[:3], *LINES[:10], b"hello\n", log[3], *LINES[10:], b'{"LayerEnd":{"layer_idx":-1}}\n'])
    events, refusals = read(mixed)
    assert len(events) == len(LINES)
    assert [refused.line for refused in refusals] == [1, 2, 3, 14, 15, len(LINES) + 6]
    assert [bool(refused.form) for refused in refusals] == [True, True, True, False, True, False]
    assert refusals[3].reason.startswith("not JSON")
    assert refusals[3].excerpt == "hello"
    assert "layer_idx" in refusals[5].reason


def test_a_bad_event_after_lines_of_a_log_keeps_its_own_reason() -> None:
    log = TRACING_FULL.splitlines(keepends=True)
    _, refusals = read(b"".join([log[0], b"Proof size: 1\n", b'{"v":9,"event":{"Log":{}}}\n']))
    assert [bool(refused.form) for refused in refusals] == [True, True, False]
    assert "envelope version 9" in refusals[2].reason


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[INFO] starting up",
        b"{",
        b"}",
        b"INFO: the model is loaded",
        b'{"resourceSpans":[]}',
        b'{"level":"INFO","msg":"x"}',
        b"(1, 2)",
        b"\xff\xfe is no mark here",
        b"2026-11-30 warm",
    ],
)
def test_a_line_after_an_event_that_is_of_no_known_form_is_refused_as_ever(line: bytes) -> None:
    _, (refused,) = read(LINES[0] + line + b"\n")
    assert refused.form == ""
    assert refused.line == 2


def test_events_after_a_pretty_head_are_read_and_what_follows_keeps_its_own_reason() -> None:
    head = b'{\n  "layers": 7,\n  "model": "x"\n}\n'
    events, refusals = read(head + MLP + b"}\n  oops\nbye\n")
    assert len(events) == len(LINES)
    assert [bool(refused.form) for refused in refusals] == [True] * 6 + [False]


def test_zeros_that_a_crash_left_before_events_cost_one_line() -> None:
    events, refusals = read(bytes(4999) + b"\n" + MLP)
    assert len(events) == len(LINES)
    assert [refused.form for refused in refusals] == ["binary data, not text"]


def test_a_line_that_is_too_long_is_named_too() -> None:
    _, (refused,) = read(ARRAY, max_line_bytes=1000)
    assert "jq -c '.[]'" in refused.reason
    _, (refused,) = read(b"x" * 2000, max_line_bytes=1000)
    assert refused.reason == "longer than 1000 bytes"


def test_dockers_frames_are_recognised_however_they_are_spaced() -> None:
    frame = json.dumps({"log": LINES[0].decode(), "stream": "stdout", "time": "2026-11-30T19:45:00Z"})
    _, (refused,) = read(frame.encode() + b"\n")
    assert "Docker's json-file log" in str(refused)


def test_a_long_line_of_docker_is_recognised_by_its_end() -> None:
    _, (refused,) = read(docker_line(b'{"Log":{"level":"Info","message":"' + b"x" * 100_000 + b'"}}\n'))
    assert "Docker" in refused.reason


@given(
    st.lists(
        st.sampled_from(
            [b"INFO ", b"a::b: ", b"::", b"[ ", b" | ", b"% ]", b'{"', b'":', b"\0", b"\n", b"[", b"x", b'\\"']
        )
        | st.binary(max_size=5),
        max_size=200,
    ),
    st.integers(1, 100),
)
def test_any_bytes_are_read_and_each_line_that_is_no_event_is_refused(pieces: list[bytes], piece: int) -> None:
    content = b"".join(pieces)
    events, refusals = read(content, piece)
    lines = [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line and not line.isspace()]
    assert len(events) + len(refusals) == len(lines)


@pytest.mark.parametrize("unit", [b"a::a", b"a:", b"[ ", b"[ x | ", b'{"a":', b"\x1b[", b'"timestamp" ', b"\\"])
def test_no_line_takes_long_to_recognise(unit: bytes) -> None:
    """Patterns that look back must not take the square of a line's length: this would be minutes."""
    for begin in (b"", b"INFO ", b"{", b"[", b'{"log":"'):
        line = begin + unit * (2**20 // len(unit)) + b"\n"
        events, refusals = read(line * 2)
        assert (len(events), len(refusals)) == (0, 2)


@pytest.mark.parametrize("piece", [1, 3])
def test_small_pieces_are_recognised_too(piece: int) -> None:
    for content, name in ((UTF16, "UTF-16"), (xz(MLP), "xz"), (ARRAY, "one JSON array"), (DOCKER, "Docker")):
        _, refusals = read(content, piece)
        assert len({refused.form for refused in refusals}) == 1
        assert name in refusals[0].reason


@pytest.mark.parametrize("name", ["mlp.jsonl.xz", "utf16.jsonl", "json-new.stdout.txt"])
def test_files_and_pipes_say_the_same(
    name: str, tmp_path: Path, replay: Any, start: Callable[..., Any], eventually: Any
) -> None:
    content = {"mlp.jsonl.xz": xz(MLP), "utf16.jsonl": UTF16}.get(name) or (PLONKY3 / name).read_bytes()
    path, pipe = tmp_path / name, tmp_path / "pipe"
    path.write_bytes(content)
    os.mkfifo(pipe)
    from_file = replay(path).only
    running = start(pipe)
    threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True).start()
    eventually(lambda: running.feed.sessions and running.feed.only.closed)
    assert from_file.refusals == running.feed.only.refusals
    assert from_file.decoded == running.feed.only.decoded == []
